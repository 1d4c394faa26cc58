"""LIKE: ``_`` is any character, ``%`` any run of them.

A pattern is cut at its ``%``; the pieces between are looked for from left to right, each at the
first place where it fits, which is always right. So there is nothing to backtrack over. A piece
with ``_`` is looked for in all places of a stretch of text at once (``places``). What that costs
is counted in steps (``EFFORT``): a selector has enough of them for all but attacks, and whoever
asks selectors about many messages sees how much it has cost.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

LONGEST_TEXT = 16_384
"""Characters of a value that is compared; a longer one is like nothing."""
MOST_STEPS = 8_000_000
"""Steps that one selector may take about one message: some 20 ms."""
MOST_SHARED = 16_000_000
"""Steps that all selectors on the way of one message may take together: some 40 ms."""
STRETCH = 256
"""Characters of text that are looked at first for a piece with ``_``; then twice as many."""

Piece = tuple[str | None, ...]
"""Characters that must stand side by side; ``None`` is any."""


class TooMuchEffort(ValueError):
    """A selector has taken all its steps about a message, which it does not match then."""


class Effort:
    """Steps taken so far by all patterns of the process, and where the one at work must stop. A
    step is a character of a text passed over once: 2 to 5 ns."""

    __slots__ = ("steps", "end", "most", "pool")

    def __init__(self) -> None:
        self.steps = 0
        self.end = 0
        self.most = MOST_STEPS
        self.pool = MOST_SHARED

    def fill(self) -> None:
        """A message sets out on its way."""
        self.pool = MOST_SHARED

    def begin(self) -> None:
        """A selector, or a pattern, is asked about a message."""
        self.end = self.steps + self.most

    def shared(self, conditions: Sequence[T]) -> Iterator[T]:
        """Conditions that are asked about one message one after the other. Each has its part of
        what there is for the way of a message, and of what those before have left of theirs."""
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
        """Raises ``TooMuchEffort``."""
        self.steps += steps
        if self.steps > self.end:
            raise TooMuchEffort


EFFORT = Effort()


def pieces(pattern: str, escape: str | None) -> list[Piece] | None:
    """The pattern between its ``%``; ``None`` if it ends with its escape character."""
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
    """Whether a text is like the pattern, which has been checked."""
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
    """Whether the piece stands there; the text is long enough."""
    return all(wanted is None or wanted == text[at + index] for index, wanted in enumerate(piece))


def search(piece: Piece) -> Callable[[str, int, int], int]:
    """Where the piece first fits between two places of a text: its end, or -1."""
    plain = "".join(character or "" for character in piece)
    return plainly(plain) if len(plain) == len(piece) else stretch_by_stretch(piece)


def plainly(plain: str) -> Callable[[str, int, int], int]:
    """A piece without ``_``. What Python does for short ones looks at a character as often as the
    piece is long, at the worst, but quickly."""
    length = len(plain)
    dear = 1 + (min(length, 128) >> 4)

    def find(text: str, start: int, end: int) -> int:
        stop = min(end, start + max(EFFORT.end - EFFORT.steps, 0) // dear + 1)
        at = text.find(plain, start, stop)
        EFFORT.take(dear * ((stop if at < 0 else at + length) - start))
        return at if at < 0 else at + length

    return find


def stretch_by_stretch(piece: Piece) -> Callable[[str, int, int], int]:
    """A piece with ``_``: in a short stretch of the text, then in longer ones, so that the work is
    in proportion to how far away the place is."""
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
    """All places where the piece may fit are the bits of one number. For each of its characters
    that number keeps those bits where the character stands as far behind as it should."""
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
"""For each character of Latin 1 the table that makes it one and all others zero."""


def places(text: str, octets: bytes | None, character: str) -> int:
    """A number with the bits set of those places where the character stands; ``octets`` are the
    text if it is Latin 1."""
    if octets is not None:
        return int(octets.translate(ONES[ord(character)])[::-1], 2)
    EFFORT.take(16 * text.count(character))
    return int("1".join(["0" * len(part) for part in text.split(character)])[::-1], 2)
