"""Messages are handed out by plans for headers of their size as they are without any."""

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.core.templates import MANY
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing.basic_shapes import BASIC_NOTATION
from gateway.crossing.crossing import Crossing
from gateway.crossing.notations import NOTATIONS
from gateway.crossing.shapes import MANY_MISSES
from gateway.message import Dialect, Message, Properties, cross_with, plainly
from gateway.values import Int, Seconds
from tests import in_memory
from tests.crossing import test_old_shapes, test_shapes
from tests.crossing.test_shapes import (
    KEY,
    NOW,
    Program,
    cold,
    of_its_size,
    received,
    rewritten,
    warm,
)
from tests.drawing import examples

WAYS: Any = [*test_shapes.WAYS, *test_old_shapes.WAYS]
BY_NAME = [pytest.param(way, id=f"{way[0].name} to {way[1].name}") for way in WAYS]
COMPLETE = BY_NAME[: len(BY_NAME) - len(test_old_shapes.DRAFTS)]
"""Ways on which all these messages have a plan."""
LIMITS = (
    0, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 43, 10**8, 10**9, 10**11, 10**12,
    (1 << 32) * 1000, -1 << 7, -1 << 15, -1 << 31,
)  # fmt: skip
"""Numbers at which their form in one of the versions changes, here or one beside."""
BEGINNINGS = (b"ID:", b"AMQP_ULONG:7", b"urn:uuid:", b"\xff", b"\xc3\xa9", b"\0", b"x-")


@pytest.fixture(autouse=True)
def _of_no_process() -> Iterator[None]:
    yield
    cross_with(plainly)


def form(crossing: Crossing, message: Message, reader: Dialect) -> object:
    """The message as it is handed out."""
    cross_with(crossing)
    try:
        return message.form_for(reader)
    except ValueError as error:
        return str(error)


def numbered(source: Dialect, number: int, **others: Any) -> Message:
    """A message with values of several kinds, of which all versions have each."""
    id_ = UUID(int=NOW << 64 | number) if source is SEGMENTS else f"message-{number}"
    others.setdefault("message_id", id_)
    properties = Properties(
        durable=False,
        priority=4,
        creation_time=(NOW + number) * 1000,
        application={
            "trace": f"{number}",
            "number": Int(NOW + number),
            "long": 1 << 40 | number,
            "since": Seconds(NOW + number),
        },
        **others,
    )
    found = received(source, source.write(properties), "x", "k")
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(examples(60)))
@pytest.mark.parametrize("way", BY_NAME)
def test_headers_of_one_size(way: tuple[Dialect, Dialect], seed: int) -> None:
    chance = random.Random(seed)
    source, reader = way
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    first = Program(chance, source).message()
    if first is None or NOTATIONS[source.name].scan(first.header) is None:
        return
    for _ in range(16):
        header = first.header
        if chance.random() < 0.7:
            header = of_its_size(chance, NOTATIONS[source.name], header)
        place = chance.choice([("", "q"), ("", "q"), ("", "q"), ("x", "ü" * 99)])
        one = received(source, header, *place)
        if one is not None:
            assert form(fast, one, reader) == form(slow, one, reader), header.hex()


@pytest.mark.parametrize("way", COMPLETE)
def test_values_at_their_limits(way: tuple[Dialect, Dialect]) -> None:
    source, reader = way
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for number in range(1000, 1006):
        usual = numbered(source, number)
        assert form(fast, usual, reader) == form(slow, usual, reader)
    plan: Any = fast.plans[source, reader, len(usual.header)]
    scanned = NOTATIONS[source.name].scan(usual.header)
    assert scanned is not None
    key, own = scanned
    for place, value in enumerate(own):
        size = len(value)
        odd = {each[:size] + value[len(each) :] for each in BEGINNINGS}
        odd |= {
            ((limit + beside) % (1 << 8 * size)).to_bytes(size)
            for limit in LIMITS
            for beside in (-1, 0, 1)
        }
        for other in sorted(odd):
            header = rewritten(
                NOTATIONS[source.name], key, [*own[:place], other, *own[place + 1 :]]
            )
            one = received(source, header, "x", "k")
            if one is not None:
                assert form(fast, one, reader) == form(slow, one, reader), header.hex()
            plan.template.misses = 0  # it stays
            assert form(fast, usual, reader) == form(slow, usual, reader)
    assert fast.plans[source, reader, len(usual.header)] is plan and plan.tally.number


