"""Finding the place in a stream queue of an upstream where an event stream begins.

RabbitMQ does not tell the ends of a stream, and takes any offset. So the message before the place
is read: if it is there, nothing is missing behind it; if a later one comes, those between were
removed; if none comes, the stream is another one than the cursor is of. The newest offset is that
of the last message that a subscription with ``x-stream-offset`` "last" gives.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from gateway.bridge.waiting import until_answered
from gateway.broker.facade import UpstreamQueue
from gateway.broker.local import LocalChannel, LocalClient
from gateway.broker.stream_queues import OFFSET, offset_of
from gateway.errors import Condition, Refusal
from gateway.http.events.cursor import DIGEST_OCTETS, ELSEWHERE, Positions, digest_of
from gateway.http.events.hub import Hub
from gateway.http.events.sources import Place, SourceName
from gateway.http.events.stream import EventStream
from gateway.http.events.stream_request import Start, invalid
from gateway.message import Message
from gateway.operations import Outcome
from gateway.values import Timestamp

GRACE_SECONDS = 0.5
"""Time in which a message may still come after the upstream has agreed to a subscription. What it
has at once comes before; a replica of a cluster may lag behind."""
MOST_LOOKED = 100_000
"""Messages that are looked at to find the newest one, while more are being published."""
NEWEST = "last"


async def find_places(
    stream: EventStream, names: Iterable[SourceName], begin: Start, known: Positions | None
) -> dict[SourceName, Place]:
    """The places in the stream queues among these sources of a facade. Raises ``Problem`` and
    ``Refusal``."""
    found: dict[SourceName, Place] = {}
    for name in names:
        if name.kind != "queue":
            continue
        stream.need(stream.vhost, name)
        if not await is_stream_queue(stream.hub, stream.vhost, name.name):
            continue
        if stream.options.ack == "explicit":
            text = f"stream queues have no leases: {name.name!r} keeps its messages"
            raise Refusal(Condition.NOT_IMPLEMENTED, text)
        if stream.options.ack != "none":
            raise invalid(
                "there is nothing to accept from a stream queue, which keeps its messages"
            )
        if name not in found:
            found[name] = await find_place(stream, name, begin, known)
    return found


async def is_stream_queue(hub: Hub, vhost: str, name: str) -> bool:
    """Whether a queue of a facade is a stream queue. Raises ``Refusal``: 404."""
    host = hub.broker.facades[vhost]

    def asked() -> bool:
        queue = host.queue(name)
        return isinstance(queue, UpstreamQueue) and queue.type.is_stream()

    return await until_answered(hub.turn, asked)


async def find_place(
    stream: EventStream, name: SourceName, begin: Start, known: Positions | None
) -> Place:
    """Where a stream begins in a stream queue: where its cursor says, or where it asks for.
    Raises ``Refusal``."""
    search = Search(stream, name)
    digest = digest_of(stream.vhost, stream.label(name))
    if known is not None:
        if digest in known:
            return await search.resume(known[digest])
        if not known or ELSEWHERE in known or has_journal(stream, name, known):
            place = await search.begin(begin)
            return place._replace(lost=None)
    return await search.begin(begin)


def has_journal(stream: EventStream, name: SourceName, known: Positions) -> bool:
    """Whether a cursor has a position in a journal of this source, which was no stream queue."""
    digest = stream.hub.cursors.digest(stream.vhost, str(name))
    return any(key[:DIGEST_OCTETS] == digest for key in known)


class Search:
    """For one place."""

    def __init__(self, stream: EventStream, name: SourceName) -> None:
        self.stream = stream
        self.name = name

    async def resume(self, following: int) -> Place:
        """Behind the message before this offset, which the reader has got."""
        first = await self.first_from(max(following - 1, 0))
        if first is None and not following:
            return Place(0, known=True)
        if first is None:
            oldest = await self.first_from("first")
            return Place(oldest or 0, lost=None)
        if first <= following:
            return Place(following, known=True)
        return Place(first, lost=first - following)

    async def begin(self, begin: Start) -> Place:
        """Where a stream without a cursor begins."""
        state = self.stream.hub.broker.state
        first: int | None = None
        if begin.kind == "earliest":
            return Place(await self.first_from("first") or 0)
        if begin.kind == "offset":
            first = await self.first_from(begin.value)
            if first is not None:
                return Place(first, lost=first - begin.value)
        elif begin.kind in ("time", "ago"):
            moment = begin.value if begin.kind == "time" else state.now - begin.value
            first = await self.first_from(Timestamp(max(moment, 0)))
        if first is None:
            newest = await self.look(NEWEST)
            first = 0 if newest is None else newest.newest + 1
        return Place(first)

    async def first_from(self, offset: Any) -> int | None:
        found = await self.look(offset)
        return None if found is None else found.oldest

    async def look(self, offset: Any) -> "Look | None":
        """The messages that the stream has at once from there on: the first, and for ``NEWEST`` all
        of them; ``None`` if it has none."""
        stream, name = self.stream, self.name
        hub = stream.hub
        settings = hub.settings
        with hub.turn():
            title = f"HTTP events {name}: place"
            client = LocalClient(hub.broker, stream.vhost, stream.user, title)
            look = Look(to_the_end=offset == NEWEST)
            look.channel = channel = client.channel(look)
            channel.prefetch(settings.queue_prefetch if look.to_the_end else 1, 0)
        arguments = {OFFSET: offset}

        def subscribe() -> None:
            channel.prepare(name.name, arguments)
            channel.start(channel.subscribe(name.name, permitted=True, arguments=arguments))

        try:
            await until_answered(hub.turn, subscribe, lambda: channel)
            await look.over(settings.queue_prefetch)
        finally:
            with hub.turn():
                client.close()
        return look if look.count else None


class Look:
    """The subscriber of a channel that looks at messages and keeps none."""

    def __init__(self, to_the_end: bool) -> None:
        self.to_the_end = to_the_end
        self.channel: LocalChannel | None = None
        self.count = 0
        self.oldest = self.newest = 0
        self.come = asyncio.Event()

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        offset = offset_of(message) or 0
        self.oldest = self.oldest if self.count else offset
        self.newest = offset
        self.count += 1
        self.come.set()
        if self.to_the_end and self.channel is not None:
            self.channel.settle(delivery, Outcome.ACCEPT)

    def cancelled(self, tag: str) -> None:
        """The queue is gone: nothing comes."""

    async def over(self, at_once: int) -> None:
        """Wait for the first message; for more, if there may be more than came ``at_once``."""
        seen = 0
        while not seen or (self.to_the_end and at_once <= seen < MOST_LOOKED):
            self.come.clear()
            if self.count == seen:
                try:
                    await asyncio.wait_for(self.come.wait(), GRACE_SECONDS)
                except TimeoutError:
                    return
            seen = self.count
