"""Sources of events: one shared broker subscription each, journaled, read by many streams.

An exchange source is an exclusive server-named queue bound with the key; it goes on recording for
a while after its last reader left. A queue source is a consumer on the queue; it stops when it has
no readers, and a message is accepted only after it was written to at least one reader's socket.
Messages on their way when the last reader vanished may have arrived or not: they are kept,
unsettled, until a cursor shows that they arrived, or until the linger time is over and they go
back to the queue.
"""

from collections import deque
from typing import NamedTuple, Protocol

from gateway.broker.broker import Broker
from gateway.broker.exchanges import Exchange
from gateway.broker.local import LocalChannel, LocalClient
from gateway.config.web import HttpSettings
from gateway.errors import Refusal
from gateway.http.access.catalogue import Filled
from gateway.http.access.principal import Principal
from gateway.http.events.cursor import Cursors
from gateway.http.events.journal import Event, Gap, Journal
from gateway.http.events.past import History, Past
from gateway.http.events.rendering import Renderer, data_head, data_line
from gateway.http.events.views import View, ViewSpec
from gateway.http.octets import Octets, concatenated
from gateway.http.prepared_bodies import HEAVY
from gateway.message import Message, Table
from gateway.operations import Outcome

AT_ONCE = 16 * 1024
"""Octets of a body up to which an event is rendered as it comes: a turn may bring many."""


class SourceName(NamedTuple):
    """The value of ``source=``. ``key`` is ``None`` for a queue. A ``durable`` journal of an
    exchange is another source than one in memory. ``reader`` is the id of the stream that has this
    source for itself, "" for a source that streams share."""

    kind: str
    name: str
    key: str | None = None
    durable: bool = False
    reader: str = ""

    def __str__(self) -> str:
        shown = f"{self.kind}:{self.name}"
        return shown if self.key is None else f"{shown}?binding={self.key}"


class Place(NamedTuple):
    """Where a stream begins in a stream queue: the ``offset`` of the next event. ``known``: it has
    a cursor, and nothing is missing. ``lost``: how many messages before are missing, ``None`` if
    that is unknown."""

    offset: int
    known: bool = False
    lost: int | None = 0


class Stream(Protocol):
    """A stream, as the hub and its sources know it."""

    user: str
    caller: Principal
    identity: str
    browser: tuple[str, ...]
    sources: "list[Source]"
    aliases: dict[SourceName, Filled]
    places: "dict[SourceName, Place]"

    def label(self, name: SourceName) -> str:
        """The name of a source for the reader."""
        ...

    def need(self, vhost: str, name: SourceName) -> None:
        """Raises ``Problem`` unless this may be read."""
        ...

    def wake(self) -> None:
        """There is something new."""
        ...

    def source_lost(self, source: "Source", text: str) -> None:
        """The broker ended the subscription."""
        ...

    def tick(self, now: float, wall: float) -> None:
        """Send a heartbeat if it is due; give up on a socket that takes nothing."""
        ...

    def close(self, reason: str, reconnect: bool = True, retry_ms: int | None = None) -> None:
        """Say goodbye and end."""
        ...

    def part(self) -> None:
        """Release views shared with other streams."""
        ...


class SourceOwner(Protocol):
    """The part of the hub that its sources use."""

    broker: Broker
    settings: HttpSettings
    cursors: Cursors
    epoch: bytes
    past: Past | None

    def appended(self, source: "Source") -> None:
        """The journal of a source has a new event."""
        ...

    def settle_later(self, source: "Source", position: int) -> None:
        """Accept up to a position in the next turn."""
        ...

    def lost(self, source: "Source", text: str) -> None:
        """The broker ended the subscription of a source."""
        ...


