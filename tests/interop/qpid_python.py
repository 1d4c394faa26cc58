"""The Python client of Qpid for AMQP 0-10, of Python 2, converted in a temporary folder.

`install-peers` keeps the sources of qpid-python as pip has unpacked them: they can be neither
built nor imported any more. Here they are translated by lib2to3, and by a few replacements where
Python 3 means something else. `clients/qpid_python_trial.py` is the program that runs their own
tests.
"""

import importlib.util
import io
import json
import re
import subprocess
import sys
import tokenize
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tests.interop import servers
from tests.interop.servers import INSTALL, PEERS, Server
from tests.unpacking import unpack

NAME = "qpid-python-1.36.0.post1"
SOURCES = PEERS / "suites" / f"{NAME}.tar.gz"
TRIAL = Path(__file__).parent / "clients" / "qpid_python_trial.py"

PACKAGES = ("mllib", "qpid", "qpid_tests")
UNTOUCHED = ("lib2to3.fixes.fix_unicode", "lib2to3.fixes.fix_buffer")
"""Translations that are left out: text and octets stay two things."""

LEFT_OUT = (
    "qpid/saslmech/scram*.py", "qpid/saslmech/cram_md5*.py", "qpid_tests/broker_0_8/*",
    "qpid_tests/broker_0_9/*", "qpid_tests/broker_1_0/*",
)  # fmt: skip
"""Mechanisms that compute with octets; the client takes PLAIN then. Tests of other versions."""

SEVERAL = re.compile(r"^( *)import (\w+(?:\.\w+)*(?:, *\w+(?:\.\w+)*)+)$", re.MULTILINE)
EVERYWHERE = (
    (r"([\w.]+(?:\(\))?)\.decode\(((['\"])[\w-]+\3)\)", r"decoded(\1, \2)"),
    (r"\b(\w+)\.encode\(((['\"])[\w-]+\3)\)", r"encoded_as(\1, \2)"),
    (r"^(\s*)import struct\b", r"\1import struct_of_text as struct"),
    (r"string\.joinfields\((.*), \"\"\)", r'"".join(\1)'),
    (r"\bos\.write\(", "os_write("),
    (r"os\.read\((.*?)\)", r"os.read(\1).decode('latin-1')"),
    (r"\be\[0\]", "e.args[0]"),
    (r"\bselect\.error\b", "OSError"),
    (r"\.isAlive\(", ".is_alive("),
    (r"\bqueue\.Empty\b", '__import__("queue").Empty'),
    (r"^from struct import \*", "from struct_of_text import *"),
)
"""Replacements of lines in every file, behind the translation."""

COMPARED = """class Serial:

  def __eq__(self, other): return self.compare(other) == 0
  def __ne__(self, other): return self.compare(other) != 0
  def __lt__(self, other): return self.compare(other) < 0
  def __le__(self, other): return self.compare(other) <= 0
  def __gt__(self, other): return self.compare(other) > 0
  def __ge__(self, other): return self.compare(other) >= 0
"""
"""The order of serial numbers, which __cmp__ has."""

ABOVE_NUMBERS = """
  def __lt__(self, other): return False
  def __le__(self, other): return self is other
  def __gt__(self, other): return self is not other
  def __ge__(self, other): return True
"""
"""The order of objects among numbers, which Python 2 has."""

IN_FILES = {
    "qpid/tests/messaging/endpoints.py": ((r"capacity/2", "capacity//2"),),
    "qpid/tests/messaging/__init__.py": (
        (r"^from \. import (\w+)$", r"import qpid.tests.messaging.\1"),
    ),
    "qpid/util.py": (
        (
            r"except socket.error as msg:\n      sock.close",
            "except socket.error as msg:\n      error = msg; sock.close",
        ),
        (r"^    raise$", "    raise error"),
    ),
    "qpid/parser.py": (
        (r"  def __next__\(", "  def next(self): return self.__next__()\n  def __next__("),
    ),
    "qpid/messaging/constants.py": (
        (r"^class Constant:\n", "class Constant:\n\n" + ABOVE_NUMBERS),
    ),
    "qpid/messaging/endpoints.py": (
        (r"self\.reconnect_timeout > 0", "(self.reconnect_timeout or 0) > 0"),
    ),
    "qpid_tests/broker_0_10/priority.py": (
        (
            r"temp\.sort\(key_to_cmp\(key, reverse=reverse\)\)",
            "temp.sort(key=key, reverse=reverse)",
        ),
    ),
    "qpid_tests/__init__.py": ((r"^from \. import broker_(?!0_10).*$", ""),),
    "mllib/__init__.py": ((r"open\(fname\)", 'open(fname, "rb")'),),
    "mllib/parsers.py": (
        (r"^import sgmllib$", ""),
        (r"sgmllib\.SGMLParser", "object"),
    ),
    "qpid/mimetype.py": (
        (r"^import rfc822$", "import email.utils"),
        (r"rfc822\.", "email.utils."),
    ),
    "qpid/codec010.py": (
        (r"size ?/ ?8", "size // 8"),
        (r"UUID\(bytes=self.unpack\(\"16s\"\)\)", 'UUID(bytes=octets(self.unpack("16s")))'),
        (r"s = s\.bytes", "s = s.bytes.decode('latin-1')"),
    ),
    "qpid/datatypes.py": (
        (r"def __cmp__\(self, other\):\n    if", "def compare(self, other):\n    if"),
        (r"class Serial:\n", COMPARED),
    ),
}
"""Replacements in single files."""


