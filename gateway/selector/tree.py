"""The syntax tree of a selector, and its text form.

A chain of AND, OR, sums or products is one node of any length, so a long selector does not make a
deep tree.
"""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The static type of a part of a selector. The values are the names used in errors."""

    TRUTH = "a condition"
    EXACT = "an integer"
    NUMBER = "a number"
    TEXT = "a string"
    ANY = "a value"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal. ``kind`` distinguishes 1, 1.0 and True, which are equal in Python."""

    kind: Kind
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Name:
    """A header field or an application property."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """``first`` and the operations applied to it from left to right: + and -, or * and /."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison. ``sign`` is one of = <> < <= > >=."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Between:
    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    operand: "Node"
    choices: tuple[Literal, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Like:
    operand: "Node"
    pattern: str
    escape: str | None
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: "Node"
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    terms: tuple["Node", ...]


Node = (
    Literal | Name | Negative | Chain | Comparison | Between | In | Like | IsNull | Not | And | Or
)


def written(node: Node) -> str:
    """The tree as a selector that parses to the same tree."""
    match node:
        case Literal(_, value):
            return write_literal(value)
        case Name(name):
            return '"' + name.replace('"', '""') + '"'
        case Negative(operand):
            return "-" + part(operand)
        case Chain(first, rest):
            return part(first) + "".join(f" {sign} {part(operand)}" for sign, operand in rest)
        case Comparison(sign, left, right):
            return f"{part(left)} {sign} {part(right)}"
        case Between(operand, low, high, negated):
            return f"{part(operand)} {no(negated)}BETWEEN {part(low)} AND {part(high)}"
        case In(operand, choices, negated):
            return f"{part(operand)} {no(negated)}IN ({', '.join(map(written, choices))})"
        case Like(operand, pattern, escape, negated):
            tail = "" if escape is None else f" ESCAPE {write_literal(escape)}"
            return f"{part(operand)} {no(negated)}LIKE {write_literal(pattern)}{tail}"
        case IsNull(operand, negated):
            return f"{part(operand)} IS {no(negated)}NULL"
        case Not(operand):
            return f"NOT {part(operand)}"
        case And(terms):
            return " AND ".join(map(part, terms))
        case Or(terms):
            return " OR ".join(map(part, terms))


def no(negated: bool) -> str:
    return "NOT " if negated else ""


def part(node: Node) -> str:
    """The node as an operand: in parentheses unless it is a single token."""
    text = written(node)
    return text if isinstance(node, Literal | Name) else f"({text})"


def write_literal(value: str | int | float | bool) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value)
