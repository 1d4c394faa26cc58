"""What comes and goes leaves nothing behind, not even for the garbage collector: it looks seldom,
and a peer can begin and end sessions by the ten thousand in the meantime."""

import gc

import pytest

import gateway.crossing  # noqa: F401 - messages of one version are read in another
from gateway.adapters import Credentials, Role, adapter_for
from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.operations import (
    BeginSession,
    DeclareQueue,
    Deliver,
    EndSession,
    Open,
    Operation,
    Outcome,
    Publish,
    Settle,
    Subscribe,
)
from gateway.sessions.session import Session
from tests.pair import Users
from tests.sessions.test_session import House

ROUNDS = 20
VERSIONS = (
    "0.8a2", "0-9a0", "0-9a6", "0-8", "0-9", "0-9-1", "0-10-07-24", "0-10-07-27", "0-10", "1.0",
)  # fmt: skip


class Peer:
    """A client of one version on a real session."""

    def __init__(self, version: str, house: House) -> None:
        self.house = house
        self.server = adapter_for(version, Role.SERVER, authority=Users())
        self.said: list[bytes] = []
        """What the client said in this session."""
        self.client = adapter_for(version, Role.CLIENT, credentials=Credentials())
        self.session = Session(
            house.broker, self.server, house.registry, address="x:1", loopback=True, since=0
        )

    def feed(self, octets: bytes) -> bytes:
        """What the server says to this."""
        if octets:
            self.session.perform(self.server.receive(octets))
        self.session.perform(self.server.found())
        self.house.commit()
        return b"".join(self.server.output())

    def asks(self, *operations: Operation) -> list[Operation]:
        """What the client hears after it has said this."""
        for operation in operations:
            self.client.send(operation)
        heard: list[Operation] = []
        quiet = 0
        while quiet < 2:
            out = b"".join(self.client.output())
            if out:
                self.said.append(out)
            back = self.feed(out)
            if back:
                heard += self.client.receive(back)
            heard += self.client.found()
            quiet = 0 if out or back else quiet + 1
        return heard


HEADER = BASIC.write(Properties(content_type="text/plain"))
MESSAGE = Message(BASIC, HEADER, b"body", "", "q", BASIC.essentials(HEADER))


def a_session(peer: Peer) -> None:
    """It begins, sends itself a message, takes it, and ends with the subscription alive."""
    peer.said.clear()
    peer.asks(BeginSession(1, "begin"))
    peer.asks(Subscribe(1, "subscribe", "q", "tag"))
    found = peer.asks(Publish(1, MESSAGE, False, False))
    (delivery,) = [operation for operation in found if isinstance(operation, Deliver)]
    assert delivery.message.body == b"body"
    peer.asks(Settle(1, delivery.delivery, False, Outcome.ACCEPT))
    peer.asks(EndSession(1, "end"))


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_leave_nothing(version: str) -> None:
    house = House()
    peer = Peer(version, house)
    peer.asks(Open("open", "/", "guest"))
    peer.asks(BeginSession(2, "begin"))
    (channel,) = peer.session.channels.values()
    channel.topology.declare_queue(DeclareQueue(0, None, "q"))
    for _ in range(3):
        a_session(peer)
    said, expected = peer.said[:], peer.house.broker.vhosts["/"].queues["q"].acked
    # The same octets again: our client role may leave something, the server may not.
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(ROUNDS):
            for octets in said:
                peer.feed(octets)
        left = len(gc.get_objects()) - before
    finally:
        gc.enable()
    queue = peer.house.broker.vhosts["/"].queues["q"]
    assert queue.acked == expected + ROUNDS and not queue.depth and not queue.consumers
    assert left < ROUNDS, f"{left / ROUNDS} objects of each session"


def test_the_largest_parts_of_a_connection_have_slots() -> None:
    """Their dictionaries would be 3 KB of each idle connection."""
    peer = Peer("0-9-1", House())
    for part in (peer.session, peer.server):
        assert not hasattr(part, "__dict__"), type(part)
