"""Laws of selectors, on generated ones."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.selector.errors import SelectorError
from gateway.selector.evaluation import Reader, Value, compiled
from gateway.selector.like import EFFORT, matcher, pieces, stretch_by_stretch
from gateway.selector.parser import parse
from gateway.selector.tree import (
    And,
    Between,
    Chain,
    Comparison,
    In,
    IsNull,
    Kind,
    Like,
    Literal,
    Name,
    Negative,
    Node,
    Not,
    Or,
    written,
)

NAMES = ["a", "b", "c", "JMSType", "odd name", 'with "quotes"', "AND"]
names = st.sampled_from(NAMES).map(Name)
texts = st.text(max_size=8).map(lambda value: Literal(Kind.TEXT, value))
exacts = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda value: Literal(Kind.EXACT, value))
floats = st.floats(allow_nan=False, allow_infinity=False).map(
    lambda value: Literal(Kind.NUMBER, value)
)
truths = st.booleans().map(lambda value: Literal(Kind.TRUTH, value))
literals = texts | exacts | floats | truths
patterns = st.tuples(
    st.text("ab%_!", max_size=6), st.sampled_from([None, "!", "a", "%", "_"])
).filter(lambda one: pieces(*one) is not None)


def negative(node: Node) -> Node:
    """A minus before a literal is part of it."""
    return node if isinstance(node, Literal) else Negative(node)


def number_nodes(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def chains(signs: str) -> st.SearchStrategy[Node]:
        rest = st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=3)
        return st.builds(Chain, inner, rest.map(tuple))

    return chains("+-") | chains("*/") | inner.map(negative)


numbers: st.SearchStrategy[Node] = st.recursive(names | exacts | floats, number_nodes, max_leaves=5)
signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
predicates: st.SearchStrategy[Node] = st.one_of(
    st.builds(Comparison, signs, numbers, numbers),
    st.builds(Comparison, st.sampled_from(["=", "<>"]), names | literals, names | literals),
    st.builds(Between, numbers, numbers, numbers, st.booleans()),
    st.builds(
        In, names | literals, st.lists(literals, min_size=1, max_size=4).map(tuple), st.booleans()
    ),
    st.builds(
        lambda operand, pattern, negated: Like(operand, pattern[0], pattern[1], negated),
        names | texts,
        patterns,
        st.booleans(),
    ),
    st.builds(IsNull, names | numbers, st.booleans()),
    names,
    truths,
)


def condition_nodes(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, inner) | st.builds(And, several) | st.builds(Or, several)


conditions: st.SearchStrategy[Node] = st.recursive(predicates, condition_nodes, max_leaves=6)
values = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text("ab", max_size=3)
)
subjects = st.dictionaries(st.sampled_from(NAMES), values)


def read(name: str) -> Reader[dict[str, Value]]:
    return lambda subject: subject.get(name)


def truth(node: Node, subject: dict[str, Value]) -> bool | None:
    """The truth of a condition: what is no truth value is unknown."""
    found = compiled(node, read)(subject)
    return found if isinstance(found, bool) else None


@given(conditions)
def test_written_selectors_parse_to_the_same(node: Node) -> None:
    assert parse(written(node)) == node


WORDS = [
    "a", "b.c", "'x'", "'it''s'", '"q"', "1", "2.5", "0x1F", "1e3", "(", ")", ",", "=", "<>", "<",
    ">=", "+", "-", "*", "/", "AND", "or", "Not", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL",
    "TRUE", "'", '"', "7.", "$", "\x00", "é",
]  # fmt: skip


@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), subjects)
def test_any_text_is_a_selector_or_a_selector_error(text: str, subject: dict[str, Value]) -> None:
    try:
        node = parse(text)
    except SelectorError as error:
        assert 0 <= error.position <= len(text)
        return
    assert parse(written(node)) == node
    truth(node, subject)


@given(conditions, subjects)
def test_evaluation_never_fails(node: Node, subject: dict[str, Value]) -> None:
    assert truth(node, subject) in (True, False, None)


TABLE = {True: 1, None: 0, False: -1}
"""Kleene's three values in their order: AND is the least, OR the greatest, NOT the sign."""
BACK = {1: True, 0: None, -1: False}


