"""Conversion by shape from and to the versions before 0-8, by the rules of ``test_shapes``."""

import random
import uuid
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.draft_shapes import DRAFT_NOTATIONS
from gateway.crossing.notations import source_for
from gateway.message import Dialect, Properties
from gateway.values import Int, Seconds
from tests.crossing import elders, messages, segments
from tests.crossing.test_shapes import (
    KEY,
    NOW,
    Program,
    choose,
    cold,
    counted,
    of_its_size,
    outcome,
    received,
    varied,
    warm,
)
from tests.drawing import examples

DRAFTS = [elders.DRAFTS[name] for name in sorted(DRAFT_NOTATIONS)]
JMS = [dialect for dialect in DRAFTS if dialect.group == "jms"]
OLD: list[Dialect] = [COMMAND, *JMS]
USUAL: list[Dialect] = [BASIC, SEGMENTS, SECTIONS]
WAYS = [
    (source, reader)
    for source, reader in permutations([*OLD, *USUAL], 2)
    if source in OLD or reader in OLD
] + [(source, reader) for source, reader in zip(DRAFTS, DRAFTS[1:] + DRAFTS[:1], strict=True)]
BY_NAME = [pytest.param(way, id=f"{way[0].name} to {way[1].name}") for way in WAYS]


@given(st.data())
def test_messages_of_old_versions(data: st.DataObject) -> None:
    source = choose(data, [COMMAND, COMMAND, *JMS, *DRAFTS])
    message = elders.elder(source.name, data.draw(elders.headers(source.name)))
    others: list[Dialect] = [each for each in (*OLD, *USUAL, *DRAFTS) if each is not source]
    varied(data, message, choose(data, others))


@given(st.data())
def test_messages_for_old_versions(data: st.DataObject) -> None:
    source = choose(data, USUAL)
    if source is BASIC:
        message = received(BASIC, data.draw(messages.LEGACY))
    elif source is SECTIONS:
        message = messages.modern(data.draw(messages.sections()))
    else:
        message = segments.of_0_10(data.draw(segments.HEADERS))
    if message is not None:
        varied(data, message, choose(data, [*OLD, *DRAFTS]))


@pytest.mark.parametrize("seed", range(examples(100)))
@pytest.mark.parametrize("way", BY_NAME)
def test_every_header_is_as_if_it_were_the_only_one(
    way: tuple[Dialect, Dialect], seed: int
) -> None:
    chance = random.Random(seed)
    source, reader = way
    for _ in range(3):
        program = Program(chance, source)
        settings: Any = chance.choice([(), (), ("lossless", "bytes"), ("lenient",), ("natural",)])
        fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
        if chance.random() < 0.3:
            for crossing in (fast, slow):
                for known in ("short", "ID:x", "ID:short"):
                    crossing._references.remember("guest", known, b"the id")
        for _ in range(12):
            one = program.message()
            if one is not None:
                assert outcome(fast, one, reader) == outcome(slow, one, reader), one.header.hex()


@pytest.mark.parametrize("seed", range(examples(100)))
@pytest.mark.parametrize("way", BY_NAME)
def test_headers_of_one_size(way: tuple[Dialect, Dialect], seed: int) -> None:
    chance = random.Random(seed)
    source, reader = way
    settings: Any = chance.choice([(), (), ("lossless", "bytes"), ("lenient",), ("natural",)])
    fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
    first = Program(chance, source).message()
    notation = source_for(source.name, reader.name)
    if first is None or notation.scan(first.header) is None:
        return
    for _ in range(12):
        header = of_its_size(chance, notation, first.header)
        place = chance.choice([("", "q"), ("amq.direct", "key"), ("x", "ü" * 99)])
        one = received(source, header, *place)
        if one is not None:
            assert outcome(fast, one, reader) == outcome(slow, one, reader), header.hex()


def given_to(source: Dialect, number: int) -> Properties:
    """Properties that all versions have a place for. Those of 0.8a2 expire, or were created in
    another version."""
    found = Properties(
        durable=False,
        priority=4,
        message_id=f"message-{number}",
        correlation_id=f"request-{number}",
        application={"trace": f"{number}", "number": Int(NOW + number), "since": Seconds(NOW)},
    )
    if source is SEGMENTS:
        found.message_id = uuid.UUID(int=NOW << 64 | number)
    if source is COMMAND and number % 2:
        found.absolute_expiry_time = (NOW + number) * 1000
    else:
        found.creation_time = (NOW + number) * 1000
    return found


@pytest.mark.parametrize("way", BY_NAME[: len(WAYS) - len(DRAFTS)])
def test_values_are_not_converted_again(
    way: tuple[Dialect, Dialect], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reader = way
    crossing = warm(Crossing(KEY))
    converted = counted(crossing, monkeypatch)
    for number in range(1000, 1050):
        header = source.write(given_to(source, number))
        one = received(source, header)
        assert one is not None
        assert crossing.cross(one, reader).fidelity in (Fidelity.EXACT, Fidelity.EQUIVALENT)
    shapes = 2 if source is COMMAND else 1
    assert len(converted) == 2 * shapes, "two stand-ins for each shape"


@pytest.mark.parametrize("source", [BASIC, SEGMENTS, SECTIONS, *JMS], ids=lambda each: each.name)
def test_capsules_of_one_shape(source: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages without a priority need a capsule for readers of 0.8a2."""
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    converted = counted(fast, monkeypatch)
    for number in range(1000, 1050):
        properties = given_to(source, number)
        properties.priority = None
        one = received(source, source.write(properties))
        assert one is not None
        there = fast.cross(one, COMMAND)
        assert there == slow.cross(one, COMMAND)
        assert there.fidelity is Fidelity.CAPSULE and there.inexact
        returned = received(COMMAND, there.header)
        assert returned is not None
        assert slow.cross(returned, source).header == one.header
    assert len(converted) == 2, "the two stand-ins"
