"""What a person meant by a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 64
"""Of longer names nothing is guessed: the comparison takes time, and a peer chooses the name."""


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one, or "" if none is."""
    near = get_close_matches(name, sorted(known), 1) if len(name) <= LONGEST else []
    return near[0] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to append to an error, such as ``" (did you mean x-max-length?)"``, or ""."""
    near = closest(name, known)
    return f" (did you mean {near}?)" if near else ""
