"""Mistakes of a 1.0 peer, with the conditions of the specification (§2.8.14 to §2.8.18)."""

from typing import Any

from gateway.adapters.performatives.composites import condition_for
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError, ConnectionError
from gateway.errors import Condition, Lost, PeerError

LONGEST = 256
"""Octets of a description that always fit a frame of 512 beside the rest."""


class Violation(PeerError):
    """``symbol`` is the condition as 1.0 writes it, ``info`` its map. ``lost``: the scope that it
    ends, the connection (close), the session (end) or the link (detach)."""

    def __init__(
        self,
        symbol: str,
        text: str,
        lost: Lost = Lost.CONNECTION,
        channel: int = 0,
        info: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__(condition_for(symbol), text, lost, channel=channel)
        self.symbol = symbol
        self.info = info


def framing_error(text: str) -> Violation:
    """No valid frame, or one outside the limits that were agreed on."""
    return Violation(ConnectionError.FRAMING_ERROR, text)


def illegal_state(text: str) -> Violation:
    """A frame that must not come now."""
    return Violation(AmqpError.ILLEGAL_STATE, text)


def reason(error: w.Error | None, otherwise: str) -> tuple[Condition, str]:
    """Condition and text of an error."""
    if error is None:
        return Condition.CONNECTION_FORCED, otherwise
    return condition_for(error.condition), error.description or error.condition


def error(symbol: str, text: str, info: dict[Any, Any] | None = None) -> w.Error:
    """The record of an error, short enough for the smallest frame."""
    raw = text.encode("utf-8", "replace")
    return w.Error(symbol, raw[:LONGEST].decode("utf-8", "ignore") or None, info)
