"""Tokens of requests, which handle the answers."""

from collections.abc import Callable
from typing import Any

from gateway.errors import Condition


def _nothing(condition: Condition, text: str) -> None:
    """No-op."""


class PendingReply:
    """The token of an operation. ``done`` takes the result, ``refused`` condition and text. A
    refusal that costs the session is the session's matter, unless ``always``."""

    __slots__ = ("done", "refused", "always")

    def __init__(
        self,
        done: Callable[[Any], None],
        refused: Callable[[Condition, str], None] = _nothing,
        always: bool = False,
    ) -> None:
        self.done = done
        self.refused = refused
        self.always = always
