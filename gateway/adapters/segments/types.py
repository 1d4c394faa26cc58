"""Shared parts of 0-10: errors, limits, widths of values."""

from gateway.adapters.core.allowance import MOST_VALUES, Allowance

DEPTH = 64
"""How deep maps, lists and arrays may nest."""

MOST_EMPTY = 255
"""How many elements an array may have that take no octets: nothing but a count announces them."""

LATEST_SECONDS = 10**11
"""Above it a datetime counts milliseconds, as the Java broker of Qpid writes them: as seconds it
would lie beyond the year 5138."""

UNASSIGNED = -9

_BY_NIBBLE = (1, 2, 4, 8, 16, 32, 64, 128, -1, -2, -4, UNASSIGNED, 5, 9, UNASSIGNED, 0)

WIDTHS: list[int] = [_BY_NIBBLE[code >> 4] for code in range(256)]
"""Octets of a value by its type code, known or not; -1, -2 and -4 if so many octets say how many
there are."""

Ranges = tuple[tuple[int, int], ...]
"""First and last number of each range of a set."""


class FieldError(ValueError):
    """Octets that are no value, or a value that cannot be written (command-invalid)."""


class TooManyValues(FieldError):
    """The values are valid, but there are too many (resource-limit-exceeded)."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_VALUES} values in one message or command")


class Unacceptable(Exception):
    """A command that costs the session, with an error code that has no condition."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


ALLOWANCE = Allowance(TooManyValues)
"""Values in one message or command that arrives."""
