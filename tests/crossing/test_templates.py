"""Headers that are like one before are received as if they had been read."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.core.templates import LONGEST, MANY, Place, Template, Templates, template
from gateway.adapters.methods import essentials as methods
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives import incoming_publishes, value_places
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import PROPERTIES, read_header
from gateway.message import Dialect
from tests.crossing import messages
from tests.crossing.test_shapes import Program
from tests.drawing import examples

PLACES: dict[Dialect, Callable[[bytes], list[Place]]] = {
    BASIC: methods.value_places,
    SECTIONS: value_places.value_places,
}


def to_and_subject(header: bytes) -> object:
    """Where a message goes whose link has no address."""
    properties = read_header(header)[0].get(PROPERTIES)
    return properties and (properties.to, properties.subject)


def read(dialect: Dialect, header: bytes) -> object:
    """All that a template stands for; ``None`` for a header that is refused."""
    try:
        essentials = dialect.essentials(header)
    except (ValueError, IndexError):
        return None
    return essentials, to_and_subject(header) if dialect is SECTIONS else None


def changed(chance: random.Random, header: bytes, places: list[Place]) -> bytes:
    """Other octets: in the places of values, or anywhere."""
    octets = bytearray(header)
    if places and chance.random() < 0.8:
        for start, stop, _ in places:
            if chance.random() < 0.7:
                text = chance.random() < 0.7
                octets[start:stop] = bytes(
                    chance.randrange(32, 127) if text else chance.randrange(256)
                    for _ in range(start, stop)
                )
    else:
        for _ in range(chance.choice([1, 1, 2, 5])):
            octets[chance.randrange(len(octets))] = chance.choice([0, 1, 255, 0x40, 0xA1, 0x56])
    return bytes(octets)


def compare(dialect: Dialect, header: bytes, seed: int) -> int:
    """Compare the two paths for headers that are nearly like this one; how many were found."""
    wanted = read(dialect, header)
    if wanted is None or not header:
        return 0
    places = PLACES[dialect](header)
    template: Template[Any] = Template(header, places, wanted)
    assert template.values(header) == tuple(header[start:stop] for start, stop, _ in places)
    chance, found = random.Random(seed), 0
    for _ in range(8):
        other = changed(chance, header, places)
        values = template.values(other)
        if values is not None:
            found += 1
            assert read(dialect, other) == wanted, (header.hex(), other.hex())
            assert values == tuple(other[start:stop] for start, stop, _ in places)
    return found


@given(messages.LEGACY, st.integers(0, 99))
def test_basic_properties(header: bytes, seed: int) -> None:
    compare(BASIC, header, seed)


@given(messages.sections(), st.integers(0, 99))
def test_sections(octets: bytes, seed: int) -> None:
    compare(SECTIONS, messages.modern(octets).header, seed)


@pytest.mark.parametrize("dialect", [BASIC, SECTIONS], ids=lambda dialect: str(dialect.name))
def test_messages_of_programs(dialect: Dialect) -> None:
    found = 0
    for seed in range(examples(800)):
        one = Program(random.Random(seed), dialect).message()
        if one is not None:
            found += compare(dialect, one.header, seed)
    assert found > examples(800)


# --- how they are kept ----------------------------------------------------------------------------


def keep(kept: Templates[str], header: bytes, found: str) -> None:
    """A header whose second and third octets are a value, unless it begins with none."""
    places = [Place(1, 3)] if header[0] else []
    kept.keep(header, lambda: template(header, places, found))


def test_the_second_header_of_a_size_is_a_template() -> None:
    kept: Templates[str] = Templates()
    assert kept.find(b"a12b") is None
    keep(kept, b"a12b", "found")
    assert kept.find(b"a34b") is None
    keep(kept, b"a34b", "found")
    assert kept.find(b"a56b") == "found"
    assert kept.find(b"c56b") is None
    assert kept.find(b"a56bb") is None


def test_a_template_gives_way_to_another() -> None:
    kept: Templates[str] = Templates()
    keep(kept, b"a12b", "one")
    keep(kept, b"a12b", "one")
    for _ in range(MANY):
        keep(kept, b"c12d", "two")
        assert kept.find(b"c12d") is None
        assert kept.find(b"a12b") == "one"
    keep(kept, b"c12d", "two")
    assert kept.find(b"c34d") == "two"
    assert kept.find(b"a12b") is None


def test_long_headers_and_those_without_values_have_none() -> None:
    kept: Templates[str] = Templates()
    for header in (b"a" * (LONGEST + 1), bytes(9)):
        for _ in range(3):
            keep(kept, header, "found")
            assert kept.find(header) is None


def test_unique_headers_are_kept_nowhere() -> None:
    """But for the two that made the template: a queue is all that holds them."""
    program = Program(random.Random(1), SECTIONS)
    program.has, program.kinds, program.annotated = {"creation_time"}, {}, {}
    program.wide = False
    before = len(incoming_publishes._HEADERS)
    for _ in range(100):
        one = program.message()
        assert one is not None
        header, essentials = incoming_publishes.known(one.header)
        assert (header, essentials) == (one.header, one.essentials)
    assert len(incoming_publishes._HEADERS) <= before + 5
