"""The classes of content besides ``basic`` on one channel of 0-8, 0-9 or the transitional 0-10:
stream, file, tunnel and test (0-8).

Streams are delivered without acknowledgement, at the rate that the client asks for. Files are
staged: the sender offers one (open), the receiver tells how much of it is there already (open-ok),
the rest follows (stage), and then the file is published or delivered by its identifier.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.qpid_arguments import read_consumer_arguments
from gateway.adapters.methods.contents import class_test, tunnel
from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.contents.methods import Content, OutgoingMethod, group_of
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.contents.pacing import Pace
from gateway.adapters.methods.contents.staging import Staging
from gateway.adapters.methods.geometry import Content as ContentLayout
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.incoming_content import BodySink, IncomingContent
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.pending import PendingReply
from gateway.bodies import Body, Spool, incoming_body
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Message, Table
from gateway.operations import (
    Credit,
    DeclareQueue,
    Deliver,
    EndSession,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    Returned,
    Settle,
    Subscribe,
    Synchronize,
    Unsent,
    Unsubscribe,
)
from gateway.partial_bodies import Key, PartialBodyStore

LONGEST = (1 << 32) - 1
"""Octets of the longest text."""


class Consumer(NamedTuple):
    """A consumer of the class ``group``. ``queue``: as its deliveries name it. ``pace``: of a
    stream with a rate."""

    group: str
    queue: str
    no_ack: bool
    pace: Pace | None = None


class Asked(NamedTuple):
    """A method of the peer. ``reply`` sends the record that answers it."""

    method: Method
    m: Any
    reply: Callable[[Any], object]

    def token(self, answer: Callable[[Any], Any]) -> PendingReply:
        """The token of its operation. ``answer`` makes the reply of a result, which is not sent to
        a client that does not wait for it."""

        def then(result: Any) -> list[Operation]:
            record = answer(result)
            if not getattr(self.m, "no_wait", False):
                self.reply(record)
            return []

        return PendingReply(self.method, self.m, then)


class ClassChannel(Protocol):
    """The channel, as far as its classes need it."""

    number: int

    def send_method(self, method: OutgoingMethod) -> None:
        """Raises ``ValueError`` before anything is written."""
        ...

    def check_header(self, header: bytes) -> None:
        """Raise ``Unwritable`` if the properties do not fit a frame of the peer."""
        ...

    def read_arguments(self, entries: bytes) -> Table:
        """A table among the arguments of a method. Raises ``FieldError``."""
        ...


class ClassEngine(Protocol):
    """The engine, as far as its classes need it."""

    table: Version
    owner: Key
    """Of bodies that are kept for later connections: protocol, virtual host and user."""
    max_message_octets: int
    spool: Spool | None
    partials: PartialBodyStore
    life: Lifecycle
    stream_rate: int
    """Octets per second of streams on channels that have no rate of their own; 0 is no limit."""
    paced: bool
    """A stream had a rate."""

    @property
    def layouts(self) -> Any: ...

    @property
    def channels(self) -> dict[int, Any]: ...


class ContentClasses:
    """Consumers and files of one channel, in either role."""

    def __init__(
        self, channel: ClassChannel, engine: ClassEngine, dialects: Mapping[str, ClassDialect]
    ) -> None:
        """``dialects``: by class of content."""
        self._channel = channel
        self._engine = engine
        self._dialects = dialects
        self._w = engine.layouts
        self._read = dialects["file"].tables.read
        self._number = channel.number
        self._rate = engine.stream_rate
        self._consumers: dict[str, Consumer] = {}
        self._promised: dict[str, Asked] = {}
        """Files to be published or delivered as soon as they are staged."""
        self._files = Staging(engine.layouts, engine.max_message_octets, engine.partials)

    def cut(self) -> None:
        """The channel is over."""
        self._consumers.clear()
        self.leave()

    def leave(self) -> None:
        """The channel has no connection: the parts of its files wait for their sender."""
        self._promised.clear()
        self._files.cut()

    def move(self, engine: ClassEngine, number: int) -> None:
        """The channel is one of another connection now."""
        self._engine, self._number = engine, number
        engine.paced = engine.paced or bool(self._rate)

    def acknowledges(self, consumer: str) -> bool:
        """Whether a consumer acknowledges its deliveries."""
        found = self._consumers.get(consumer)
        return found is not None and not found.no_ack

    def forget(self, consumer: str) -> None:
        """A consumer has ended."""
        self._consumers.pop(consumer, None)

    # --- methods of the peer ---------------------------------------------------------------------

    def take(self, asked: Asked) -> list[Operation]:
        """A method without content. Raises ``PeerError``."""
        return HANDLERS[asked.method.name](self, asked)

    def begin(self, method: Method, m: Any) -> IncomingContent:
        """A method that a content follows."""
        engine = self._engine
        keep: Callable[[int], BodySink] = partial(incoming_body, engine.spool)
        if method.name == "file.stage":
            keep = self._files.rest
        dialect = self._dialects.get(group_of(method))
        check: Callable[[bytes], Any]
        if dialect is not None:
            check = dialect.arrived
        else:
            own = engine.table.contents[method.number >> 16]
            check = partial(tunnel.arrived if own.name == "tunnel" else plain, own, self._read)
        return IncomingContent(method, m, engine.max_message_octets, keep, check)

    def complete(
        self, content: IncomingContent, body: Body, condition: Callable[[int], Condition]
    ) -> list[Operation]:
        """All of a content is here. ``condition``: of a reply code. Raises ``PeerError``."""
        group, _, verb = content.method.name.partition(".")
        m, known, number = content.record, content.known, self._number
        if verb == "stage":
            identifier = self._files.staged(known.header)
            asked = self._promised.pop(identifier, None)
            return [] if asked is None else self.take(asked)
        if group == "tunnel":
            meta = self._channel.read_arguments(m.meta_data) if m.meta_data else {}
            return [tunnel.published(number, meta, known, body)]
        if group == "test":
            return self._tested(content.method, known, body)
        message = self._message(group, m, known, body)
        if verb == "publish":
            return [Publish(number, message, m.mandatory, m.immediate)]
        if verb == "deliver":
            return [Deliver(number, m.consumer_tag, m.delivery_tag, False, message)]
        return [Returned(number, message, condition(m.reply_code), m.reply_text)]

    def _message(self, group: str, m: Any, known: Known, body: Body) -> Message:
        """A delivery of a stream names its queue instead of a routing key."""
        key = getattr(m, "routing_key", "")
        return Message(self._dialects[group], known.header, body, m.exchange, key, known.essentials)

    # --- tests -----------------------------------------------------------------------------------

    def _test(self, asked: Asked) -> list[Operation]:
        answer = class_test.REQUESTS[asked.method.name]
        asked.reply(answer(self._w, asked.m, self._channel.read_arguments, LONGEST))
        return []

    def _tested(self, method: Method, header: bytes, body: Body) -> list[Operation]:
        if method.name != class_test.CONTENT:
            raise unasked(method)
        self._channel.send_method(class_test.echoed(self._w, method, header, body))
        return []

    # --- quality of service ----------------------------------------------------------------------

    def _file_qos(self, asked: Asked) -> list[Operation]:
        m = asked.m
        token = asked.token(lambda _: self._w.FileQosOk())
        return [Prefetch(self._number, token, m.prefetch_count, m.prefetch_size, m.global_)]

    def _stream_qos(self, asked: Asked) -> list[Operation]:
        """The rate. There is nothing to prefetch, since deliveries are not acknowledged."""
        engine, rate = self._engine, asked.m.consume_rate
        found = self.pace(rate)
        if asked.m.global_:
            engine.stream_rate = rate
            for channel in engine.channels.values():
                if channel.classes is not None and channel.classes is not self:
                    found += channel.classes.pace(rate)
        return [*found, Synchronize(self._number, asked.token(lambda _: self._w.StreamQosOk()))]

    def pace(self, rate: int) -> list[Operation]:
        """The rate of streams on this channel, of those that run too."""
        self._rate = rate
        found: list[Operation] = []
        for tag, consumer in self._consumers.items():
            if consumer.group == "stream" and (rate or consumer.pace is not None):
                pace = self._new_pace()
                self._consumers[tag] = consumer._replace(pace=pace)
                count = None if pace is None else pace.allowed
                found.append(Credit(self._number, None, tag, count))
        return found

    def _new_pace(self) -> Pace | None:
        if not self._rate:
            return None
        self._engine.paced = True
        return Pace(self._rate)

    def replenish(self, seconds: float) -> list[Operation]:
        """Time has passed: streams with a rate may get more."""
        found: list[Operation] = []
        for tag, consumer in self._consumers.items():
            count = 0 if consumer.pace is None else consumer.pace.replenish(seconds)
            if count:
                found.append(Credit(self._number, None, tag, count))
        return found

    # --- consumers -------------------------------------------------------------------------------

    def _consume(self, asked: Asked) -> list[Operation]:
        m, number = asked.m, self._number
        group = group_of(asked.method)
        tag = m.consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
        arguments = self._channel.read_arguments(m.arguments) if m.arguments else {}
        read = read_consumer_arguments(arguments)
        pace = self._new_pace() if group == "stream" else None
        no_ack = group == "stream" or m.no_ack
        self._consumers[tag] = Consumer(group, m.queue, no_ack, pace)
        record = self._w.StreamConsumeOk if group == "stream" else self._w.FileConsumeOk
        subscribe = Subscribe(
            number,
            asked.token(record),
            m.queue,
            tag,
            no_ack,
            m.exclusive,
            m.no_local or read.no_local,
            arguments,
            None if read.selector is None else read.selector.matches,
            read.copy,
            None if pace is None else pace.allowed,
            read.ends,
        )
        if m.queue or group != "stream":
            return [subscribe]
        # Deliveries of a stream name the queue: the one that was declared last.
        named = PendingReply(asked.method, m, partial(self._named, tag))
        return [DeclareQueue(number, named, "", passive=True), subscribe]

    def _named(self, tag: str, state: Any) -> list[Operation]:
        if tag in self._consumers:
            self._consumers[tag] = self._consumers[tag]._replace(queue=state.name)
        return []

    def _cancel(self, asked: Asked) -> list[Operation]:
        stream = group_of(asked.method) == "stream"
        record = self._w.StreamCancelOk if stream else self._w.FileCancelOk

        def ended(tag: str) -> Any:
            self.forget(tag)
            return record(tag)

        return [Unsubscribe(self._number, asked.token(ended), asked.m.consumer_tag)]

    # --- files -----------------------------------------------------------------------------------

    def _open(self, asked: Asked) -> list[Operation]:
        asked.reply(self._files.opened((*self._engine.owner, "file"), asked.m))
        return []

    def _opened(self, asked: Asked) -> list[Operation]:
        for method in self._files.accepted(asked.m):
            self._channel.send_method(method)
        return []

    def _publish_file(self, asked: Asked) -> list[Operation]:
        m = asked.m
        message = self._staged(asked)
        return [] if message is None else [Publish(self._number, message, m.mandatory, m.immediate)]

    def _file_delivered(self, asked: Asked) -> list[Operation]:
        m = asked.m
        message = self._staged(asked)
        if message is None:
            return []
        return [Deliver(self._number, m.consumer_tag, m.delivery_tag, m.redelivered, message)]

    def _staged(self, asked: Asked) -> Message | None:
        """The file that a method names; ``None`` if it is not staged yet, which the sender need not
        wait for. Files are always durable."""
        m = asked.m
        if self._files.expects(m.identifier):
            self._promised[m.identifier] = asked
            return None
        file = self._files.taken(m.identifier)
        known = self._dialects["file"].known(file.header)
        known = known._replace(essentials=known.essentials._replace(durable=True))
        return self._message("file", m, known, file.body)

    def _ack(self, asked: Asked) -> list[Operation]:
        m = asked.m
        return [Settle(self._number, m.delivery_tag, m.multiple, Outcome.ACCEPT)]

    def _reject(self, asked: Asked) -> list[Operation]:
        """A requeued file is for others: this channel does not get it again (file.reject)."""
        m = asked.m
        outcome = Outcome.REFUSE if m.requeue else Outcome.REJECT
        return [Settle(self._number, m.delivery_tag, False, outcome)]

    # --- messages out ----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> bool:
        """Deliver to a consumer of these classes; whether it is one."""
        subscriber = self._consumers.get(consumer)
        if subscriber is None:
            return False
        w, exchange, key = self._w, message.exchange, message.key
        if subscriber.pace is not None:
            count = subscriber.pace.sent(message.size)
            if count:
                self._engine.life.follow([Credit(self._number, None, consumer, count)])
        try:
            if subscriber.group == "stream":
                record = w.StreamDeliver(consumer, delivery, exchange, subscriber.queue)
            else:
                record = w.FileDeliver(consumer, delivery, redelivered, exchange, key)
            self._send(subscriber.group, record, message)
        except ValueError:
            # All of it is encoded before any is written.
            self._engine.life.unsent(Unsent(self._number, consumer, delivery, message))
        return True

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> bool:
        """Client: publish a message in the class that it is of; whether that is one of these.
        Raises ``ValueError``."""
        group = self._group_of(message)
        if not group:
            return False
        layout = self._w.StreamPublish if group == "stream" else self._w.FilePublish
        record = layout(
            exchange=message.exchange,
            routing_key=message.key,
            mandatory=mandatory,
            immediate=immediate,
        )
        self._send(group, record, message)
        return True

    def returned(self, op: Returned, code: int, text: str) -> bool:
        """Send a message back in the class in which it came; whether that is one of these. What is
        for a proxy that is not there cannot be sent back, and costs the channel."""
        if isinstance(op.message, tunnel.TunnelledBlock):
            life, method = self._engine.life, self._engine.table.by_name[tunnel.REQUEST]
            text = f"no proxy '{op.message.key[:80]}': there is no such queue"
            life.close_channel(self._number, Condition.NOT_FOUND, text, method.number)
            life.follow([EndSession(self._number, None)])
            return True
        group = self._group_of(op.message)
        if not group:
            return False
        message = op.message
        layout = self._w.StreamReturn if group == "stream" else self._w.FileReturn
        record = layout(code, text, message.exchange, message.key)
        self._channel.send_method(OutgoingMethod(record, self._content(group, message)))
        return True

    def _group_of(self, message: Message) -> str:
        """The class that a message is of, "" for others."""
        group = getattr(message.dialect, "group", "")
        return group if self._dialects.get(group) is message.dialect else ""

    def _content(self, group: str, message: Message) -> Content:
        """Raises ``ValueError``."""
        dialect = self._dialects[group]
        header, body = dialect.form_of(message)
        self._channel.check_header(header)
        return Content(dialect.number, header, body)

    def _send(self, group: str, record: Any, message: Message) -> None:
        """A file is offered, and follows when the peer has told how much of it is there."""
        content = self._content(group, message)
        if group == "file":
            self._channel.send_method(self._files.offer(content, record))
        else:
            self._channel.send_method(OutgoingMethod(record, content))


def replenished(channels: Iterable[Any], seconds: float) -> list[Operation]:
    """Time has passed on all channels."""
    found: list[Operation] = []
    for channel in channels:
        if channel.classes is not None:
            found += channel.classes.replenish(seconds)
    return found


def plain(content: ContentLayout, read: Any, header: bytes) -> bytes:
    """The header of a content that has no properties. Raises ``ValueError``."""
    if content.read(header, 0)[1] != len(header):
        raise ValueError("the properties do not end where the frame ends")
    return header


def unasked(method: Method) -> PeerError:
    text = f"{method.name} answers nothing that was asked"
    return PeerError(Condition.COMMAND_INVALID, text, Lost.CONNECTION)


def _unasked(classes: ContentClasses, asked: Asked) -> list[Operation]:
    raise unasked(asked.method)


HANDLERS: dict[str, Callable[[ContentClasses, Asked], list[Operation]]] = {
    "file.qos": ContentClasses._file_qos,
    "stream.qos": ContentClasses._stream_qos,
    "file.consume": ContentClasses._consume,
    "stream.consume": ContentClasses._consume,
    "file.cancel": ContentClasses._cancel,
    "stream.cancel": ContentClasses._cancel,
    "file.open": ContentClasses._open,
    "file.open-ok": ContentClasses._opened,
    "file.publish": ContentClasses._publish_file,
    "file.deliver": ContentClasses._file_delivered,
    "file.ack": ContentClasses._ack,
    "file.reject": ContentClasses._reject,
    **{
        f"{group}.{verb}-ok": _unasked
        for group in ("file", "stream")
        for verb in ("qos", "consume", "cancel")
    },
    **dict.fromkeys(class_test.REQUESTS, ContentClasses._test),
    **{f"{request}-ok": _unasked for request in class_test.REQUESTS},
}
"""Methods without content."""
