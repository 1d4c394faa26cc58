"""Mistakes of a 0-10 peer, as values: the frame loop and the engine return them, nothing raises
them."""

from typing import NamedTuple

from gateway.adapters.segments.types import FieldError, TooManyValues
from gateway.adapters.segments.wire.tables import CODES, ErrorCode
from gateway.errors import Condition, Lost

EXCEPTION_CONDITIONS = {
    **{code: Condition(name) for name, (code, _) in CODES.items()},
    ErrorCode.RESOURCE_DELETED: Condition.NOT_FOUND,
    ErrorCode.ILLEGAL_ARGUMENT: Condition.SYNTAX_ERROR,
    ErrorCode.INVALID_ARGUMENT: Condition.PRECONDITION_FAILED,
}
"""By the error code of an execution.exception."""


def session_code(condition: Condition) -> int:
    """The error code of an execution.exception."""
    return CODES[condition.value][0]


class Violation(NamedTuple):
    """``lost`` is the scope that ends by it: the connection (connection.close), or the session
    (execution.exception, then session.detach). ``operation`` is class << 8 | code of the control or
    command at fault, 0 if it is none."""

    condition: Condition
    text: str
    lost: Lost = Lost.CONNECTION
    channel: int = 0
    operation: int = 0

    @property
    def code(self) -> int:
        """The error code that 0-10 has for it."""
        return CODES[self.condition.value][0]


def framing_error(text: str, channel: int = 0) -> Violation:
    """No valid frame, or one that must not come now (connection.close 501)."""
    return Violation(Condition.FRAME_ERROR, text, Lost.CONNECTION, channel)


def command_invalid(text: str, channel: int, operation: int = 0) -> Violation:
    """A command that cannot be decoded (execution.exception 503)."""
    return Violation(Condition.COMMAND_INVALID, text, Lost.SESSION, channel, operation)


def undecodable(error: FieldError, channel: int, operation: int = 0) -> Violation:
    """The same for an error of the decoder; too many values are another condition (506)."""
    if isinstance(error, TooManyValues):
        condition = Condition.RESOURCE_ERROR
        return Violation(condition, str(error), Lost.SESSION, channel, operation)
    return command_invalid(str(error), channel, operation)
