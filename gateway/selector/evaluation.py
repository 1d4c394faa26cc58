"""Tree -> closures, with the three truth values of SQL: ``None`` is unknown (JMS 2.0 §3.8.1.2).

The caller passes a ``resolve`` that looks names up. Values are ``bool``, ``int``, ``float`` or
``str``, and ``None`` if absent. Values of different types are neither equal nor unequal nor
ordered: any comparison is false. Arithmetic on non-numbers, division by zero, and integers beyond
64 bits are unknown.
"""

from collections.abc import Callable
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, TypeVar

from gateway.selector.like import EFFORT, STEPS_OF_A_TERM, matcher
from gateway.selector.tree import (
    And,
    Between,
    Chain,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Negative,
    Node,
    Not,
    Or,
)

S = TypeVar("S")
Value = bool | int | float | str | None
Reader = Callable[[S], Value]

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1

WIDE = 8
"""A chain of so many terms takes its steps as it comes to them: it may be decided by the first."""
AT_ONCE = 16
"""Terms of a wide chain that are counted at once."""

LIKENESS = {bool: 1, int: 2, float: 2, str: 3}
NUMBERS = (int, float)


def compiled(node: Node, resolve: Callable[[str], Reader[S]]) -> Reader[S]:
    """A function that evaluates the tree for a subject."""
    match node:
        case Literal(_, value):
            return lambda subject: value
        case Name(name):
            return resolve(name)
        case Negative(operand):
            return negative(compiled(operand, resolve))
        case Chain(first, rest):
            steps = [(ARITHMETIC[sign], compiled(operand, resolve)) for sign, operand in rest]
            return chain(compiled(first, resolve), steps)
        case Comparison(sign, left, right):
            return comparison(COMPARISONS[sign], compiled(left, resolve), compiled(right, resolve))
        case Between(operand, low, high, negated):
            bounds = compiled(low, resolve), compiled(high, resolve)
            return between(compiled(operand, resolve), *bounds, negated)
        case In(operand, choices, negated):
            return among(compiled(operand, resolve), [one.value for one in choices], negated)
        case Like(operand, pattern, escape, negated):
            return like(compiled(operand, resolve), matcher(pattern, escape), negated)
        case IsNull(operand, negated):
            read = compiled(operand, resolve)
            return lambda subject: (read(subject) is None) is not negated
        case Not(operand):
            return negation(compiled(operand, resolve))
        case And(terms):
            return junction(terms, resolve, False)
        case Or(terms):
            return junction(terms, resolve, True)


# --- effort -------------------------------------------------------------------------------------


def cost(node: Node) -> int:
    """Steps of all that is looked at, but for those that wide chains take by themselves."""
    match node:
        case Literal() | Name():
            return STEPS_OF_A_TERM
        case Chain(first, rest):
            return cost(first) + sum([cost(operand) for _, operand in rest])
        case Comparison(_, left, right):
            return cost(left) + cost(right)
        case Between(operand, low, high, _):
            return 2 * cost(operand) + cost(low) + cost(high)
        case In(operand) | Like(operand) | IsNull(operand) | Not(operand) | Negative(operand):
            return STEPS_OF_A_TERM + cost(operand)
        case And(terms) | Or(terms):
            return STEPS_OF_A_TERM if len(terms) >= WIDE else sum(map(cost, terms))


def counted(read: Reader[S], steps: int) -> Reader[S]:
    """It takes these steps before it is asked. Raises ``TooMuchEffort`` then."""

    def reading(subject: S) -> Value:
        EFFORT.take(steps)
        return read(subject)

    return reading


def junction(terms: tuple[Node, ...], resolve: Callable[[str], Reader[S]], by: bool) -> Reader[S]:
    """AND or OR. A wide one is made of portions, each of which is counted if it is asked."""
    if len(terms) < WIDE:
        return decided([compiled(term, resolve) for term in terms], by)
    portions = [terms[first : first + AT_ONCE] for first in range(0, len(terms), AT_ONCE)]
    return decided(
        [
            counted(decided([compiled(term, resolve) for term in some], by), sum(map(cost, some)))
            for some in portions
        ],
        by,
    )


