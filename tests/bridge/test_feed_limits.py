"""Which prefetch limits a feed asks its upstream for."""

import asyncio
from collections.abc import Coroutine
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.adapters.contract import Capability
from gateway.bridge.feeds import Feed, FeedOwner
from gateway.bridge.places import SAME_PLACES
from gateway.broker.consumers import Consumer, Window
from gateway.broker.facade import FacadeVirtualHost, most_unsettled
from gateway.broker.feed_queue import MOST_AHEAD, FeedQueue, Subscription, UpstreamPort
from gateway.message import Message
from gateway.net.dialer import Remote
from gateway.operations import Deliver, Operation, Outcome, Prefetch, Subscribe
from tests.broker.fakes import Heard, House, message


class Peer:
    """The connection to the upstream, which agrees to everything."""

    adapter = SimpleNamespace(capabilities=Capability(0), version="0-9-1")
    peer = SimpleNamespace(product="RabbitMQ", product_version="3.10")
    closed = None

    def __init__(self) -> None:
        self.asked: list[Operation] = []

    def request(self, operation: Operation) -> "asyncio.Future[Any]":
        self.asked.append(operation)
        answer = asyncio.get_running_loop().create_future()
        answer.set_result("tag" if isinstance(operation, Subscribe) else None)
        return answer

    def send(self, operation: Operation) -> None: ...

    def wake(self) -> None: ...

    @property
    def limits(self) -> list[tuple[int, bool]]:
        return [(one.count, one.shared) for one in self.asked if isinstance(one, Prefetch)]


class Owner:
    """The facade."""

    vhost = "/"
    side = 1
    places = SAME_PLACES
    is_copy = None

    def __init__(self) -> None:
        port = SimpleNamespace(wanted=lambda queue: None)
        self.host = FacadeVirtualHost("/", House().broker.state, cast(UpstreamPort, port))
        self.feeds: dict[int, Feed] = {}
        self.turn = nullcontext

    def run_soon(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()

    def catch_up(self) -> None: ...


class Fed:
    """A feed and its consumer, which is added after the upstream has agreed."""

    def __init__(self, *, no_ack: bool = False, limit: int = 0, window: int = 0) -> None:
        owner, self.heard, shared = Owner(), Heard(), Window()
        shared.limit = window
        home = owner.host.know_queue("q")
        home.type.name = ""
        limits = most_unsettled(no_ack, limit, shared, None)
        self.queue = FeedQueue(home, Subscription(False, {}, False, *limits))
        self.peer = Peer()
        self.feed = Feed(cast(FeedOwner, owner), cast(Remote, self.peer), self.queue, 2)
        self.queue.feeds[owner.side] = self.feed
        self.consumer = Consumer(
            "c",
            self.queue,
            shared,
            self.heard.deliver,
            self.heard.cancelled,
            no_ack=no_ack,
            exclusive=False,
            no_local=False,
            origin=None,
            priority=0,
            limit=limit,
            size=0,
            arguments={},
        )

    async def open(self) -> None:
        await self.feed.opened()
        await asyncio.sleep(0)

    def start(self) -> None:
        self.queue.consumer = self.consumer
        self.queue.add_consumer(self.consumer)
        self.consumer.started = True
        self.consumer.wake()
        self.feed.adjust()

    def deliver(self, *numbers: int) -> None:
        for number in numbers:
            arrived: Message = message(f"body {number}")
            self.feed.deliver(Deliver(2, "tag", number, False, arrived))
            self.feed.adjust()


@pytest.mark.parametrize(
    "given, limit",
    (({"limit": 5}, 5), ({"no_ack": True}, MOST_AHEAD), ({"no_ack": True, "limit": 5}, MOST_AHEAD)),
)
def test_a_limit_of_the_consumer_alone(given: dict[str, Any], limit: int) -> None:
    """RabbitMQ asks a process of its own about each message under a limit of the channel."""

    async def use() -> None:
        fed = Fed(**given)
        await fed.open()
        fed.start()
        fed.deliver(1, 2, 3)
        await asyncio.sleep(0)
        assert fed.heard.bodies() == ["body 1", "body 2", "body 3"]
        assert fed.peer.limits == [(limit, False)]

    asyncio.run(use())


@pytest.mark.parametrize("given", ({"window": 5}, {"limit": 5, "window": 9}))
def test_a_limit_that_others_share_is_one_of_the_channel(given: dict[str, Any]) -> None:
    """It changes with what the others hold."""

    async def use() -> None:
        fed = Fed(**given)
        await fed.open()
        fed.start()
        assert fed.peer.limits == [(1, True), (5, True)]

    asyncio.run(use())


def test_without_a_limit_the_consumer_goes_on() -> None:
    """Deliveries that it has not settled count for no limit."""

    async def use() -> None:
        fed = Fed()
        await fed.open()
        fed.start()
        fed.deliver(*range(1, 1000))
        count, shared = fed.peer.limits[-1]
        assert shared and count > MOST_AHEAD

    asyncio.run(use())


def test_a_limit_of_the_channel_later() -> None:
    """A client may limit its whole channel while a consumer runs, and lift that again."""

    async def use() -> None:
        fed = Fed(limit=8)
        await fed.open()
        fed.start()
        fed.consumer.window.limit = 2
        fed.feed.adjust()
        assert fed.peer.limits == [(8, False), (2, True)]
        fed.consumer.window.limit = 0
        fed.feed.adjust()
        assert fed.peer.limits[2:] == [(0, True)]

    asyncio.run(use())


def test_held_deliveries_of_an_earlier_connection_count() -> None:
    async def use() -> None:
        fed = Fed(limit=8)
        fed.start()
        await fed.open()
        fed.deliver(1, 2, 3)
        fed.feed.lose()
        again = Feed(fed.feed._owner, fed.feed._remote, fed.queue, 2)
        fed.queue.feeds[again._owner.side] = again
        del fed.peer.asked[:]
        await again.opened()
        assert fed.peer.limits == [(5, True)]
        for entry in fed.consumer.window.take_up_to(0)[1]:
            fed.consumer.release(entry)
            fed.queue.conclude(entry, Outcome.ACCEPT)
        again.adjust()
        assert fed.peer.limits[1:] == [(8, True)]

    asyncio.run(use())
