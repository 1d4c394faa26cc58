"""Rights in tokens, patterns, and buckets: no sockets."""

import contextlib
import fnmatch
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.access.principal import Principal
from gateway.http.access.rights import (
    Action,
    BadRights,
    Right,
    matches,
    of_details,
    of_scope,
    read_record,
)
from gateway.net.buckets import Buckets, Rate
from gateway.net.loopback import is_local_name

NAMES = st.text("ab./*", max_size=12)


@given(NAMES, NAMES)
def test_patterns_match_as_in_a_shell(pattern: str, text: str) -> None:
    expected = re.fullmatch(
        "".join(".*" if letter == "*" else re.escape(letter) for letter in pattern), text, re.DOTALL
    )
    assert matches(pattern, text) is (expected is not None)
    assert matches(pattern, text) is fnmatch.fnmatchcase(text, pattern)


def test_a_hostile_pattern_costs_little() -> None:
    begun = time.monotonic()
    assert not matches("*a" * 100 + "b", "a" * 255)
    assert time.monotonic() - begun < 30, "and not as many steps as there are ways"


def test_scope_words_name_actions_and_places() -> None:
    rights = of_scope("openid publish stream:%2F/queue/orders.* admin:a%2Fb/*/*")
    assert rights == [
        Right(frozenset({Action.PUBLISH})),
        Right(frozenset({Action.STREAM}), "/", "queue", "orders.*"),
        Right(frozenset({Action.ADMIN}), "a/b", "*", "*"),
    ]
    assert of_scope("publish x.stream", "x.") == [Right(frozenset({Action.STREAM}))]
    for bad in ("publish:", "publish:/queue/x", "publish:%2F/thing/x", "publish:%FF/queue/x"):
        with pytest.raises(BadRights):
            of_scope(bad)


def test_details_are_read_strictly() -> None:
    entry = {"type": "amqp-gateway", "actions": ["publish", "browse"], "nodes": ["queue:a*"]}
    (right,) = of_details([{"type": "payment", "actions": 7}, entry])
    assert right.covers(Action.BROWSE, "anything", "queue", "abc")
    assert not right.covers(Action.BROWSE, "anything", "exchange", "abc")
    assert not right.covers(Action.STREAM, "anything", "queue", "abc")
    mistakes: tuple[Any, ...] = (
        {},
        "publish",
        [7],
        [{"actions": ["publish"]}],
        [entry | {"actions": []}],
        [entry | {"actions": ["all"]}],
        [entry | {"nodes": ["a*"]}],
        [entry | {"nodes": "queue:a"}],
        [entry | {"queues": ["a"]}],
        [entry | {"vhosts": [1]}],
        [entry | {"nodes": ["queue:a"] * 300}],
    )
    for bad in mistakes:
        with pytest.raises(BadRights):
            of_details(bad)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["type", "actions", "vhosts", "nodes", "x"]),
                inner | st.just("amqp-gateway"),
            )
        ),
    )
)
def test_any_content_of_a_token_is_rights_or_refused(found: Any) -> None:
    for text in (found, [found]):
        with contextlib.suppress(BadRights):
            of_details(text)


@given(st.sets(st.sampled_from(Action)), NAMES, NAMES, st.booleans())
def test_rights_survive_their_record(
    actions: set[Action], vhost: str, name: str, literal: bool
) -> None:
    right = Right(frozenset(actions), vhost, "queue", name, literal)
    assert read_record(right.record()) == right


def test_a_literal_star_is_no_pattern() -> None:
    right = Right(frozenset({Action.STREAM}), "/", "queue", "*", True)
    assert right.covers(Action.STREAM, "/", "queue", "*")
    assert not right.covers(Action.STREAM, "/", "queue", "orders")


def test_no_rights_is_nothing_and_none_is_everything() -> None:
    assert Principal("alice").may(Action.PUBLISH, "/", "queue", "x")
    assert not Principal("alice", rights=()).may(Action.PUBLISH, "/", "queue", "x")


# --- buckets ------------------------------------------------------------------------------------


def test_a_bucket_empties_and_fills() -> None:
    now = 0.0
    buckets = Buckets(Rate(3, 6), lambda: now)
    assert [buckets.take("a").allowed for _ in range(4)] == [True, True, True, False]
    assert buckets.take("a").seconds == 2
    assert buckets.take("b").allowed
    now = 2.0
    assert buckets.take("a").allowed
    assert not buckets.take("a").allowed


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 30)), max_size=40))
def test_no_more_than_the_rate_gets_through(steps: list[tuple[float, int]]) -> None:
    now = 0.0
    buckets = Buckets(Rate(10, 5), lambda: now)
    used = 0.0
    for pause, amount in steps:
        now += pause
        if buckets.take("a", amount).allowed:
            used += amount
        # A bucket, what came in since, and one request that was larger than the bucket.
        assert used <= 10 + now * 2 + 30 + 1e-6


def test_buckets_drop_the_least_recently_used() -> None:
    buckets = Buckets(Rate(1, 1), lambda: 0.0, most=2)
    for key in "abc":
        buckets.take(key)
    assert set(buckets.levels) == {"b", "c"}


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("localhost:8080", True),
        ("LOCALHOST.", True),
        ("127.0.0.1:8080", True),
        ("127.9.9.9", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_names_of_this_machine(host: str, local: bool) -> None:
    assert is_local_name(host) is local
