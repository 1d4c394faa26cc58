"""Message ids of 0-10 that are texts: the UUID is made of the text, which stands in a header."""

from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS, uuid_of
from gateway.crossing.crossing import Crossing
from gateway.crossing.notations import NOTATIONS
from gateway.crossing.shapes import WARM
from gateway.message import DIALECTS, Message, Properties
from tests.crossing.test_shapes import KEY, NOW, cold, counted, outcome, received, warm

READERS = sorted(set(NOTATIONS) - {SEGMENTS.name})
IDS = [
    "x" * 60, "x" * 61, "x" * 255, "x" * 256, "ü-1", "", "a\0b", "ID:1", "urn:uuid:1",
    "AMQP_ULONG:1", "ID:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468",
]  # fmt: skip

MORE: list[dict[str, Any]] = [
    {}, {"subject": "s", "application": {"n": 1}}, {"reply_to": "/queues/q"},
    {"application": {"name": "\x13x-amqp10-message-id"}},
]  # fmt: skip


def published(id_: Any, **more: Any) -> Message:
    given = Properties(message_id=id_, creation_time=NOW * 1000, **more)
    found = received(SEGMENTS, SEGMENTS.write(given))
    assert found is not None
    return found


@pytest.mark.parametrize("reader", [BASIC, SECTIONS])
def test_they_are_not_converted_again(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(1000, 1100):
        one = published(
            f"message-{number}", correlation_id=f"c-{number}", application={"n": number}
        )
        found = reader.read(crossing(one, reader)[0])
        assert (found.message_id, found.correlation_id) == (f"message-{number}", f"c-{number}")
    assert len(converted) == WARM - 1 + 2, "until it is warm, and two stand-ins"


@pytest.mark.parametrize("name", READERS)
def test_the_outcome_is_that_of_a_conversion(name: str) -> None:
    reader = DIALECTS[name]
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for id_ in [f"m-{number}" for number in range(20, 30)] + IDS:
        for more in MORE:
            for one in (published(id_, **more), published(id_ + "1", **more)):
                assert outcome(fast, one, reader) == outcome(slow, one, reader), id_


@pytest.mark.parametrize("name", READERS)
def test_an_id_of_another_text(name: str) -> None:
    """Of the size of those before: the UUID is the id then, and the header is one like others."""
    reader = DIALECTS[name]
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for number in range(20, 30):
        one = published(f"m-{number}")
        assert outcome(fast, one, reader) == outcome(slow, one, reader)
    made, other = uuid_of("m-31").bytes, uuid_of("m-32").bytes
    header = published("m-31").header
    assert header.count(made) == 1
    another = received(SEGMENTS, header.replace(made, other))
    assert another is not None
    assert outcome(fast, another, reader) == outcome(slow, another, reader)
