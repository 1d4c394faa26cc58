"""Checks in small steps that octets are JSON (RFC 8259), without building values.

``json.loads`` of a large body holds the interpreter for seconds, in a thread too. Runs of scalars
are one match each, within a window, so that a step costs a fraction of a millisecond.
"""

import codecs
import re
from collections.abc import Generator
from functools import cache
from typing import NamedTuple

WINDOW = 1 << 15
"""Octets that one step may look at. No number is longer."""
MOST_DEPTH = 900
TOKENS = 16
"""Tokens outside of runs in one step."""
BLANK = rb"[ \t\n\r]*+"
ESCAPED = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
TEXT = rb'(?:[^"\\\x00-\x1f]++|' + ESCAPED + rb")*"
STRING = rb'"' + TEXT + rb'"'
PLAIN = rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
SCALAR = rb"(?:" + STRING + rb"|" + PLAIN + rb")"
MEMBER = BLANK + STRING + BLANK + rb":" + BLANK
ENTRY = MEMBER + SCALAR + BLANK
ITEM_OF = BLANK + SCALAR + BLANK
FLAT_OBJECT = rb"\{(?:" + ENTRY + rb"(?:," + ENTRY + rb")*|" + BLANK + rb")\}"
FLAT_ARRAY = rb"\[(?:" + ITEM_OF + rb"(?:," + ITEM_OF + rb")*|" + BLANK + rb")\]"
FLAT = rb"(?:" + SCALAR + rb"|" + FLAT_OBJECT + rb"|" + FLAT_ARRAY + rb")"
"""A scalar, or an array or object of nothing else."""
SPACE, PIECE, WORD = re.compile(BLANK), re.compile(TEXT), re.compile(PLAIN)

FIRST_ITEM, ITEM, FIRST_KEY, KEY, COLON, AFTER = range(6)
ARRAY, OBJECT = b"[]"[0], b"{}"[0]
CLOSES = {b"]"[0]: ARRAY, b"}"[0]: OBJECT}
QUOTE, COMMA, DOUBLE_POINT = b'",:'

Steps = Generator[None, None, bool]


@cache
def flat_runs(before: bytes) -> re.Pattern[bytes]:
    """Entries in a row that hold no others; ``before``: what each begins with. It takes
    milliseconds to make, so that it is made when it is needed."""
    return re.compile(rb"(?:" + before + FLAT + BLANK + rb",)*")


def utf8_steps(octets: bytes) -> Steps:
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(octets)
    try:
        for at in range(0, len(octets), WINDOW):
            decoder.decode(view[at : at + WINDOW])
            yield
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


class Span(NamedTuple):
    """Where a value stands: from ``start`` to ``stop``. That of a member of an object is named
    from ``key`` to ``colon``."""

    key: int
    colon: int
    start: int
    stop: int


class Outline:
    """The entries of the outermost array or object, at most ``most``; ``over``: there are more."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.over = False
        self.opening = 0
        """The octet that begins it; 0 for a value that holds no others."""
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        if len(self.spans) < self.most:
            self.spans.append(span)
        else:
            self.over = True


def json_steps(octets: bytes) -> Steps:
    """Each yield is a step; the result says whether it is JSON in UTF-8."""
    if not (yield from utf8_steps(octets)):
        return False
    return (yield from outline_steps(octets, 0, len(octets), Outline(0)))


def outline_steps(octets: bytes, at: int, size: int, outline: Outline) -> Steps:
    """The same for the octets from ``at`` to ``size``, which are UTF-8. Their entries are added to
    ``outline``; the first that exceeds its limit ends the search, unless the limit is 0."""
    open_: list[int] = []
    noted = 1 if outline.most else 0
    """At this depth members are looked at one by one."""
    state = ITEM
    tokens = key = colon = start = stop = 0
    while True:
        tokens += 1
        if not tokens % TOKENS:
            yield
        end = min(size, at + WINDOW)
        depth = len(open_)
        if depth > noted and state < COLON:
            run = flat_runs(BLANK if state <= ITEM else MEMBER)
            reached = run.match(octets, at, end).end()  # type: ignore[union-attr]
            if reached > at:
                at, state = reached, ITEM if state <= ITEM else KEY
                yield
                continue
        reached = SPACE.match(octets, at, end).end()  # type: ignore[union-attr]
        if reached == end < size:
            at = reached
            yield
            continue
        at = reached
        if at == size:
            return state == AFTER and not open_
        mark = octets[at]
        if state <= ITEM and depth == noted:
            start = at
        if state == AFTER:
            if not open_:
                return False
            if depth == noted:
                outline.add(Span(key, colon, start, stop))
                if outline.over:
                    return False
            if mark == COMMA:
                state = ITEM if open_[-1] == ARRAY else KEY
            elif CLOSES.get(mark) == open_[-1]:
                open_.pop()
                stop = at + 1
            else:
                return False
            at += 1
        elif state == COLON:
            if mark != DOUBLE_POINT:
                return False
            at, state = at + 1, ITEM
        elif mark == QUOTE:
            found = yield from string_steps(octets, at + 1, size)
            if found is None:
                return False
            if state <= ITEM:
                state, stop = AFTER, found
            else:
                if depth == noted:
                    key, colon = at, found
                state = COLON
            at = found
        elif (mark == CLOSING[state]) if state in CLOSING else False:
            open_.pop()
            at, state = at + 1, AFTER
            stop = at
        elif state > ITEM:
            return False
        elif mark in (ARRAY, OBJECT):
            if not open_:
                outline.opening = mark
            open_.append(mark)
            if len(open_) > MOST_DEPTH:
                return False
            at, state = at + 1, FIRST_ITEM if mark == ARRAY else FIRST_KEY
        else:
            word = WORD.match(octets, at, min(size, at + WINDOW))
            if word is None or word.end() - at >= WINDOW:
                return False
            at, state = word.end(), AFTER
            stop = at


CLOSING = {FIRST_ITEM: b"]"[0], FIRST_KEY: b"}"[0]}
"""The octets that may end an empty array or object."""


def string_steps(octets: bytes, at: int, size: int) -> Generator[None, None, int | None]:
    """Behind the closing quote, or ``None``."""
    while True:
        reached = PIECE.match(octets, at, min(size, at + WINDOW)).end()  # type: ignore[union-attr]
        if reached < size and octets[reached] == QUOTE:
            return reached + 1
        if reached == at:
            return None
        at = reached
        yield
