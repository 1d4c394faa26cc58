"""A client that fetches. The server's answers to a drain come late or never, as Artemis' do."""

from typing import Any

from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import Done, Fetch, Operation
from tests.adapters.performatives.house import CHANNEL, House
from tests.adapters.performatives.peer import PLAIN
from tests.adapters.performatives.wire import packed, unpacked


class Server:
    """What comes from the one link of a client is said by hand."""

    def __init__(self) -> None:
        self.client = House().client
        self.client.send(Fetch(CHANNEL, 1, "q", True))
        (attach,) = self.hears()
        echo = w.Attach(attach.name, 0, False, attach.snd_settle_mode, 0, attach.source, w.Target())
        echo.initial_delivery_count = 0
        assert self.says(echo) == []

    def hears(self) -> list[Any]:
        return [frame.record for frame in unpacked(b"".join(self.client.output()))]

    def drain(self) -> tuple[int | None, int | None]:
        """The count and the credit of the one frame we hear: a flow that asks for a drain."""
        (flow,) = self.hears()
        assert isinstance(flow, w.Flow) and flow.drain
        return flow.delivery_count, flow.link_credit

    def says(self, record: Any, payload: bytes = b"") -> list[Operation]:
        octets = packed(record, CHANNEL, payload)
        found: list[Operation] = self.client.receive(octets) + self.client.found()
        return found

    def delivers(self, number: int) -> list[Operation]:
        transfer = w.Transfer(0, number, b"%d" % number, 0, True)
        return self.says(transfer, PLAIN)

    def drained(self, count: int) -> list[Operation]:
        flow = w.Flow(0, 1000, 0, 1000, 0, delivery_count=count, link_credit=0, drain=True)
        return self.says(flow)


def test_the_end_of_one_drain_is_not_taken_for_that_of_the_next() -> None:
    server = Server()
    assert server.drain() == (0, 1)
    (done,) = server.delivers(0)
    assert isinstance(done, Done) and done.token == 1 and done.result is not None
    server.client.send(Fetch(CHANNEL, 2, "q", True))
    assert server.drain() == (1, 1)
    assert server.drained(2) == [], "of the first, perhaps: it is asked for again"
    assert server.drain() == (2, 1)
    (done,) = server.delivers(1)
    assert isinstance(done, Done) and done.token == 2 and done.result is not None


def test_nothing_is_there() -> None:
    """The first drain of a link, and one that was asked for twice, are believed."""
    server = Server()
    server.drain()
    assert server.drained(1) == [Done(CHANNEL, 1, None)]
    server.client.send(Fetch(CHANNEL, 2, "q", True))
    server.drain()
    server.delivers(0)
    server.client.send(Fetch(CHANNEL, 3, "q", True))
    server.drain()
    assert server.drained(3) == []
    server.drain()
    assert server.drained(4) == [Done(CHANNEL, 3, None)]


def test_a_drain_that_is_not_answered_is_said_again() -> None:
    server = Server()
    assert server.drain() == (0, 1)
    for now in (1.0, 1.1, 1.9):  # requests tick, too
        assert server.client.tick(now) == []
        assert server.hears() == []
    for now in (2.0, 3.0):
        assert server.client.tick(now) == []
        assert server.drain() == (0, 1)
    assert server.drained(1) == [Done(CHANNEL, 1, None)]
    for now in (4.0, 5.0):
        server.client.tick(now)
        assert server.hears() == []


def test_it_is_not_said_of_a_link_that_is_gone() -> None:
    server = Server()
    server.drain()
    server.says(w.Detach(0, True, w.Error("amqp:resource-deleted", "gone")))
    assert [type(record) for record in server.hears()] == [w.Detach]
    server.client.tick(1.0)
    assert server.hears() == []