class Group(NamedTuple):
    """Tests of the client that are run together. ``passes``: how many have to pass."""

    name: str
    patterns: tuple[str, ...]
    passes: int


GROUPS = (
    Group("messaging", ("qpid.tests.[!c]*", "qpid.tests.codec010.*", "qpid.tests.conn*"), 286),
    Group("sessions", ("qpid_tests.broker_0_10.*",), 158),
)
"""All but the codec of 0-8."""

SESSIONS = "qpid_tests.broker_0_10."
KNOWN = {
    "*.testReject": "dead letters have the headers x-death, here too",
    f"{SESSIONS}new_api.*acquired_to_alt*2_consumers": "messages of a deleted queue that a "
    "consumer holds go to its alternate exchange when they come back, not at once",
    **{
        f"{SESSIONS}dtx.*.test_{name}": "503, where the specification has 409 or 530"
        for name in (
            "bad_resume",
            "end_suspend_and_fail",
            "select_required",
            "start_join_and_resume",
        )
    },
    f"{SESSIONS}dtx.*.test_get_timeout": "an hour, for qpidd a minute",
    f"{SESSIONS}exchange.*.test_qpid": 'names that begin with "qpid." are reserved by qpidd',
    f"{SESSIONS}exchange.*.testHeadersBindNoMatchArg": "a binding without x-match is one for all",
    f"{SESSIONS}management.*": "the management of qpidd (QMF)",
    f"{SESSIONS}threshold.*": "the management of qpidd (QMF)",
    f"{SESSIONS}new_api.SequenceNumberTests.*": "no sequence numbers (qpid.queue_msg_sequence)",
    f"{SESSIONS}message.*.test_consume_queue_not_specified": "542, as the specification has it; "
    "qpidd: 531",
    f"{SESSIONS}queue.*.test_purge_empty_name": "542, as the specification has it; qpidd: 531",
    f"{SESSIONS}priority.*fairshare*": "no fair shares of priorities (qpid.fairshare)",
    f"{SESSIONS}priority.*ring*": "a full queue drops by age, not by priority",
}
"""Tests that may fail, by patterns of their names, and why."""


def known(name: str) -> str | None:
    """Why a test may fail, or None."""
    return next((why for pattern, why in KNOWN.items() if fnmatchcase(name, pattern)), None)


def missing() -> str | None:
    """Why the client cannot be tried, or None."""
    if not SOURCES.exists():
        return f"the sources of {NAME} are not here; {INSTALL}"
    if importlib.util.find_spec("lib2to3") is None:
        return "this Python has no lib2to3 any more, which translates the sources"
    return None


def convert(scratch: Path) -> Path:
    """Unpack and translate the sources; the folder to import from."""
    unpack(SOURCES, scratch)
    folder = scratch / NAME
    for pattern in LEFT_OUT:
        for path in folder.glob(pattern):
            if path.name != "__init__.py":
                path.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lib2to3.refactor import RefactoringTool, get_fixers_from_package

        fixers = [
            each for each in get_fixers_from_package("lib2to3.fixes") if each not in UNTOUCHED
        ]
        tool = RefactoringTool(fixers)
        for package in PACKAGES:
            for path in sorted((folder / package).rglob("*.py")):
                text = str(
                    tool.refactor_string(
                        SEVERAL.sub(one_by_one, path.read_text().rstrip() + "\n"), str(path)
                    )
                )
                path.write_text(replaced(text, str(path.relative_to(folder))))
    return folder


def one_by_one(found: re.Match[str]) -> str:
    """An import of several modules as several imports: lib2to3 looks at each of those."""
    return "\n".join(f"{found[1]}import {name.strip()}" for name in found[2].split(","))


def replaced(text: str, name: str) -> str:
    for pattern, new in (*EVERYWHERE, *IN_FILES.get(name, ())):
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    return with_unicode(text)


def with_unicode(text: str) -> str:
    """The program with literals of text made ``unicode``."""
    lines = text.splitlines(keepends=True)
    found = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.STRING
        and token.string[0] in "uU"
        and token.start[0] == token.end[0]
    ]
    for token in reversed(found):
        row, (begin, end) = token.start[0] - 1, (token.start[1], token.end[1])
        lines[row] = f"{lines[row][:begin]}unicode({token.string[1:]}){lines[row][end:]}"
    return "".join(lines)


class Seen(NamedTuple):
    """The verdict on a test: passed, failed or skipped, and why."""

    verdict: str
    why: str


def run(server: Server, folder: Path, *patterns: str, seconds: float = 900) -> dict[str, Seen]:
    """Run the client's tests against a server."""
    url = f"guest/guest@{server.host}:{server.port}"
    command = [sys.executable, "-W", "ignore", str(TRIAL), url, "20", *patterns]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**servers.environment(), "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        servers.end_group(process)
        out, _ = process.communicate()
    seen = {}
    for line in out.decode(errors="replace").splitlines():
        if line.startswith('{"test"'):
            one = json.loads(line)
            seen[one["test"]] = Seen(one["verdict"], one["why"])
    seen[""] = Seen("output", out.decode(errors="replace")[-4000:])
    return seen
