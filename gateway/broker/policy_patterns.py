"""Patterns of names in policies and permissions, whose cost is known before they are tried.

RabbitMQ searches for the pattern anywhere in a name, with an engine that backtracks. So does
Python's, and a pattern can make such an engine try ways without end. Therefore the ways are counted
first, from the parsed pattern: alternatives add up, what follows each other multiplies, and a
repetition of something that can itself be matched in several ways is without bound. A pattern with
few ways is tried by Python's engine, which knows look-ahead (``^(?!amq\\.)`` is a usual pattern of
policies). One with more goes to RE2, in linear time, if its package is installed and it has no
look-around. All others are refused.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gateway.broker.names import MOST_OCTETS
from gateway.errors import Condition, Refusal
from gateway.selector import Expression, ExpressionError

try:
    from re import _parser  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    _parser = None

MOST_PATTERN = 1024
"""Characters of a pattern."""
MOST_WAYS = 1 << 18
"""Ways through one name that Python's engine may have to try, some 10 nanoseconds each."""
LEAST_COST = 16
LINEAR_COST = 16 * MOST_OCTETS
"""Cost of one name with RE2."""
FEW_TIMES = 16
"""Repetitions of something with several ways that are counted out."""


class Pattern(NamedTuple):
    """``matches`` tells whether a name has the pattern; ``cost`` bounds the steps of one name."""

    text: str
    matches: Callable[[str], bool]
    cost: int


def compile_pattern(text: str, most: int = MOST_PATTERN) -> Pattern:
    """Refuses (406) a text that is no pattern, one with more than ``most`` characters, and a
    pattern that could take too long."""
    if len(text) > most:
        raise refused(f"the pattern has more than {most} characters")
    ways = ways_of(text)
    if ways is not None and ways <= MOST_WAYS:
        try:
            search = re.compile(text).search
        except (re.error, OverflowError, RecursionError) as error:
            raise refused(f"'{text}' is not a regular expression: {error}") from None
        return Pattern(text, lambda name: search(name) is not None, max(ways, LEAST_COST))
    try:
        return Pattern(text, Expression(text).matches, LINEAR_COST)
    except ExpressionError as error:
        raise refused(
            f"the pattern '{text}' could take too long: it may be matched in very many ways "
            f"({error})"
        ) from None


def refused(text: str) -> Refusal:
    return Refusal(Condition.PRECONDITION_FAILED, text)


def ways_of(text: str) -> int | None:
    """How many ways through a name of 255 characters there may be; ``None``: without bound, or in a
    syntax that Python does not have. Refuses (406) what is no regular expression."""
    if _parser is None or "[[:" in text:
        return None
    try:
        parsed = _parser.parse(text)
    except (re.error, OverflowError) as error:
        raise refused(f"'{text}' is not a regular expression: {error}") from None
    except RecursionError:
        raise refused("the pattern is nested too deeply") from None
    flags = int(parsed.state.flags)
    if flags & re.IGNORECASE:
        return None  # Python's engine may need long to prepare ranges of characters for it
    tree = list(parsed)
    while tree and anything(*tree[-1]):
        tree.pop()
    anchored = bool(tree) and "AT_BEGINNING" in str(tree[0][1])
    found = in_sequence(tree)
    if found is None or (anchored and not flags & re.MULTILINE):
        return found
    return found * (MOST_OCTETS + 1)


def anything(name: Any, given: Any) -> bool:
    """Whether a node is ``.*``: at the end of a pattern it matches in the first way."""
    return str(name) == "MAX_REPEAT" and given[0] == 0 and str(given[2][0][0]) == "ANY"


def in_sequence(nodes: Iterable[Any]) -> int | None:
    total = 1
    for name, given in nodes:
        one = ways_of_node(str(name), given)
        if one is None:
            return None
        total *= one
        if total > MOST_WAYS:
            return None
    return total


def ways_of_node(name: str, given: Any) -> int | None:
    if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "CATEGORY", "GROUPREF"):
        return 1
    if name == "SUBPATTERN":
        return None if given[1] & re.IGNORECASE else in_sequence(given[3])
    if name == "ATOMIC_GROUP":
        return in_sequence(given)
    if name in ("ASSERT", "ASSERT_NOT"):
        return in_sequence(given[1])
    if name == "BRANCH":
        found = [in_sequence(branch) for branch in given[1]]
        return None if None in found else sum(one for one in found if one is not None)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, what = given
        inner = in_sequence(what)
        most = min(int(most), MOST_OCTETS)
        if inner == 1 and name == "POSSESSIVE_REPEAT":
            return 1
        if inner == 1:
            return max(most - min(int(least), most) + 1, 1)
        if inner is None or most > FEW_TIMES:
            return None
        times = range(min(int(least), most), most + 1)
        return sum(int(inner**count) for count in times)
    return None
