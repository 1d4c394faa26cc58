"""Breaks the reference cycles of an adapter, so that it need not wait for the garbage collector."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gateway.adapters.core.output import no_op
from gateway.operations import Operation


def release(adapter: Any, *parts: Any) -> None:
    """Clear the attributes of an adapter; it receives and sends nothing any more. ``parts`` are
    those in reference cycles, by bound methods or by each other."""
    kept = {"version": adapter.version, "role": adapter.role, "closing": True}
    for part in (*parts, adapter):
        clear(part)
    for name, value in {**kept, **RELEASED}.items():
        setattr(adapter, name, value)
    if hasattr(adapter, "__dict__"):
        adapter.send, adapter.tick = _ignore, _no_operations


def clear(part: Any) -> None:
    """Delete all attributes of an object, with slots or without."""
    for name in getattr(type(part), "__slots__", ()):
        with suppress(AttributeError):  # it was never set
            delattr(part, name)
    if hasattr(part, "__dict__"):
        vars(part).clear()


def _no_operations(_: bytes | float) -> list[Operation]:
    return []


def _ignore(operation: Operation) -> None:
    """No-op: the connection is over."""


RELEASED: Mapping[str, Callable[..., Any]] = {
    "wake": no_op,
    "output_congested": no_op,
    "excuse_silence": no_op,
    "refill": no_op,
    "receive": _no_operations,
    "found": list,
    "lost": list,
    "output": list,
}
"""Methods of an adapter that is over. Those with slots look at ``closing`` in the others."""
