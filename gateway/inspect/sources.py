"""Recordings in four formats as one stream of pieces.

A hex dump may be plain hex, the output of ``xxd`` or ``hexdump -C``, or marked lines (``<`` from
the client, ``>`` from the server, ``#`` for remarks). Capture JSON is a list of records, or an
object with ``frames``, each with ``hex`` and a direction. pcap and pcapng are reassembled. Any
other file is octets of one direction as they are: of the server if its name ends with ``.server``,
otherwise of the client.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import dpkt

from gateway.errors import GatewayError

MAX_OUT_OF_ORDER = 1 << 24
"""Octets of a pcap flow kept while an earlier segment is missing."""


class InspectError(GatewayError):
    """The file cannot be read as a recording; the text is shown to the user."""


class Piece(NamedTuple):
    """Octets of one direction. ``flow`` names the connection; ``note`` is the recording's own.
    ``gap``: octets are missing before these, and ``note`` says why."""

    flow: str
    from_client: bool
    data: bytes
    protocol: str
    note: str
    gap: bool = False


Progress = Callable[[int], None]
"""Called with the number of octets of the file that have been processed."""


def pieces(path: Path, progress: Progress, gaps: bool = False) -> Iterator[Piece]:
    """All pieces of a recording in order. Raises ``InspectError`` if the file is not a recording.
    ``gaps``: where octets are missing or cannot be read, the recording goes on behind them."""
    try:
        with open(path, "rb") as file:
            first = file.read(4096)
    except OSError as error:
        raise InspectError(error.strerror or "cannot be read") from None
    if not first:
        raise InspectError("the file is empty")
    if first[:4] in PCAP_MAGIC:
        return packets(path, progress, gaps)
    if first.lstrip()[:1] in (b"{", b"["):
        return capture(path, progress, gaps)
    if first.translate(None, TEXT):
        return octets(path, progress)
    return hexdump(path, progress)


# --- octets ---------------------------------------------------------------------------------------

TEXT = bytes({*range(0x20, 0x100), *b"\t\r\n\f\v"} - {0x7F})
"""Octets of a text, in any encoding. Every version of AMQP has others in its first frames."""
SERVER = ".server"
PORTION = 1 << 18


def octets(path: Path, progress: Progress) -> Iterator[Piece]:
    """A file that has the octets of one direction, and nothing else."""
    from_client = path.suffix != SERVER
    done = 0
    with open(path, "rb") as file:
        while data := file.read(PORTION):
            done += len(data)
            progress(done)
            yield Piece("1", from_client, data, "", "")


# --- hex ------------------------------------------------------------------------------------------

LINES_TOGETHER = 4096
"""Maximum lines of one direction in a piece: a large dump has millions."""
OFFSET = re.compile(r"^[0-9a-fA-F]{4,16}(:\s|\s\s+)")
LAST_OFFSET = re.compile(r"^[0-9a-fA-F]{7,8}$")
"""The last line of ``hexdump`` has only the length."""


def hexdump(path: Path, progress: Progress) -> Iterator[Piece]:
    """A text of hexadecimal digits, with or without offsets and a column of characters."""
    done = 0
    found = with_offsets = False
    gathered: list[str] = []
    gathered_from = True
    with open(path, encoding="latin-1") as file:
        for number, raw in enumerate(file, 1):
            done += len(raw)
            progress(done)
            line = raw.split("#")[0].strip()
            from_client = True
            if line[:1] in ("<", ">"):
                from_client = line[0] == "<"
                # Text beside the octets follows three blanks.
                line = re.split(r"\s{3,}", line[1:].strip())[0]
            if not line:
                continue
            if line == "*":
                raise InspectError(f"line {number}: repeated lines are left out (hexdump -v)")
            with_offsets = with_offsets or OFFSET.match(line) is not None
            if with_offsets and LAST_OFFSET.match(line):
                continue
            digits = digits_of(line)
            if digits is None:
                raise InspectError(f"line {number} is not hexadecimal: {line[:40]!r}")
            found = found or bool(digits)
            if gathered and (from_client != gathered_from or len(gathered) >= LINES_TOGETHER):
                yield Piece("1", gathered_from, bytes.fromhex("".join(gathered)), "", "")
                gathered.clear()
            gathered_from = from_client
            gathered.append(digits)
    if gathered:
        yield Piece("1", gathered_from, bytes.fromhex("".join(gathered)), "", "")
    if not found:
        raise InspectError("no octets found")


def digits_of(line: str) -> str | None:
    """The hex digits of one line, without offset and characters; ``None`` if it has none."""
    offset = OFFSET.match(line)
    if offset and offset[1].startswith(":"):
        line = line[offset.end() :].split("  ")[0]
    elif offset:
        line = re.split(r"\s{3,}", line[offset.end() :].split("|")[0])[0]
    compact = re.sub(r"\s+", "", line)
    return compact if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", compact) else None


# --- capture JSON ---------------------------------------------------------------------------------

FROM_CLIENT = {"client", "client->server", "C->S"}
FROM_SERVER = {"server", "server->client", "S->C"}


def capture(path: Path, progress: Progress, gaps: bool = False) -> Iterator[Piece]:
    """Records with ``hex`` and ``from`` or ``direction``."""
    try:
        recorded: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise InspectError(f"not valid JSON: {error}") from None
    protocol = ""
    records = recorded
    if isinstance(recorded, dict):
        protocol = str(recorded.get("protocol", recorded.get("form", "")))
        records = recorded.get("frames")
    if not isinstance(records, list):
        raise InspectError("no list of records: neither an array nor an object with 'frames'")
    size = path.stat().st_size
    for number, record in enumerate(records, 1):
        progress(size * number // len(records))
        if not isinstance(record, dict) or "hex" not in record:
            continue
        way = str(record.get("from", record.get("direction", "")))
        if way in FROM_CLIENT:
            from_client = True
        elif way in FROM_SERVER:
            from_client = False
        else:
            continue
        try:
            data = bytes.fromhex(record["hex"])
        except (ValueError, TypeError):
            text = f"record {number}: 'hex' is not hexadecimal"
            if not gaps:
                raise InspectError(text) from None
            flow = str(record.get("connection", "1"))
            yield Piece(flow, from_client, b"", protocol, text, True)
            continue
        note = str(record.get("what", record.get("meaning", "")))
        if data:
            yield Piece(str(record.get("connection", "1")), from_client, data, protocol, note)


# --- pcap -----------------------------------------------------------------------------------------

PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
}  # fmt: skip

LINKS: dict[int, Callable[[bytes], Any]] = {
    dpkt.pcap.DLT_EN10MB: dpkt.ethernet.Ethernet,
    dpkt.pcap.DLT_LINUX_SLL: dpkt.sll.SLL,
    dpkt.pcap.DLT_NULL: dpkt.loopback.Loopback,
    dpkt.pcap.DLT_RAW: dpkt.ip.IP,
    276: dpkt.sll2.SLL2,
}


@dataclass(slots=True, eq=False)
class Flow:
    """One direction of one connection: orders segments and drops retransmissions."""

    begun: int | None = None
    """The sequence number of its SYN."""
    expected: int | None = None
    early: dict[int, bytes] = field(default_factory=dict)
    waiting: int = 0

    def behind_gap(self) -> bytes:
        """The octets behind the first ones that are missing, if any came."""
        if not self.early or self.expected is None:
            return b""
        at = self.expected
        first = min(self.early, key=lambda sequence: (sequence - at) & 0xFFFFFFFF)
        self.expected = first
        data = self.early.pop(first)
        self.waiting -= len(data)
        return self.add(first, False, data)

    def add(self, sequence: int, syn: bool, data: bytes) -> bytes:
        """The octets that are now contiguous. Raises ``InspectError`` if octets before them have
        been missing for long; these are kept."""
        if syn:
            self.expected = (sequence + 1) & 0xFFFFFFFF
            return b""
        if not data:
            return b""
        if self.expected is None:
            self.expected = sequence
        behind = (self.expected - sequence) & 0xFFFFFFFF
        if 0 < behind < 1 << 31:
            data = data[behind:]
            sequence = self.expected
            if not data:
                return b""
        if sequence != self.expected:
            self.waiting += len(data) - len(self.early.get(sequence, b""))
            self.early[sequence] = data
            if self.waiting > MAX_OUT_OF_ORDER:
                raise InspectError(MISSING)
            return b""
        ordered = [data]
        self.expected = (sequence + len(data)) & 0xFFFFFFFF
        while (following := self.early.pop(self.expected, None)) is not None:
            self.waiting -= len(following)
            ordered.append(following)
            self.expected = (self.expected + len(following)) & 0xFFFFFFFF
        return b"".join(ordered)


MISSING = "a segment is missing from the recording"

End = tuple[bytes, int]
"""Address and port."""


class Names:
    """Names of connections: their ports, and what tells them from others with the same ones."""

    def __init__(self) -> None:
        self._names: dict[frozenset[End], str] = {}
        self._used: Counter[str] = Counter()

    def name(self, client: End, server: End, anew: bool) -> str:
        """``anew``: a connection begins."""
        pair = frozenset((client, server))
        name = self._names.get(pair)
        if name is None or anew:
            ports = f"{client[1]}->{server[1]}"
            self._used[ports] += 1
            count = self._used[ports]
            name = self._names[pair] = ports if count == 1 else f"{ports}#{count}"
        return name


def packets(path: Path, progress: Progress, gaps: bool = False) -> Iterator[Piece]:
    """TCP payloads of a pcap or pcapng file. The sender of the first SYN is the client."""
    flows: dict[tuple[bytes, int, bytes, int], Flow] = {}
    clients: dict[frozenset[End], End] = {}
    names = Names()
    told: dict[tuple[bytes, int, bytes, int], tuple[str, bool]] = {}
    with open(path, "rb") as file:
        try:
            reader: Any = dpkt.pcap.UniversalReader(file)
            link = LINKS.get(reader.datalink())
            if link is None:
                raise InspectError(f"link type {reader.datalink()} is not supported")
            for _, packet in reader:
                progress(file.tell())
                segment = tcp_of(link, packet)
                if segment is None:
                    continue
                source, target, tcp = segment
                pair = frozenset((source, target))
                syn = bool(tcp.flags & dpkt.tcp.TH_SYN)
                opening = syn and not tcp.flags & dpkt.tcp.TH_ACK
                if opening or pair not in clients:
                    # Without a SYN, the side with the higher port counts as the client.
                    clients[pair] = source if opening else max(source, target, key=lambda e: e[1])
                key = (*source, *target)
                client = clients[pair]
                server = target if client == source else source
                again = opening and key in flows and flows[key].begun != tcp.seq
                if again:
                    yield from _behind_gaps(key, flows, told, gaps)
                    yield from _behind_gaps((*target, *source), flows, told, gaps)
                    flows.pop((*target, *source), None)
                if again or key not in flows:
                    flows[key] = Flow(begun=tcp.seq if opening else None)
                from_client = source == client
                name = names.name(client, server, again)
                told[key] = name, from_client
                try:
                    data = flows[key].add(tcp.seq, syn, bytes(tcp.data))
                except InspectError:
                    if not gaps:
                        raise
                    data = flows[key].behind_gap()
                    yield Piece(name, from_client, b"", "", MISSING, True)
                if data:
                    yield Piece(name, from_client, data, "", "")
        except (dpkt.dpkt.Error, ValueError) as error:
            if gaps:
                for key in flows:
                    yield from _behind_gaps(key, flows, told, gaps)
            raise InspectError(f"not a pcap file: {error}") from None
    for key in flows:
        yield from _behind_gaps(key, flows, told, gaps)


def _behind_gaps(
    key: tuple[bytes, int, bytes, int],
    flows: dict[tuple[bytes, int, bytes, int], Flow],
    told: dict[tuple[bytes, int, bytes, int], tuple[str, bool]],
    gaps: bool,
) -> Iterator[Piece]:
    """What came of a direction behind octets that never came."""
    flow = flows.get(key)
    if flow is None or not gaps:
        return
    while data := flow.behind_gap():
        name, from_client = told[key]
        yield Piece(name, from_client, b"", "", MISSING, True)
        yield Piece(name, from_client, data, "", "")


def tcp_of(
    link: Callable[[bytes], Any], packet: bytes
) -> tuple[tuple[bytes, int], tuple[bytes, int], Any] | None:
    """Source, target and segment of a TCP packet, ``None`` for anything else."""
    try:
        network = link(packet)
        if not isinstance(network, (dpkt.ip.IP, dpkt.ip6.IP6)):
            network = network.data
        if not isinstance(network, (dpkt.ip.IP, dpkt.ip6.IP6)):
            return None
        tcp = network.data
        if not isinstance(tcp, dpkt.tcp.TCP):
            return None
    except dpkt.dpkt.Error:
        return None
    return (network.src, tcp.sport), (network.dst, tcp.dport), tcp
