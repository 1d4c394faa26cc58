"""The drafts of 2005 are readable: which one it is, both method headers, meta frames, children."""

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from gateway.adapters.methods.contents.dialect import child
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.trace import Reader
from gateway.inspect import InspectError, inspect_file
from gateway.message import Message
from gateway.operations import BeginSession, DeclareQueue, EndSession, Open, Publish
from tests.adapters.methods.drafts import recorded
from tests.adapters.methods.drafts.talking import VERSIONS, Both
from tests.talk import frame

JMS = {"0-9a0": 6, "0-9a0-7": 6, "0-9a6": 7}
LARGE = 100_000


def shown(path: Path, pieces: list[tuple[bool, bytes]], named: str = "", **options: str) -> str:
    """What is printed for a capture of these octets."""
    frames = [{"from": "client" if c else "server", "hex": octets.hex()} for c, octets in pieces]
    file = path / "capture.json"
    file.write_text(json.dumps({"protocol": named, "frames": frames}))
    out = Console(file=io.StringIO(), width=400)
    inspect_file(file, options.get("as_version"), out, Console(file=io.StringIO()))
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


class Taped(Both):
    """Keeps the octets of both."""

    def __init__(self, version: str) -> None:
        self.tape: list[tuple[bool, bytes]] = []
        super().__init__(version)

    def run(self) -> None:
        while True:
            asked, answered = b"".join(self.client.output()), b"".join(self.server.output())
            self.tape += [(side, said) for side, said in ((True, asked), (False, answered)) if said]
            if not asked and not answered:
                return
            self.perform(self.server.receive(asked) if asked else [])
            self.heard += self.client.receive(answered) if answered else []


def conversation(version: str) -> list[tuple[bool, bytes]]:
    """A login, a queue, a message with a child that has one itself, and a large one."""
    both = Taped(version)
    both.client.send(Open("open", "/", "guest"))
    both.run()
    both.client.send(BeginSession(1, "begin"))
    both.run()
    both.client.send(DeclareQueue(1, "declare", "orders"))
    both.run()
    number = JMS[version]
    dialect = CONTENTS[version, number]
    inner = child(number, b"\0\0", [child(number, b"\0\0", [], b"inmost")], b"inner")
    for header, body in ((b"\x80\0\x05a/bcd" + inner, b"outer"), (b"\0\0", bytes(LARGE))):
        message = Message(dialect, header, body, "", "orders", dialect.essentials(header))
        both.client.send(Publish(1, message, False, False))
    both.client.send(EndSession(1, "end"))
    both.run()
    assert not both.server.closing and not both.client.closing
    return both.tape


TAPES = {version: conversation(version) for version in VERSIONS}


def assert_readable(text: str, version: str, client: bool = True, server: bool = True) -> None:
    assert f"version {version}\n" in text
    assert not re.search("broken|unknown|cut|though", text)
    if server:
        assert "connection.start version_minor=9 mechanisms='PLAIN" in text
        assert re.search(
            r"(destination.define|queue.declare)-ok (destination|queue)='orders'", text
        )
    if client:
        assert "guest" not in text and "response=<" in text, "a secret is counted"
        assert "jms, 1 children, body of 5 octets content_type='a/bcd'" in text
        assert "child jms, 1 children, body of 5 octets" in text
        assert re.search(r" child child jms, body of 6 octets\n", text)
        bodies = re.findall(r"body +((?:child )*)(\d+) octets", text)
        assert bodies[:3] == [("child child ", "6"), ("child ", "5"), ("", "5")]
        assert sum(int(size) for _, size in bodies) == LARGE + 16
        assert ("  meta  " in text) == (version != "0-9a6"), "of 64 KiB and more"


