"""The lexical elements of a selector (JMS 2.0 §3.8.1.1)."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple
from unicodedata import category

from gateway.selector.errors import LONGEST, SelectorError


class Word(Enum):
    """Kind of a token."""

    NAME = auto()
    KEYWORD = auto()
    """A keyword or an operator in letters, in upper case; also TRUE and FALSE."""
    SIGN = auto()
    TEXT = auto()
    EXACT = auto()
    APPROXIMATE = auto()
    END = auto()


class Token(NamedTuple):
    """One token. ``value`` is its value: text without quotes, or a number."""

    word: Word
    value: str | int | float
    position: int


KEYWORDS = frozenset(
    ["AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"]
)
SPACE = re.compile(r"[ \t\r\n\f]*")
SIGN = re.compile(r"<>|<=|>=|[=<>+\-*/(),]")
TEXT = re.compile(r"'([^']*(?:''[^']*)*)'")
QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"')
NUMBER = re.compile(
    r"(?P<exact>0[xX][0-9a-fA-F]+|0[bB][01]+)[lL]?"
    r"|(?P<approximate>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|[0-9]+(?=[fFdD]))[fFdD]?"
    r"|(?P<decimal>[0-9]+)[lL]?"
)
LARGEST = 1 << 63
"""With a minus before it this is the smallest integer of 64 bits."""

STARTS = frozenset(["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"])
"""Unicode categories that may start an identifier in Java, and those that may follow."""
FOLLOWS = STARTS | {"Mn", "Mc", "Nd"}


def tokens(text: str) -> Iterator[Token]:
    """The tokens, followed by ``END``. Raises ``SelectorError``."""
    if len(text) > LONGEST:
        raise SelectorError(f"a selector has at most {LONGEST} characters; too long", LONGEST)
    at = 0
    while True:
        spaces = SPACE.match(text, at)
        assert spaces is not None
        at = spaces.end()
        if at == len(text):
            yield Token(Word.END, "", at)
            return
        token, at = one(text, at)
        yield token


def one(text: str, at: int) -> tuple[Token, int]:
    """The token at a position, and its end."""
    first = text[at]
    if first == "'" or first == '"':
        return quoted(text, at)
    if "0" <= first <= "9" or (first == "." and "0" <= text[at + 1 : at + 2] <= "9"):
        return number(text, at)
    if category(first) in STARTS:
        return name(text, at)
    found = SIGN.match(text, at)
    if found is None:
        raise SelectorError(f"unexpected character {first!r}", at)
    return Token(Word.SIGN, found.group(), at), found.end()


def quoted(text: str, at: int) -> tuple[Token, int]:
    """A string, or an identifier in double quotes. A doubled quote stands for one."""
    quote = text[at]
    found = (TEXT if quote == "'" else QUOTED).match(text, at)
    if found is None:
        raise SelectorError(f"missing closing {quote}", at)
    value = found.group(1).replace(quote * 2, quote)
    if quote == '"' and not value:
        raise SelectorError("empty identifier", at)
    return Token(Word.TEXT if quote == "'" else Word.NAME, value, at), found.end()


def name(text: str, at: int) -> tuple[Token, int]:
    """An identifier by the rules of Java, which may contain dots, or a keyword."""
    end = at + 1
    while end < len(text) and (
        category(text[end]) in FOLLOWS
        or (text[end] == "." and end + 1 < len(text) and category(text[end + 1]) in STARTS)
    ):
        end += 1
    value = text[at:end]
    capitals = value.upper()
    if capitals in KEYWORDS:
        return Token(Word.KEYWORD, capitals, at), end
    return Token(Word.NAME, value, at), end


def number(text: str, at: int) -> tuple[Token, int]:
    """Integers in base 10, 16, 8 (a leading zero) and 2, and floating point, as Java has them."""
    found = NUMBER.match(text, at)
    assert found is not None
    end = found.end()
    if end < len(text) and (category(text[end]) in FOLLOWS or text[end] == "."):
        raise SelectorError("malformed number", at)
    approximate = found["approximate"]
    if approximate is not None:
        value = float(approximate)
        if value == float("inf"):
            raise SelectorError("number is too large", at)
        return Token(Word.APPROXIMATE, value, at), end
    digits = found["exact"] or found["decimal"]
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal()
    try:
        exact = int(digits, 8 if octal else 0)
    except ValueError:
        raise SelectorError("malformed number", at) from None
    if exact > LARGEST:
        raise SelectorError("number is too large", at)
    return Token(Word.EXACT, exact, at), end
