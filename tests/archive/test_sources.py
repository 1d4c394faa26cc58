"""The same messages from every kind of file; missing packets, ports that are used again, and files
that are no recordings."""

import gzip
import json
import random
from pathlib import Path

import dpkt
import pytest

from gateway.archive.recordings import read_recording
from gateway.archive.side import PUBLISHED, Bad, Found
from tests.archive.recorded import Frame, document, frames, plainly, read
from tests.archive.test_damage import OPEN, publish

CLIENT, SERVER = (b"\x0a\0\0\x01", 40_000), (b"\x0a\0\0\x02", 5672)
OCTETS = OPEN + b"".join(sum((publish(number) for number in range(30)), []))


class Capture:
    """A pcap file that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._writer = dpkt.pcap.Writer(self._file)

    def packet(
        self, sequence: int, data: bytes, syn: bool = False, client: tuple[bytes, int] = CLIENT
    ) -> None:
        flags = dpkt.tcp.TH_SYN if syn else dpkt.tcp.TH_ACK
        tcp = dpkt.tcp.TCP(sport=client[1], dport=SERVER[1], seq=sequence, flags=flags, data=data)
        ip = dpkt.ip.IP(src=client[0], dst=SERVER[0], p=dpkt.ip.IP_PROTO_TCP, data=tcp)
        ip.len = len(ip)
        ethernet = dpkt.ethernet.Ethernet(type=dpkt.ethernet.ETH_TYPE_IP, data=ip)
        self._writer.writepkt(bytes(ethernet))

    def connection(
        self,
        octets: bytes,
        begin: int = 1000,
        without: int = -1,
        client: tuple[bytes, int] = CLIENT,
    ) -> None:
        """All of a client's octets, but for one packet."""
        self.packet(begin, b"", True, client)
        for number, at in enumerate(range(0, len(octets), 500)):
            if number != without:
                self.packet(begin + 1 + at, octets[at : at + 500], client=client)

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def expected(tmp_path: Path) -> list[object]:
    path = tmp_path / "whole.client"
    path.write_bytes(OCTETS)
    found = read(path)
    assert len(found.found) == 30 and not found.bad
    return list(plainly(found.found))


def test_packets_with_one_missing(tmp_path: Path, expected: list[object]) -> None:
    capture = Capture(path := tmp_path / "one.pcap")
    capture.connection(OCTETS, without=12)
    capture.close()
    got = read(path)
    assert got.adds_up and 26 <= len(got.found) < 30
    assert set(plainly(got.found)) < set(expected)
    assert "octets-missing" in {one.code for one in got.bad}


def test_the_same_ports_again_and_of_another_client(tmp_path: Path, expected: list[object]) -> None:
    capture = Capture(path := tmp_path / "many.pcap")
    capture.connection(OCTETS)
    capture.connection(OCTETS, begin=900_000)
    capture.connection(OCTETS, client=(b"\x0a\0\0\x07", 40_000))
    capture.close()
    got = read(path)
    assert not got.bad and plainly(got.found) == expected * 3
    assert len({item.flow for item in got.items}) == 3


def test_a_capture_that_was_cut(tmp_path: Path, expected: list[object]) -> None:
    capture = Capture(path := tmp_path / "cut.pcap")
    capture.connection(OCTETS)
    capture.close()
    path.write_bytes(path.read_bytes()[:-700])
    got = read(path)
    assert got.adds_up and len(got.found) >= 27 and got.bad
    assert set(plainly(got.found)) <= set(expected)


def test_a_record_of_capture_json_that_cannot_be_read(tmp_path: Path) -> None:
    pieces = [OPEN, *sum((publish(number) for number in range(30)), [])]
    given = json.loads(document(Frame("1", True, one) for one in pieces))
    given["frames"][40]["hex"] = "4g"
    path = tmp_path / "one.json"
    path.write_text(json.dumps(given))
    got = read(path)
    assert got.adds_up and len(got.found) == 29
    assert {one.code for one in got.bad} >= {"octets-missing"}


@pytest.mark.parametrize("family", ["0-10", "0-9a6", "0.8a2"])
def test_raw_octets_of_both_directions(family: str, tmp_path: Path) -> None:
    name = {"0-10": "cpp-async", "0-9a6": "consume", "0.8a2": "server-two-channels"}[family]
    listed = [one for one in frames(family, name) if one.connection == frames(family, name)[0][0]]
    for end, side in (("client", True), ("server", False)):
        octets = b"".join(one.octets for one in listed if one.from_client is side)
        (tmp_path / f"talk.{end}").write_bytes(octets)
    whole = tmp_path / "talk.json"
    whole.write_text(document(listed))
    got = read(tmp_path / "talk.client")
    assert sorted(map(str, plainly(got.found))) == sorted(map(str, plainly(read(whole).found)))
    for item in got.items:
        assert isinstance(item.found, Found)
        end = ".client" if item.found.direction == PUBLISHED else ".server"
        assert item.source.suffix == end


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"{", b"\xd4\xc3\xb2\xa1rubbish", b'{"frames": 3}', b"\x16\x03\x01\0\xa5" * 9,
     gzip.compress(OCTETS), b"GET / HTTP/1.1\r\n\0", random.Random(3).randbytes(100_000)],
)  # fmt: skip
def test_files_that_are_no_recordings(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.raw"
    path.write_bytes(content)
    got = read(path)
    assert got.adds_up and got.bad and not got.found
    assert all(one.code and one.text for one in got.bad)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    (item,) = read_recording(tmp_path / "gone.pcap")
    assert isinstance(item.found, Bad) and item.found.code == "recording-broken"
