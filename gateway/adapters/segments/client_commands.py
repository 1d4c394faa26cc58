"""Client role: the commands of a server but transfers."""

from typing import Any

from gateway.adapters.segments.client_session import ClientSession, Take
from gateway.adapters.segments.completion import SERIALS, unwrapped
from gateway.adapters.segments.operations import read_struct, write_struct
from gateway.adapters.segments.violation import EXCEPTION_CONDITIONS, Violation
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import OPERATIONS
from gateway.errors import Condition
from gateway.operations import Flow, Operation


def _nothing(session: ClientSession, m: Any, found: list[Operation]) -> None:
    """Nothing follows from it."""


def _result(session: ClientSession, m: w.ExecutionResult, found: list[Operation]) -> None:
    """The result of a command, which is complete soon. Raises ``FieldError``."""
    number = m.command_id or 0
    value = read_struct(m.value or b"")
    for awaited in session.awaited.look(unwrapped(((number, number),), session.sent)).values():
        awaited.value = value


def _exception(session: ClientSession, m: w.ExecutionException, found: list[Operation]) -> None:
    """A command of ours has failed; the server is going to detach."""
    condition = EXCEPTION_CONDITIONS.get(m.error_code or 0, Condition.INTERNAL_ERROR)
    session.exception = condition, m.description or ""


def _reject(session: ClientSession, m: w.MessageReject, found: list[Operation]) -> None:
    """Publishes come back."""
    ranges = unwrapped(m.transfers, session.sent)
    session.publishes.rejected(ranges, m.code or 0, m.text or "", found)


def _release(session: ClientSession, m: w.MessageRelease, found: list[Operation]) -> None:
    ranges = unwrapped(m.transfers, session.sent)
    session.publishes.rejected(ranges, 0, "released", found)


def _resume(session: ClientSession, m: w.MessageResume, found: list[Operation]) -> None:
    """No part of an interrupted transfer is kept: the server is to start over."""
    if m.destination in session.consumers:
        number = (session.received.following - 1) & SERIALS
        session.say(w.ExecutionResult(number, write_struct(w.MessageResumeResult(0))))
    else:
        session.fail(Violation(Condition.NOT_FOUND, "no such consumer"), found)


def _flow(session: ClientSession, m: w.MessageFlow, found: list[Operation]) -> None:
    """The server lets us publish again (Broker-J)."""
    if m.value:
        found.append(Flow(session.number, None, True))


def _stop(session: ClientSession, m: w.MessageStop, found: list[Operation]) -> None:
    """The server asks us to hold our publishes."""
    found.append(Flow(session.number, None, False))


_TAKE: dict[str, Take] = {
    "execution.sync": _nothing,
    "execution.result": _result,
    "execution.exception": _exception,
    "message.accept": _nothing,
    "message.reject": _reject,
    "message.release": _release,
    "message.resume": _resume,
    "message.set-flow-mode": _nothing,
    "message.flow": _flow,
    "message.stop": _stop,
}
TAKE = {kind.code: _TAKE[kind.name] for kind in OPERATIONS.values() if kind.name in _TAKE}
"""By code. Others are refused with not-implemented."""
