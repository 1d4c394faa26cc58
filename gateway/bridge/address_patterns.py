"""Patterns of names and addresses, with named parts.

===============  ==================================================================================
``{name}``       a word: one or more characters, without the separator
``{name...}``    one or more characters
``{name*}``      any characters, or none
``*``            a word without a name
``#``            any characters or none, without a name
``\\``            before one of ``{ } * # \\``: that character itself
===============  ==================================================================================

The separator is ``.`` in names and ``/`` in addresses. In an address that is *encoded*, values are
percent-encoded: all but letters, digits and ``- . _ ~`` (RFC 3986 §2.3), and a part that may be
longer than a word keeps its ``/``.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple
from urllib.parse import quote, unquote

TOKEN = re.compile(r"\\(.)|\{([^{}]*)\}|([*#{}])|([^\\{}*#]+)|(\\)", re.S)
NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\.\.\.|\*)?", re.A)
MOST_PARTS = 16
"""Named and unnamed parts of one pattern."""
UNRESERVED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"


class Extent(Enum):
    """How much a part of a pattern may be."""

    WORD = "word"
    SOME = "some"
    ANY = "any"


EXTENTS = {"": Extent.WORD, "...": Extent.SOME, "*": Extent.ANY}


class Part(NamedTuple):
    """A part that varies; ``name`` is empty for one without."""

    name: str
    extent: Extent


class Alphabet(NamedTuple):
    """Characters that a part may have: those of ``only``, or all but those of ``without``."""

    only: str
    without: str

    def has(self, character: str) -> bool:
        return character in self.only if self.only else character not in self.without

    @property
    def expression(self) -> str:
        if self.only:
            return f"[{re.escape(self.only)}]"
        return f"[^{re.escape(self.without)}]" if self.without else "."


class Atom(NamedTuple):
    """Of the automaton of a pattern: one character out of an alphabet, or any number."""

    alphabet: Alphabet
    repeated: bool


class Form(NamedTuple):
    """How text of one kind is written. ``encoded``: values are percent-encoded."""

    separator: str
    encoded: bool

    def alphabet(self, extent: Extent) -> Alphabet:
        word = extent is Extent.WORD
        if self.encoded:
            return Alphabet(UNRESERVED + "%" + ("" if word else self.separator), "")
        return Alphabet("", self.separator if word else "")

    def written(self, value: str, extent: Extent) -> str:
        if not self.encoded:
            return value
        return quote(value, safe="" if extent is Extent.WORD else self.separator)

    def read(self, text: str) -> str:
        """Raises ``ValueError``: the octets are not UTF-8."""
        return unquote(text, errors="strict") if self.encoded else text


FIELD = Form(".", False)
"""Names of exchanges and queues, and routing keys."""
ADDRESS, RAW_ADDRESS = Form("/", True), Form("/", False)


class Pattern:
    """A compiled pattern. Raises ``ValueError``."""

    def __init__(self, text: str, form: Form) -> None:
        self.text = text
        self.form = form
        self.pieces: list[str | Part] = list(pieces(text))
        parts = [one for one in self.pieces if isinstance(one, Part)]
        self.parts = {one.name: one.extent for one in parts if one.name}
        self.unnamed = any(not one.name for one in parts)
        if len(parts) > MOST_PARTS:
            raise ValueError(f"{text!r} has more than {MOST_PARTS} parts that vary")
        if len(self.parts) < sum(1 for one in parts if one.name):
            raise ValueError(f"{text!r} has two parts of the same name")
        self._expression = re.compile(
            "".join(self._group(one) for one in self.pieces), re.S
        ).fullmatch

    def _group(self, piece: str | Part) -> str:
        if isinstance(piece, str):
            return re.escape(piece)
        times = "*" if piece.extent is Extent.ANY else "+"
        inner = f"{self.form.alphabet(piece.extent).expression}{times}"
        return f"(?P<{piece.name}>{inner})" if piece.name else inner

    def match(self, text: str) -> dict[str, str] | None:
        """The values of the named parts. ``None`` if the text does not match, or is not encoded as
        ``write`` does."""
        found = self._expression(text)
        if found is None:
            return None
        try:
            values = {name: self.form.read(value) for name, value in found.groupdict().items()}
        except ValueError:
            return None
        if self.form.encoded:
            for name, value in values.items():
                if self.form.written(value, self.parts[name]) != found[name]:
                    return None
        return values

    def write(self, values: Mapping[str, str]) -> str:
        """The text with these values. Raises ``KeyError`` if one is missing."""
        return "".join(
            one if isinstance(one, str) else self.form.written(values[one.name], one.extent)
            for one in self.pieces
        )

    def takes(self, name: str, value: str) -> bool:
        """Whether a part that was written with this value is read as it."""
        extent = self.parts[name]
        text = self.form.written(value, extent)
        alphabet = self.form.alphabet(extent)
        return (bool(text) or extent is Extent.ANY) and all(map(alphabet.has, text))

    def atoms(self) -> list[Atom]:
        found = []
        for piece in self.pieces:
            if isinstance(piece, str):
                found += [Atom(Alphabet(one, ""), False) for one in piece]
                continue
            alphabet = self.form.alphabet(piece.extent)
            if piece.extent is not Extent.ANY:
                found.append(Atom(alphabet, False))
            found.append(Atom(alphabet, True))
        return found

    def literals(self) -> set[str]:
        return {one for piece in self.pieces if isinstance(piece, str) for one in piece}


def pieces(text: str) -> Iterable[str | Part]:
    """Literal text, joined, and parts. Raises ``ValueError``."""
    literal = ""
    for escaped, inner, mark, plain, dangling in TOKEN.findall(text):
        if dangling or mark in {"{", "}"}:
            raise ValueError(f"{text!r}: {mark or dangling!r} stands alone; \\ before it keeps it")
        if plain or escaped:
            literal += plain or escaped
            continue
        if literal:
            yield literal
            literal = ""
        if mark:
            yield Part("", Extent.WORD if mark == "*" else Extent.ANY)
            continue
        found = NAME.fullmatch(inner)
        if found is None:
            raise ValueError(f"{text!r}: {{{inner}}} should be {{name}}, {{name...}} or {{name*}}")
        yield Part(found[1], EXTENTS[found[2] or ""])
    if literal:
        yield literal


# --- places of two patterns -----------------------------------------------------------------------

Step = tuple[int, int, bool]
"""Atoms that come next in each of two patterns, and whether these went different ways."""


def common(one: Pattern, other: Pattern) -> str | None:
    """A text that both match, if there is one."""
    return walk(one, other, False)


def read_twice(pattern: Pattern) -> str | None:
    """A text that the pattern matches in two ways, so that its parts have no certain values."""
    return walk(pattern, pattern, True)


def walk(one: Pattern, other: Pattern, apart: bool) -> str | None:
    """The shortest text that both match; ``apart``: with a character that they take as different
    atoms."""
    first, second = one.atoms(), other.atoms()
    characters = sorted(one.literals() | other.literals() | set("a./"), key=lambda c: (c != "a", c))
    begin: Step = (0, 0, False)
    reached, frontier = {begin: ""}, [begin]
    while frontier:
        following = []
        for step in frontier:
            text = reached[step]
            if skips(first, step[0]) and skips(second, step[1]) and step[2] >= apart:
                return text
            for next_, character in onward(first, second, step, characters):
                if next_ not in reached:
                    reached[next_] = text + character
                    following.append(next_)
        frontier = following
    return None


def skips(atoms: list[Atom], at: int) -> bool:
    """Whether the text may end before this atom."""
    return all(one.repeated for one in atoms[at:])


def onward(
    first: list[Atom], second: list[Atom], step: Step, characters: list[str]
) -> Iterable[tuple[Step, str]]:
    """The next states, with a character that leads there."""
    for mine in takers(first, step[0]):
        for theirs in takers(second, step[1]):
            one, other = first[mine], second[theirs]
            for character in characters:
                if one.alphabet.has(character) and other.alphabet.has(character):
                    apart = step[2] or mine != theirs
                    yield (
                        (mine + (not one.repeated), theirs + (not other.repeated), apart),
                        character,
                    )
                    break


def takers(atoms: list[Atom], at: int) -> Iterable[int]:
    """Atoms that may take the next character."""
    while at < len(atoms):
        yield at
        if not atoms[at].repeated:
            return
        at += 1
