"""0-10: there and back, to and from every other dialect, by the rules of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments import content
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.splicing import NO_BODY
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.legacy_forms import FORMS
from gateway.message import Dialect, Message, Properties
from gateway.values import Int
from tests.adapters.segments.recorded import NAMES as RECORDINGS
from tests.adapters.segments.recorded import frames
from tests.crossing.elders import ELDERS, elder, headers
from tests.crossing.messages import LEGACY, legacy, modern, sections
from tests.crossing.segments import HEADERS, of_0_10, segment
from tests.crossing.test_elders import FEW, check
from tests.crossing.test_round_trips import HOP, KEY

SEGMENTS: Dialect = content.SEGMENTS
OTHERS: dict[str, Dialect] = {"0-9-1": BASIC, "1.0": SECTIONS, **ELDERS}


@pytest.mark.parametrize("other", OTHERS)
@given(header=HEADERS)
@FEW
def test_segments_come_back(other: str, header: bytes) -> None:
    check(of_0_10(header), OTHERS[other])


@given(header=LEGACY)
@FEW
def test_basic_properties_come_back(header: bytes) -> None:
    check(legacy(header), SEGMENTS)


@given(octets=sections())
@FEW
def test_sections_come_back(octets: bytes) -> None:
    if not any(each in octets for each in HOP):
        check(modern(octets), SEGMENTS)


@pytest.mark.parametrize("name", sorted(ELDERS))
@given(data=st.data())
@FEW
def test_elders_come_back(name: str, data: st.DataObject) -> None:
    check(elder(name, data.draw(headers(name))), SEGMENTS)


def recorded_headers() -> list[bytes]:
    found = {
        frame.octets[12:]
        for name in RECORDINGS
        for frame in frames(name)
        if " header segment " in frame.meaning
    }
    return sorted(found)


@pytest.mark.parametrize("other", ["0-9-1", "1.0"])
def test_recorded_messages_come_back(other: str) -> None:
    found = recorded_headers()
    assert found
    for header in found:
        check(of_0_10(header), OTHERS[other])


def test_a_java_message_needs_no_capsule() -> None:
    """Datetimes in milliseconds and the length of the content are no loss."""
    header = segment(
        DeliveryProperties(
            priority=4,
            delivery_mode=2,
            ttl=60000,
            timestamp=1795365203721,
            expiration=1795365263721,
            exchange="",
            routing_key="q",
        ),
        MessageProperties(
            content_length=2,
            message_id=bytes(range(16)),
            content_type="text/plain",
            user_id=b"guest",
            application_headers=write_map({"number": Int(4), "colour": "red"}),
        ),
    )
    for other in (BASIC, SECTIONS):
        crossed = Crossing(KEY).cross(of_0_10(header), other)
        assert crossed.fidelity in (Fidelity.EXACT, Fidelity.EQUIVALENT), crossed.inexact
        found = other.read(crossed.header)
        assert found.creation_time == 1795365203721 and found.application == {
            "number": 4,
            "colour": "red",
        }


def test_a_body_that_is_absent_comes_back_absent() -> None:
    header = NO_BODY + segment(MessageProperties(content_type="text/plain"))
    crossing = Crossing(KEY)
    there = crossing.cross(of_0_10(header, b""), SECTIONS)
    back = crossing.cross(
        Message(SECTIONS, there.header, there.body, "x", "k", SECTIONS.essentials(there.header)),
        SEGMENTS,
    )
    assert back.header.startswith(NO_BODY)


def test_everything_has_a_form() -> None:
    assert FORMS["0-10"].dialect is SEGMENTS
    assert SEGMENTS.read(SEGMENTS.write(Properties(subject="s"))).subject == "s"
