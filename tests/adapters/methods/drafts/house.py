"""A real broker with clients of the drafts at the door: methods in, methods out."""

from typing import Any

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.methods.contents.methods import Content, OutgoingMethod
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.drafts.engine import DraftEngine
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import BeginSession, Open
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.adapters.methods.drafts.talking import said
from tests.pair import Users


class House:
    """One broker. What the store is given is safe at once."""

    def __init__(self) -> None:
        self.store = MemoryStore(False)
        self.broker = Broker(self.store)
        self.registry = SessionRegistry()
        self.commit()

    def commit(self) -> None:
        for _ in range(3):
            self.broker.end_turn()
            batch = self.store.take()
            if batch is not None:
                self.broker.committed(batch.mark)

    @property
    def queues(self) -> dict[str, Any]:
        return self.broker.vhosts["/"].queues


class Guest:
    """One connection with channel 1 open. ``says`` returns the answers of the server."""

    def __init__(
        self,
        house: House,
        version: str,
        limits: Limits = Limits(),  # noqa: B008
        open_: bool = True,
    ) -> None:
        self.house = house
        self.version = version
        self.server: DraftEngine = adapter_for(  # type: ignore[assignment]
            version, Role.SERVER, authority=Users(), limits=limits
        )
        self.session = Session(
            house.broker, self.server, house.registry, address="x:1", loopback=True, since=0
        )
        self.client: DraftEngine = adapter_for(version, Role.CLIENT)  # type: ignore[assignment]
        self.w = self.client.mapping.layouts
        if open_:
            self.client.send(Open("open", "/", "guest"))
            self.carry()
            self.client.send(BeginSession(1, "begin"))
            self.carry()

    def carry(self) -> None:
        """To and fro until both have nothing to say."""
        while True:
            there = b"".join(self.client.output())
            back = self.puts(there) if there else b"".join(self.server.output())
            if not there and not back:
                return
            self.client.receive(back)

    def puts(self, octets: bytes) -> bytes:
        """Octets to the server; returns its answers."""
        self.session.perform(self.server.receive(octets))
        self.turn()
        return b"".join(self.server.output())

    def turn(self) -> None:
        for _ in range(3):
            self.session.perform(self.server.found())
            self.house.commit()

    def says(self, *records: Any, channel: int = 1) -> list[tuple[str, Any]]:
        octets = b"".join(
            self.client.encoded(channel, record) if not isinstance(record, OutgoingMethod)
            else self.spoken(record, channel)
            for record in records
        )  # fmt: skip
        return said(self.server, self.puts(octets))

    def spoken(self, spoken: OutgoingMethod, channel: int = 1) -> bytes:
        assert spoken.content is not None
        octets = self.client.encoded(channel, spoken.record)
        return octets + b"".join(self.client._contents(channel, spoken.content))

    def hears(self) -> list[tuple[str, Any]]:
        self.turn()
        return said(self.server, b"".join(self.server.output()))

    def content(self, group: str = "jms", body: bytes = b"x", **properties: Any) -> Content:
        """A content of a class with these properties (fields of its record)."""
        found = self.client.table.contents
        kind = next(content for content in found.values() if content.name == group)
        assert CONTENTS[self.version, kind.number].group == group
        return Content(kind.number, kind.write(kind.record(**properties)), body)

    def leaves(self) -> None:
        self.session.perform(self.server.lost())
        self.session.end()
        self.house.commit()


def named(heard: list[tuple[str, Any]], name: str) -> list[Any]:
    """Records of the methods of this name."""
    return [record for kind, record in heard if kind == name]


def bodies(heard: list[tuple[str, Any]]) -> list[bytes]:
    return [octets for kind, octets in heard if kind == "body"]
