"""Frames by hand: records to octets and back, and one engine as its peer sees it."""

from typing import Any, NamedTuple

from gateway.adapters import Role
from gateway.adapters.performatives.composites import read_performative, write
from gateway.adapters.performatives.engine import Engine
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.operations import Done, Open, Operation
from tests.pair import Users, told

AMQP, SASL = 0, 1
PLAIN = b"\0guest\0guest"


class Heard(NamedTuple):
    """A frame: ``record`` is ``None`` for an empty one. A header is in ``payload``."""

    channel: int
    record: Any
    payload: bytes = b""


def packed(record: Any, channel: int = 0, payload: bytes = b"", kind: int = AMQP) -> bytes:
    """One frame."""
    body = (write(record) if record is not None else b"") + payload
    return (len(body) + 8).to_bytes(4, "big") + bytes((2, kind)) + channel.to_bytes(2, "big") + body


def unpacked(octets: bytes) -> list[Heard]:
    """Protocol headers and frames, all of them whole."""
    found: list[Heard] = []
    while octets:
        if octets[:4] == b"AMQP":
            found.append(Heard(-1, None, octets[:8]))
            octets = octets[8:]
            continue
        size, offset, kind = int.from_bytes(octets[:4], "big"), octets[4] * 4, octets[5]
        assert size >= 8 and len(octets) >= size, octets
        channel = int.from_bytes(octets[6:8], "big")
        record, at = None, size
        if offset < size:
            record, at = read_performative(octets, offset, size, kind == SASL)
        found.append(Heard(channel, record, octets[at:size]))
        octets = octets[size:]
    return found


class Wire:
    """The other end of a server engine."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("authority", Users())
        self.engine = Engine("1.0", Role.SERVER, **options)

    def feed(self, octets: bytes) -> list[Operation]:
        return told(self.engine, self.engine.receive(octets))

    def says(self, record: Any, channel: int = 0, payload: bytes = b"") -> list[Operation]:
        return self.feed(packed(record, channel, payload))

    def heard(self) -> list[Heard]:
        return unpacked(b"".join(self.engine.output()))

    def hears(self) -> list[Any]:
        """Records only."""
        return [frame.record for frame in self.heard()]

    def login(self) -> None:
        self.feed(SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL))
        self.feed(HEADER)

    def opened(self, **fields: Any) -> "Wire":
        """Logged in and open, nothing left to read."""
        self.login()
        (asked,) = self.says(w.Open(fields.pop("container_id", "tests"), **fields))
        assert isinstance(asked, Open)
        self.engine.send(Done(0, asked.token))
        assert isinstance(self.hears()[-1], w.Open)
        return self
