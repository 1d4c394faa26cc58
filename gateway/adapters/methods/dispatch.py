"""Rules by which both engines of the family take methods and contents from the peer."""

import struct
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.geometry import Method, Unread
from gateway.adapters.methods.lifecycle import AnyChannel, Lifecycle, LifecycleEngine, refused
from gateway.adapters.methods.pending import Awaited, PendingReply
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Done, EndSession, Operation, SessionLost


class DispatchEngine(LifecycleEngine, Protocol):
    """The engine, as far as these rules need it."""

    life: Lifecycle


def is_discarded(
    engine: DispatchEngine, channel: AnyChannel | None, method: Method, found: list[Operation]
) -> bool:
    """Whether a method comes behind our close of its channel or connection, or behind an error of
    the peer that will close them. Only the closing goes on then (0-9-1 §1.5.2.5, §2.2.4)."""
    if channel is None or channel.state not in (states.CLOSING, states.FAILED):
        return engine.life.state is states.CLOSING and method.name[:11] != "connection."
    name, number = method.name, channel.number
    if channel.state is states.FAILED:
        if name == "channel.close":
            found.append(EndSession(number, PendingReply(method)))
    elif name == "channel.close":
        # Behind our close of the connection it is discarded (0-9-1 connection.close).
        if engine.life.state is not states.CLOSING:
            engine.write(number, engine.layouts.ChannelCloseOk())
    elif name == "channel.close-ok":
        ours = channel.awaited[-1] if channel.awaited else None
        if ours is not None and isinstance(ours.operation, EndSession):
            channel.awaited.pop()
        end_channel(engine, channel, Condition.CHANNEL_ERROR, f"channel {number} is closed", found)
        if ours is not None and isinstance(ours.operation, EndSession):
            found.append(Done(number, ours.token))
    return True


def end_channel(
    engine: DispatchEngine,
    channel: Any,
    condition: Condition,
    text: str,
    found: list[Operation],
) -> None:
    """A channel is closed, and its open requests are refused."""
    del engine.channels[channel.number]
    found += refused(channel, condition, text, Lost.SESSION)
    channel.mark_closed()


def closed_by_server(engine: DispatchEngine, channel: Any, m: Any, found: list[Operation]) -> None:
    """Client: the server closes a channel."""
    condition = engine.codes.condition(m.reply_code)
    engine.write(channel.number, engine.layouts.ChannelCloseOk())
    end_channel(engine, channel, condition, m.reply_text, found)
    found.append(SessionLost(channel.number, condition, m.reply_text))


def read_arguments(engine: DispatchEngine, method: Method, buf: bytes, at: int, end: int) -> Any:
    """The record of a method. One comparison detects every wrong length. Arguments of a method that
    will be answered with not-implemented are not read."""
    number, server = method.number, engine.server
    theirs = method.from_client if server else method.from_server
    if not theirs and (server or method.name != "basic.ack"):  # which confirms, from a server
        side = "client" if server else "server"
        raise PeerError(
            Condition.COMMAND_INVALID, f"a {side} may not send {method.name}", method=number
        )
    if method.record is Unread:
        return Unread()
    try:
        record, stop = method.read(buf, at)
        if stop != end and method.extended is not None:
            record, stop = method.extended.read(buf, at)
    except (ValueError, struct.error, IndexError) as error:
        raise PeerError(
            Condition.SYNTAX_ERROR, f"{method.name} cannot be read: {error}", method=number
        ) from error
    if stop != end:
        raise PeerError(
            Condition.SYNTAX_ERROR,
            f"{method.name} has {end - at} octets of arguments, not {stop - at}",
            method=number,
        )
    return record


def is_for_channel(
    engine: DispatchEngine,
    number: int,
    channel: AnyChannel | None,
    method: Method,
    m: Any,
    found: list[Operation],
) -> bool:
    """Whether a method is left to its channel, or opens it. Methods of the connection are handled
    here. Raises ``PeerError`` for a method that is not allowed now."""
    name, life = method.name, engine.life
    if number == 0 or name.startswith("connection."):
        if (number == 0) != name.startswith("connection."):
            raise PeerError(Condition.COMMAND_INVALID, f"{name} on channel {number}")
        life.on_connection_method(method, m, found)
        return False
    if life.state is not states.OPEN and not (engine.server and life.state is states.OPENING):
        raise PeerError(Condition.COMMAND_INVALID, f"{name} before the connection is open")
    if channel is None:
        if name == "channel.close-ok":
            return False
        if name == "channel.resume":
            raise PeerError(Condition.NOT_IMPLEMENTED, f"{name} is not implemented")
        if name != "channel.open":
            raise PeerError(Condition.CHANNEL_ERROR, f"{name} on channel {number}, not open")
    elif channel.state is not states.OPEN and name not in states.CHANNEL[channel.state]:
        raise PeerError(Condition.CHANNEL_ERROR, f"{name} on channel {number}, {channel.state}")
    return True


def take_awaited(channel: AnyChannel, name: str) -> Awaited:
    """The request that the method ``name`` answers. Raises ``PeerError`` if there is none."""
    if not channel.awaited or name not in channel.awaited[0].method.replies:
        raise PeerError(Condition.COMMAND_INVALID, f"{name} answers nothing that was asked")
    return channel.awaited.popleft()


def fail_channel(
    engine: DispatchEngine, number: int, error: PeerError, found: list[Operation]
) -> None:
    """A violation that costs a channel. A server reports it behind its replies to earlier
    requests."""
    lost = SessionLost(number, error.condition, error.text)
    method = engine.table.methods.get(error.method)
    if engine.server and method is not None:
        engine.channels[number].mark_failed()
        lost.token = PendingReply(method)
    else:
        engine.life.close_channel(number, error.condition, error.text, error.method)
    found.append(lost)