@pytest.mark.parametrize("version", VERSIONS)
def test_found_by_itself(tmp_path: Path, version: str) -> None:
    tape = TAPES[version]
    assert_readable(shown(tmp_path, tape), version)
    single = [(side, octets[at : at + 1]) for side, octets in tape[:7] for at in range(len(octets))]
    text = shown(tmp_path, single + tape[7:])
    assert_readable(text, version)
    assert_readable(shown(tmp_path, [p for p in tape if p[0]]), version, server=False)
    assert_readable(shown(tmp_path, [p for p in tape if not p[0]]), version, client=False)
    # Without the protocol header, as a recording that begins in the middle.
    assert_readable(shown(tmp_path, tape[1:]), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_versions(tmp_path: Path, version: str) -> None:
    tape = TAPES[version]
    assert_readable(shown(tmp_path, tape, "AMQP/Fast " + version[:5].replace("-", ".")), version)
    assert_readable(shown(tmp_path, tape, as_version=version), version)
    header = tape[:1]
    assert "version 0-9\n" in shown(tmp_path, header), "nothing but a header: the published one"
    assert f"version {version}\n" in shown(tmp_path, header, as_version=version)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recordings_of_the_original_client(tmp_path: Path, name: str) -> None:
    frames = recorded.frames(name)
    text = shown(tmp_path, [(frame.from_client, frame.octets) for frame in frames])
    assert "version 0-9a6\n" in text and not re.search("broken|unknown|though", text)
    said = [frame.what for frame in frames if frame.what[:7] not in ("content", "protoco")]
    assert re.findall(r"  method +([a-z.-]+)", text) == said
    assert "(says class 2)" in text or name == "consume"


def test_flags_tags_and_out_of_band_content() -> None:
    method = b"\x01\0\0\x0d\x01\x01\x00\xe3\0\0\0\x07\0\x09\x02AB"
    octets = (
        method + b"\x04\x01\0\x01x" + b"\x07\0\0\x02ab" + b"\x08\0\0\0" + b"\x01\x01\0\x08\x63\1"
    )
    lines = list(Reader("0-9a0").frames(octets + bytes(6)))
    assert [(line.kind, line.channel) for line in lines] == [
        ("method", 0), ("oob-method", 1), ("trace", 0), ("heartbeat", 0), ("unknown", 1),
    ]  # fmt: skip
    assert lines[0].text == (
        "connection.start version_minor=9 mechanisms='AB' "
        "(synchreq, unreal, tracer, revision 3, synchtag 7)"
    )
    assert lines[4].text.startswith("method 99,1")


def test_old_layouts_of_0_9a6() -> None:
    def method(payload: str) -> str:
        octets = bytes.fromhex(payload)
        head = b"\x01\0\0\0" + (len(octets) + 1).to_bytes(4)
        (line,) = Reader("0-9a6").frames(head + octets + b"\xce")
        assert line.kind == "method"
        return line.text

    assert method("0001 0006 00ff 00002000 0005") == (
        "connection.tune-ok frame_max=8192 channel_max=255 heartbeat=5"
    )
    assert method("0001 000a 00c8 026f6b 0000 0000") == (
        "connection.close reply_code=200 reply_text='ok'"
    )
    assert method("0001 000a") == "connection.close-ok"


@given(some.sampled_from(VERSIONS), some.binary(max_size=80))
def test_any_octets(version: str, data: bytes) -> None:
    """Never an exception, and every octet belongs to a line."""
    for octets in (data, b"\x01\0" + data, b"\x02\0\0\x20" + data, b"\x09\0\0\0" + data):
        assert sum(line.size for line in Reader(version).frames(octets)) == len(octets)


def test_octets_of_no_version(tmp_path: Path) -> None:
    text = shown(tmp_path, [(True, b"AMQP\x01\x01\x00\x09"), (False, b"\xff" * 40)])
    assert (
        "version 0-9, but some octets are not valid in it (--as VERSION, if it is another)" in text
    )
    assert "40 octets of a truncated frame" in text
    text = shown(tmp_path, [(True, b"\xff" * 40)])
    assert "version 0-9-1, but some octets are not valid in it" in text
    text = shown(tmp_path, [(True, frame(8, 0, b""))], as_version="0-9a0")
    assert "version 0-9a0" in text and "broken" in text
    assert "too short to tell the version: 80 00" in shown(tmp_path, [(True, b"\x80\x00")])
    assert "protocol header  128 2" in shown(tmp_path, [(True, b"\x80\x02")])
    with pytest.raises(InspectError, match="no such version: 0-9a1 .*0-9a0, 0-9a0-7, 0-9a6"):
        shown(tmp_path, [(True, b"x")], as_version="0-9a1")


def test_a_header_that_names_its_version_is_believed(tmp_path: Path) -> None:
    """What is given is for octets that do not say it: a pcap has many connections."""
    octets = b"AMQP\x00\x00\x09\x01" + frame(8, 0, b"")
    assert "version 0-9-1\n" in shown(tmp_path, [(True, octets)], as_version="0-9a0")
