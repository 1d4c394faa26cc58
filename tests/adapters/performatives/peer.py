"""The peer of a server engine, by hand: an open connection, a session, links, frames."""

from typing import Any

from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import Operation
from tests.adapters.performatives.broker import Broker
from tests.adapters.performatives.wire import Heard, Wire, packed

PLAIN = b"\x00\x53\x75\xa0\x05hello"
"""A message of one data section."""


class Peer:
    """``said`` and ``hears`` speak of one session on channel 0, unless told otherwise. Whatever is
    said is performed by a ``Broker`` at once."""

    def __init__(self, begin: bool = True, **options: Any) -> None:
        fields = options.pop("opens", {})
        self.wire = Wire(**options).opened(**fields)
        self.engine = self.wire.engine
        self.broker = Broker(self.engine)
        if begin:
            self.says(w.Begin(None, 0, 1000, 1000))
            (begun,) = self.hears()
            assert isinstance(begun, w.Begin) and begun.remote_channel == 0

    def feed(self, octets: bytes) -> list[Operation]:
        return self.broker.perform(self.engine.receive(octets))

    def says(self, record: Any, payload: bytes = b"", channel: int = 0) -> list[Operation]:
        return self.feed(packed(record, channel, payload))

    def heard(self) -> list[Heard]:
        return self.wire.heard()

    def hears(self) -> list[Any]:
        return self.wire.hears()

    @property
    def session(self) -> Any:
        return self.engine.connection.sessions[0]

    def sends(
        self, name: str = "in", handle: int = 0, address: str | None = "q", **fields: Any
    ) -> w.Attach:
        """Attach a link over which the peer sends; returns our answer, without the credit."""
        fields.setdefault("target", w.Target(address))
        fields.setdefault("source", w.Source())
        self.says(w.Attach(name, handle, False, initial_delivery_count=0, **fields))
        attach, *rest = self.hears()
        assert isinstance(attach, w.Attach) and attach.role is True, attach
        self.credit = rest
        return attach

    def receives(
        self,
        name: str = "out",
        handle: int = 1,
        address: str | None = "q",
        credit: int = 100,
        **fields: Any,
    ) -> w.Attach:
        """Attach a link over which the peer receives, and give credit."""
        fields.setdefault("source", w.Source(address))
        fields.setdefault("target", w.Target())
        self.says(w.Attach(name, handle, True, **fields))
        attach, *rest = self.hears()
        assert isinstance(attach, w.Attach) and attach.role is False and not rest, rest
        if credit:
            self.grants(credit, handle)
        return attach

    def grants(self, credit: int, handle: int = 1, **fields: Any) -> list[Operation]:
        fields.setdefault("delivery_count", 0)
        return self.says(w.Flow(0, 1000, 0, 1000, handle, link_credit=credit, **fields))

    def transfers(
        self, number: int = 0, payload: bytes = PLAIN, handle: int = 0, **fields: Any
    ) -> list[Operation]:
        fields.setdefault("delivery_tag", b"t%d" % number)
        fields.setdefault("message_format", 0)
        return self.says(w.Transfer(handle, number, **fields), payload)

    def ended(self, symbol: str) -> w.End:
        """We have ended the session for this, as the last word."""
        last = self.hears()[-1]
        assert isinstance(last, w.End), last
        assert last.error is not None and last.error.condition == symbol, last
        return last

    def detached(self, symbol: str) -> w.Detach:
        """We have detached a link for this, as the last word."""
        last = self.hears()[-1]
        assert isinstance(last, w.Detach), last
        assert last.error is not None and last.error.condition == symbol, last
        assert last.closed
        return last
