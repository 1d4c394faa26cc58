"""There and back: the same octets, the same values, for any message."""

import pytest
from hypothesis import HealthCheck, given, settings

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.splicing import without_header
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part, split
from gateway.adapters.performatives.splicing import annotations_of
from gateway.crossing.capsule import LARGEST
from gateway.crossing.crossing import Crossing, Fidelity, Mode
from gateway.crossing.forms import BASIC_FORM, without_hop_by_hop
from gateway.crossing.sameness import same_basic, same_body, same_sections
from gateway.message import Dialect, Message
from tests.crossing.messages import LEGACY, legacy, modern, octets_of, sections
from tests.drawing import examples

KEY = b"k" * 32
HOP = (b"x-opt-gateway-origin", b"x-exchange", b"x-routing-key")
"""Annotations that are of one hop, and are not carried over."""
FEW = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def over(crossing: Crossing, message: Message, to: Dialect) -> tuple[Message, Fidelity]:
    header, body, fidelity, _ = crossing.cross(message, to)
    return Message(to, header, body, "x", "k", to.essentials(header)), fidelity


@given(LEGACY)
@FEW
def test_legacy_octets_come_back(header: bytes) -> None:
    crossing = Crossing(KEY, fidelity="bytes")
    there, fidelity = over(crossing, legacy(header), SECTIONS)
    split(octets_of(there))
    back, _ = over(crossing, there, BASIC)
    if fidelity is not Fidelity.LOSSY:
        assert (back.header, back.body) == (clean(header), b"body")


@given(LEGACY)
@FEW
def test_legacy_values_come_back(header: bytes) -> None:
    crossing = Crossing(KEY)
    there, fidelity = over(crossing, legacy(header), SECTIONS)
    back, _ = over(crossing, there, BASIC)
    if fidelity is not Fidelity.LOSSY:
        assert same_basic(back.header, clean(header))


@given(sections())
@FEW
def test_sections_come_back(octets: bytes) -> None:
    crossing = Crossing(KEY, fidelity="bytes")
    message = modern(octets)
    there, fidelity = over(crossing, message, BASIC)
    back, _ = over(crossing, there, SECTIONS)
    if fidelity is Fidelity.LOSSY:
        assert len(message.header) + 200 > LARGEST
    elif not any(name in octets for name in HOP):
        back.header = without_hop_by_hop(back.header)
        assert octets_of(back) == octets


@given(sections())
@FEW
def test_values_of_sections_come_back(octets: bytes) -> None:
    crossing = Crossing(KEY)
    message = modern(octets)
    there, fidelity = over(crossing, message, BASIC)
    back, _ = over(crossing, there, SECTIONS)
    if fidelity is not Fidelity.LOSSY and not any(name in octets for name in HOP):
        assert same_sections(without_hop_by_hop(back.header), message.header)
        encoded = SECTIONS.read(message.header).body_kind in ("value", "sequence")
        assert same_body(back.body, message.body, encoded)


def clean(header: bytes) -> bytes:
    """Without a capsule that is not ours."""
    return without_header(header, b"x-gateway-origin")


def capsuled(header: bytes, dialect: Dialect) -> bool:
    if dialect is SECTIONS:
        return "x-opt-gateway-origin" in annotations_of(header)
    return BASIC_FORM.capsule_in(header) is not None


@pytest.mark.parametrize("mode", ["natural", "lenient", "strict"])
@given(LEGACY, sections())
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_other_modes_write_readable_headers(mode: Mode, header: bytes, octets: bytes) -> None:
    crossing = Crossing(KEY, mode)
    for message, to in ((legacy(header), SECTIONS), (modern(octets), BASIC)):
        try:
            there, _ = over(crossing, message, to)
        except ValueError:
            assert mode == "strict"
            continue
        to.read(there.header)
        if to is SECTIONS:
            assert part(octets_of(there)) == (there.header, there.body)
        if mode != "strict":
            assert not capsuled(there.header, to)
