"""Frames of the peer: dispatched to connection and channels, if they are allowed now.

The frame loop passes all frames on that it does not handle itself. A ``PeerError`` that costs a
channel is settled here; one that costs the connection goes up."""

from functools import partial
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.channel import (
    Channel,
    ChannelEngine,
    confirmed,
    settled,
)
from gateway.adapters.methods.connection import Connection
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.classes import Asked
from gateway.adapters.methods.dispatch import (
    closed_by_server,
    fail_channel,
    is_discarded,
    is_for_channel,
    read_arguments,
    take_awaited,
)
from gateway.adapters.methods.essentials import arrived
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming_content import (
    ContentReceiver,
    IncomingContent,
)
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.requests import BY_METHOD, VERBS
from gateway.adapters.methods.tags import TooManyValues
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.bodies import Body, incoming_body
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Essentials, Message
from gateway.operations import (
    Cancelled,
    Deliver,
    Done,
    EndBranch,
    Fetched,
    Operation,
    Publish,
    Recover,
    Returned,
    StartBranch,
)

SETTLING = frozenset(["basic.ack", "basic.nack", "basic.reject"])
IGNORED = frozenset(["channel.alert", "channel.ok", "access.request-ok"])
"""Information, or replies to requests that we never make: ignored."""
ANSWERS = frozenset(
    reply
    for table in VERSIONS.values()
    for verb in VERBS
    if verb.method in table.by_name
    for reply in table.by_name[verb.method].replies
)


class IncomingEngine(ChannelEngine, Protocol):
    """The engine, as far as this part needs it."""

    connection: Connection
    channels: dict[int, Channel]
    channel_max: int


