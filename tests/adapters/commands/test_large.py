"""Bodies that stand in files: said in portions, and hashed in portions."""

from collections.abc import Iterator

import pytest

from gateway.adapters.core.large_bodies import PORTION
from gateway.bodies import LargeBody, Spool
from gateway.operations import BeginSession, Deliver, Listen, OpenDestination, SendTo, Service
from tests.adapters.commands.couple import Couple, message
from tests.adapters.commands.house import House

BODY = bytes(range(256)) * (5 << 12) + b"the end"


@pytest.fixture
def house() -> House:
    house = House()
    house.queue("test")
    house.queue("other")
    return house


def large(octets: bytes = BODY) -> LargeBody:
    filling = Spool().start()
    assert filling is not None
    filling.add(octets)
    return filling.finish()


def outputs(couple: Couple) -> Iterator[int]:
    """Carry what the server says, one output after the other; their sizes."""
    server = couple.guest.adapter
    while (octets := b"".join(server.output())) or server.more:
        couple.heard += couple.client.receive(octets) if octets else []
        for said in couple.client.output():
            couple.guest.puts(said)
        server.refill()
        yield len(octets)


@pytest.mark.parametrize("restartable", [False, True])
def test_out_in_portions(house: House, restartable: bool) -> None:
    """Messages behind it wait; those of another channel, and answers there, go between."""
    couple = Couple(house, restartable=restartable)
    couple.ask(BeginSession(2, "t"))
    for channel, link, queue in ((1, "1", "test"), (2, "2", "other")):
        couple.ask(OpenDestination(channel, "t", link, Service.QUEUE, queue))
        couple.ask(Listen(channel, "t", link, f"{link}/1", "", 0xFFFF))
    outlet = couple.guest.adapter.outlet(1)
    gates: list[bool] = []
    outlet.gate = gates.append
    outlet.deliver("1/1", 1, False, message(large(), message_id="large"))  # type: ignore[arg-type]
    outlet.deliver("1/1", 2, True, message(b"behind it"))
    assert couple.guest.adapter.more and gates[0] is False
    sizes = []
    for size in outputs(couple):
        sizes.append(size)
        if len(sizes) == 2:
            couple.guest.adapter.outlet(2).deliver("2/1", 1, False, message(b"between"))
    assert max(sizes) < PORTION + (1 << 17) and len(sizes) >= len(BODY) // PORTION
    found = [op for op in couple.heard if isinstance(op, Deliver)]
    assert [op.message.body for op in found] == [b"between", BODY, b"behind it"]
    assert gates[-1] is True and not couple.guest.adapter.more


def test_a_client_says_them_in_portions_too(house: House) -> None:
    couple = Couple(house)
    couple.open("1", "test")
    sent = message(large())  # type: ignore[arg-type]
    couple.client.send(SendTo(1, "t", "1", "", sent, True))
    sizes = []
    while pieces := couple.client.output():
        sizes.append(sum(map(len, pieces)))
        for piece in pieces:
            couple.guest.puts(piece)
    assert max(sizes) < PORTION + (1 << 17) and len(sizes) >= len(BODY) // PORTION
    queue = house.broker.vhosts["/test"].queues["test"]
    assert queue.depth == 1
