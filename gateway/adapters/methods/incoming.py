"""What the peer says, frame by frame: whom it concerns, whether it is allowed now, what it means.

The frame loop brings what it does not do itself. A ``PeerError`` that costs a channel is settled
here; one that costs the connection goes up.
"""

import struct
from collections.abc import Callable
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.channel import (
    Channel,
    ChannelEngine,
    confirmed,
    settled,
)
from gateway.adapters.methods.connection import Connection
from gateway.adapters.methods.geometry import Method, Unread
from gateway.adapters.methods.lifecycle import refused
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.tags import TooManyValues
from gateway.adapters.methods.topology import BY_METHOD, VERBS
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Cancelled, Done, EndSession, Operation, Recover, SessionLost

SETTLING = frozenset(["basic.ack", "basic.nack", "basic.reject"])
IGNORED = frozenset(["channel.alert", "channel.ok", "access.request-ok"])
"""Information, or answers to what we never ask: read and let go."""
ANSWERS = frozenset(
    reply
    for table in VERSIONS.values()
    for verb in VERBS
    if verb.method in table.by_name
    for reply in table.by_name[verb.method].replies
)


class IncomingEngine(ChannelEngine, Protocol):
    """What this part needs of the engine."""

    version: str
    connection: Connection
    channels: dict[int, Channel]
    channel_max: int


