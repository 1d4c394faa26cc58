"""0-10 is readable: every recording, without its passwords; and what is not, fails with its place
and the reason."""

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console
from typer.testing import CliRunner

from gateway.__main__ import cli
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frame_format import HEAD
from gateway.adapters.segments.frames import command, control, frames_of
from gateway.adapters.segments.trace import Reader
from gateway.adapters.segments.wire import layouts as w
from gateway.inspect import inspect_file
from tests.adapters.segments import recorded

HEADER = "414d51500101000a"


def inspected(path: Path, pieces: list[tuple[bool, bytes]]) -> tuple[int, str]:
    """Failures and text of a capture of these octets."""
    file = path / "capture.json"
    records = [{"from": "client" if c else "server", "hex": octets.hex()} for c, octets in pieces]
    file.write_text(json.dumps(records))
    out = Console(file=io.StringIO(), width=400)
    failed = inspect_file(file, None, out, Console(file=io.StringIO()))
    return failed, out.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", recorded.NAMES)
@pytest.mark.parametrize("from_start", [True, False])
def test_recordings(tmp_path: Path, name: str, from_start: bool) -> None:
    frames = [frame for frame in recorded.frames(name) if frame.connection == "1"]
    pieces = [
        (frame.from_client, frame.octets)
        for frame in frames
        if frame.octets and (from_start or not frame.octets.startswith(b"AMQP"))
    ]
    failed, text = inspected(tmp_path, pieces)
    assert failed == 0 and "version 0-10\n" in text
    assert not re.search("broken|unknown control|unknown command", text)
    assert "\\x00guest" not in text and "006775657374" not in text
    assert re.search(r"connection.start-ok .* response=<\d+ octets>", text)
    said = [re.match(r"channel \d+ (control|command) ([\w.-]+)", f.meaning) for f in frames]
    expected = [found.groups() for found in said if found]
    assert re.findall(r"  (control|command) +([a-z]+\.[a-z-]+)", text) == expected
    numbers = [re.search(r"command id (\d+)", f.meaning) for f in frames]
    assert re.findall(r"\(id (\d+)", text) == [found[1] for found in numbers if found]


def test_what_a_line_says() -> None:
    publish = command(
        3,
        ops.write_command(w.MessageTransfer("amq.direct", 0), sync=True),
        b"\0\0\0\5\7\7xyz"
        + ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(priority=7)))
        + ops.coded(
            0x0403,
            w.write_message_properties(
                w.MessageProperties(message_id=bytes(16), reply_to=w.ReplyTo("e", "k"))
            ),
        ),
        b"hello",
    )
    acknowledged = control(3, ops.write_control(w.SessionCompleted(((0, 3), (5, 5)), True)))
    point = control(3, ops.write_control(w.SessionCommandPoint(8, 0)))
    result = w.ExecutionResult(8, ops.write_struct(w.ExchangeQueryResult("topic", durable=True)))
    result_octets = command(3, ops.write_command(result))
    secure = control(0, ops.write_control(w.ConnectionSecureOk(b"password")))
    octets = point + publish + acknowledged + result_octets + secure
    assert [(line.kind, line.text) for line in Reader().frames(octets)] == [
        ("control", "session.command-point command_id=8 command_offset=0"),
        ("command", "message.transfer destination='amq.direct' accept_mode=0 (id 8, sync)"),
        (
            "header",
            "(struct 0x0707: 'xyz') (delivery-properties priority=7) (message-properties "
            "message_id=00000000-0000-0000-0000-000000000000 "
            "reply_to=(exchange='e' routing_key='k'))",
        ),
        ("body", "5 octets: 'hello'"),
        ("control", "session.completed commands=0-3,5 timely_reply"),
        (
            "command",
            "execution.result command_id=8 value=(exchange-query-result type='topic' durable) "
            "(id 9)",
        ),
        ("control", "connection.secure-ok response=<8 octets>"),
    ]


def test_split_segments() -> None:
    segment = ops.write_command(w.QueueDeclare("q" * 30))
    octets = b"".join(frames_of(1, 12, segment, 1, 1, 32))
    *beginnings, last = Reader().frames(octets)
    assert [line.text[:21] for line in beginnings] == ["20 octets of it, more"]
    assert last.text == f"queue.declare queue='{'q' * 30}'"


MAP = ops.write_command(w.QueueDeclare("q", arguments=b"\0\0\0\1\1k"))
BROKEN = {
    "flags": (control(1, b"\2\3\xff\xff"), "session.detach has no such fields"),
    "end": (control(1, b"\2\3\0\0\0"), "session.detach ends at 2 of 3 octets"),
    "cut inside": (control(1, b"\2\3\1\0\0\5ab"), "ends at 9 of 6 octets"),
    "control": (control(1, b"\2\x63\0\0"), "control 2,99"),
    "command": (command(1, b"\7\x63\1\0\0\0"), "command 7,99"),
    "map": (command(1, MAP), "command: a value is cut short"),
    "no session header": (command(1, b"\7\1\0\0"), "begins with class, code and session.header"),
    "header": (HEAD.pack(0x0F02, 15, 1, 1) + b"abc", "the header segment is cut short"),
    "truncated": (control(1, b"\2\3\0\0")[:-1], "15 octets of a truncated frame"),
    "no frame": (HEAD.pack(0x0F07, 12, 0, 1), "no frame: flags and type 0x0f07"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_decoded(tmp_path: Path, name: str) -> None:
    octets, reason = BROKEN[name]
    header = bytes.fromhex(HEADER)
    failed, text = inspected(tmp_path, [(True, header), (False, header), (True, octets)])
    assert failed == 1
    (line,) = [line for line in text.splitlines() if reason in line]
    assert re.search(r"C>S +8 ", line), "the place of the frame"
    result = CliRunner().invoke(cli, ["inspect", str(tmp_path / "capture.json")])
    assert result.exit_code == 2 and "could not be decoded" in result.output


@given(some.binary(max_size=80))
def test_any_octets(data: bytes) -> None:
    """Never an exception, and every octet belongs to a line."""
    sized = data[:40]
    for octets in (
        data,
        HEAD.pack(0x0F00, len(sized) + 12, 0, 1) + sized,
        HEAD.pack(0x0F01, len(sized) + 12, 1, 1) + sized + data,
        HEAD.pack(0x0702, len(sized) + 12, 1, 1) + sized,
    ):
        assert sum(line.size for line in Reader().frames(octets)) == len(octets)
