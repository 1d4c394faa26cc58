"""Tokens of requests, which handle the answers."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.errors import Condition


def _no_op(condition: Condition, text: str) -> None:
    """No-op."""


class PendingReply(NamedTuple):
    """The token of an operation. ``done`` takes the result, ``refused`` condition and text. A
    refusal that costs the session is handled by the session, unless ``always``."""

    done: Callable[[Any], None]
    refused: Callable[[Condition, str], None] = _no_op
    always: bool = False
