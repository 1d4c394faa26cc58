"""Delivery states (§3.4, §4.5.6) <-> outcomes of the broker."""

from typing import Any

from gateway.adapters.performatives.composites import symbol_for
from gateway.adapters.performatives.violation import error
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition
from gateway.message import Table
from gateway.operations import Modify, Operation, Outcome, Settle
from gateway.values import Symbol

ACCEPTED, RELEASED = w.ACCEPTED, w.Released()

TERMINAL = frozenset({w.Accepted, w.Rejected, w.Released, w.Modified, w.Declared})
"""States that are final: outcomes (§3.4), and that of a declare (§4.5.5)."""

STATES: dict[Outcome, Any] = {
    Outcome.ACCEPT: ACCEPTED,
    Outcome.RELEASE: RELEASED,
    Outcome.REJECT: w.Rejected(),
    Outcome.DECLINE: w.Modified(undeliverable_here=True),
    Outcome.REFUSE: w.Modified(undeliverable_here=True),
    Outcome.UNDO: RELEASED,
}

OUTCOMES: dict[type[Any], Outcome] = {
    w.Accepted: Outcome.ACCEPT,
    w.Released: Outcome.RELEASE,
    w.Rejected: Outcome.REJECT,
}

SYMBOLS = (
    "amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list",
)  # fmt: skip
"""The outcomes that our sources offer (§3.5.3 outcomes)."""


def is_transactional(state: Any) -> bool:
    return type(state) is w.TransactionalState


def outcome_of(state: Any, channel: int, delivery: int) -> Outcome | Modify | None:
    """A state as an outcome; ``None`` if it is not terminal."""
    simple = OUTCOMES.get(type(state))
    if simple is not None:
        return simple
    if type(state) is w.Modified:
        return Modify(
            channel,
            delivery,
            bool(state.delivery_failed),
            bool(state.undeliverable_here),
            annotations_of(state.message_annotations),
        )
    return None


def annotations_of(given: dict[Any, Any] | None) -> Table | None:
    """Message annotations by name. Keys that are numbers are reserved (§3.2.10) and left out."""
    if given is None:
        return None
    return {str(key): value for key, value in given.items() if isinstance(key, str)}


def state_of(outcome: Any) -> Any:
    """An outcome as a state; ``None`` stays ``None``."""
    if isinstance(outcome, Modify):
        annotations = outcome.annotations
        return w.Modified(
            outcome.failed or None,
            outcome.elsewhere or None,
            {Symbol(key): value for key, value in annotations.items()} if annotations else None,
        )
    return None if outcome is None else STATES[outcome]


def settle(outcome: Outcome | Modify, channel: int, delivery: int) -> Operation:
    """The operation that applies an outcome."""
    if isinstance(outcome, Modify):
        return outcome
    return Settle(channel, delivery, False, outcome)


def bare(state: Any) -> Any:
    """The same outcome without its error or annotations, for a frame without room for them."""
    if type(state) is w.Modified:
        return w.Modified(state.delivery_failed, state.undeliverable_here)
    return w.Rejected() if type(state) is w.Rejected else state


def rejected(condition: Condition, text: str) -> Any:
    """The state of a message that the broker refuses (§3.4.3)."""
    return w.Rejected(error(symbol_for(condition), text))


def returned(condition: Condition, text: str) -> Any:
    """The state of a message that comes back: without a route it was not and will not be acted
    upon, and may be sent again (§3.4.4); for anything else it is rejected."""
    return RELEASED if condition is Condition.NO_ROUTE else rejected(condition, text)


def default_outcome(source: Any, channel: int, delivery: int) -> Outcome | Modify:
    """The outcome of a delivery that the receiver settles without a state (§3.5.3)."""
    state = getattr(source, "default_outcome", None)
    outcome = outcome_of(state, channel, delivery)
    return Outcome.RELEASE if outcome is None else outcome
