"""Stream queues of an upstream: offsets of deliveries, types, and places after an interruption."""

from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.broker.answers import Answer
from gateway.broker.stream_queues import (
    FIELD,
    NOTHING_YET,
    Place,
    QueueType,
    check_offset,
    offset_of,
)
from gateway.errors import AwaitsUpstream, Condition, Refusal
from gateway.message import Message, Properties
from gateway.operations import DeclareQueue, FoundQueue


def delivery(headers: dict[str, Any]) -> Message:
    header = BASIC.write(Properties(application=headers))
    return Message(BASIC, header, b"", "", "log", BASIC.essentials(header))


def at(offset: int, **more: Any) -> Message:
    return delivery({**more, "x-stream-offset": 2**40 + offset}) if offset else delivery(more)


@pytest.mark.parametrize(
    ("headers", "offset"),
    [
        ({}, None),
        ({"a": 1, "x-stream-offset": 2**33}, 2**33),
        ({"a": FIELD + b"\0" * 7 + b"\x09", "x-stream-offset": 2**33 + 7}, 2**33 + 7),
        ({"x-stream-offset": 2**35, "z": FIELD + b"\0" * 7 + b"\x09"}, 2**35),
    ],
)
def test_the_offset_of_a_delivery(headers: dict[str, Any], offset: int | None) -> None:
    """Also where a publisher has put the octets of the field into another header."""
    assert offset_of(delivery(headers)) == offset


@pytest.mark.parametrize("given", ["first", "last", "next", "2h", "10D", 0, 5, 2**40, -3])
def test_offsets_that_may_be_asked_for(given: object) -> None:
    check_offset("queue", {"x-stream-offset": given})


@pytest.mark.parametrize("given", ["", "bogus", "h", "1w", True, 1.5, None, b"first", {}])
def test_offsets_that_would_end_the_connection(given: object) -> None:
    with pytest.raises(Refusal) as refused:
        check_offset("queue", {"x-stream-offset": given})
    assert refused.value.condition is Condition.PRECONDITION_FAILED


class Upstream:
    def __init__(self) -> None:
        self.asked: list[Answer] = []

    def ask(self) -> Answer:
        self.asked.append(Answer())
        return self.asked[-1]


def test_the_type_is_asked_for_once() -> None:
    upstream, told = Upstream(), []
    kind = QueueType(upstream.ask)
    for _ in range(3):
        with pytest.raises(AwaitsUpstream):
            kind.is_stream()
    kind.then(lambda: told.append(kind.name))
    assert len(upstream.asked) == 1 and told == []
    upstream.asked[0].resolve(FoundQueue("log", 0, 0, {"x-queue-type": "stream"}))
    assert told == ["stream"] and kind.is_stream()
    kind.then(lambda: told.append(kind.name))
    assert told == ["stream"] * 2 and len(upstream.asked) == 1


def test_a_refused_question_is_asked_again() -> None:
    upstream, told = Upstream(), []
    kind = QueueType(upstream.ask)
    kind.then(lambda: told.append(kind.name))
    refusal = Refusal(Condition.RESOURCE_ERROR, "away")
    upstream.asked[0].resolve(None, refusal)
    assert told == [None]
    with pytest.raises(Refusal, match="away"):
        kind.is_stream()
    with pytest.raises(AwaitsUpstream):
        kind.is_stream()
    upstream.asked[1].resolve(FoundQueue("log", 0, 0))
    assert not kind.is_stream()


def test_a_queue_that_has_moved_is_asked_about_again() -> None:
    """The answer of the broker that it has left does not count any more."""
    upstream, told = Upstream(), []
    kind = QueueType(upstream.ask)
    kind.then(lambda: told.append(kind.name))
    kind.forget()
    upstream.asked[0].resolve(FoundQueue("log", 0, 0, {"x-queue-type": "stream"}))
    assert told == [None]
    with pytest.raises(AwaitsUpstream):
        kind.is_stream()
    upstream.asked[1].resolve(FoundQueue("log", 0, 0))
    assert not kind.is_stream()
    kind.forget()
    with pytest.raises(AwaitsUpstream):
        kind.is_stream()


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ({"durable": True, "arguments": {"x-queue-type": "stream"}}, "stream"),
        ({"durable": True}, None),  # the virtual host may have another default
        ({}, ""),
        ({"durable": True, "exclusive": True}, ""),
    ],
)
def test_a_declaration_tells_the_type(declared: dict[str, Any], name: str | None) -> None:
    kind = QueueType(Upstream().ask)
    kind.declared(DeclareQueue(0, None, "q", **declared))
    assert kind.name == name


def test_the_place_in_a_stream() -> None:
    kind = QueueType(Upstream().ask)
    kind.name = "stream"
    place = Place(kind)
    assert place.offset == NOTHING_YET and place.following is None
    for n in (1, 2, 3):
        place.note(at(n))
    assert place.following == 2**40 + 4
    place.rewind(at(2))  # which its consumer has not got
    assert place.following == 2**40 + 2


def test_other_queues_have_no_place() -> None:
    kind = QueueType(Upstream().ask)
    kind.name = ""
    place = Place(kind)
    place.note(at(7))  # a header that a publisher has made up
    assert place.following is None
    place.note(at(0))
    assert place.offset is None
