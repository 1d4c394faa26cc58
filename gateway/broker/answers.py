"""Answers of an upstream, which come later than the operations that need them."""

from collections.abc import Callable
from typing import Any

from gateway.errors import AwaitsUpstream, Refusal


class Answer:
    """An answer of the upstream, which may not have come yet."""

    __slots__ = ("done", "_result", "_refusal", "_waiting")

    def __init__(self) -> None:
        self.done = False
        self._result: Any = None
        self._refusal: Refusal | None = None
        self._waiting: list[Callable[[], None]] = []

    def then(self, callback: Callable[[], None]) -> None:
        """Call back when the answer has come; now, if it has."""
        if self.done:
            callback()
        else:
            self._waiting.append(callback)

    def resolve(self, result: Any, refusal: Refusal | None = None) -> None:
        """The answer has come: a result, or a refusal. For use within a turn."""
        self.done = True
        self._result, self._refusal = result, refusal
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    @property
    def succeeded(self) -> bool:
        """It has come, and is no refusal."""
        return self.done and self._refusal is None

    def value(self) -> Any:
        """The result. Raises the refusal, or ``AwaitsUpstream`` before the answer has come."""
        if not self.done:
            raise AwaitsUpstream(self)
        if self._refusal is not None:
            refusal = self._refusal
            raise Refusal(refusal.condition, refusal.text, refusal.lost)
        return self._result


class Answers:
    """Answers to the requests of one operation, which is performed again for each that has come.
    ``again`` is set while it is."""

    __slots__ = ("given", "names", "again")

    def __init__(self) -> None:
        self.given: dict[str, Answer] = {}
        self.names: dict[str, str] = {}
        self.again = False

    def begin(self) -> None:
        """Answers to earlier operations do not count."""
        if not self.again and self.given:
            self.given.clear()
            self.names.clear()
