"""The hot way out of one channel of a draft: deliveries, and publishes of a client.

As in ``methods/outlet.py`` what repeats is kept encoded, the header goes out as it came in, and a
small message is one joined piece. What is larger, has children, or is a file that must be staged
goes frame by frame.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.methods import states
from gateway.adapters.methods.codes import ReplyCodes
from gateway.adapters.methods.drafts.content import DraftDialect
from gateway.adapters.methods.drafts.frames import DraftFrames, varying
from gateway.adapters.methods.drafts.mapping import Content, MethodMapping, Spoken
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.outlet import CROWD, HEAVY, JOINED
from gateway.bodies import Body
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Unsent

METHODS = 1024
"""Encoded methods kept by a channel before it starts anew."""

TAG = Struct(">QB")


class Owner(Protocol):
    """What is needed of the engine."""

    table: Version
    words: MethodMapping
    frames: DraftFrames
    buffer: OutputBuffer
    writer: MethodWriter
    life: Lifecycle
    codes: ReplyCodes
    body_max: int
    dialects: dict[str, DraftDialect]
    """By class of content."""

    def speak(self, channel: int, spoken: Spoken) -> None: ...


class Start(NamedTuple):
    """A method as it is written: what stands before the delivery tag, how many octets that and the
    flag behind it take, what follows. ``consumer``: whose it is."""

    before: bytes
    varying: int
    after: bytes
    dialect: DraftDialect
    consumer: Any = None


class Writer(ABC):
    """The writing half of a channel."""

    gate: Callable[[bool], None]
    __slots__ = (
        "number",
        "state",
        "gate",
        "owner",
        "consumers",
        "_starts",
        "_pending",
        "_frames",
        "_buffer",
    )

    def __init__(self, number: int, owner: Any) -> None:
        self.number = number
        self.state = states.OPENING
        self.owner: Owner = owner
        self.consumers: dict[str, Any] = {}
        self._starts: BoundedCache[Any, Start] = BoundedCache(METHODS)
        self._buffer = owner.buffer
        self._pending = owner.buffer.pending
        self._frames = owner.frames

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        self._pending = pending

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Hot."""
        whose = self.consumers.get(consumer)
        if self.state is not states.OPEN or whose is None:
            return
        if whose.pace is not None:
            self.count(whose, message)
        words = self.owner.words
        try:
            source = words.source(whose, message)
            start = self._starts.get((consumer, source))
            if start is None or start.consumer is not whose:
                dialect = self.owner.dialects[whose.group]
                record = words.delivery(whose, source, 0, False)
                start = self._keep((consumer, source), record, dialect, whose)
            header, body = message.header, message.body
            if message.notes or message.dialect is not start.dialect:
                header, body = start.dialect.form_of(message)
            octets = TAG.pack(delivery, redelivered)[: start.varying]
            if not self._whole(start, octets, header, body):
                record = words.delivery(whose, source, delivery, redelivered)
                self._say(record, Content(start.dialect.number, header, body))
        except ValueError:
            # All of it is encoded before any is written.
            self.owner.life.unsent(Unsent(self.number, consumer, delivery, message))

    @abstractmethod
    def count(self, consumer: Any, message: Message) -> None:
        """One more for a consumer that has a rate."""

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        """Hot for a client: in the class that the message is of, else as a JMS message."""
        if self.state is not states.OPEN:
            raise LocalError(f"channel {self.number} is {self.state}")
        owner = self.owner
        group = getattr(message.dialect, "group", "jms")
        if owner.dialects.get(group) is not message.dialect:
            group = "jms"
        key = (group, message.exchange, message.key, mandatory, immediate)
        start = self._starts.get(key)
        if start is None:
            record = owner.words.publication(group, message, mandatory, immediate)
            start = self._keep(key, record, owner.dialects[group])
        header, body = message.header, message.body
        if message.notes or message.dialect is not start.dialect:
            try:
                header, body = start.dialect.form_of(message)
            except ValueError as error:
                raise LocalError(f"the message cannot be written here: {error}") from error
        dialect = start.dialect
        if dialect.routes:
            known = dialect.headers.get(header) or dialect.known(header)
            if known.destination != message.key:
                header = dialect.sent_to(header, message.key)
        if not self._whole(start, b"", header, body):
            record = owner.words.publication(group, message, mandatory, immediate)
            self._say(record, Content(start.dialect.number, header, body))

    def _keep(self, key: Any, record: Any, dialect: DraftDialect, consumer: Any = None) -> Start:
        """A method as it is written, with nothing before its tag if it is not for the short way."""
        method = self.owner.table.by_record[type(record)]
        start = Start(b"", 0, b"", dialect, consumer)
        if method.content and self.number <= self._frames.highest:
            octets = self.owner.writer.encoded(self.number, record)
            at = (
                self._frames.overhead
                - len(self._frames.tail)
                + self.owner.table.geometry.method.size
            )
            width = varying(method)
            start = Start(octets[:at], width, octets[at + width :], dialect, consumer)
        return self._starts.keep(key, start)

    def _whole(self, start: Start, tag: bytes, header: bytes, body: Body) -> bool:
        """Method and content in one piece, if that can be. Hot."""
        size, owner, frames = len(body), self.owner, self._frames
        if size > JOINED or size > owner.body_max or not start.before:
            return False
        dialect = start.dialect
        known = dialect.headers.get(header) or dialect.known(header)
        octets = len(header) + frames.content_octets + frames.counted
        if known.end < len(header) or octets > frames.widest:
            return False
        pending, number, tail = self._pending, self.number, frames.tail
        if not pending:
            self._buffer.waken()
        elif len(pending) > CROWD:
            self._buffer.crowd()
        if size > HEAVY:
            self._buffer.weigh(size)
        head = frames.pack_content(frames.header, number, octets, dialect.number, 0, size)
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
        if not self.owner.table.by_record[type(record)].content:
            self.owner.speak(self.number, self.staged(record, content))
        else:
            self.owner.speak(self.number, Spoken(record, content))

    @abstractmethod
    def staged(self, record: Any, content: Content) -> Spoken:
        """What is said first of a file."""
