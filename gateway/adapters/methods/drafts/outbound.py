"""Operations as methods of a draft."""

from dataclasses import replace
from typing import Any

from gateway.adapters.methods import states
from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.drafts.shared_methods import settle
from gateway.adapters.methods.outbound import (
    SHARED,
    Encoder,
    refused,
    replying,
    request_channel,
    requested,
)
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.record import Record
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Blocked,
    Cancelled,
    DeclareQueue,
    Done,
    EndSession,
    Fetched,
    Flow,
    Operation,
    QueueState,
    Refused,
    Returned,
    Settle,
    Unblocked,
    Unsent,
    Unsubscribe,
)

WRONG = Condition.PRECONDITION_FAILED
"""The broker's condition for invalid arguments."""


def encode_request(engine: Any, op: Any) -> None:
    """A request of ours; its answer brings the token back."""
    if engine.server:
        raise LocalError(f"a server does not ask for {type(op).__name__}")
    channel = request_channel(engine, op, Channel)
    records = engine.mapping.request_encoders[type(op)](channel, op)
    for record in records:
        channel.send(record)
    method = engine.table.by_record[type(records[-1])] if records else None
    answered = method if method is not None and method.replies else None
    requested(engine, channel, op, answered, _at_once(op))


def _at_once(op: Any) -> Any:
    """The result of a request that the peer does not answer."""
    if isinstance(op, Flow):
        return op.active
    if isinstance(op, DeclareQueue):
        return QueueState(op.name, 0, 0)
    return op.tag if isinstance(op, Unsubscribe) else None


def _settle(engine: Any, op: Settle) -> None:
    channel = engine.channel(op.channel)
    if engine.server:
        raise LocalError("a server does not settle")
    if channel.state is states.OPEN:
        for record in settle(channel, op):
            channel.send(record)


def _returned(engine: Any, op: Returned) -> None:
    channel = engine.channels.get(op.channel)
    if channel is not None and channel.state in (states.OPEN, states.ENDING, states.FAILED):
        # The client may have closed behind its publish, which goes on all the same.
        engine.life.follow(engine.mapping.returned(channel, op))


def _cancelled(engine: Any, op: Cancelled) -> None:
    """Neither draft has a method for it. A later cancel of the client's is no error."""
    channel = engine.channels.get(op.channel)
    if channel is not None:
        channel.consumers.pop(op.tag, None)


def _blocked(engine: Any, op: Operation) -> None:
    """Publishers are to stop, or may go on: channel.flow (0-9a0 §3.8.7 and §3.8.10, 0-9a6 "Flow
    Control")."""
    engine.publishers_blocked = isinstance(op, Blocked)
    for channel in engine.channels.values():
        if channel.state is states.OPEN:
            channel.send(engine.mapping.layouts.ChannelFlow(engine.publishers_blocked))


def _reply(engine: Any, channel: Channel, token: PendingReply, op: Done) -> None:
    if token.then is not None:
        engine.life.follow(token.then(op.result))
        return
    name = token.method.name
    answer = engine.mapping.reply_encoders.get(name)
    if answer is not None:
        _answer(engine, answer, channel, token, op)
    elif token.method.replies:
        channel.send(engine.table.by_name[token.method.replies[0]].record())
    if name == "channel.open" and engine.publishers_blocked:
        channel.send(engine.mapping.layouts.ChannelFlow(True))


def _answer(engine: Any, answer: Any, channel: Channel, token: PendingReply, op: Done) -> None:
    """Send the reply; without the message if it has no form here."""
    fetched = op.result
    try:
        # All of it is encoded before any is written.
        _send_reply(channel, answer(channel, token.record, fetched))
    except ValueError:
        if not isinstance(fetched, Fetched):
            raise
        message = fetched.message
        engine.life.unsent(Unsent(op.channel, "", fetched.delivery, message, fetched.queue))
        _send_reply(channel, answer(channel, token.record, None))


def _send_reply(channel: Channel, reply: Record | OutgoingMethod) -> None:
    if isinstance(reply, OutgoingMethod):
        channel.send(*reply)
    else:
        channel.send(reply)


def _refused(engine: Any, op: Refused) -> None:
    """Arguments of a binding that mean nothing cost the channel as a missing destination does."""
    binds = isinstance(op.token, PendingReply) and op.token.method.name.endswith(".bind")
    if binds and op.condition is WRONG:
        op = replace(op, condition=Condition.COMMAND_INVALID)
    declares = isinstance(op.token, PendingReply) and op.token.method.name == "exchange.declare"
    if declares and op.lost is Lost.CONNECTION:
        # An unknown class is an error in the class exchange, whose errors cost the channel; the
        # broker would have ended the connection, and does not know of the channel's end.
        op = replace(op, lost=Lost.SESSION)
        engine.life.follow([EndSession(op.channel, None)])
    refused(engine, op)


ENCODERS: dict[type[Operation], Encoder] = {
    **SHARED,
    Settle: _settle,
    Returned: _returned,
    Cancelled: _cancelled,
    Blocked: _blocked,
    Unblocked: _blocked,
    Done: replying(_reply),
    Refused: _refused,
}
