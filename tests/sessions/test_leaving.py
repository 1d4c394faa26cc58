"""Close in the same read as a request: both are answered, in every version, in their order."""

from typing import Any

import pytest

from gateway.adapters import Product, Role, adapter_for
from gateway.adapters.registry import PREFERRED
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import BeginSession, Close, Closed, DeclareQueue, Done, Open, Operation
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.authority import AtOnce
from tests.sessions.overheard import Overheard

TURNS = 40


def request(version: str) -> DeclareQueue:
    if version == "0.8a2":
        return DeclareQueue(1, "declare", "", exclusive=True)
    return DeclareQueue(1, "declare", "d", durable=True)


class Both:
    """A client's adapter, and a session over another; ``said``: what the session told its own,
    each with whether that wrote octets."""

    def __init__(self, version: str) -> None:
        self.store = MemoryStore(False)
        self.broker = Broker(self.store)
        self.client: Any = adapter_for(version, Role.CLIENT, product=Product(name="c"))
        self.server: Any = adapter_for(version, Role.SERVER, authority=AtOnce(self.broker.access))
        self.said: list[tuple[Operation, bool]] = []
        self.octets: list[bytes] = []
        self.heard: list[Operation] = []
        self.session = Session(
            self.broker,
            Overheard(self.server, self.send),
            SessionRegistry(),
            address="127.0.0.1:1",
            loopback=True,
            since=0,
        )

    def send(self, operation: Operation) -> None:
        before = self.server.closing
        self.server.send(operation)
        octets = self.server.output()
        self.octets += octets
        self.said.append((operation, bool(octets) and not before))

    def read(self, octets: bytes) -> None:
        self.session.perform(self.server.receive(octets))
        self.session.perform(self.server.found())
        self.broker.end_turn()

    def settle(self) -> None:
        while self.store.dirty:
            batch = self.store.take()
            if batch is not None:
                self.broker.committed(batch.mark)
            self.session.perform(self.server.found())
            self.broker.end_turn()

    def talk(self, *operations: Operation) -> None:
        for operation in operations:
            self.client.send(operation)
        for _ in range(TURNS):
            octets = b"".join(self.client.output())
            if octets:
                self.read(octets)
            self.settle()
            answer = b"".join([*self.octets, *self.server.output()])
            self.octets.clear()
            if answer:
                self.heard += self.client.receive(answer)
            self.heard += self.client.found()
            if not octets and not answer:
                return
        raise AssertionError("they talk without end")


@pytest.mark.parametrize("version", PREFERRED)
def test_a_request_and_close_in_one_read(version: str) -> None:
    both = Both(version)
    both.talk(Open("open", "/", "guest"))
    both.talk(BeginSession(1, "begin"))
    both.said.clear()
    both.client.send(request(version))
    asked = b"".join(both.client.output())
    both.client.send(Close())
    # Some clients ask step by step; the rest of theirs is not for this test.
    both.broker.create_vhost("another")  # so that there is something to wait for
    both.read(asked + b"".join(both.client.output()))
    assert not both.server.closing and not both.session.closed
    both.settle()
    assert both.server.closing and both.session.closed
    (*before, last) = [wrote for said, wrote in both.said if isinstance(said, Done)]
    assert before and before[-1] and last


@pytest.mark.parametrize("version", ["0-8", "0-9", "0-9-1", "0-10", "1.0"])
def test_open_and_close_in_one_read(version: str) -> None:
    both = Both(version)
    both.client.send(Open("open", "/", "guest"))
    while not both.said:
        octets = b"".join(both.client.output())
        found = both.server.receive(octets)
        if any(isinstance(operation, Open) for operation in found):
            both.client.send(Close())
            found += both.server.receive(b"".join(both.client.output()))
        both.session.perform(found)
        both.client.receive(b"".join([*both.octets, *both.server.output()]))
    assert [wrote for said, wrote in both.said if isinstance(said, Done)] == [True, True]
    assert both.session.closed and both.server.closing


@pytest.mark.parametrize("version", PREFERRED)
def test_close_alone(version: str) -> None:
    both = Both(version)
    both.talk(Open("open", "/", "guest"))
    both.talk(BeginSession(1, "begin"))
    both.talk(Close(None, ""))
    assert both.server.closing and both.client.closing and both.session.closed
    assert isinstance(both.heard[-1], Closed) and both.heard[-1].condition is None
    assert both.session.ending == ""


@pytest.mark.parametrize("version", PREFERRED)
def test_close_and_gone(version: str) -> None:
    """The socket ends while the answer still waits."""
    both = Both(version)
    both.talk(Open("open", "/", "guest"))
    both.talk(BeginSession(1, "begin"))
    both.client.send(request(version))
    asked = b"".join(both.client.output())
    both.client.send(Close())
    both.broker.create_vhost("another")
    both.read(asked + b"".join(both.client.output()))
    both.session.perform(both.server.lost())
    assert both.session.closed and both.server.closing
    both.settle()
    assert both.session.ending == ""
