"""Client role: operations for ``Engine.send``."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.segments.client_requests import REQUESTS
from gateway.adapters.segments.session_state import State
from gateway.errors import LocalError
from gateway.operations import (
    AttachSession,
    BeginSession,
    Close,
    Done,
    EndSession,
    Open,
    Operation,
    Publish,
    Settle,
    SettleMany,
)


def _request(engine: Any, op: Any) -> None:
    session = engine.session(op.channel)
    if session.state is not State.ATTACHED:
        raise LocalError(f"channel {op.channel} is {session.state.value}")
    REQUESTS[type(op)](session, op)


def _settle(engine: Any, op: Any) -> None:
    """In a session that ends it has no effect: its deliveries are released anyway."""
    REQUESTS[type(op)](engine.session(op.channel), op)


def _close(engine: Any, op: Close) -> None:
    engine.tell_due()
    engine.life.send_close(op.condition, op.text)


def _nothing(engine: Any, op: Operation) -> None:
    """The answer to a ``Flow`` of the server, which expects none."""


CLIENT_ENCODERS: dict[type[Operation], Callable[[Any, Any], None]] = {
    **dict.fromkeys(REQUESTS, _request),
    Open: lambda engine, op: engine.handshake.open(op),
    Close: _close,
    BeginSession: lambda engine, op: engine.attachments.begin(op),
    AttachSession: lambda engine, op: engine.attachments.attach(op),
    EndSession: lambda engine, op: engine.attachments.end(op),
    Publish: lambda engine, op: engine.session(op.channel).publish(op),
    Settle: _settle,
    SettleMany: _settle,
    Done: _nothing,
}
