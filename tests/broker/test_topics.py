"""Patterns of topic exchanges, against a regular expression that says the same."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.topics import Topics


def by_regex(pattern: str, key: str) -> bool:
    """Words as tokens, each ended by a dot; nothing has no words."""
    text = "".join(
        r"(?:[^.]*\.)*" if word == "#" else r"[^.]*\." if word == "*" else re.escape(word) + r"\."
        for word in (pattern.split(".") if pattern else ())
    )
    return re.fullmatch(text, key and key + ".") is not None


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*.c", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.x.y.c", True),
        ("#.#.#", "a", True),
        ("a.*", "a", False),
        ("", "", True),
        ("a", "#", False),
        ("*.*", ".", True),
        ("*", "", False),
        ("#.*", "", False),
        ("#", ".", True),
    ],
)
def test_pattern(pattern: str, key: str, matches: bool) -> None:
    topics: Topics[int] = Topics()
    topics.add(pattern, 1)
    assert (1 in set(topics.match(key))) is matches


words = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), min_size=0, max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=0, max_size=6).map(".".join)


@given(st.lists(words, max_size=6), keys)
def test_as_regex(patterns: list[str], key: str) -> None:
    topics: Topics[int] = Topics()
    for number, pattern in enumerate(patterns):
        topics.add(pattern, number)
    expected = {n for n, pattern in enumerate(patterns) if by_regex(pattern, key)}
    assert set(topics.match(key)) == expected


@given(st.lists(words, max_size=6), keys)
def test_removing_undoes_adding(patterns: list[str], key: str) -> None:
    topics: Topics[int] = Topics()
    for pattern in patterns:
        topics.add(pattern, 1)
    for pattern in patterns:
        topics.remove(pattern, 1)
    assert not topics.root.children
    assert not list(topics.match(key))


def test_many_hashes_end_in_time() -> None:
    topics: Topics[int] = Topics()
    topics.add(".".join("#" * 30) + ".x", 1)
    assert not list(topics.match(".".join("a" * 60)))


class Counted(dict[str, Any]):
    """Children of a node, that count how often they are asked for ``#``."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.asked += key == "#"
        return super().get(key, default)


@pytest.mark.parametrize("pattern", ["#." * 60 + "b", "#.a." * 60 + "b"])
def test_many_wild_cards_are_walked_once_for_each_place(pattern: str) -> None:
    found: Topics[str] = Topics()
    found.add(pattern, "q")
    node = found.root
    nodes = [node]
    while node.children:
        (node,) = node.children.values()
        nodes.append(node)
    for node in nodes:
        node.children = Counted(node.children)
    Counted.asked = 0
    assert list(found.match(".".join(["a"] * 120))) == []
    assert Counted.asked <= 121 * len(nodes)
    assert list(found.match(".".join(["a"] * 120 + ["b"]))) == ["q"]
    found.remove(pattern, "q")
    assert not found.root.children


def test_wild_cards_side_by_side_are_one() -> None:
    found: Topics[str] = Topics()
    found.add("a.#.#.#", "q")
    assert list(found.match("a")) == ["q"] and list(found.match("a.b.c")) == ["q"]
    assert len(found.root.children["a"].children["#"].children) == 0
