"""Messages in JSON whose properties are encoded once are those that the general way reads."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gateway.adapters  # noqa: F401  (registers the dialects)
from gateway.http.publish import items
from gateway.http.publish.addresses import Target
from gateway.http.publish.items import Item, Maker, attempt
from gateway.http.publish.results import Result, accepted_line, receipt_of
from gateway.http.publish.shared_forms import read_shared
from gateway.http.typed_json import loads
from gateway.values import ULong

NOW = 1_767_225_600_123
QUEUE = Target("", "orders", True)
TOPIC = Target("amq.topic", "k", False)

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "m-1", "urn:uuid:4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "AMQP_ULONG:7"]),
    st.sampled_from(["x" * 255, "x" * 256, "\ud800", "é" * 200, "AMQP_STRING:AMQP_ULONG:7"]),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-1, 300), st.just(1.0), texts)
bodies = st.one_of(
    texts,
    st.none(),
    st.integers(),
    st.fixed_dictionaries({"text": texts}),
    st.fixed_dictionaries({"json": st.one_of(scalars, st.lists(scalars, max_size=2))}),
    st.fixed_dictionaries({"base64": st.sampled_from(["", "eA==", "eA", "?"])}),
    st.fixed_dictionaries({"text": texts, "kind": st.sampled_from(["data", "value", "no"])}),
)
MEMBERS = [
    "id", "routing_key", "durable", "priority", "ttl_ms", "content_type", "content_encoding",
    "type", "app_id", "cluster_id", "reply_to", "correlation_id", "subject", "view",
    "ordering_key", "misspelt",
]  # fmt: skip
forms = st.one_of(
    st.dictionaries(st.sampled_from(MEMBERS), scalars, max_size=4).flatmap(
        lambda some: st.one_of(st.just(some), bodies.map(lambda body: {**some, "body": body}))
    ),
    st.lists(scalars, max_size=1),
)


def told(made: Any) -> Any:
    """What can be compared: ids that were made are another each time."""
    if not isinstance(made, Item):
        return made.document()
    properties = made.prepared.properties()
    if made.name is None:
        properties.message_id = None
    shown = {name: getattr(properties, name, None) for name in type(properties).__slots__}
    essentials, dialect = made.prepared.essentials, made.prepared.dialect
    return made.target, made.body[:], made.name, made.ordering, shown, essentials, dialect


@given(forms, st.sampled_from([QUEUE, TOPIC]))
def test_both_ways_read_the_same(found: Any, target: Target) -> None:
    maker = Maker(target, NOW)
    both = []
    for way in (read_shared, lambda found, now: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(items, "read_shared", way)
            both.append(told(attempt(maker.from_form, loads(json.dumps(found)))))
    assert both[0] == both[1]


def test_equal_numbers_of_other_types_are_not_confused() -> None:
    maker = Maker(QUEUE, NOW)
    for found in ({"durable": True, "body": "x"}, {"priority": 1, "body": "x"}):
        assert isinstance(maker.from_form(found), Item)
    wrong = attempt(maker.from_form, {"priority": True, "body": "x"})
    assert not isinstance(wrong, Item)
    wrong = attempt(maker.from_form, {"durable": 1, "body": "x"})
    assert not isinstance(wrong, Item)


@pytest.mark.parametrize("found", [{"body": "x"}, {"id": "m", "body": {"json": 7}, "priority": 3}])
def test_ordinary_lines_take_the_short_way(found: Any) -> None:
    assert read_shared(found, NOW) is not None


def test_each_has_its_own_id() -> None:
    made = [Maker(QUEUE, NOW).from_form({"body": "x"}) for _ in range(50)]
    assert len({one.prepared.properties().message_id for one in made}) == 50


@pytest.mark.parametrize("durability", ["disk", "mixed", "memory"])
@pytest.mark.parametrize("message_id", ["m-1", b"\x00\xff", ULong(7), 'a"b%s\\', "ID"])
@pytest.mark.parametrize("name", [None, "m-1", 'a"b%s\\', "ADDRESS"])
def test_the_line_that_is_written_fast_is_the_line(
    durability: str, message_id: Any, name: str | None
) -> None:
    for address in ("orders", 'q"%s\u00e9', "ID"):
        receipt = receipt_of(message_id, address, durability, NOW)
        line = accepted_line(7, name, message_id, address, durability, NOW)
        assert line == json.dumps(Result(receipt).document(7, name)).encode()
