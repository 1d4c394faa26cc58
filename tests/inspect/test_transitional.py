"""The transitional 0-10 is readable: which revision it is, without passwords.

Whatever cannot be decoded, in any version, has its line, is counted, and makes the command fail.
"""

import io
import json
import struct
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gateway.__main__ import cli
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.methods.wire.tables_0_10_07 import V0_10_07_27
from gateway.inspect import inspect_file
from tests.adapters.methods.transitional.recorded import FOLDER, NAMES, frames, version_of

TRANSFER = V0_10_07_27.by_name["message.transfer"]
HEADER = "414d51500101000a"
BAD_TABLE = "000a000a000a" + "00000003" + "01615a" + "00000000" + "00000000"


BODY = TRANSFER.prefix.hex() + TRANSFER.write(w.MessageTransfer(body=b"\x02abc")).hex()


def frame(payload: str) -> bytes:
    """A method frame with this payload, in hexadecimal digits."""
    octets = bytes.fromhex(payload)
    return struct.pack(">BHI", 1, 1, len(octets)) + octets + b"\xce"


def inspected(path: Path, as_version: str | None = None) -> tuple[int, str]:
    """How many frames could not be decoded, and the printed lines."""
    out = Console(file=io.StringIO(), width=400)
    failed = inspect_file(path, as_version, out, Console(file=io.StringIO()))
    return failed, out.file.getvalue()  # type: ignore[attr-defined]


def capture(path: Path, pieces: list[tuple[str, str]]) -> Path:
    file = path / "capture.json"
    file.write_text(json.dumps([{"from": side, "hex": octets} for side, octets in pieces]))
    return file


@pytest.mark.parametrize("name", NAMES)
def test_recordings(name: str) -> None:
    failed, text = inspected(FOLDER / f"{name}.json")
    assert failed == 0 and f"version {version_of(name)}\n" in text
    assert text.count("C>S") + text.count("S>C") == len(frames(name))
    assert "connection.start-ok" in text and "guest" not in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "sides", [(True, False), (True,), (False,)], ids=["both", "client", "server"]
)
def test_the_octets_alone_tell_the_revision(
    tmp_path: Path, name: str, sides: tuple[bool, ...]
) -> None:
    pieces = [
        ("client" if frame.from_client else "server", frame.octets.hex())
        for frame in frames(name)
        if frame.from_client in sides
    ]
    failed, text = inspected(capture(tmp_path, pieces))
    assert f"version {version_of(name)}\n" in text
    assert failed == 0


def test_a_revision_may_be_named(tmp_path: Path) -> None:
    name = "0-10-07-27-error"
    pieces = [("client", HEADER)]
    failed, text = inspected(capture(tmp_path, pieces), version_of(name))
    assert failed == 0 and "version 0-10-07-27\n" in text


UNDECODED = {
    "truncated 0-9-1": (["414d515000000901", "08000000000000"], "7 octets of a truncated frame"),
    "truncated 0-10": ([HEADER, "0a0000000000"], "6 octets of a truncated frame"),
    "truncated 0.8a2": (["8001", "00260b05504c"], "6 octets of a truncated frame"),
    "truncated 1.0": (["414d515000010000", "00000011020000"], "7 octets of a truncated frame"),
    "unknown method": (["414d515000000901", frame("00630063").hex()], "method 99,99"),
    "table": (["414d515000000901", frame("000a000a0009" + BAD_TABLE[12:]).hex()], "is not a table"),
    "table of 0-10": ([HEADER, frame(BAD_TABLE).hex()], "server_properties is not a table"),
    "way of a body": ([HEADER, frame(BODY).hex()], "neither inline nor by name"),
    "end octet": (
        ["414d515000000901", "0800000000000000"],
        "does not end with the frame end octet",
    ),
    "truncated final 0-10": ([HEADER, "0f00001000000000"], "8 octets of a truncated frame"),
    "not decoded": (["414d515002010000", "1603010000"], "not decoded yet"),
    "too short": (["414d51"], "too short to tell the version"),
}


@pytest.mark.parametrize("case", UNDECODED)
def test_undecoded_frames_are_counted_and_fail(tmp_path: Path, case: str) -> None:
    octets, reason = UNDECODED[case]
    file = capture(tmp_path, [("client", piece) for piece in octets])
    failed, text = inspected(file)
    assert failed == 1 + (case == "not decoded") and reason in text, text
    result = CliRunner().invoke(cli, ["inspect", str(file)])
    assert result.exit_code == 2 and "could not be decoded" in result.output


def test_decodable_recordings_succeed(tmp_path: Path) -> None:
    file = capture(tmp_path, [("client", "414d515000000901" + "08000000000000ce")])
    assert CliRunner().invoke(cli, ["inspect", str(file)]).exit_code == 0
