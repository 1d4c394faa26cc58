"""Operations as methods of the published versions.

Requests of the client role go through the rows of ``requests``; the rest is answers and messages.
Which side may send a method is checked where it is written, from the tables.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from gateway.adapters.methods import requests, states
from gateway.adapters.methods.channel import Channel
from gateway.adapters.methods.connection import Connection
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.dispatch import DispatchEngine
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.pending import NOTHING_AWAITED, Awaited, PendingReply
from gateway.adapters.methods.wire import layouts as w
from gateway.bodies import Body
from gateway.errors import LocalError, Lost
from gateway.operations import (
    BeginSession,
    Blocked,
    Cancelled,
    Close,
    Confirm,
    Deliver,
    Done,
    EndSession,
    Fetched,
    Open,
    Operation,
    Outcome,
    Publish,
    Refused,
    Returned,
    SessionLost,
    Settle,
    Unblocked,
    Unsent,
    UpdateSecret,
)

BLOCKED = "connection.blocked"
"""A method, and the capability of a client to read it."""


class OutboundEngine(DispatchEngine, Protocol):
    """The engine, as far as operations need it."""

    channels: dict[int, Channel]
    channel_max: int
    connection: Connection
    writer: MethodWriter

    def channel(self, number: int) -> Channel: ...

    def write_content(
        self, channel: Channel, record: Any, header: bytes, body: Body, group: int = 0
    ) -> None: ...


def _usable(engine: OutboundEngine, number: int) -> Channel | None:
    """The channel, ``None`` if it is closing (methods there are lost anyway)."""
    channel = engine.channel(number)
    return channel if channel.state is states.OPEN else None


# --- requests ------------------------------------------------------------------------------------


def request_channel(engine: Any, op: Any, make: Callable[[int, Any], Any]) -> Any:
    """Client: the channel of a request of ours; ``make`` makes a new one. Raises ``LocalError``."""
    if engine.life.state is not states.OPEN:
        raise LocalError("the connection is not open")
    if isinstance(op, BeginSession):
        number = op.channel
        if number in engine.channels or not 0 < number <= engine.channel_max:
            raise LocalError(f"channel {number} cannot be opened")
        return make(number, engine)
    channel = engine.channel(op.channel)
    if channel.state is not states.OPEN:
        raise LocalError(f"channel {op.channel} is {channel.state}")
    return channel


def requested(engine: Any, channel: Any, op: Any, answered: Method | None, result: Any) -> None:
    """The request is written. The reply to the method ``answered`` brings its token back; without
    one it is done at once, with this result."""
    if isinstance(op, BeginSession):
        engine.channels[op.channel] = channel
    if answered is not None:
        if channel.awaited is NOTHING_AWAITED:
            channel.awaited = deque()
        channel.awaited.append(Awaited(answered, op))
    elif op.token is not None:
        engine.life.later.append(Done(op.channel, op.token, result))
    if isinstance(op, EndSession):
        channel.mark_closing()


def _request(engine: OutboundEngine, op: Any) -> None:
    name = requests.method_of(op, engine.table.by_name)
    if name not in engine.table.by_name:
        raise LocalError(f"{name} is not in {engine.table.name}")
    channel = request_channel(engine, op, Channel)
    record = requests.BY_METHOD[name].write(channel, op)
    method = engine.table.by_name[name]
    no_wait = op.token is None and hasattr(record, "no_wait")
    if no_wait:
        record.no_wait = True
    engine.writer.write(channel.number, record)
    answered = bool(method.replies) and not no_wait and engine.connection.answerable(method)
    requested(engine, channel, op, method if answered else None, None)


def _close(engine: OutboundEngine, op: Close) -> None:
    if engine.life.state is not states.CLOSING:
        engine.life.send_close(op.condition, op.text)


# --- messages ------------------------------------------------------------------------------------


def _publish(engine: OutboundEngine, op: Publish) -> None:
    if engine.server:
        raise LocalError("a server does not publish")
    engine.channel(op.channel).publish(op.message, op.mandatory, op.immediate)


def _deliver(engine: OutboundEngine, op: Deliver) -> None:
    if not engine.server:
        raise LocalError("a client does not deliver")
    engine.channel(op.channel).deliver(op.consumer, op.delivery, op.redelivered, op.message)


def _confirm(engine: OutboundEngine, op: Confirm) -> None:
    if not engine.server:
        raise LocalError("a client does not confirm")
    engine.channel(op.channel).confirm(op.sequence, op.multiple, op.accepted)


def _settle(engine: OutboundEngine, op: Settle) -> None:
    if _usable(engine, op.channel) is None:
        return  # its deliveries are requeued anyway
    if op.outcome == Outcome.ACCEPT:
        record: Any = w.BasicAck(op.delivery, op.multiple)
    elif op.multiple:
        record = w.BasicNack(op.delivery, True, op.outcome.returns)
    else:
        record = w.BasicReject(op.delivery, op.outcome.returns)
    engine.writer.write(op.channel, record)


def _returned(engine: OutboundEngine, op: Returned) -> None:
    channel = engine.channel(op.channel)
    if channel.state not in (states.OPEN, states.ENDING, states.FAILED):
        # The client may have closed behind its publish, which comes back all the same.
        return
    code, name, _ = engine.table.codes[op.condition.value]
    message = op.message
    if channel.classes is not None and channel.classes.returned(op, code, op.text or name):
        return
    record = w.BasicReturn(code, op.text or name, message.exchange, message.key)
    header, body = message.form_for(BASIC)
    engine.write_content(channel, record, header, body)


def _cancelled(engine: OutboundEngine, op: Cancelled) -> None:
    """The end of a consumer that ends by itself is an unrequested cancel-ok, as Qpid does it. Other
    ends are told to clients with the capability for it."""
    channel = engine.channels.get(op.channel)
    if channel is not None and channel.classes is not None:
        channel.classes.forget(op.tag)
    if op.ended:
        if _usable(engine, op.channel):
            engine.writer.write(op.channel, w.BasicCancelOk(op.tag))
        return
    if _usable(engine, op.channel) and engine.connection.capable("consumer_cancel_notify"):
        engine.writer.write(op.channel, w.BasicCancel(op.tag, True))


def _blocked(engine: OutboundEngine, op: Blocked | Unblocked) -> None:
    """Only to clients with the capability for it."""
    known = BLOCKED in engine.table.by_name and engine.connection.capable(BLOCKED)
    if known and engine.life.state is states.OPEN:
        if isinstance(op, Blocked):
            engine.writer.write(0, w.ConnectionBlocked(op.reason[:80]))
        else:
            engine.writer.write(0, w.ConnectionUnblocked())


# --- answers -------------------------------------------------------------------------------------


def replying(
    reply: Callable[[Any, Any, PendingReply, Done], None], others: tuple[type[Any], ...] = ()
) -> "Encoder":
    """How replies are sent, by ``reply`` where they have a channel. Tokens of the types ``others``
    act for themselves."""

    def done(engine: Any, op: Done) -> None:
        token = op.token
        if token is None:
            return
        if not isinstance(token, PendingReply):
            if not isinstance(token, others):
                raise LocalError("this is not a token of ours")
            token.done(op)
            return
        name = token.method.name
        if name == "connection.open":
            engine.connection.opened(token.record)
            return
        if name == "connection.close":
            engine.life.finish_close()
            return
        if engine.life.state is states.CLOSING:
            return  # requests behind the cause of a close have no reply
        if name == "connection.update-secret":
            engine.write(0, engine.layouts.ConnectionUpdateSecretOk())
            return
        channel = engine.channels.get(op.channel)
        if channel is None:
            return
        if channel.state is states.CLOSING:
            if name == "channel.close":  # both sides have closed it
                engine.write(op.channel, engine.layouts.ChannelCloseOk())
            return
        reply(engine, channel, token, op)
        if name == "channel.close":
            del engine.channels[op.channel]
            channel.mark_closed()

    return done


def _reply(engine: OutboundEngine, channel: Channel, token: PendingReply, op: Done) -> None:
    method = token.method
    if token.then is not None:
        engine.life.follow(token.then(op.result))
        return
    if method.name == "basic.cancel" and channel.classes is not None:
        channel.classes.forget(op.result)
    if method.name == "basic.get":
        _fetched(engine, channel, op)
        return
    answer = requests.BY_METHOD[method.name].answer
    if answer is not None:
        record = answer(op.result)
    else:
        record = engine.table.by_name[method.replies[0]].record()
    engine.writer.write(op.channel, record)


def _fetched(engine: OutboundEngine, channel: Channel, op: Done) -> None:
    fetched = op.result
    if not isinstance(fetched, Fetched):
        engine.writer.write(op.channel, w.BasicGetEmpty())
        return
    message = fetched.message
    record = w.BasicGetOk(
        fetched.delivery, fetched.redelivered, message.exchange, message.key, fetched.remaining
    )
    try:
        header, body = channel.form_of(message)
        engine.write_content(channel, record, header, body)
    except ValueError:
        # The method is encoded before anything is written.
        engine.life.unsent(Unsent(op.channel, "", fetched.delivery, message, fetched.queue))
        engine.writer.write(op.channel, w.BasicGetEmpty())


def refused(engine: OutboundEngine, op: Refused) -> None:
    """The broker refuses a request: the peer is told which one, by the close that it costs."""
    method = getattr(op.token, "method", None)
    number = 0 if method is None else method.number
    if op.lost is Lost.NOTHING:
        return
    if op.lost is Lost.CONNECTION or op.channel == 0:
        if engine.life.state is not states.CLOSING:
            engine.life.send_close(op.condition, op.text, number, theirs=True)
        return
    _lost(engine, op, number)


def _lost(engine: OutboundEngine, op: Refused | SessionLost, number: int = 0) -> None:
    """The broker has ended a channel, or refuses the method ``number`` on it."""
    channel = engine.channels.get(op.channel)
    if channel is not None and channel.state is not states.CLOSING:
        engine.life.close_channel(op.channel, op.condition, op.text, number)


Encoder = Callable[[Any, Any], None]

SHARED: dict[type[Operation], Encoder] = {
    Open: lambda engine, op: engine.connection.open(op),
    Close: _close,
    Publish: _publish,
    Deliver: _deliver,
    Confirm: _confirm,
    SessionLost: _lost,
}
"""Encoders that the drafts have too."""

ENCODERS: dict[type[Operation], Encoder] = {
    **SHARED,
    **{kind: _request for kind in requests.METHODS},
    UpdateSecret: lambda engine, op: engine.connection.update_secret(op),
    Settle: _settle,
    Returned: _returned,
    Cancelled: _cancelled,
    Blocked: _blocked,
    Unblocked: _blocked,
    Done: replying(_reply),
    Refused: refused,
}
