"""Property tests draw the same examples every time, so that a red run means a change, and take as
long as they take: a busy machine is no mistake. ``FUZZ=1`` draws others each time, ``THOROUGH=1``
more of them (`drawing.py`). ``PEERS=no`` leaves out what needs other people's programs, as if none
was installed; the folder that has nothing else is not even read.

``BEGIN_UNTIL`` (seconds since 1970) leaves out tests that would begin later, and says how many: so
CI on a slow machine runs fewer tests, instead of none to the end. ``TURN``, such as a commit, gives
the order of files that are not long, so that each time others are left out.
"""

import gc
import os
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from gateway import message
from tests import reaper
from tests.drawing import examples

settings.register_profile(
    "same",
    derandomize="FUZZ" not in os.environ,
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")
reaper.watch()

# A gateway that is started without a directory has that of the user, who may have one in use.
nobody = tempfile.TemporaryDirectory(prefix="nobody-", ignore_cleanup_errors=True)
os.environ["XDG_DATA_HOME"] = nobody.name
# Each client of httpx would read all authorities of the system: 50 ms, where many requests are
# clients of their own. No test meets a certificate of theirs.
nowhere = tempfile.TemporaryDirectory(prefix="no-authorities-", ignore_cleanup_errors=True)
os.environ["SSL_CERT_DIR"] = nowhere.name
os.environ.pop("SSL_CERT_FILE", None)  # which counts more

FEW_FILES = 4
"""So many named files of tests are run in this process: starting others would take longer."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The number of processes for ``-n logical``; ``None``: as many as there are processors."""
    files = all(".py" in argument for argument in config.args)
    return 0 if files and len(config.args) <= FEW_FILES else None


LONGEST = (
    "interop/test_suites.py",
    "interop/test_console_access.py",
    "interop/test_qpid_python.py",
    "http/test_descriptions_fuzzed.py",
    "pipeline/test_guide.py",
    "interop/amqp1/test_pairings.py",
    "interop/test_browser_client.py",
    "interop/test_console.py",
    "interop/test_console_admin.py",
    "interop/test_console_journal.py",
    "interop/test_console_bridge.py",
    "interop/amqp1/test_jms.py",
    "interop/test_clients.py",
    "bridge/test_move.py",
    "test_style.py",
)
"""Files of a minute and more. Those that wait stand between those that compute."""

BEGIN_UNTIL = float(os.environ.get("BEGIN_UNTIL") or "inf")
TURN = os.environ.get("TURN")
NO_TIME = "BEGIN_UNTIL is over: this run has no time for more tests"
NO_PEERS = os.environ.get("PEERS") == "no"
INTEROP = Path(__file__).parent / "interop"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = any(INTEROP.name in argument for argument in config.args)
    return True if NO_PEERS and collection_path == INTEROP and not named else None


def draws(item: pytest.Item) -> bool:
    """Whether the number of examples of a test depends on ``THOROUGH``."""
    function = getattr(item, "obj", None)
    code = getattr(function, "__code__", None)
    return is_hypothesis_test(function) or (code is not None and "examples" in code.co_names)


@pytest.fixture(autouse=True, scope="module")
def same_conversion_afterwards() -> Iterator[None]:
    """A command or gateway in this process sets how messages cross to other versions, for good."""
    before = message._crosser
    yield
    message.cross_with(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    gc.disable()  # all that is made now stays


def pytest_collection_finish() -> None:
    gc.freeze()  # and is not looked at again in each collection of garbage
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before markers are selected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if draws(item):
            item.add_marker("thorough")
    # Processes take files in this order: the long ones first, or the last one is waited for.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    first = {INTEROP.parent / name: place for place, name in enumerate(LONGEST)}

    def order(item: pytest.Item) -> tuple[int, str]:
        place = first.get(item.path, len(first) + (item.path not in slow))
        if TURN is None or place < len(first):
            return place, ""
        return len(first), sha256(f"{TURN} {item.path.name}".encode()).hexdigest()

    items.sort(key=order)
    if NO_PEERS:
        absent = pytest.mark.skip(reason="other people's programs are left out: PEERS=no")
        for item in items:
            if item.get_closest_marker("interop"):
                item.add_marker(absent)


@pytest.hookimpl(tryfirst=True)  # before fixtures
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Only where CI sets a time, for tests with peers: a run that is stopped shows nothing at all.
    if time.time() > BEGIN_UNTIL:
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    late = [one.nodeid.split("::")[0] for one in reports if NO_TIME in str(one.longrepr)]
    if late:
        names = ", ".join(sorted(set(late)))
        terminalreporter.write_line(f"{NO_TIME}: {len(late)} tests were left out, of {names}")
