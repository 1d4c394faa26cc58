"""LIKE: ``_`` is any character, ``%`` any run of them.

A pattern is split at its ``%``. The pieces are searched from left to right, each at its first
match, which is always correct, so there is no backtracking. A piece with ``_`` is searched at all
positions of a section of text at once (``places``). The cost is counted in steps (``EFFORT``): the
limit is exceeded only by attacks, and callers that evaluate selectors on many messages can read the
cost.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

LONGEST_TEXT = 16_384
"""Maximum characters of a compared value; a longer one matches no pattern."""
MOST_STEPS = 8_000_000
"""Maximum steps of one selector on one message: about 20 ms."""
MOST_SHARED = 16_000_000
"""Maximum steps of all selectors while one message is routed: about 40 ms."""
STEPS_OF_A_TERM = 80
"""Steps that a name or a literal counts as, with its part in a comparison: 0.2 us."""
STRETCH = 256
"""Characters of text searched first for a piece with ``_``; the section doubles each time."""

Piece = tuple[str | None, ...]
"""Adjacent characters of a pattern; ``None`` is any character."""


class TooMuchEffort(ValueError):
    """A selector has used up its steps for a message and therefore does not match it."""


class Effort:
    """Steps used so far by all patterns of the process, and the limit of the current one. A step is
    one character of text visited once: 2 to 5 ns."""

    __slots__ = ("steps", "end", "most", "pool")

    def __init__(self) -> None:
        self.steps = 0
        self.end = 0
        self.most = MOST_STEPS
        self.pool = MOST_SHARED

    def fill(self) -> None:
        """Reset the budget for a new message."""
        self.pool = MOST_SHARED

    def begin(self) -> None:
        """Start the evaluation of a selector, or of a pattern, on a message."""
        self.end = self.steps + self.most

    def shared(self, conditions: Sequence[T]) -> Iterator[T]:
        """Conditions evaluated on one message in sequence. Each has its share of the budget of the
        message, plus the unused shares of its predecessors."""
        around = self.most
        try:
            for at, condition in enumerate(conditions):
                before = self.steps
                self.most = min(self.pool // (len(conditions) - at), MOST_STEPS)
                yield condition
                self.pool -= min(self.steps - before, self.most)
        finally:
            self.most = around

    def take(self, steps: int) -> None:
        """Count steps. Raises ``TooMuchEffort``."""
        self.steps += steps
        if self.steps > self.end:
            raise TooMuchEffort


EFFORT = Effort()


def pieces(pattern: str, escape: str | None) -> list[Piece] | None:
    """The pieces of a pattern between its ``%``; ``None`` if it ends with its escape character."""
    found: list[Piece] = []
    piece: list[str | None] = []
    escaped = False
    for character in pattern:
        if escaped:
            piece.append(character)
            escaped = False
        elif character == escape:
            escaped = True
        elif character == "%":
            found.append(tuple(piece))
            piece = []
        else:
            piece.append(None if character == "_" else character)
    found.append(tuple(piece))
    return None if escaped else found


def matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """A function that matches a text against a valid pattern."""
    cut = pieces(pattern, escape)
    assert cut is not None
    first, last = cut[0], cut[-1]
    if len(cut) == 1:
        return lambda text: len(text) == len(first) and fits(first, text, 0)
    searches = [search(piece) for piece in cut[1:-1] if piece]
    least = sum(map(len, cut))

    def matches(text: str) -> bool:
        end = len(text) - len(last)
        if (
            not least <= len(text) <= LONGEST_TEXT
            or not fits(first, text, 0)
            or not fits(last, text, end)
        ):
            return False
        at = len(first)
        for find in searches:
            at = find(text, at, end)
            if at < 0:
                return False
        return True

    return matches


def fits(piece: Piece, text: str, at: int) -> bool:
    """Whether the piece matches at a position. The text must be long enough."""
    return all(wanted is None or wanted == text[at + index] for index, wanted in enumerate(piece))


def search(piece: Piece) -> Callable[[str, int, int], int]:
    """A function that finds the first match of a piece between two positions of a text, and returns
    its end or -1."""
    plain = "".join(character or "" for character in piece)
    return plainly(plain) if len(plain) == len(piece) else stretch_by_stretch(piece)


def plainly(plain: str) -> Callable[[str, int, int], int]:
    """A piece without ``_``. For short pieces Python's search visits a character at worst as often
    as the piece is long, but fast."""
    length = len(plain)
    dear = 1 + (min(length, 128) >> 4)

    def find(text: str, start: int, end: int) -> int:
        stop = min(end, start + max(EFFORT.end - EFFORT.steps, 0) // dear + 1)
        at = text.find(plain, start, stop)
        EFFORT.take(dear * ((stop if at < 0 else at + length) - start))
        return at if at < 0 else at + length

    return find


def stretch_by_stretch(piece: Piece) -> Callable[[str, int, int], int]:
    """A piece with ``_``, searched in a short section of the text and then in longer ones, so that
    the cost is proportional to the distance of the match."""
    length = len(piece)
    first = first_place(piece)

    def find(text: str, start: int, end: int) -> int:
        size = STRETCH + 2 * length
        while start + length <= end:
            stop = min(start + size, end)
            at = first(text[start:stop])
            if at >= 0:
                return start + at + length
            start = stop - length + 1
            size *= 2
        return -1

    return find


def first_place(piece: Piece) -> Callable[[str], int]:
    """All possible matches are the bits of one number. Each character of the piece clears the bits
    of those positions where it does not occur at its offset."""
    length = len(piece)
    offsets: dict[str, list[int]] = {}
    for offset, wanted in enumerate(piece):
        if wanted is not None:
            offsets.setdefault(wanted, []).append(offset)

    def find(text: str) -> int:
        size = len(text)
        fitting = (1 << size - length + 1) - 1
        EFFORT.take(size)
        if not all(character in text for character in offsets):
            return -1
        try:
            octets = text.encode("latin-1")
        except UnicodeEncodeError:
            octets = None
        for character, behind in offsets.items():
            EFFORT.take(2 * size + len(behind) * (16 + (size >> 6)))
            standing = places(text, octets, character)
            for offset in behind:
                fitting &= standing >> offset
                if not fitting:
                    return -1
        return (fitting & -fitting).bit_length() - 1

    return find


ONES = [b"0" * code + b"1" + b"0" * (255 - code) for code in range(256)]
"""For each character of Latin 1, the translation table that maps it to one and all others to
zero."""


def places(text: str, octets: bytes | None, character: str) -> int:
    """A number with a bit set for each position of the character. ``octets`` is the text if it is
    Latin 1."""
    if octets is not None:
        return int(octets.translate(ONES[ord(character)])[::-1], 2)
    EFFORT.take(16 * text.count(character))
    return int("1".join(["0" * len(part) for part in text.split(character)])[::-1], 2)