# --- truth --------------------------------------------------------------------------------------


def negation(read: Reader[S]) -> Reader[S]:
    def negated(subject: S) -> Value:
        value = read(subject)
        return not value if value is True or value is False else None

    return negated


def decided(terms: list[Reader[S]], by: bool) -> Reader[S]:
    """AND, decided by the first false term, or OR, decided by the first true term. Unknown if no
    term decides and at least one is unknown."""

    def read(subject: S) -> Value:
        result: Value = not by
        for term in terms:
            value = term(subject)
            if value is by:
                return by
            if value is not True and value is not False:
                result = None
        return result

    return read


# --- comparisons --------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    return LIKENESS[type(left)] == LIKENESS[type(right)] and left == right


def different(left: Any, right: Any) -> bool:
    return LIKENESS[type(left)] == LIKENESS[type(right)] and left != right


def ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """An ordering. Only numbers are ordered."""

    def compare(left: Any, right: Any) -> bool:
        return type(left) in NUMBERS and type(right) in NUMBERS and test(left, right)

    return compare


less, at_most, more, at_least = map(ordered, (lt, le, gt, ge))
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": equal,
    "<>": different,
    "<": less,
    "<=": at_most,
    ">": more,
    ">=": at_least,
}


def comparison(test: Callable[[Any, Any], bool], left: Reader[S], right: Reader[S]) -> Reader[S]:
    def read(subject: S) -> Value:
        one, other = left(subject), right(subject)
        return None if one is None or other is None else test(one, other)

    return read


def between(operand: Reader[S], low: Reader[S], high: Reader[S], negated: bool) -> Reader[S]:
    """``x >= low AND x <= high``, or negated ``x < low OR x > high``: by the definition of the
    standard, both are false for non-numbers."""
    tests = (less, more) if negated else (at_least, at_most)
    return decided(
        [comparison(tests[0], operand, low), comparison(tests[1], operand, high)], negated
    )


def among(operand: Reader[S], choices: list[Any], negated: bool) -> Reader[S]:
    found = frozenset((LIKENESS[type(choice)], choice) for choice in choices)

    def read(subject: S) -> Value:
        value = operand(subject)
        if value is None:
            return None
        return ((LIKENESS[type(value)], value) in found) is not negated

    return read


def like(operand: Reader[S], matches: Callable[[str], bool], negated: bool) -> Reader[S]:
    def read(subject: S) -> Value:
        value = operand(subject)
        if value is None:
            return None
        return (isinstance(value, str) and matches(value)) is not negated

    return read


# --- arithmetic ---------------------------------------------------------------------------------


def divided(left: Any, right: Any) -> Any:
    """Integers divide as in Java: towards zero."""
    if right == 0:
        return None
    if type(left) is int and type(right) is int:
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) is (right < 0) else -quotient
    return left / right


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul, "/": divided}


def negative(read: Reader[S]) -> Reader[S]:
    def negated(subject: S) -> Value:
        value: Any = read(subject)
        result: Value = bounded(-value) if type(value) in NUMBERS else None
        return result

    return negated


def chain(first: Reader[S], steps: list[tuple[Callable[[Any, Any], Any], Reader[S]]]) -> Reader[S]:
    def read(subject: S) -> Value:
        value: Any = first(subject)
        for calculate, operand in steps:
            other = operand(subject)
            if type(value) not in NUMBERS or type(other) not in NUMBERS:
                return None
            value = bounded(calculate(value, other))
        result: Value = value
        return result

    return read


def bounded(value: Any) -> Any:
    """An integer beyond 64 bits is unknown."""
    if type(value) is int and not SMALLEST <= value <= LARGEST:
        return None
    return value
