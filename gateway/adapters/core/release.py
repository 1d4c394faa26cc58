"""Breaks the reference cycles of an adapter, so that it need not wait for the garbage collector."""

from typing import Any

from gateway.adapters.core.output import no_op
from gateway.operations import Operation


def release(adapter: Any, *parts: Any) -> None:
    """Clear the attributes of an adapter; it receives and sends nothing any more. ``parts`` are
    those in reference cycles, by bound methods or by each other."""
    kept = {"version": adapter.version, "role": adapter.role, "closing": True}
    for part in parts:
        vars(part).clear()
    own = vars(adapter)
    own.clear()
    own.update(
        kept,
        wake=no_op,
        output_congested=no_op,
        excuse_silence=no_op,
        refill=no_op,
        receive=_no_operations,
        send=_ignore,
        tick=_no_operations,
        found=list,
        lost=list,
        output=list,
    )


def _no_operations(_: bytes | float) -> list[Operation]:
    return []


def _ignore(operation: Operation) -> None:
    """No-op: the connection is over."""
