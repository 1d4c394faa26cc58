"""Messages of an upstream on their way to a consumer: its credit is passed on."""

from typing import cast

import pytest

from gateway.broker.consumers import Consumer, Window
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.feed_queue import FeedQueue, Subscription, UpstreamPort
from gateway.message import Message, Table
from gateway.operations import Outcome
from tests.broker.fakes import Heard, House, message


class Upstream:
    """Counts how often the room of a feed has changed, and takes settlements."""

    def __init__(self) -> None:
        self.wanted_rooms: list[int] = []
        self.settled: list[int] = []

    def wanted(self, queue: FeedQueue) -> None:
        self.wanted_rooms.append(queue.room)

    def settle(self, delivery: int, outcome: Outcome) -> None:
        self.settled.append(delivery)

    def accept(self, delivery: int) -> None:
        self.settled.append(delivery)

    def modify(self, delivery: int, elsewhere: bool, added: Table | None) -> None:
        self.settled.append(delivery)


class Fed:
    """A consumer that needs no acknowledgements, and its feed."""

    def __init__(self) -> None:
        self.upstream, self.heard = Upstream(), Heard()
        state = House().broker.state
        host = FacadeVirtualHost("up", state, cast(UpstreamPort, self.upstream))
        self.queue = FeedQueue(host.know_queue("q"), Subscription(False, {}, False, 1))
        self.consumer = Consumer(
            "c",
            self.queue,
            Window(),
            self.heard.deliver,
            self.heard.cancelled,
            no_ack=True,
            exclusive=False,
            no_local=False,
            origin=None,
            priority=0,
            limit=0,
            size=0,
            arguments={},
            credit=0,
        )
        self.queue.consumer = self.consumer
        self.queue.add_consumer(self.consumer)
        self.consumer.started = True

    def arrive(self, delivery: int) -> Message:
        arrived = message(f"body {delivery}")
        self.queue.arrive(self.upstream, delivery, False, arrived)
        return arrived

    def grant(self, *, octets: int | None = None) -> list[int]:
        """Give credit for one message; the rooms that the upstream was told of."""
        self.upstream.wanted_rooms.clear()
        self.consumer.credit, self.consumer.octet_credit = 1, octets
        self.consumer.wake()
        return self.upstream.wanted_rooms


@pytest.mark.parametrize("octets", (None, 6))
@pytest.mark.parametrize("ready", (False, True))
def test_each_grant_is_passed_on(ready: bool, octets: int | None) -> None:
    """Also after a message that was here already when its credit came."""
    fed = Fed()
    if ready:
        fed.arrive(1)
        assert fed.grant(octets=octets)
    else:
        assert fed.grant(octets=octets) == [1]
        fed.arrive(1)
    assert fed.upstream.settled == [1]
    assert fed.grant(octets=octets) == [1]
    fed.arrive(2)
    assert fed.heard.bodies() == ["body 1", "body 2"]
