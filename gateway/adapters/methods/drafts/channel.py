"""One channel of a draft: its state, its consumers and tickets, the content under way."""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.output import CROWD, HEAVY, JOINED
from gateway.adapters.methods import states
from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.contents.methods import Content, OutgoingMethod
from gateway.adapters.methods.contents.pacing import Pace
from gateway.adapters.methods.contents.staging import Staging
from gateway.adapters.methods.drafts.frames import DraftFrames, varying
from gateway.adapters.methods.incoming_content import ContentEngine, IncomingContent
from gateway.adapters.methods.lifecycle import step
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.pending import Awaited
from gateway.bodies import Body, Spool
from gateway.errors import Condition, LocalError, Lost, PeerError
from gateway.message import Message
from gateway.operations import Credit, DeclareQueue, Operation, Unsent, Xid
from gateway.partial_bodies import PartialBodyStore

MOST_TICKETS = 1024
MOST_CONSUMERS = 0xFFFF

METHODS = 1024
"""Encoded methods kept by a channel before it starts anew."""

TAG = Struct(">QB")


class Consumer(NamedTuple):
    """The names of a consumer. ``source`` is the queue or destination that it consumes from, as its
    deliveries name it; ``keyed``: they name the destination of the publish instead (topics).
    ``tag`` is its name here, ``number`` on the wire."""

    group: str
    source: str
    number: int
    tag: str
    keyed: bool = False
    domain: str = ""
    pace: Pace | None = None


class EncodedMethod(NamedTuple):
    """A method as it is written: the octets before the delivery tag, how many octets that and the
    flag behind it take, the octets that follow. ``consumer``: of a delivery."""

    before: bytes
    varying: int
    after: bytes
    dialect: ClassDialect
    consumer: Any = None


class ChannelMapping(Protocol):
    """The side of a ``MethodMapping`` that the output of a channel needs."""

    @property
    def layouts(self) -> Any: ...

    @property
    def delivery_source(self) -> Callable[[Consumer, Message], str]: ...

    @property
    def delivery_method(self) -> Callable[[Consumer, str, int, bool], Any]: ...

    @property
    def publish_method(self) -> Callable[[str, Message, bool, bool], Any]: ...


class ChannelEngine(ContentEngine, Protocol):
    """The engine, as far as a channel needs it."""

    frames: DraftFrames
    writer: MethodWriter
    body_max: int
    dialects: dict[str, ClassDialect]
    """By class of content."""
    vhost: str
    connection: Any
    spool: Spool | None
    """Keeps larger bodies; ``None``: they stay in memory."""
    partials: PartialBodyStore
    """Keeps incomplete files (0-9a6)."""
    is_0_9a0: bool
    channels: dict[int, "Channel"]

    @property
    def mapping(self) -> ChannelMapping: ...

    def send_method(self, channel: int, method: OutgoingMethod) -> None: ...