def test_numbers_of_one_octet_between_others() -> None:
    """1.0 writes them with fewer octets."""
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for number in (1000, 1001, 1002, 1003, 5, 1004, 127, 128, 1005):
        header = BASIC.write(Properties(message_id="m", application={"n": Int(number)}))
        for key in ("k", "k", "k", "other"):
            one = received(BASIC, header, "x", key)
            assert one is not None and form(fast, one, SECTIONS) == form(slow, one, SECTIONS)
    assert fast.plans


def test_every_message_is_counted() -> None:
    crossing = Crossing(KEY)
    for number in range(1000, 1100):
        form(crossing, numbered(BASIC, number), SECTIONS)
    assert sum(crossing.counts.values()) == 100
    assert {labels[:2] for labels in crossing.counts} == {("0-9-1", "1.0")}
    assert {fidelity for *_, fidelity in crossing.counts} <= {"exact", "equivalent"}


def test_messages_with_a_plan_are_no_reason_to_look_at_others_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crossing = warm(Crossing(KEY))
    for number in range(1000, 1004):
        form(crossing, numbered(BASIC, number), SECTIONS)
    looked: list[bytes] = []
    scan = BASIC_NOTATION.scan

    def counting(header: bytes) -> Any:
        looked.append(header)
        return scan(header)

    crossing.shapes(BASIC.name, SECTIONS.name).warm = 1 << 30  # type: ignore[union-attr]
    monkeypatch.setattr(BASIC_NOTATION, "scan", counting)
    for number in range(2 * MANY_MISSES):
        form(crossing, numbered(BASIC, 1000, subject=f"s-{number}"), SECTIONS)
        form(crossing, numbered(BASIC, 1000 + number), SECTIONS)
    assert len(looked) == 2 * MANY_MISSES


def test_a_plan_gives_way_to_one_that_looks_up_references() -> None:
    """Headers of one size, without a correlation id and with one."""
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    plain, reply = numbered(BASIC, 1000), numbered(BASIC, 1000, correlation_id="c")
    longer = "m" * (len(b"message-1000") + len(reply.header) - len(plain.header))
    plain = numbered(BASIC, 1000, message_id=longer)
    place = BASIC, SECTIONS, len(reply.header)
    for _ in range(4):
        assert form(fast, plain, SECTIONS) == form(slow, plain, SECTIONS)
    assert place in fast.plans
    for _ in range(MANY + 2):
        assert form(fast, reply, SECTIONS) == form(slow, reply, SECTIONS)
    assert place not in fast.plans
    for crossing in (fast, slow):
        crossing._references.remember("guest", "c", b"the id")
    reply = numbered(BASIC, 1001, correlation_id="c")
    made: Any = form(fast, reply, SECTIONS)
    assert made == form(slow, reply, SECTIONS)
    assert SECTIONS.read(made[0]).correlation_id == b"the id"


def test_bodies_in_files_are_not_read() -> None:
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for number in range(1000, 1005):
        form(fast, numbered(BASIC, number), SECTIONS)
    one = numbered(BASIC, 1005)
    one.body = in_memory.small(b"in a file")
    made: Any = form(fast, one, SECTIONS)
    assert made[1] is one.body and made == form(slow, one, SECTIONS)


def test_a_reader_of_0_8a2_gets_a_capsule() -> None:
    """Its plans are not complete: no message of another version without a priority goes alone."""
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for number in range(1000, 1006):
        header = BASIC.write(Properties(message_id=f"m-{number}", creation_time=NOW * 1000))
        one = received(BASIC, header)
        assert one is not None and form(fast, one, COMMAND) == form(slow, one, COMMAND)
    assert not fast.plans and fast.counts[BASIC.name, COMMAND.name, "capsule"] == 6