class Incoming:
    """The ``Link`` of the frame loop."""

    def __init__(self, engine: IncomingEngine, server: bool) -> None:
        self._engine = engine
        self._server = server
        self._ack = engine.table.by_name["basic.ack"].number

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
        open_channel = self._engine.channels.get(channel)
        if (
            open_channel is not None
            and open_channel.state in (states.CLOSING, states.FAILED)
            and channel
        ):
            self._while_closing(open_channel, method, found)
            return
        if self._engine.life.state is states.CLOSING and method.name[:11] != "connection.":
            return
        record = self._read(method, buf, at + 4, end)
        try:
            if channel == 0 or method.name.startswith("connection."):
                if (channel == 0) != method.name.startswith("connection."):
                    raise PeerError(
                        Condition.COMMAND_INVALID, f"{method.name} on channel {channel}"
                    )
                self._engine.life.on_connection_method(method, record, found)
            else:
                self._on_channel(channel, open_channel, method, record, found)
        except PeerError as error:
            error.method = error.method or number
            if error.lost is not Lost.SESSION:
                raise
            self._fail(channel, error, found)
        except TooManyValues as error:
            raise PeerError(Condition.RESOURCE_ERROR, str(error), method=number) from error
        except ValueError as error:
            raise PeerError(Condition.SYNTAX_ERROR, str(error), method=number) from error

    def _fail(self, channel: int, error: PeerError, found: list[Operation]) -> None:
        """A mistake that costs the channel. A server says so behind its answers to what was asked
        before."""
        lost = SessionLost(channel, error.condition, error.text)
        method = self._engine.table.methods.get(error.method)
        if self._server and method is not None:
            self._engine.channels[channel].fail()
            lost.token = PendingReply(method)
        else:
            self._engine.life.close_channel(channel, error.condition, error.text, error.method)
        found.append(lost)

    def _read(self, method: Method, buf: bytes, at: int, end: int) -> Any:
        """The method's record. One comparison catches every length that lies. Arguments of a
        method that will be answered with not-implemented are not looked at."""
        number = method.number
        theirs = method.from_client if self._server else method.from_server
        if not theirs and (self._server or number != self._ack):
            side = "client" if self._server else "server"
            raise PeerError(
                Condition.COMMAND_INVALID, f"a {side} may not send {method.name}", method=number
            )
        if not method.implemented:
            return Unread()
        try:
            record, stop = method.read(buf, at)
            if stop != end and method.extended is not None:
                record, stop = method.extended.read(buf, at)
        except (ValueError, struct.error, IndexError) as error:
            raise PeerError(
                Condition.SYNTAX_ERROR, f"{method.name} cannot be read", method=number
            ) from error
        if stop != end:
            raise PeerError(
                Condition.SYNTAX_ERROR,
                f"the arguments of {method.name} do not end where the frame ends",
                method=number,
            )
        return record

    def _while_closing(self, channel: Channel, method: Method, found: list[Operation]) -> None:
        """We have closed this channel or are about to: only the closing goes on (§1.5.2.5)."""
        if method.name == "channel.close" and channel.state is states.FAILED:
            found.append(EndSession(channel.number, PendingReply(method)))
        elif method.name == "channel.close":
            # Behind our close of the connection it is discarded (0-9-1 connection.close).
            if self._engine.life.state is not states.CLOSING:
                self._engine.writer.write(channel.number, w.ChannelCloseOk())
        elif method.name == "channel.close-ok" and channel.state is states.CLOSING:
            del self._engine.channels[channel.number]
            if channel.awaited and channel.awaited[-1].method.name == "channel.close":
                token = channel.awaited.pop().token
                text = f"channel {channel.number} is closed"
                found += refused(channel, Condition.CHANNEL_ERROR, text, Lost.SESSION)
                found.append(Done(channel.number, token))

    def _on_channel(
        self, number: int, channel: Channel | None, method: Method, m: Any, found: list[Operation]
    ) -> None:
        name = method.name
        if self._engine.life.state is not states.OPEN and not (
            self._server and self._engine.life.state is states.OPENING
        ):
            raise PeerError(Condition.COMMAND_INVALID, f"{name} before the connection is open")
        if channel is None:
            if name == "channel.close-ok":
                return
            if name == "channel.resume":
                raise PeerError(Condition.NOT_IMPLEMENTED, f"{name} is not implemented")
            if name != "channel.open":
                raise PeerError(Condition.CHANNEL_ERROR, f"{name} on channel {number}, not open")
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
        if channel.state is not states.OPEN and name not in states.CHANNEL[channel.state]:
            raise PeerError(Condition.CHANNEL_ERROR, f"{name} on channel {number}, {channel.state}")
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
            self._closed_by_server(channel, m, found)
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
        elif name in self._engine.table.by_name and name in ANSWERS and name != "basic.get-ok":
            self._on_reply(channel, name, m, found)
        else:
            raise PeerError(
                Condition.NOT_IMPLEMENTED, f"{name} is not implemented", method=method.number
            )

    def _begin_content(self, channel: Channel, method: Method, m: Any) -> None:
        if method.number >> 16 != self._engine.frames.basic:
            raise PeerError(Condition.NOT_IMPLEMENTED, f"{method.name} is not implemented")
        if method.name == "basic.publish" and m.immediate and self._engine.version == "0-9-1":
            raise PeerError(Condition.NOT_IMPLEMENTED, "immediate=true")
        if method.name == "basic.get-ok" and (
            not channel.awaited or channel.awaited[0].method.name != "basic.get"
        ):
            raise PeerError(Condition.COMMAND_INVALID, "basic.get-ok answers nothing")
        channel.begin_content(method, m)

    def _on_request(self, channel: Channel, method: Method, m: Any, found: list[Operation]) -> None:
        """A request of the peer."""
        if method.name == "channel.open":
            raise PeerError(Condition.CHANNEL_ERROR, "second 'channel.open' seen")
        if method.name == "channel.close":
            channel.move("channel.close")
        silent = not self._engine.connection.answerable(method) or getattr(m, "no_wait", False)
        token = None if silent else PendingReply(method)
        found.append(BY_METHOD[method.name].read(channel, m, token))
        if method.name == "tx.rollback" and self._engine.connection.qpid:
            # Qpid's broker delivers again without being told to, and its clients rely on it.
            found.append(Recover(channel.number, None, True))

    def _on_reply(self, channel: Channel, name: str, m: Any, found: list[Operation]) -> None:
        """The peer's answer to a request of ours."""
        awaited = channel.answered(name)
        request = awaited.method.name
        if request == "channel.open":
            channel.opened()
        if awaited.token is not None:
            verb = BY_METHOD[request]
            result = None
            if verb.result is not None and name != "basic.get-empty":
                result = verb.result(m)
            found.append(Done(channel.number, awaited.token, result))

    def _closed_by_server(self, channel: Channel, m: Any, found: list[Operation]) -> None:
        condition = self._engine.codes.condition(m.reply_code)
        self._engine.writer.write(channel.number, w.ChannelCloseOk())
        del self._engine.channels[channel.number]
        channel.vanish()
        found += refused(channel, condition, m.reply_text, Lost.SESSION)
        found.append(SessionLost(channel.number, condition, m.reply_text))

    def on_header(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        self._on_content(Channel.on_header, channel, buf, at, end, found)

    def on_body(self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        self._on_content(Channel.on_body, channel, buf, at, end, found)

    def _on_content(
        self,
        step: Callable[[Channel, bytes, int, int, list[Operation]], None],
        channel: int,
        buf: bytes,
        at: int,
        end: int,
        found: list[Operation],
    ) -> None:
        open_channel = self._engine.channels.get(channel)
        if self._engine.life.state is states.CLOSING:
            return
        if open_channel is None:
            condition = Condition.CHANNEL_ERROR if channel else Condition.UNEXPECTED_FRAME
            raise PeerError(condition, f"content on channel {channel}, which is not open")
        if open_channel.state in (states.CLOSING, states.FAILED):
            return
        try:
            step(open_channel, buf, at, end, found)
        except PeerError as error:
            if error.lost is not Lost.SESSION:
                raise
            self._fail(channel, error, found)