class Channel:
    """Also its own ``Outlet``.

    As on a channel of 0-9-1, repeated parts of its output are kept encoded, the header goes out as
    it came in, and a small message is one joined piece. A message that is larger, has children, or
    is a file that must be staged goes frame by frame."""

    allow_deliveries: Callable[[bool], None]
    __slots__ = (
        "number", "state", "allow_deliveries", "engine", "awaited", "consumers", "content",
        "tickets", "prefetch", "transacted", "classes", "unsettled", "files",
        "unbound_subscriptions", "paced", "prefetch_max", "branch", "_tags", "_encoded_methods",
        "_buffer", "_pending", "_frames",
    )  # fmt: skip

    def __init__(self, number: int, engine: ChannelEngine) -> None:
        self.number = number
        self.state = states.OPENING
        self.engine = engine
        self.consumers: dict[str, Consumer] = {}
        self._encoded_methods: BoundedCache[Any, EncodedMethod] = BoundedCache(METHODS)
        self._buffer = engine.buffer
        self._pending = engine.buffer.pending
        self._frames = engine.frames
        self.awaited: deque[Awaited] = deque()
        self.content: IncomingContent | None = None
        self.tickets: dict[int, frozenset[str]] = {}
        self.prefetch = (0, 0)
        self.transacted = False
        self.branch: Xid | None = None
        """Started by dtx.start."""
        self.classes: dict[str, str] = {}
        """Exchanges declared here and their types: the arguments that a binding must have depend on
        it."""
        self.unsettled: dict[int, None] = {}
        """Client: deliveries, for rejecting many of them, which is no method here."""
        self.files = Staging(engine.mapping.layouts, engine.max_message_octets, engine.partials)
        self.unbound_subscriptions: dict[str, DeclareQueue] = {}
        """Client: subscriptions declared and not yet bound (0-9a0)."""
        self.prefetch_max = 0
        """Octets that the client will take in advance here (0-9a0); 0 is no limit."""
        self.paced = False
        """Some consumer here has a rate."""
        self._tags = 0

    # --- state -----------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Open, and no content is under way."""
        return self.state is states.OPEN and self.content is None

    def move(self, word: str) -> None:
        """Take a step of the table. Raises ``PeerError`` if it is not allowed now."""
        self.state = step(self, word)

    def opened(self) -> None:
        self.move("channel.open-ok")

    def mark_failed(self) -> None:
        """The peer violated a rule: nothing more is accepted. It is told behind the replies to its
        earlier requests."""
        self.forget_content()
        self.state = states.FAILED

    def mark_closing(self) -> None:
        """Discard everything but the answer to our close."""
        self.forget_content()
        self.move("lose")
        self.consumers.clear()

    def mark_closed(self) -> None:
        """The channel is closed; as an outlet it writes nothing more."""
        for number in self.tickets:
            self.engine.connection.tickets.pop(number, None)
        self.state = states.CLOSED
        self.forget_content()

    def forget_content(self) -> None:
        """Drop the content under way; of a file that is being staged, the beginning is kept."""
        content, self.content = self.content, None
        if content is not None:
            self.engine.announced -= content.held
            content.drop()
        self.files.cut()

    def covered(self, delivery: int, multiple: bool) -> list[int]:
        """Client: the deliveries that are settled by this; they are settled then."""
        tags = [delivery]
        if multiple:
            tags = [tag for tag in self.unsettled if not delivery or tag <= delivery]
        for tag in tags:
            self.unsettled.pop(tag, None)
        return tags

    # --- tickets and consumers -------------------------------------------------------------------

    def grant(self, *rights: str) -> int:
        """A new ticket. It is valid on this channel and for these rights. The broker checks the
        permissions of the user, with or without a ticket."""
        if len(self.tickets) >= MOST_TICKETS:
            raise PeerError(Condition.RESOURCE_ERROR, "too many access tickets")
        number: int = self.engine.connection.new_ticket(self.number)
        self.tickets[number] = frozenset(rights)
        return number

    def ticket(self, number: int, *rights: str) -> None:
        """Refuse a ticket that was not granted here, or for none of these rights. The
        original clients send 0 and never ask for one."""
        if not number:
            return
        granted = self.tickets.get(number)
        if granted is None and self.engine.is_0_9a0 and number in self.engine.connection.tickets:
            text = f"ticket {number} was granted to another channel"
            raise PeerError(Condition.ACCESS_REFUSED, text, Lost.CONNECTION)
        if granted is None or (rights and not granted & frozenset(rights)):
            text = f"ticket {number} is not good for {' or '.join(rights) or 'this'}"
            raise PeerError(Condition.ACCESS_REFUSED, text, Lost.SESSION)

    def next_tag(self) -> int:
        """A number for a new consumer."""
        if len(self.consumers) >= MOST_CONSUMERS:
            raise PeerError(Condition.RESOURCE_ERROR, "too many consumers", Lost.SESSION)
        while True:
            self._tags = self._tags % MOST_CONSUMERS + 1
            if str(self._tags) not in self.consumers:
                return self._tags

    def consume(self, consumer: Consumer) -> None:
        """Server: a consumer is subscribed."""
        self.consumers[consumer.tag] = consumer
        if consumer.pace is not None:
            self.paced = True

    def consumer_at(self, group: str, source: str) -> Consumer | None:
        """Client: the consumer of a delivery. Deliveries name where they come from, not a consumer.
        Hot, where there are few."""
        keyed = some = None
        ours = 0
        for consumer in self.consumers.values():
            if consumer.group != group:
                continue
            if consumer.keyed:
                keyed = keyed or consumer
            elif consumer.source == source:
                return consumer
            some = consumer
            ours += 1
        return keyed or (some if ours == 1 else None)

    # --- contents --------------------------------------------------------------------------------

    def dialect(self, group: str) -> ClassDialect:
        """How contents of a class are written."""
        return self.engine.dialects[group]

    def send(self, record: Any, content: Content | None = None) -> None:
        self.engine.send_method(self.number, OutgoingMethod(record, content))

    def error(self, condition: Condition, text: str) -> PeerError:
        """An error that costs the channel."""
        return PeerError(condition, text, Lost.SESSION)

    # --- rates ------------------------------------------------------------------------------

    def count(self, consumer: Consumer, message: Message) -> None:
        """One more for a consumer that has a rate."""
        assert consumer.pace is not None
        count = consumer.pace.sent(message.size)
        if count:
            self.engine.life.follow([Credit(self.number, None, consumer.tag, count)])

    def replenish(self, seconds: float) -> list[Operation]:
        """Time has passed: consumers with a rate may get more."""
        found: list[Operation] = []
        for tag, consumer in self.consumers.items():
            count = 0 if consumer.pace is None else consumer.pace.replenish(seconds)
            if count:
                found.append(Credit(self.number, None, tag, count))
        return found

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError(f"{self.engine.table.name} has no confirms")

    # --- out -------------------------------------------------------------------------------------

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        self._pending = pending

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Hot."""
        subscriber = self.consumers.get(consumer)
        if self.state is not states.OPEN or subscriber is None:
            return
        if subscriber.pace is not None:
            self.count(subscriber, message)
        mapping = self.engine.mapping
        try:
            source = mapping.delivery_source(subscriber, message)
            start = self._encoded_methods.get((consumer, source))
            if start is None or start.consumer is not subscriber:
                dialect = self.engine.dialects[subscriber.group]
                record = mapping.delivery_method(subscriber, source, 0, False)
                start = self._keep((consumer, source), record, dialect, subscriber)
            header, body, children = start.dialect.outgoing(message)
            octets = TAG.pack(delivery, redelivered)[: start.varying]
            if children or not self._write_joined(start, octets, header, body):
                record = mapping.delivery_method(subscriber, source, delivery, redelivered)
                self._say(record, Content(start.dialect.number, header, body))
        except ValueError:
            # All of it is encoded before any is written.
            self.engine.life.unsent(Unsent(self.number, consumer, delivery, message))

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        """Hot for a client: in the class that the message is of, else as a JMS message."""
        if self.state is not states.OPEN:
            raise LocalError(f"channel {self.number} is {self.state}")
        engine = self.engine
        group = getattr(message.dialect, "group", "jms")
        if engine.dialects.get(group) is not message.dialect:
            group = "jms"
        key = (group, message.exchange, message.key, mandatory, immediate)
        start = self._encoded_methods.get(key)
        if start is None:
            record = engine.mapping.publish_method(group, message, mandatory, immediate)
            start = self._keep(key, record, engine.dialects[group])
        dialect = start.dialect
        try:
            header, body, children = dialect.outgoing(message)
        except ValueError as error:
            raise LocalError(f"the message cannot be written here: {error}") from error
        if dialect.routes:
            known = dialect.headers.get(header) or dialect.known(header)
            if known.destination != message.key:
                header = dialect.sent_to(header, message.key)
        if children or not self._write_joined(start, b"", header, body):
            record = engine.mapping.publish_method(group, message, mandatory, immediate)
            self._say(record, Content(start.dialect.number, header, body))

    def _keep(
        self, key: Any, record: Any, dialect: ClassDialect, consumer: Any = None
    ) -> EncodedMethod:
        """A method as it is written, with nothing before its tag if it is not for the short way."""
        method = self.engine.table.by_record[type(record)]
        start = EncodedMethod(b"", 0, b"", dialect, consumer)
        if method.content and self.number <= self._frames.highest:
            octets = self.engine.writer.encoded(self.number, record)
            at = (
                self._frames.overhead
                - len(self._frames.tail)
                + self.engine.table.geometry.method.size
            )
            width = varying(method)
            start = EncodedMethod(octets[:at], width, octets[at + width :], dialect, consumer)
        return self._encoded_methods.keep(key, start)

    def _write_joined(self, start: EncodedMethod, tag: bytes, header: bytes, body: Body) -> bool:
        """Method and content without children in one piece, if that can be. Hot."""
        size, engine, frames = len(body), self.engine, self._frames
        if size > JOINED or size > engine.body_max or not start.before:
            return False
        octets = len(header) + frames.content_octets + frames.counted
        if octets > frames.widest:
            return False
        pending, number, tail = self._pending, self.number, frames.tail
        if not pending:
            self._buffer.waken()
        elif len(pending) > CROWD:
            self._buffer.crowd()
        if size > HEAVY:
            self._buffer.weigh(size)
        head = frames.pack_content(frames.header, number, octets, start.dialect.number, 0, size)
        if not size:
            pending.append(b"".join((start.before, tag, start.after, head, header, tail)))
            return True
        assert isinstance(body, bytes)
        following = frames.pack_head(frames.body, number, size + frames.counted)
        pending.append(
            b"".join((start.before, tag, start.after, head, header, tail, following, body, tail))
        )
        return True

    def _say(self, record: Any, content: Content) -> None:
        """Frame by frame."""
        if len(self._pending) > CROWD:
            self._buffer.crowd()
        if not self.engine.table.by_record[type(record)].content:
            self.engine.send_method(self.number, self.files.offer(content, record))
        else:
            self.engine.send_method(self.number, OutgoingMethod(record, content))
