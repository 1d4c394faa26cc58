"""The end of an adapter: its parts are let go without waiting for the garbage collector."""

from typing import Any

from gateway.adapters.core.output import no_op
from gateway.operations import Operation


def release(adapter: Any, *parts: Any) -> None:
    """Forget everything that an adapter knows; it receives and sends nothing any more. ``parts``
    are those that refer to themselves, by bound methods or by each other."""
    kept = {"version": adapter.version, "role": adapter.role, "closing": True}
    for part in parts:
        vars(part).clear()
    own = vars(adapter)
    own.clear()
    own.update(
        kept,
        wake=no_op,
        crowded=no_op,
        excuse_silence=no_op,
        refill=no_op,
        receive=_receive,
        send=_send,
        tick=_tick,
        found=list,
        lost=list,
        output=list,
    )


def _receive(data: bytes) -> list[Operation]:
    """Octets that nobody reads."""
    return []


def _tick(now: float) -> list[Operation]:
    """A clock that has stopped."""
    return []


def _send(operation: Operation) -> None:
    """An operation that nobody sends."""
