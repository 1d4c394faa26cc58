"""Mistakes of the peer that cost its session."""

from typing import NamedTuple, Protocol

from gateway.adapters.segments.violation import Violation
from gateway.operations import Done, Refused


class FailingSession(Protocol):
    """The session, as far as its failure needs it."""

    def tell_exception(
        self, code: int, text: str, number: int | None = None, operation: int = 0
    ) -> None: ...


class Failure(NamedTuple):
    """The token of a violation that costs the session."""

    session: FailingSession
    violation: Violation
    code: int
    number: int

    def done(self, op: Done) -> None:
        self.tell()

    def refused(self, op: Refused) -> None:
        self.tell()

    def tell(self) -> None:
        """Everything before it is answered."""
        violation = self.violation
        self.session.tell_exception(self.code, violation.text, self.number, violation.operation)