class Source:
    """One journal and the subscription that feeds it. The subscriber of its channel."""

    def __init__(self, hub: SourceOwner, vhost: str, name: SourceName, start: int) -> None:
        settings = hub.settings
        self.hub = hub
        self.vhost = vhost
        self.name = name
        self.digest = hub.cursors.digest(vhost, f"{name}\0durable" if name.durable else str(name))
        self.epoch = hub.epoch
        self.key = self.digest + self.epoch
        """Identity of this journal in cursors."""
        self.journal = Journal(settings.journal_events, settings.journal_octets, start)
        self.history: History | None = None
        """The events behind the ring of a durable source."""
        self.views: dict[ViewSpec, View] = {}
        self.viewed = 0
        """How many readers read by views."""
        self.readers: set[Stream] = set()
        self.heavy: list[int] = []
        """Positions of large messages that may not be rendered yet."""
        self.client: LocalClient | None = None
        self.channel: LocalChannel | None = None
        self.exchange: Exchange | None = None
        self.idle_since: float | None = None
        self.ahead = (-1, b"")
        """The next position, and its ``id:`` line if that has been made."""
        self.head = data_head(str(name))
        self.journal.render = self.rendered
        self.id_octets = len(self.id_line(0))
        self.renderer = self.make_renderer()
        self.tag: str | None = None
        """Our consumer on a queue; ``None`` while there are no readers."""
        self.handed = start - 1
        """Newest position that was given to any reader's socket, arrived or not."""
        self.unsettled: deque[tuple[int, int]] = deque()
        """Positions and delivery numbers of messages that are not accepted yet (queue sources)."""
        self.arguments: Table = {}
        """Of the subscription to a queue."""
        self.holding: dict[Stream, int] = {}
        """Readers that hold acceptance back, and the position up to which each has its events."""
        self.wrote = start - 1
        """Newest position that has left for some reader."""
        if name.kind == "queue":
            self.journal.pin = start - 1

    def id_line(self, position: int) -> bytes:
        """For streams of this source alone; always of the same length."""
        at, line = self.ahead
        return line if at == position else self.sealed_line(position)

    def sealed_line(self, position: int) -> bytes:
        return b"id: %b\n" % self.hub.cursors.seal_one(self.key, position)

    def look_ahead(self) -> None:
        """Make the next ``id:`` line now, so that the next lone event need not wait for it."""
        following = self.journal.head + 1
        self.ahead = (following, self.sealed_line(following))

    def place(self, position: int) -> int:
        """A position of the journal as cursors have it."""
        return position

    def offset(self, position: int) -> int:
        """The position of an event as readers see it."""
        return position

    def make_renderer(self) -> Renderer:
        name = self.name
        return Renderer(self.vhost, name.kind, name.name, str(name), self.head, self.epoch)

    def renderer_of(self, alias: str) -> Renderer:
        """For readers by a declared route, who know the route only."""
        name = alias.removeprefix("route:").partition("?")[0]
        return Renderer(self.vhost, "route", name, alias, data_head(alias), self.epoch)

    def view(self, spec: ViewSpec) -> View | None:
        """For one more reader; ``None`` if it reads the frames of the journal itself."""
        if spec.plain:
            return None
        view = self.views.get(spec)
        if view is None:
            shown = spec.alias or str(self.name)
            renderer = self.renderer_of(spec.alias) if spec.alias else self.renderer
            view = self.views[spec] = View(
                self.journal, spec, shown, renderer, self.id_line, self.offset
            )
        view.readers += 1
        self.viewed += 1
        return view

    def release(self, view: View | None) -> None:
        """One reader less."""
        if view is not None:
            view.readers -= 1
            self.viewed -= 1
            if not view.readers:
                self.views.pop(view.spec, None)

    @property
    def reach(self) -> int:
        """The oldest position that can be read."""
        return self.journal.first if self.history is None else self.history.reach

    def gap(self, after: int) -> Gap | None:
        """Events that a reader at the position ``after`` has missed and cannot get."""
        return self.journal.gap(after) if self.history is None else self.history.gap(after)

    # --- the subscription -----------------------------------------------------------------------

    def open(self, user: str, returning: bool) -> None:
        """Subscribe in the name of this user. The hub has checked the rights of the reader; the
        queue that is bound to an exchange is the gateway's own. Within a turn. Raises ``Refusal``.
        ``returning``: the reader has a cursor, which accepts the unsettled messages before it."""
        if self.channel is not None:
            if self.name.key is None and self.tag is None:
                if not returning:
                    self.give_back(self.channel, 0)
                self.consume_queue(self.channel)
            return
        name, internal = f"HTTP events {self.name}", self.name.durable
        self.client = LocalClient(self.hub.broker, self.vhost, user, name, internal=internal)
        try:
            # Deliveries may come before it returns.
            channel = self.channel = self.client.channel(self)
            if self.name.key is None:
                self.consume_queue(channel)
            else:
                self.consume_exchange(channel, self.name.key)
        except Refusal:
            self.detach()
            raise

    def consume_queue(self, channel: LocalChannel) -> None:
        settings = self.hub.settings
        # The journal has the message and its frame, together up to 7/3: pinned events fit.
        channel.prefetch(settings.queue_prefetch, settings.journal_octets // 3)
        arguments = self.arguments
        self.tag = channel.subscribe(self.name.name, permitted=True, arguments=arguments)
        channel.start(self.tag)

    def consume_exchange(self, channel: LocalChannel, key: str) -> None:
        queue, self.exchange = channel.bind_private_queue(self.name.name, key)
        channel.start(channel.subscribe(queue, no_ack=True, exclusive=True, permitted=True))

    def pause(self) -> None:
        """Stop consuming a queue. Messages that no socket was given go back at once; the rest is
        kept for a reader that returns with a cursor. Within a turn."""
        channel, tag, unsettled = self.channel, self.tag, self.unsettled
        if channel is None or tag is None:
            return
        self.tag = None
        channel.unsubscribe(tag)
        self.give_back(channel, self.handed)
        if not unsettled:
            self.detach()
            self.journal.pin = self.journal.head

    def give_back(self, channel: LocalChannel, after: int) -> None:
        """Requeue the unsettled messages behind a position."""
        unsettled = self.unsettled
        last = self.journal.head
        while unsettled and unsettled[-1][0] > after:
            last, delivery = unsettled.pop()
            channel.settle(delivery, Outcome.RELEASE)
            last -= 1
        self.journal.void(last)
        for view in self.views.values():
            view.forget(last)

    def dead(self) -> str:
        """The reason why no event will come any more, of which no channel was told; else ""."""
        if self.client is not None and self.client.closed:
            return "the virtual host was deleted"
        if self.exchange is not None and self.exchange.gone:
            return "it was deleted"
        return ""

    def destroy(self) -> None:
        """The end of the source and its journal. Within a turn."""
        self.detach()

    def detach(self) -> None:
        client, self.client, self.channel, self.tag = self.client, None, None, None
        if client is not None:
            client.close()

    def idle_seconds(self) -> float:
        """Time without readers before the gateway started."""
        return 0.0

    # --- readers --------------------------------------------------------------------------------

    def join(self, reader: Stream) -> None:
        self.readers.add(reader)
        self.idle_since = None

    def leave(self, reader: Stream, now: float) -> None:
        """``now`` is monotonic seconds. Within a turn."""
        self.readers.discard(reader)
        if self.holding.pop(reader, None) is not None:
            self.settle(min(self.holding.values(), default=self.wrote))
        if not self.readers:
            self.idle_since = now
            if self.name.kind == "queue":
                self.pause()

    def handing(self, position: int) -> None:
        """Everything up to here is about to be given to a socket."""
        if position > self.handed:
            self.handed = position

    def written(self, reader: Stream, position: int) -> None:
        """Everything up to here has left for a reader, or has arrived at one. It is accepted when
        all readers in ``holding`` have it, or when there are none."""
        holding = self.holding
        self.wrote = max(self.wrote, position)
        if reader in holding:
            holding[reader] = max(position, holding[reader])
            position = min(holding.values())
        elif holding:
            return
        self.accept(position)

    def behind(self, credit: int) -> int:
        """How many events acceptance stays behind writing: fewer if the unaccepted
        messages would fill the prefetch limit, so that no more would come."""
        channel = self.channel
        full = (
            channel is not None and channel.unsettled_octets * 6 >= self.hub.settings.journal_octets
        )
        return 0 if full else credit

    def accept(self, position: int) -> None:
        if self.unsettled and self.unsettled[0][0] <= position:
            self.hub.settle_later(self, position)

    def settle(self, position: int) -> None:
        """Accept up to a position. Within a turn."""
        last = 0
        unsettled = self.unsettled
        while unsettled and unsettled[0][0] <= position:
            last = unsettled.popleft()[1]
        if last and self.channel is not None:
            self.journal.pin = max(position, self.journal.pin or 0)
            self.channel.settle_up_to(last, Outcome.ACCEPT)

    # --- subscriber -----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        journal = self.journal
        octets, viewed = len(message.body), self.viewed
        size = octets + len(message.header)
        event = Event(message, redelivered, self.hub.broker.state.now, size)
        # Rendered now, its octets are counted; where all read by a view, it may never be asked for.
        plain = (viewed < len(self.readers) or not viewed) and octets <= AT_ONCE
        frame = self.rendered(journal.head + 1, event) if plain else None
        position = journal.append(frame, event)
        if octets > HEAVY:
            self.mark_heavy(position)
        if self.name.key is None:
            self.unsettled.append((position, delivery))
        self.hub.appended(self)

    def mark_heavy(self, position: int) -> None:
        """Its body is prepared by a reader before it is rendered."""
        self.heavy = [one for one in self.heavy if one >= self.journal.first]
        self.heavy.append(position)

    def heavy_after(self, after: int) -> list[int]:
        """Positions of large messages behind this one."""
        return [one for one in self.heavy if one > after]

    def rendered(self, position: int, event: Event) -> Octets:
        data = data_line(self.head, event.message, event.redelivered)
        return concatenated(self.id_line(position), data)

    def cancelled(self, tag: str) -> None:
        self.hub.lost(self, "it was deleted")
