"""Bodies that stand in files: said in portions, and hashed in portions."""

from collections.abc import Iterator

import pytest

from gateway.adapters.core.large_bodies import PORTION
from gateway.bodies import LargeBody, Spool
from gateway.operations import BeginSession, Deliver, Listen, OpenDestination, SendTo, Service
from tests.adapters.commands.connected_pair import ConnectedPair, message
from tests.adapters.commands.harness import Harness

BODY = bytes(range(256)) * (5 << 12) + b"the end"


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.queue("test")
    harness.queue("other")
    return harness


def large(octets: bytes = BODY) -> LargeBody:
    spooled = Spool().start()
    assert spooled is not None
    spooled.add(octets)
    return spooled.finish()


def outputs(pair: ConnectedPair) -> Iterator[int]:
    """Carry the output of the server, one portion after the other; returns their sizes."""
    server = pair.peer.adapter
    while (octets := b"".join(server.output())) or server.more:
        pair.heard += pair.client.receive(octets) if octets else []
        for said in pair.client.output():
            pair.peer.feed(said)
        server.refill()
        yield len(octets)


@pytest.mark.parametrize("restartable", [False, True])
def test_out_in_portions(harness: Harness, restartable: bool) -> None:
    """Messages behind it wait; those of another channel, and answers there, go between."""
    pair = ConnectedPair(harness, restartable=restartable)
    pair.ask(BeginSession(2, "t"))
    for channel, link, queue in ((1, "1", "test"), (2, "2", "other")):
        pair.ask(OpenDestination(channel, "t", link, Service.QUEUE, queue))
        pair.ask(Listen(channel, "t", link, f"{link}/1", "", 0xFFFF))
    outlet = pair.peer.adapter.outlet(1)
    gates: list[bool] = []
    outlet.allow_deliveries = gates.append
    outlet.deliver("1/1", 1, False, message(large(), message_id="large"))  # type: ignore[arg-type]
    outlet.deliver("1/1", 2, True, message(b"behind it"))
    assert pair.peer.adapter.more and gates[0] is False
    sizes = []
    for size in outputs(pair):
        sizes.append(size)
        if len(sizes) == 2:
            pair.peer.adapter.outlet(2).deliver("2/1", 1, False, message(b"between"))
    assert max(sizes) < PORTION + (1 << 17) and len(sizes) >= len(BODY) // PORTION
    found = [op for op in pair.heard if isinstance(op, Deliver)]
    assert [op.message.body for op in found] == [b"between", BODY, b"behind it"]
    assert gates[-1] is True and not pair.peer.adapter.more


def test_a_client_says_them_in_portions_too(harness: Harness) -> None:
    pair = ConnectedPair(harness)
    pair.open("1", "test")
    sent = message(large())  # type: ignore[arg-type]
    pair.client.send(SendTo(1, "t", "1", "", sent, True))
    sizes = []
    while pieces := pair.client.output():
        sizes.append(sum(map(len, pieces)))
        for piece in pieces:
            pair.peer.feed(piece)
    assert max(sizes) < PORTION + (1 << 17) and len(sizes) >= len(BODY) // PORTION
    queue = harness.broker.vhosts["/test"].queues["test"]
    assert queue.depth == 1
