"""Recordings in every format become the same readable frames."""

import io
import json
import struct
from pathlib import Path

import dpkt
import pytest
from rich.console import Console

from gateway.inspect import InspectError, inspect_file

HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
QUEUE = b"\x06orders"
DECLARE_ARGUMENTS = struct.pack(">HHH", 50, 10, 0) + QUEUE + b"\x02" + struct.pack(">I", 0)
DECLARE = b"\x01\x00\x01" + struct.pack(">I", len(DECLARE_ARGUMENTS)) + DECLARE_ARGUMENTS + b"\xce"
OCTETS = HEADER + DECLARE + HEARTBEAT


def shown(path: Path, as_version: str | None = None) -> str:
    text = io.StringIO()
    out = Console(file=text, width=200)
    inspect_file(path, as_version, out, Console(file=io.StringIO()))
    return text.getvalue()


def assert_readable(text: str) -> None:
    assert "version 0-9-1" in text
    assert "queue.declare queue='orders' durable=True" in text
    assert "heartbeat" in text


def hexdump_c(data: bytes) -> str:
    rows = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(o) if 32 <= o < 127 else "." for o in row)
        rows.append(f"{at:08x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  |{text}|")
    return "\n".join([*rows, f"{len(data):08x}"])


def xxd(data: bytes) -> str:
    rows = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(o) if 32 <= o < 127 else "." for o in row)
        pairs = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        rows.append(f"{at:08x}: {pairs:<39}  {text}")
    return "\n".join(rows)


@pytest.mark.parametrize(
    "text", [OCTETS.hex(), OCTETS.hex(" "), hexdump_c(OCTETS), xxd(OCTETS)], ids=range(4)
)
def test_hex_dumps(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(text + "\n")
    assert_readable(shown(path))


def test_marked_lines_go_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "talk.txt"
    path.write_text(f"# a talk\n< {HEADER.hex()}\n> {HEARTBEAT.hex(' ')}  # theirs\n")
    text = shown(path)
    assert "C>S        0" in text and "S>C        0" in text


def test_every_vector_is_readable() -> None:
    vectors = sorted((Path(__file__).parent.parent / "vectors").rglob("*.txt"))
    assert vectors
    for path in vectors:
        assert f"version {path.parent.name}" in shown(path)


def test_capture_json_with_cut_frames(tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    cut = [OCTETS[:3], OCTETS[3:20], OCTETS[20:]]
    path.write_text(json.dumps({"frames": [{"from": "client", "hex": c.hex()} for c in cut]}))
    assert_readable(shown(path))


def test_capture_json_as_a_list(tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    path.write_text(json.dumps([{"direction": "C->S", "hex": "414d51500101000a"}]))
    text = shown(path)
    assert "version 0-10\n" in text and "protocol header  AMQP 1.1.0.10" in text


def test_command_frames(tmp_path: Path) -> None:
    """0.8a2, with a login that is not shown and a message that is cut in two."""
    path = tmp_path / "capture.json"
    login = "00260b05504c41494e001c054c4f47494e53000178085041535357"
    login += "4f5244530006736563726574ce"
    send = "000c1f00010005000000110000ce" + "0000000200040000000000000000006d31"
    pieces = ["8001" + login, send[:20], send[20:]]
    path.write_text(json.dumps([{"direction": "C->S", "hex": piece} for piece in pieces]))
    text = shown(path)
    assert "version 0.8a2" in text and "128 1" in text
    assert "connection.response mechanism='PLAIN'" in text and "secret" not in text
    assert "handle.send handle_id=1 confirm_tag=5 fragment_size=17" in text
    assert "body_size=2 priority=4 and 2 octets: 'm1'" in text


def test_1_0(tmp_path: Path) -> None:
    path = tmp_path / "talk.txt"
    header, opened = "414d515000010000", "00000011" + "02000000" + "005310c00401a10163"
    path.write_text(f"< {header}\n> {header}\n< {opened[:20]}\n< {opened[20:]}\n")
    text = shown(path)
    assert "version 1.0" in text
    assert "C>S        8      0  frame            open container_id='c'" in text


def segment(sequence: int, data: bytes, flags: int = dpkt.tcp.TH_ACK) -> bytes:
    tcp = dpkt.tcp.TCP(sport=40000, dport=5672, seq=sequence, flags=flags, data=data)
    ip = dpkt.ip.IP(src=b"\x7f\x00\x00\x01", dst=b"\x7f\x00\x00\x01", p=dpkt.ip.IP_PROTO_TCP)
    ip.data = tcp
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(type=dpkt.ethernet.ETH_TYPE_IP, data=ip))


def test_pcap_out_of_order_and_sent_twice(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    start = 0xFFFFFFF0  # the numbers wrap
    one, two, three = OCTETS[:10], OCTETS[10:30], OCTETS[30:]
    at = (start + 1) & 0xFFFFFFFF
    with open(path, "wb") as file:
        writer = dpkt.pcap.Writer(file)
        writer.writepkt(segment(start, b"", dpkt.tcp.TH_SYN))
        writer.writepkt(segment(at, one))
        writer.writepkt(segment((at + 30) & 0xFFFFFFFF, three))
        writer.writepkt(segment(at, one))
        writer.writepkt(segment((at + 10) & 0xFFFFFFFF, two))
    text = shown(path)
    assert_readable(text)
    assert text.count("queue.declare") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello world\n", "not hexadecimal"),
        (b"00000000  41\n*\n", "hexdump -v"),
        (b"{", "not valid JSON"),
        (b'{"frames": 3}', "no list of records"),
        (b'[{"from": "client", "hex": "zz"}]', "record 1"),
        (b"\xd4\xc3\xb2\xa1rubbish", "not a pcap"),
        (b"[]", "no AMQP octets"),
    ],
)
def test_files_that_are_no_recordings(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InspectError, match=message):
        shown(path)


def test_unknown_version_is_said(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(OCTETS.hex())
    with pytest.raises(InspectError, match="no such version: 7"):
        shown(path, "7")
