"""A real broker and raw connections to it: octets in, octets out, decoded commands to assert on."""

import itertools
from typing import Any

import pytest

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.commands.frames import frame, head_of, read_command
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition
from gateway.operations import DeclareQueue
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.authority import AtOnce

VHOST = "/test"
NOW = 1_112_000_000_000
"""March 2005, before the recorded messages expire."""


def parsed(octets: bytes) -> list[tuple[Any, bytes]]:
    """Commands and their fragments; all of it must be whole."""
    found: list[tuple[Any, bytes]] = []
    at = 0
    while at < len(octets):
        start = head_of(octets, at)
        assert start is not None
        size = int.from_bytes(octets[at + 2 : start] or octets[at:start], "big")
        command, record = read_command(octets, start, start + size)
        at = start + size
        fragment = b""
        if command.fragment:
            fragment = octets[at : at + record.fragment_size]
            assert len(fragment) == record.fragment_size
            at += record.fragment_size
        found.append((record, fragment))
    return found


class Harness:
    """A broker with users ``guest`` and ``other``; ANONYMOUS is ``guest``."""

    def __init__(self, anonymous: bool = True, **limits: Any) -> None:
        self.store = MemoryStore(False)
        self.broker = Broker(self.store, now=NOW)
        self.authority = AtOnce(self.broker.access)
        self.registry = SessionRegistry()
        self.broker.create_vhost(VHOST)
        for vhost in ("/", VHOST):
            self.broker.access.set_permissions("guest", vhost, ".*", ".*", ".*")
        if anonymous:
            self.authority.anonymous_user = "guest"
        self.limits = Limits(**limits)
        self.mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS")
        self.commit()

    def user(self, name: str, password: str) -> None:
        access = self.broker.access
        access.add_user(name, password)
        for vhost in ("/", VHOST):
            access.set_permissions(name, vhost, ".*", ".*", ".*")

    def commit(self) -> None:
        for _ in range(3):
            self.broker.end_turn()
            batch = self.store.take()
            if batch is not None:
                self.broker.committed(batch.mark)

    def queue(self, name: str, **options: Any) -> Any:
        client = self.broker.attach(VHOST, "guest", "maker")
        channel = client.channel(1, Nobody())
        channel.topology.declare_queue(DeclareQueue(1, None, name, durable=True, **options))
        client.close()
        self.commit()
        return self.broker.vhosts[VHOST].queues[name]

    def peer(self, **options: Any) -> "Peer":
        return Peer(self, **options)


class Nobody:
    """A recipient that ignores everything."""

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Any) -> None: ...

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None: ...

    def returned(self, message: Any, condition: Condition, text: str) -> None: ...

    def cancelled(self, tag: str) -> None: ...


class Peer:
    """The client end of one connection, which sends octets or records."""

    def __init__(self, harness: Harness, **options: Any) -> None:
        self.harness = harness
        self.adapter: Any = adapter_for(
            "0.8a2",
            Role.SERVER,
            authority=harness.authority,
            limits=harness.limits,
            **options,
        )
        self.session = Session(
            harness.broker,
            self.adapter,
            harness.registry,
            address="192.0.2.1:5",
            loopback=True,
            since=0,
        )

    def feed(self, octets: bytes) -> None:
        self.session.perform(self.adapter.receive(octets))
        self.turn()

    def turn(self) -> None:
        self.session.perform(self.adapter.found())
        self.harness.commit()
        self.session.perform(self.adapter.found())

    def gets(self) -> list[tuple[Any, bytes]]:
        return parsed(b"".join(self.adapter.output()))

    def says(self, *said: Any) -> list[Any]:
        """Records, each with its fragment behind it if it has one; returns the answers."""
        self.feed(b"".join(s if isinstance(s, bytes) else frame(s) for s in said))
        return [record for record, _ in self.gets()]

    def disconnect(self) -> None:
        self.session.perform(self.adapter.lost())
        self.session.end()
        self.harness.commit()


def numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary names count from one, as in the recordings."""
    numbers = itertools.count(1)
    monkeypatch.setattr(
        "gateway.sessions.destinations.secrets.randbelow", lambda most: next(numbers)
    )
