"""A client of the family whose octets reach a session, on a store that is told when it is safe."""

import math
from typing import Any

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.authority import AtOnce
from tests.talk import frames, method

CAPABLE = fields.write_table({"capabilities": {"consumer_cancel_notify": True}})
LOGIN = w.ConnectionStartOk(CAPABLE, "PLAIN", b"\0guest\0guest", "en_US")


class Wired:
    """A client of the family whose octets reach a session; the store is safe when ``turn`` ends."""

    def __init__(
        self,
        version: str = "0-9-1",
        vhost: str = "/",
        limits: Limits = Limits(),  # noqa: B008
        share: float = math.inf,
    ) -> None:
        """``share``: seconds that the session has in a turn. -1: one operation in each."""
        self.version = version
        self.store = MemoryStore(False)
        self.broker = Broker(self.store)
        self.adapter = adapter_for(
            version, Role.SERVER, authority=AtOnce(self.broker.access), limits=limits
        )
        self.session = Session(
            self.broker,
            self.adapter,
            SessionRegistry(),
            address="127.0.0.1:1",
            loopback=True,
            since=0,
        )
        self.session.time_slice = share
        self.due = False
        """Whether the session wants to go on."""
        self.turns = 0
        """How often it did."""
        if share != math.inf:
            self.session.on_pending = self.again
        self.commits = 0
        self.read(TABLES[version].header)
        self.says(0, LOGIN, w.ConnectionTuneOk(0, 0, 0))
        self.hears()
        self.says(0, w.ConnectionOpen(vhost))
        if vhost == "/":
            self.says(1, w.ChannelOpen())
            self.settle()
            self.hears()

    def again(self) -> None:
        self.due = True

    def read(self, octets: bytes) -> None:
        """One read, and the rest of its turn without a commit."""
        self.session.perform(self.adapter.receive(octets))
        self.session.perform(self.adapter.found())
        self.broker.end_turn()
        self.go_on()

    def go_on(self) -> None:
        """The turns that the session wants besides."""
        while self.due:
            self.due = False
            self.turns += 1
            self.session.perform_pending()
            self.session.perform(self.adapter.found())
            self.broker.end_turn()

    def octets(self, channel: int, *records: Any) -> bytes:
        return b"".join(
            record if isinstance(record, bytes) else method(self.version, channel, record)
            for record in records
        )

    def says(self, channel: int, *records: Any) -> None:
        self.read(self.octets(channel, *records))

    def settle(self) -> None:
        """Commits, until nothing is left to be written."""
        while self.store.dirty:
            batch = self.store.take()
            if batch is not None:
                self.commits += 1
                self.broker.committed(batch.mark)
            self.broker.end_turn()
            self.go_on()

    def hears(self) -> list[Any]:
        said = frames(self.version, b"".join(self.adapter.output()))
        return [record for _, record in said if not isinstance(record, bytes)]


def kinds(records: list[Any]) -> list[type[Any]]:
    return [type(record) for record in records]
