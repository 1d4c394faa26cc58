"""One event stream: an ASGI response that writes as many events in one send as there are.

The stream holds a position per source and reads the journals, so a slow reader costs no memory;
the policy for a slow reader is ``Slow``.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from gateway.http.access.catalogue import Filled
from gateway.http.access.principal import Action, Principal
from gateway.http.access.protocol import Pipe, pipe_of
from gateway.http.events.control_events import (
    CloseEvent,
    CursorEvent,
    DrainEvent,
    GapEvent,
    KeepaliveEvent,
    LagEvent,
    OpenEvent,
    ReauthEvent,
    WarnEvent,
)
from gateway.http.events.cursor import END
from gateway.http.events.hub import Hub
from gateway.http.events.journal import Journal
from gateway.http.events.past import Backlog
from gateway.http.events.rendering import STREAM_HEADERS, control, jittered
from gateway.http.events.sources import Place, Source, SourceName
from gateway.http.events.views import PLAIN, View, ViewSpec
from gateway.http.message_json import BodyForm
from gateway.http.octets import Chunks, Octets, concatenated, pieces, trimmed
from gateway.http.prepared_bodies import acquire, release
from gateway.http.problems import Problem
from gateway.http.typed import moment
from gateway.message import Message
from gateway.selector.like import EFFORT

CHUNK_OCTETS = 256 * 1024
LOOK_STEPS = 2_000_000
"""Steps of a selector after which ``latest`` looks no further in one turn: about 5 ms."""
HEARTBEAT = b": hb\n"
"""A comment, and no end of a block, of which some clients make an empty message."""
REAUTH_SHARE = 0.8
"""Share of the life of a credential after which the client is asked to renew it."""


class Resume(IntEnum):
    """How a stream (or one source of it) starts; for a stream, the worst of its sources."""

    exact = 0
    fresh = 1
    gap = 2


class Slow(Enum):
    """Treatment of a reader that falls behind. ``PAUSE``: the queue waits for it. ``SKIP``: it
    loses the oldest and is told how many. ``LATEST``: of several events with one routing key it
    gets the newest. ``CLOSE``: the stream ends and the client comes back."""

    PAUSE = "pause"
    SKIP = "skip"
    LATEST = "latest"
    CLOSE = "close"


class Options(NamedTuple):
    """How a stream behaves. ``credit`` is 0 unless events of queues are accepted only when so many
    more have been written (``ack=on-next``)."""

    heartbeat: int = 15
    spec: ViewSpec = PLAIN
    slow: Slow | None = None
    credit: int = 0
    keepalive: bool = False
    ack: str = "none"


@dataclass(slots=True, eq=False)
class Reading:
    """One source as one stream reads it. ``shown`` is its name for the reader; ``told``: the
    position in the last cursor sent."""

    source: Source
    shown: str
    position: int
    told: int
    view: View | None
    slow: Slow
    dropped: int = 0
    backlog: Backlog | None = None
    """Its way through the events behind the ring of the source."""

    @property
    def lacks(self) -> bool:
        """Whether its next event must be read from the journal first."""
        return self.backlog is not None and self.backlog.lacks(self.position)

    def feed(self) -> tuple[Journal, View | Journal, list[int]]:
        """Where its next events are, their renderer, and which of them are large."""
        backlog = self.backlog
        if backlog is not None and backlog.covers(self.position) and backlog.part is not None:
            return backlog.part, backlog.view or backlog.part, backlog.heavy
        journal = self.source.journal
        return journal, self.view or journal, self.source.heavy


@dataclass(eq=False, repr=False)
class EventStream:
    """Reader of one or more sources, and the response that writes them."""

    hub: Hub
    caller: Principal
    vhost: str
    options: Options
    browser: tuple[str, ...] = ()
    resume: Resume = Resume.fresh
    aliases: dict[SourceName, Filled] = field(default_factory=dict)
    """The sources that it reads by declared routes."""
    places: dict[SourceName, Place] = field(default_factory=dict)
    """Where it begins in the stream queues that it reads."""
    sources: list[Source] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    recalled: dict[Source, int] = field(default_factory=dict)
    """Positions at which it begins in durable sources because of the time that it asks for."""
    direct: bool = False
    """One source of which everything is shown: the way of most streams."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pending: list[Octets] = field(default_factory=list)
    finished: bool = False
    """Write the pending events, then end."""
    gone: bool = False
    """The peer has hung up."""
    hung: bool = False
    reminded: bool = False
    wrote_at: float = 0.0
    writing_since: float | None = None
    waiter: asyncio.Future[None] | None = None
    pipe: Pipe | None = None
    """Past the layers to the transport, once the response has begun."""
    task: asyncio.Task[Any] | None = None
    now: Callable[[], float] = time.monotonic
    """The clock of the loop: to ask which loop runs is a call of the system (``getpid``)."""

    def __post_init__(self) -> None:
        self.user = self.caller.user
        self.identity = uuid4().hex
        self.opened = self.since = self.hub.clock()
        """When the stream, and when its credential, began; seconds since 1970."""

    def announce(self, resume: Resume, cursor: bytes | None = None, **told: Any) -> None:
        """The fields of the answer, and ``gateway.open`` with the reconnect time."""
        self.resume = resume
        fields = {**STREAM_HEADERS, "amqp-stream-id": self.identity, "amqp-resume": resume.name}
        self.headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        if self.caller.expires is not None:
            told["expires_at"] = moment(int(self.caller.expires * 1000))
        opened = OpenEvent(
            stream=self.identity, resume=resume.name, heartbeat=self.options.heartbeat, **told
        )
        wait = jittered(self.hub.settings.reconnect_ms)
        self.pending = [control(opened, cursor, wait)]

    def read(self, source: Source, position: int) -> Reading:
        """Begin to read a source that has been joined."""
        slow = self.options.slow
        if slow is None:
            slow = Slow.PAUSE if source.name.kind == "queue" else Slow.SKIP
        alias = self.aliases.get(source.name)
        spec = self.options.spec
        view = source.view(spec if alias is None else spec._replace(alias=alias.shown))
        reading = Reading(source, self.label(source.name), position, position, view, slow)
        if source.history is not None:
            reading.backlog = Backlog(source.history, view, source.rendered)
        self.readings.append(reading)
        if slow is Slow.PAUSE and source.name.kind == "queue":
            source.holding[self] = position
        self.update_direct()
        return reading

    def update_direct(self) -> None:
        readings = self.readings
        self.direct = (
            len(readings) == 1
            and readings[0].slow is not Slow.LATEST
            and (readings[0].view is None or not readings[0].view.spec.filter)
        )

    # --- called by the hub ----------------------------------------------------------------------

    def need(self, vhost: str, name: SourceName) -> None:
        broker, alias = self.hub.broker, self.aliases.get(name)
        if alias is None:
            self.caller.need(broker, Action.STREAM, vhost, name.kind, name.name)
        else:
            route = alias.route.name
            self.caller.need(broker, Action.STREAM, vhost, "route", route, name.name)
        if name.kind == "exchange":
            self.caller.need_topic(broker, "read", vhost, name.name, name.key or "")

    def label(self, name: SourceName) -> str:
        """The name of a source for the reader."""
        alias = self.aliases.get(name)
        return str(name) if alias is None else alias.shown

    def wake(self) -> None:
        waiter = self.waiter
        if waiter is not None and not waiter.done() and not self.write_directly():
            waiter.set_result(None)

    def write_directly(self) -> bool:
        """Write due events without the stream's own task, which waits. Returns whether none are
        left for it. Hot: waking a thousand tasks costs as much as writing to a thousand sockets."""
        pipe = self.pipe
        if pipe is None or not self.direct or self.pending or self.finished or self.gone:
            return False
        reading = self.readings[0]
        source = reading.source
        journal = source.journal
        after = reading.position
        if source.unsettled or after + 1 < journal.first or not pipe.ready:
            return False
        if source.heavy and source.heavy_after(after):
            return False
        try:
            feed = reading.view or journal
            chunk, reading.position = feed.read(after, CHUNK_OCTETS)
        except Exception:
            return False  # it happens again in the stream's task, and ends nothing but that
        if isinstance(chunk, Chunks):
            self.pending.append(chunk)
            return False
        if chunk:
            pipe.write(chunk)
            source.handing(reading.position)
            self.wrote_at = self.now()
        return reading.position == journal.head

    def source_lost(self, source: Source, text: str) -> None:
        if source in self.sources:
            self.sources.remove(source)
        for reading in self.readings:
            if reading.source is source:
                source.release(reading.view)
        self.readings = [one for one in self.readings if one.source is not source]
        self.update_direct()
        label = self.label(source.name)
        if self.readings:
            warned = WarnEvent(type="source-lost", source=label, reason=text)
            self.pending.append(control(warned))
            self.wake()
        else:
            self.end(CloseEvent(reason=text, source=label, reconnect=False))

    def close(self, reason: str, reconnect: bool = True, retry_ms: int | None = None) -> None:
        if retry_ms is None:
            self.end(CloseEvent(reason=reason, reconnect=reconnect))
            return
        self.pending.append(control(DrainEvent(retry=retry_ms), retry_ms=retry_ms))
        self.end(CloseEvent(reason=reason, reconnect=reconnect, retry=retry_ms))

    def end(self, last: CloseEvent) -> None:
        """A browser always reconnects; with the cursor of the end it gets 204."""
        if self.finished:
            return
        self.pending.append(control(last, None if last.reconnect else END.encode()))
        self.finished = True
        self.wake()

    def part(self) -> None:
        for reading in self.readings:
            reading.source.release(reading.view)
        self.readings = []

    def names(self) -> list[SourceName]:
        """The current sources."""
        return [source.name for source in self.sources]

    def renew(self, caller: Principal) -> None:
        """Go on with another credential of the same user. Raises ``Problem`` if it may not read
        all that is being read."""
        before, self.caller = self.caller, caller
        try:
            for name in self.names():
                self.need(self.vhost, name)
        except Problem:
            self.caller = before
            raise
        self.since = self.hub.clock()
        self.reminded = False

    def tick(self, now: float, wall: float) -> None:
        if self.writing_since is not None:
            if now - self.writing_since >= self.hub.settings.stall_seconds and self.task:
                self.hung = True
                self.task.cancel()
            return
        if self.finished:
            return
        self.check_credential(wall)
        if not self.direct:
            self.report_progress()
        if now - self.wrote_at >= self.options.heartbeat and not self.pending:
            beat = HEARTBEAT
            if self.options.keepalive:
                time = moment(int(wall * 1000))
                beat = control(KeepaliveEvent(time=time, cursor=self.cursor().decode()))
            self.pending.append(beat)
            self.wake()

    def check_credential(self, wall: float) -> None:
        expires = self.caller.expires
        if expires is not None and wall >= expires:
            self.close("the credential has expired")
        elif (
            expires is not None
            and not self.reminded
            and wall >= self.since + REAUTH_SHARE * (expires - self.since)
        ):
            self.reminded = True
            moment_of_end = moment(int(expires * 1000))
            self.pending.append(control(ReauthEvent(expires_at=moment_of_end, refresh=self.path)))
            self.wake()
        elif wall - self.opened >= self.hub.settings.stream_seconds > 0:
            self.close("the stream has lived long enough", True, self.hub.settings.reconnect_ms)

    @property
    def path(self) -> str:
        return f"/v1/{quote(self.vhost, safe='')}/streams/{self.identity}"

    def report_progress(self) -> None:
        """A cursor behind events that a filter left out, and the number that ``latest`` left
        out."""
        for reading in self.readings:
            if reading.dropped:
                lag = LagEvent(
                    source=reading.shown,
                    behind=reading.source.journal.head - reading.position,
                    dropped=reading.dropped,
                )
                self.hub.dropped += reading.dropped
                reading.dropped = 0
                self.pending.append(control(lag))
                self.wake()
        if any([one.position != one.told for one in self.readings]):
            cursor = self.cursor()
            self.pending.append(control(CursorEvent(cursor=cursor.decode()), cursor))
            self.wake()

    # --- output ---------------------------------------------------------------------------------

    def cursor(self) -> bytes:
        """Empty for a stream without sources."""
        if not self.readings:
            return b""
        for reading in self.readings:
            reading.told = reading.position
        return self.hub.cursors.seal(
            [(one.source.key, one.source.place(one.position)) for one in self.readings]
        )

    def take(self) -> Octets:
        """Everything that is due, up to about ``CHUNK_OCTETS``; positions move on."""
        if self.direct and not self.pending:
            reading = self.readings[0]
            after, journal = reading.position, reading.source.journal
            if after == journal.head:
                return b""
            if after + 1 >= journal.first:
                feed = reading.view or journal
                chunk, reading.position = feed.read(after, CHUNK_OCTETS)
                return chunk
        pending, self.pending = self.pending, []
        for reading in self.readings:
            if self.skip_gap(reading, pending) and not reading.lacks:
                self.take_from(reading, pending)
        pending += self.pending
        self.pending = []
        return concatenated(*pending)

    def skip_gap(self, reading: Reading, pending: list[Octets], close: bool = True) -> bool:
        """Report events that cannot be had any more, or end the stream if that is its policy.
        Returns whether to read on."""
        if self.finished:
            return False
        gap = reading.source.gap(reading.position)
        if gap is None:
            return True
        if close and reading.slow is Slow.CLOSE:
            self.end(CloseEvent(reason="slow", source=reading.shown, reconnect=True))
            return False
        self.hub.gaps += 1
        reading.position = min(gap.end, reading.source.journal.first - 1)
        known, offset = gap.lost is not None, reading.source.offset
        missed = GapEvent(
            source=reading.shown,
            first=offset(gap.start) if known else None,
            to=offset(gap.end) if known else None,
            lost=gap.lost,
        )
        pending.append(control(missed, self.cursor()))
        return True

    def take_from(self, reading: Reading, pending: list[Octets]) -> None:
        source = reading.source
        journal, feed, _ = reading.feed()
        budget = CHUNK_OCTETS // len(self.readings)
        position = max(reading.position, journal.first - 1)
        superseded, reached = self.superseded(reading, journal, position)
        frames: Iterator[Octets] = iter(())
        if reading.slow is not Slow.LATEST:
            frames = iter(feed.frames(position, budget)[0])
        several = len(self.readings) > 1
        octets = 0
        while position < reached and octets < budget:
            if position + 1 in superseded:
                frame: Octets | None = b""
                reading.dropped += 1
            elif reading.slow is Slow.LATEST:
                frame = feed.frame(position + 1)
            else:
                frame = next(frames, None)
            if frame is None:
                break
            position += 1
            if not frame:
                continue
            reading.told = position
            reading.position = position
            if several:
                # Each event's id holds the positions of all sources.
                line = b"id: " + self.cursor() + b"\n"
                frame = concatenated(line, trimmed(frame, source.id_octets))
            octets += len(frame)
            pending.append(frame)
        reading.position = position

    def superseded(self, reading: Reading, journal: Journal, after: int) -> tuple[set[int], int]:
        """Positions that are followed by another event of the same routing key, where only the
        latest is wanted; and how far was looked: no further than ``LOOK_STEPS`` of a selector."""
        found: set[int] = set()
        view = reading.feed()[1]
        if reading.slow is not Slow.LATEST:
            return found, journal.head
        newest: dict[str, int] = {}
        end = EFFORT.steps + LOOK_STEPS
        position = after
        while position < journal.head and EFFORT.steps < end:
            position += 1
            event = journal.event(position)
            if event is None or not (isinstance(view, Journal) or view.shows(position)):
                continue
            key = event.message.key
            if key in newest:
                found.add(newest[key])
            newest[key] = position
        return found, position

    # --- the response ---------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.task = asyncio.current_task()
        self.now = asyncio.get_running_loop().time
        watcher = asyncio.create_task(self.watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})
            self.pipe = pipe_of(scope)
            await self.write_all(send)
        except asyncio.CancelledError:
            if not self.hung or self.task is None:
                raise
            self.task.uncancel()
        finally:
            watcher.cancel()
            self.hub.leave(self)
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def watch(self, receive: Receive) -> None:
        """Only ``receive`` tells that the peer has hung up."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.wake()

    async def write_all(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        while not self.gone:
            for reading in list(self.readings):
                if reading.backlog is not None and reading.lacks and not self.finished:
                    await reading.backlog.load(reading.position)
            # Nothing follows a goodbye: not even an event that would move the cursor past it.
            heavy = await self.prepare() if self.has_heavy else ()
            try:
                chunk = b"" if self.finished and not self.pending else self.take()
            finally:
                release(heavy)
            if chunk:
                self.writing_since = loop.time()
                await self.write(send, chunk)
                self.writing_since = None
                self.wrote_at = loop.time()
                if len(chunk) >= CHUNK_OCTETS or self.more():
                    await asyncio.sleep(0)  # the next chunk is rendered in another round
            elif self.finished:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif not self.more():
                self.waiter = loop.create_future()
                await self.waiter
                self.waiter = None
            else:
                await asyncio.sleep(0)  # nothing was shown, yet looking took its time

    @property
    def has_heavy(self) -> bool:
        """Whether there may be large bodies that are not ready."""
        return any([one.feed()[2] for one in self.readings])

    async def prepare(self) -> list[BodyForm | None]:
        """Wait until the next large body of each source is ready to be rendered."""
        keys: list[BodyForm | None] = []
        try:
            for reading in list(self.readings):
                message = self.next_unready(reading)
                if message is not None:
                    spec = PLAIN if reading.view is None else reading.view.spec
                    keys.append(await acquire(message, spec.format, spec.opaque))
        except BaseException:
            release(keys)
            raise
        return keys

    def next_unready(self, reading: Reading) -> Message | None:
        """The next large message of a source that is not rendered and will be."""
        journal, feed, heavy = reading.feed()
        after = max(reading.position, journal.first - 1)
        waiting = [one for one in heavy if one > after]
        superseded, reached = self.superseded(reading, journal, after) if waiting else (set(), 0)
        for position in waiting:
            if position > reached:
                break
            event = journal.event(position)
            if event is not None and position not in superseded and not feed.has(position):
                return event.message
        return None

    def more(self) -> bool:
        """Holes give an empty chunk, yet there may be events behind them."""
        if self.pending:
            return True
        return any([one.position != one.source.journal.head for one in self.readings])

    async def write(self, send: Send, chunk: Octets) -> None:
        for reading in self.readings:
            reading.source.handing(reading.position)
        async for piece in pieces(chunk):
            self.writing_since = self.now()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not any([source.unsettled for source in self.sources]):
            return
        # An empty body waits until the transport has room again, so the chunk has left; one more
        # round lets the watcher learn of a hang-up, after which a send writes nothing.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await asyncio.sleep(0)
        if not self.gone:
            for reading in self.readings:
                source = reading.source
                source.written(self, reading.position - source.behind(self.options.credit))