class Incoming:
    """The ``Link`` of the frame loop."""

    def __init__(self, engine: IncomingEngine, server: bool) -> None:
        self._engine = engine
        self._server = server
        self._keep, self._check = partial(incoming_body, engine.spool), self._known
        basic = engine.table.by_name["basic.publish"].number >> 16
        self._other_contents = frozenset(engine.table.contents) - {basic}
        contents = ContentReceiver(engine, self._complete)
        self.on_header, self.on_body = contents.on_header, contents.on_body

    def on_method(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """One method frame. Raises ``PeerError`` if the connection dies of it."""
        number = int.from_bytes(buf[at : at + 4], "big")
        method = self._engine.table.methods.get(number)
        if end - at < 4 or method is None:
            raise PeerError(
                Condition.COMMAND_INVALID if end - at >= 4 else Condition.SYNTAX_ERROR,
                f"method {number >> 16},{number & 0xFFFF} is unknown",
                method=number,
            )
        engine = self._engine
        open_channel = engine.channels.get(channel)
        usual = (
            open_channel is not None
            and open_channel.state is states.OPEN
            and engine.life.state is states.OPEN
            and not method.name.startswith("connection.")
        )
        if not usual and is_discarded(engine, open_channel, method, found):
            return
        record = read_arguments(engine, method, buf, at + 4, end)
        try:
            if usual or is_for_channel(engine, channel, open_channel, method, record, found):
                self._on_channel(channel, open_channel, method, record, found)
        except PeerError as error:
            error.method = error.method or number
            if error.lost is not Lost.SESSION:
                raise
            fail_channel(self._engine, channel, error, found)
        except TooManyValues as error:
            raise PeerError(Condition.RESOURCE_ERROR, str(error), method=number) from error
        except ValueError as error:
            raise PeerError(Condition.SYNTAX_ERROR, str(error), method=number) from error

    def _on_channel(
        self, number: int, channel: Channel | None, method: Method, m: Any, found: list[Operation]
    ) -> None:
        name = method.name
        if channel is None:
            # As RabbitMQ: channel-max is a count, as the documents say; any number will do.
            have, most = len(self._engine.channels), self._engine.channel_max
            if have >= most:
                raise PeerError(
                    Condition.NOT_ALLOWED,
                    f"number of channels opened ({have}) has reached the negotiated channel_max "
                    f"({most})",
                )
            channel = self._engine.channels[number] = Channel(number, self._engine)
            channel.opened()
            found.append(BY_METHOD[name].read(channel, m, PendingReply(method)))
            return
        if channel.content is not None:
            raise PeerError(
                Condition.UNEXPECTED_FRAME, f"{name} where the rest of a content was expected"
            )
        if method.content:
            self._begin_content(channel, method, m)
        elif name in SETTLING:
            build = settled if self._server else confirmed
            found.append(build(name, m, number))
        elif name == "channel.close" and not self._server:
            closed_by_server(self._engine, channel, m, found)
        elif name == "basic.cancel" and not self._server:
            found.append(Cancelled(number, m.consumer_tag))
            if not m.no_wait:
                self._engine.writer.write(number, w.BasicCancelOk(m.consumer_tag))
        elif name in BY_METHOD:
            self._on_request(channel, method, m, found)
        elif name in ("channel.ping", "channel.pong"):
            self._engine.writer.write(number, w.ChannelOk())
        elif name == "access.request":
            self._engine.writer.write(number, w.AccessRequestOk(1))
        elif name in IGNORED or (name == "basic.cancel-ok" and self._server):
            return
        elif method.number >> 16 in self._other_contents:
            self._on_class_method(channel, method, m, found)
        elif name in self._engine.table.by_name and name in ANSWERS and name != "basic.get-ok":
            self._on_reply(channel, name, m, found)
        else:
            raise PeerError(
                Condition.NOT_IMPLEMENTED, f"{name} is not implemented", method=method.number
            )

    def _begin_content(self, channel: Channel, method: Method, m: Any) -> None:
        if method.number >> 16 != self._engine.frames.basic:
            if method.number >> 16 not in self._other_contents:
                raise PeerError(Condition.NOT_IMPLEMENTED, f"{method.name} is not implemented")
            channel.content = channel.other_classes().begin(method, m)
            channel.ready = False
            return
        if method.name == "basic.publish" and m.immediate and self._engine.version == "0-9-1":
            raise PeerError(Condition.NOT_IMPLEMENTED, "immediate=true")
        if method.name == "basic.get-ok" and (
            not channel.awaited or channel.awaited[0].method.name != "basic.get"
        ):
            raise PeerError(Condition.COMMAND_INVALID, "basic.get-ok answers nothing")
        engine = self._engine
        most = engine.max_message_octets
        channel.content = IncomingContent(method, m, most, self._keep, self._check)
        channel.ready = False

    def _known(self, header: bytes) -> tuple[bytes, Essentials]:
        """One shared copy of these properties, and their essentials. Raises ``ValueError``."""
        frames = self._engine.frames
        return frames.headers.get(header) or frames.known(header) or (header, arrived(header))

    def _complete(
        self,
        channel: Channel,
        content: IncomingContent,
        header: bytes,
        body: Body,
        found: list[Operation],
    ) -> None:
        """All of a message is here."""
        channel.ready = channel.state is states.OPEN
        if content.method.number >> 16 != self._engine.frames.basic:
            found += channel.other_classes().complete(content, body, self._engine.codes.condition)
            return
        m, name, number = content.record, content.method.name, channel.number
        header, essentials = content.known
        message = Message(BASIC, header, body, m.exchange, m.routing_key, essentials)
        if name == "basic.publish":
            found.append(Publish(number, message, m.mandatory, m.immediate))
        elif name == "basic.deliver":
            found.append(Deliver(number, m.consumer_tag, m.delivery_tag, m.redelivered, message))
        elif name == "basic.return":
            condition = self._engine.codes.condition(m.reply_code)
            found.append(Returned(number, message, condition, m.reply_text))
        else:
            awaited = take_awaited(channel, name)
            fetched = Fetched(m.delivery_tag, m.redelivered, message, m.message_count)
            found.append(Done(number, awaited.token, fetched))

    def _on_class_method(
        self, channel: Channel, method: Method, m: Any, found: list[Operation]
    ) -> None:
        """A method of another class of content, itself without content."""
        name, number = method.name, channel.number
        if channel.awaited and name in channel.awaited[0].method.replies:
            awaited = channel.awaited.popleft()
            found.append(Done(number, awaited.token, getattr(m, "consumer_tag", None)))
            return
        if name.endswith(".consume"):
            channel.forget_addresses()
        reply = partial(self._engine.writer.write, number)
        found += channel.other_classes().take(Asked(method, m, reply))

    def _on_request(self, channel: Channel, method: Method, m: Any, found: list[Operation]) -> None:
        """A request of the peer."""
        if method.name == "channel.open":
            raise PeerError(Condition.CHANNEL_ERROR, "second 'channel.open' seen")
        if method.name == "channel.close":
            channel.move("channel.close")
            if channel.branch is not None:
                # Class dtx has no method for it: its coordinator may complete the branch now.
                found.append(EndBranch(channel.number, None, channel.branch))
        silent = not self._engine.connection.answerable(method) or getattr(m, "no_wait", False)
        token = None if silent else PendingReply(method)
        operation = BY_METHOD[method.name].read(channel, m, token)
        found.append(operation)
        if isinstance(operation, StartBranch):
            channel.branch = operation.xid
        if method.name == "tx.rollback" and self._engine.connection.qpid:
            # Qpid's broker delivers again without being told to, and its clients rely on it.
            found.append(Recover(channel.number, None, True))

    def _on_reply(self, channel: Channel, name: str, m: Any, found: list[Operation]) -> None:
        """The peer's answer to a request of ours."""
        awaited = take_awaited(channel, name)
        request = awaited.method.name
        if request == "channel.open":
            channel.opened()
        if awaited.token is not None:
            verb = BY_METHOD[request]
            result = None
            if verb.result is not None and name != "basic.get-empty":
                result = verb.result(m)
            found.append(Done(channel.number, awaited.token, result))
