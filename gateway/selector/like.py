"""LIKE: ``_`` is any character, ``%`` any run of them.

A pattern is cut at its ``%``; the pieces between are looked for from left to right, each at the
first place where it fits, which is always right. So the time is that of one pass over the text
whatever the pattern, and there is nothing to backtrack over.
"""

import re
from collections.abc import Callable

LONGEST_TEXT = 16_384
"""Characters of a value that is compared; a longer one is like nothing."""
SHORT = 64
"""Pieces up to this length are looked for place by place, which is quick for them."""

Piece = tuple[str | None, ...]
"""Characters that must stand side by side; ``None`` is any."""


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
    length = len(piece)
    plain = "".join(character or "" for character in piece)
    if len(plain) == length:

        def find(text: str, start: int, end: int) -> int:
            at = text.find(plain, start, end)
            return at if at < 0 else at + length

        return find
    return place_by_place(piece) if length <= SHORT else shift_and(piece)


def place_by_place(piece: Piece) -> Callable[[str, int, int], int]:
    """A regular expression without repetition, which has nothing to backtrack over."""
    expression = "".join("." if wanted is None else re.escape(wanted) for wanted in piece)
    pattern = re.compile(expression, re.DOTALL)

    def find(text: str, start: int, end: int) -> int:
        found = pattern.search(text, start, end)
        return -1 if found is None else found.end()

    return find


def shift_and(piece: Piece) -> Callable[[str, int, int], int]:
    """All beginnings of the piece that fit so far are the bits of one number; each character of
    the text moves them on by one (Baeza-Yates and Gonnet, 1992)."""
    anything = sum(1 << index for index, wanted in enumerate(piece) if wanted is None)
    masks: dict[str, int] = {}
    for index, wanted in enumerate(piece):
        if wanted is not None:
            masks[wanted] = masks.get(wanted, anything) | 1 << index
    complete = 1 << len(piece) - 1

    def find(text: str, start: int, end: int) -> int:
        state = 0
        for at in range(start, end):
            state = (state << 1 | 1) & masks.get(text[at], anything)
            if state & complete:
                return at + 1
        return -1

    return find