@given(conditions, conditions, subjects)
def test_logic_of_three_values(one: Node, other: Node, subject: dict[str, Value]) -> None:
    left, right = TABLE[truth(one, subject)], TABLE[truth(other, subject)]
    assert truth(And((one, other)), subject) is BACK[min(left, right)]
    assert truth(Or((one, other)), subject) is BACK[max(left, right)]
    assert truth(Not(one), subject) is BACK[-left]
    de_morgan = Not(Or((Not(one), Not(other))))
    assert truth(And((one, other)), subject) is truth(de_morgan, subject)


@pytest.mark.parametrize("values", list(itertools.product([True, False, None], repeat=3)))
def test_long_chains_are_as_short_ones(values: tuple[bool | None, ...]) -> None:
    subject: dict[str, Value] = dict(zip("abc", values, strict=True))
    terms: tuple[Node, ...] = (Name("a"), Name("b"), Name("c"))
    for kind in (And, Or):
        nested = kind((kind(terms[:2]), terms[2]))
        assert truth(kind(terms), subject) is truth(nested, subject)


@given(numbers, numbers, numbers, subjects)
def test_between_is_two_comparisons(
    operand: Node, low: Node, high: Node, subject: dict[str, Value]
) -> None:
    inside = And((Comparison(">=", operand, low), Comparison("<=", operand, high)))
    assert truth(Between(operand, low, high, False), subject) is truth(inside, subject)
    outside = Or((Comparison("<", operand, low), Comparison(">", operand, high)))
    assert truth(Between(operand, low, high, True), subject) is truth(outside, subject)


@given(names, st.lists(literals, min_size=1, max_size=4), subjects)
def test_in_is_a_row_of_comparisons(
    operand: Name, choices: list[Literal], subject: dict[str, Value]
) -> None:
    row = Or(tuple(Comparison("=", operand, choice) for choice in choices))
    assert truth(In(operand, tuple(choices), False), subject) is truth(row, subject)
    assert truth(In(operand, tuple(choices), True), subject) is truth(Not(row), subject)


@given(patterns, st.text("ab%_!\n", max_size=12))
def test_like_matches_as_a_regular_expression(pattern: tuple[str, str | None], text: str) -> None:
    cut = pieces(*pattern)
    assert cut is not None
    expression = ".*".join(
        "".join("." if wanted is None else re.escape(wanted) for wanted in piece) for piece in cut
    )
    expected = re.fullmatch(expression, text, re.DOTALL) is not None
    EFFORT.begin()
    assert matcher(*pattern)(text) is expected


@given(
    st.lists(st.sampled_from(["a", "é", "b", None]), min_size=1, max_size=5).map(tuple),
    st.text("abé", max_size=20) | st.text("ab", min_size=600, max_size=900),
    st.integers(0, 5),
)
def test_the_first_match_of_a_piece_is_that_of_a_regular_expression(
    piece: tuple[str | None, ...], text: str, start: int
) -> None:
    end = max(start, len(text) - 1)
    found = re.compile("".join("." if wanted is None else wanted for wanted in piece)).search(
        text, start, end
    )
    EFFORT.begin()
    expected = -1 if found is None else found.end()
    assert stretch_by_stretch(piece)(text, start, end) == expected


@given(st.integers(0, 2000), st.sampled_from("aé"))
def test_a_place_far_away_is_found(before: int, other: str) -> None:
    text = other * before + "xyz" + other * 700
    EFFORT.begin()
    assert stretch_by_stretch(("x", None, "z"))(text, 0, len(text)) == before + 3
