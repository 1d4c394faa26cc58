"""The lean client in AMQP 1.0: performatives as records, frames as they are."""

import contextlib
from typing import Any

from gateway.adapters.performatives.composites import read_performative
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from tests.adapters.performatives.wire import SASL, packed
from tests.net.wire import Wire

LARGE = 0x7FFF_FFFF
WINDOW = 1 << 20


def data(octets: bytes) -> bytes:
    """A message of one data section, and nothing else."""
    if len(octets) < 256:
        return b"\x00\x53\x75\xa0" + bytes([len(octets)]) + octets
    return b"\x00\x53\x75\xb0" + len(octets).to_bytes(4, "big") + octets


def durable(octets: bytes) -> bytes:
    """The same, with a header that says so."""
    return b"\x00\x53\x70\xc0\x02\x01\x41" + data(octets)


class Wire10(Wire):
    """One connection with one session on channel 0. Handles are the test's own."""

    def __init__(self, port: int, container: str = "tests", **options: Any) -> None:
        super().__init__(port, version="1.0", **options)
        self.container = container
        self.payload = b""
        """What followed the last record heard."""
        self.empty = 0
        """Signs of life heard."""
        self._next = 0

    def greet(self, mechanism: str = "PLAIN", response: bytes | None = None) -> Any:
        """The SASL dialog in one round; its outcome."""
        if response is None:
            response = f"\0{self.user}\0{self.password}".encode()
        self.send(SASL_HEADER + packed(w.SaslInit(mechanism, response), kind=SASL))
        assert self.take(8) == SASL_HEADER
        assert isinstance(self._frame(True)[1], w.SaslMechanisms)
        return self._frame(True)[1]

    def open(self, **fields: Any) -> w.Open:
        """Logged in and open; the other's open."""
        outcome = self.greet()
        assert outcome.code == 0, outcome
        self.send(HEADER + packed(w.Open(self.container, **fields)))
        assert self.take(8) == HEADER
        found = self.heard(w.Open)
        assert isinstance(found, w.Open)
        return found

    def opened(self, *channels: int, **fields: Any) -> "Wire10":
        """Logged in, open, and with these sessions, of which 0 is always one."""
        self.open(**fields)
        for channel in {0, *channels}:
            self.tell(w.Begin(None, 0, WINDOW, WINDOW, 1023), channel=channel)
            self.heard(w.Begin)
        return self

    # --- frames ---------------------------------------------------------------------------------

    def tell(self, *records: Any, channel: int = 0, payload: bytes = b"") -> None:
        self.send(b"".join(packed(record, channel, payload) for record in records))

    def _frame(self, sasl: bool = False) -> tuple[int, Any]:
        while True:
            head = self.look(8)
            octets = self.take(int.from_bytes(head[:4], "big"))[8:]
            if not octets:
                self.empty += 1
                continue
            at = head[4] * 4 - 8
            record, at = read_performative(octets, at, len(octets), sasl)
            self.payload = octets[at:]
            return int.from_bytes(head[6:8], "big"), record

    def hear(self) -> tuple[int, Any]:
        """The next frame that is not empty."""
        return self._frame()

    def heard(self, kind: type[Any]) -> Any:
        channel, record = self.hear()
        assert type(record) is kind, record
        return record

    def heard_among(self, kind: type[Any]) -> Any:
        """The next record of this kind; those before it are dropped."""
        while True:
            _, record = self.hear()
            if type(record) is kind:
                return record

    # --- links ----------------------------------------------------------------------------------

    def sender(
        self, handle: int, address: str | None, name: str = "", wait: bool = True, **fields: Any
    ) -> Any:
        """Attach a link over which we send; the other's attach, after its credit has come."""
        target = fields.pop("target", None) or w.Target(address)
        channel = fields.pop("channel", 0)
        fields.setdefault("source", w.Source())
        record = w.Attach(name or f"out{handle}", handle, False, target=target, **fields)
        record.initial_delivery_count = 0
        self.tell(record, channel=channel)
        if not wait:
            return None
        attach = self.heard_among(w.Attach)
        if attach.target is not None:
            assert self.heard_among(w.Flow).link_credit
        return attach

    def receiver(
        self, handle: int, address: str | None, credit: int, name: str = "", **fields: Any
    ) -> Any:
        """Attach a link over which we receive, and give it credit; the other's attach."""
        source = fields.pop("source", None) or w.Source(address)
        channel, wait = fields.pop("channel", 0), fields.pop("wait", True)
        window = fields.pop("window", LARGE)
        fields.setdefault("target", w.Target())
        attach = w.Attach(name or f"in{handle}", handle, True, source=source, **fields)
        self.tell(attach, self.credit(handle, credit, window=window), channel=channel)
        return self.heard_among(w.Attach) if wait else None

    def credit(
        self, handle: int, count: int, seen: int = 0, window: int = LARGE, **fields: Any
    ) -> w.Flow:
        return w.Flow(0, window, 0, WINDOW, handle, seen, count, **fields)

    def transfer(self, handle: int, message: bytes, settled: bool = False, **fields: Any) -> bytes:
        """One message as one frame, with the next delivery-id."""
        number, self._next = self._next, self._next + 1
        tag = number.to_bytes(4, "big")
        return packed(w.Transfer(handle, number, tag, 0, settled, **fields), 0, message)

    @property
    def last(self) -> int:
        """The delivery-id of the last transfer."""
        return self._next - 1

    def post(self, handle: int, *messages: bytes, **fields: Any) -> None:
        """Send them, and wait until all are accepted."""
        self.send(b"".join(self.transfer(handle, message, **fields) for message in messages))
        told = 0
        while told < len(messages):
            said = self.heard_among(w.Disposition)
            assert said.state == w.ACCEPTED, said
            told += (said.first if said.last is None else said.last) - said.first + 1

    def next_message(self) -> tuple[w.Transfer, bytes]:
        """The next message: its first transfer, and its octets."""
        first = record = self.heard_among(w.Transfer)
        pieces = [self.payload]
        while record.more:
            record = self.heard_among(w.Transfer)
            pieces.append(self.payload)
        return first, b"".join(pieces)

    def accept(self, first: int | None, last: int | None = None) -> None:
        assert first is not None, "a transfer that began a delivery"
        self.tell(w.Disposition(True, first, last, True, w.ACCEPTED))

    def ended(self) -> None:
        """Close politely."""
        self.tell(w.Close())
        self.heard_among(w.Close)
        with contextlib.suppress(OSError):
            assert self.rest() == b""
        self.close()
