"""Operations as methods, for ``Engine.send``."""

from typing import Any

from gateway.adapters.methods import states
from gateway.adapters.methods.outbound import Encoder, replying
from gateway.adapters.methods.transitional import branches, client
from gateway.adapters.methods.transitional.resumption import TOKENS, give_up
from gateway.adapters.methods.transitional.server import reply
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Blocked,
    Cancelled,
    Close,
    Closed,
    Deliver,
    DetachSession,
    Done,
    Open,
    Operation,
    Publish,
    Refused,
    Returned,
    SelectConfirms,
    SessionLost,
    Settle,
    Unblocked,
)


def _close(engine: Any, op: Close) -> None:
    _end(engine, op.condition, op.text, 0, False)


def _end(engine: Any, condition: Condition | None, text: str, method: int, theirs: bool) -> None:
    """Close the connection. Python clients send no close-ok, so a server does not wait for it."""
    life = engine.life
    if life.state is states.CLOSING:
        return
    life.send_close(condition, text, method, theirs=theirs)
    if not engine.server:
        return
    life.follow([*life.abandon(), Closed(condition, text, theirs=theirs)])


def _deliver(engine: Any, op: Deliver) -> None:
    if not engine.server:
        raise LocalError("a client does not deliver")
    engine.channel(op.channel).deliver(op.consumer, op.delivery, op.redelivered, op.message)


def _returned(engine: Any, op: Returned) -> None:
    """A message that no queue took. The reply to its transfer says so, or the return of a file or
    stream; there is no other way."""
    channel = engine.channels.get(op.channel)
    if channel is None:
        return
    code, name, _ = engine.table.codes[op.condition.value]
    if channel.classes is not None and channel.classes.returned(op, code, op.text or name):
        return
    if id(op.message) in channel.transfers:
        channel.transfers[id(op.message)] = op


def _cancelled(engine: Any, op: Cancelled) -> None:
    """A server cannot say so. A later cancel of the client is no error."""
    channel = engine.channels.get(op.channel)
    if channel is not None:
        channel.consumers.pop(op.tag, None)
        if channel.classes is not None:
            channel.classes.forget(op.tag)


def _unsaid(engine: Any, op: Operation) -> None:
    """Publishers are not told; they wait because nothing is read from them."""


def _refused(engine: Any, op: Refused) -> None:
    if isinstance(op.token, TOKENS):
        op.token.refused(op)
        return
    if op.lost is Lost.NOTHING:
        return
    method, condition = getattr(op.token, "method", None), op.condition
    number = 0
    if method is not None:
        number, condition = method.number, branches.refusal(method.name, condition)
    if op.lost is Lost.CONNECTION or op.channel == 0:
        _end(engine, condition, op.text, number, True)
    else:
        _lose(engine, op.channel, condition, op.text, number)


def _session_lost(engine: Any, op: SessionLost) -> None:
    _lose(engine, op.channel, op.condition, op.text, 0)


def _lose(engine: Any, number: int, condition: Condition, text: str, method: int) -> None:
    channel = engine.channels.get(number)
    if channel is not None and channel.state is not states.CLOSING:
        engine.life.close_channel(number, condition, text, method)


def _open(engine: Any, op: Open) -> None:
    engine.connection.open(op)


ENCODERS: dict[type[Operation], Encoder] = {
    **dict.fromkeys(client.ASK, client.request),
    Open: _open,
    Publish: client.publish,
    SelectConfirms: client.select_confirms,
    Settle: client.settle,
    Close: _close,
    Deliver: _deliver,
    Returned: _returned,
    Cancelled: _cancelled,
    Blocked: _unsaid,
    Unblocked: _unsaid,
    Done: replying(reply, TOKENS),
    DetachSession: give_up,
    Refused: _refused,
    SessionLost: _session_lost,
}
