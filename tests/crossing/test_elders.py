"""The drafts of 2005 and 0.8a2: there and back, to and from 0-9-1 and 1.0, by the rules of the
others."""

from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import split
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing.capsule import LARGEST
from gateway.crossing.crossing import Crossing, Fidelity, Mode
from gateway.crossing.legacy_forms import FORMS
from gateway.crossing.sameness import same_body
from gateway.message import Dialect, Message, Properties
from tests.crossing.elders import ELDERS, elder, headers
from tests.crossing.messages import LEGACY, legacy, modern, octets_of, sections
from tests.crossing.test_round_trips import HOP, KEY, over
from tests.drawing import examples

FEW = settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
NAMES = sorted(ELDERS)
OTHERS: dict[str, Dialect] = {"0-9-1": BASIC, "1.0": SECTIONS}


def check(message: Message, reader: Dialect) -> None:
    """It returns equal, by octets and by values; losses are reported before."""
    for crossing in (Crossing(KEY, fidelity="bytes"), Crossing(KEY)):
        there, fidelity = over(crossing, message, reader)
        reader.read(there.header)
        if reader is SECTIONS:
            split(octets_of(there))
        form = FORMS[message.dialect.name]
        original = form.without_capsule(message.header)
        if fidelity is Fidelity.LOSSY:
            assert reader.name.endswith("-test") or len(original) + 200 > LARGEST
            continue
        back, _ = over(crossing, there, message.dialect)
        returned = form.without_capsule(back.header)
        if (
            form.capsule_in(back.header) is not None
        ):  # a table that held a capsule alone is none without it
            original = form.without_capsule(form.with_capsule(original, b""))
        if crossing.octets:
            assert (returned, back.body) == (original, message.body)
        else:
            capsuled = fidelity is Fidelity.CAPSULE
            assert returned == original or not capsuled and form.same(returned, original)
            assert same_body(back.body, message.body, encoded(message))


def encoded(message: Message) -> bool:
    kinds = ("value", "sequence")
    return message.dialect is SECTIONS and SECTIONS.read(message.header).body_kind in kinds


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@FEW
def test_theirs_come_back(name: str, other: str, data: st.DataObject) -> None:
    check(elder(name, data.draw(headers(name))), OTHERS[other])


@pytest.mark.parametrize("name", NAMES)
@given(header=LEGACY)
@FEW
def test_basic_properties_come_back_from_them(name: str, header: bytes) -> None:
    check(legacy(header), ELDERS[name])


@pytest.mark.parametrize("name", NAMES)
@given(octets=sections())
@FEW
def test_sections_come_back_from_them(name: str, octets: bytes) -> None:
    if not any(each in octets for each in HOP):
        check(modern(octets), ELDERS[name])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@FEW
def test_they_come_back_from_each_other(name: str, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([each for each in NAMES if each != name]))
    check(elder(name, data.draw(headers(name))), ELDERS[other])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), mode=st.sampled_from(["natural", "lenient", "strict"]))
@FEW
def test_other_modes_write_readable_headers(name: str, mode: Mode, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([each for each in FORMS if each != name]))
    message = elder(name, data.draw(headers(name)))
    try:
        there, _ = over(Crossing(KEY, mode), message, FORMS[other].dialect)
    except ValueError:
        assert mode == "strict" and other.endswith("-test")
        return
    assert mode == "strict" or FORMS[other].capsule_in(there.header) is None


# --- chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@FEW
def test_a_chain_of_other_versions_leads_home(name: str, data: st.DataObject) -> None:
    """With any readers in between, the capsule of the original is passed on."""
    crossing = Crossing(KEY)
    ways = st.lists(st.sampled_from([each for each in FORMS if "-test" not in each]), min_size=3)
    message = back = elder(name, data.draw(headers(name)))
    lost = False
    for other in data.draw(ways) + [name]:
        if other != back.dialect.name:
            back, fidelity = over(crossing, back, FORMS[other].dialect)
            lost |= fidelity is Fidelity.LOSSY
    form = FORMS[name]
    original, returned = form.without_capsule(message.header), form.without_capsule(back.header)
    assert lost or returned == original or form.same(returned, original)
    assert back.body == message.body


U = UUID(int=255)
TWOFOLD = [
    {"message_id": U},
    {"message_id": f"ID:{U}"},
    {"type": "0"},
    {"subject": "0"},
    {"type": "0", "subject": "0"},
    {"type": "0", "subject": "1"},
]
"""What 1.0 and 0-10 have in other notations than the versions before them, and than each other."""


@pytest.mark.parametrize("given", TWOFOLD, ids=str)
@pytest.mark.parametrize("name", [each for each in FORMS if each not in ("1.0", "0-10")])
def test_other_notations_lead_home(name: str, given: dict[str, Any]) -> None:
    """By way of any three versions, in any order."""
    dialect = FORMS[name].dialect
    header = dialect.write(Properties(**given))
    others = {"0-9-1", "1.0", "0-10", "0-9a0-jms", "0.8a2"} - {name}
    crossing = Crossing(KEY)
    for ways in permutations(sorted(others), 3):
        back = message = Message(dialect, header, b"body", "x", "k", dialect.essentials(header))
        for other in (*ways, name):
            back, _ = over(crossing, back, FORMS[other].dialect)
        form = FORMS[name]
        returned = form.without_capsule(back.header)
        assert returned == message.header or form.same(returned, message.header), ways


def test_a_uuid_of_0_10_is_that_of_jms_before_1_0() -> None:
    """By way of 1.0, too, which has a UUID of 0-10 in the type that it has for UUIDs."""
    header = SEGMENTS.write(Properties(message_id=U))
    message = Message(SEGMENTS, header, b"", "x", "k", SEGMENTS.essentials(header))
    for ways in ((BASIC,), (SECTIONS, BASIC), (SECTIONS, COMMAND, BASIC)):
        there, crossing = message, Crossing(KEY)
        for dialect in ways:
            there, _ = over(crossing, there, dialect)
            if dialect is SECTIONS:
                assert SECTIONS.read(there.header).message_id == U
        assert BASIC.read(there.header).message_id == f"ID:{U}"


@pytest.mark.parametrize("ways", [("0-10", "1.0", "0-9-1"), ("0-9-1", "0-10", "1.0")])
@pytest.mark.parametrize("name", [each for each in FORMS if each not in ("1.0", "0-10")])
def test_ids_that_are_no_text_lead_home(name: str, ways: tuple[str, ...]) -> None:
    """1.0 has a binary for what is octets before 1.0 and in 0-10."""
    crossing, dialect = Crossing(KEY), FORMS[name].dialect
    header = dialect.write(Properties(correlation_id="a\udc80"))
    back = message = Message(dialect, header, b"body", "x", "k", dialect.essentials(header))
    for other in (*ways, name):
        if other != back.dialect.name:
            back, _ = over(crossing, back, FORMS[other].dialect)
    assert FORMS[name].without_capsule(back.header) == FORMS[name].without_capsule(message.header)


def test_an_empty_table_of_other_versions_is_none() -> None:
    """The way through 0-9-1 may add it to an expiry date, which is a header there."""
    crossing = Crossing(KEY)
    back = message = elder("0.8a2", bytes.fromhex("000000000001000001300000"))
    for other in ("0-9-1", "0-10", "0-9-1", "0.8a2"):
        back, _ = over(crossing, back, FORMS[other].dialect)
    assert FORMS["0.8a2"].same(back.header, message.header)


@pytest.mark.parametrize("other", ["0-10", "1.0"])
def test_reply_addresses_that_are_no_text_come_back(other: str) -> None:
    """The binding URL of a key that is no UTF-8 has an address with its octets."""
    for url in ("direct://x//?routingkey='a\udc80'", "direct:////a\udc80"):
        message = legacy(BASIC.write(Properties(reply_to=url)))
        check(message, FORMS[other].dialect)
        there, _ = over(Crossing(KEY), message, FORMS[other].dialect)
        address = FORMS[other].dialect.read(there.header).reply_to
        assert address is not None and "%80" in address or other == "0-10"


@pytest.mark.parametrize("between", [("1.0", "0-9-1"), ("0-9a6-jms", "0.8a2"), ("0.8a2", "1.0")])
@given(header=LEGACY, octets=sections())
@FEW
def test_a_chain_leads_home_from_elsewhere(
    between: tuple[str, str], header: bytes, octets: bytes
) -> None:
    if any(each in octets for each in HOP):
        return
    for message in (legacy(header), modern(octets)):
        crossing, back = Crossing(KEY, fidelity="bytes"), message
        for other in (*between, message.dialect.name):
            if other == back.dialect.name:
                continue
            back, fidelity = over(crossing, back, FORMS[other].dialect)
            if fidelity is Fidelity.LOSSY:
                break
        else:
            form = FORMS[message.dialect.name]
            assert form.without_capsule(back.header) == form.without_capsule(message.header)
            assert back.body == message.body


def test_a_capsule_follows_a_table_in_the_other_lengths() -> None:
    """Texts with four octets of length in 0-9a0, which writes one: the capsule is found again."""
    header = b"\x00\x80\x00\x00\x00\x07\x01aS\x00\x00\x00\x00"
    form = FORMS["0-9a0-file"]
    assert form.capsule_in(form.with_capsule(header, b"octets")) == b"octets"
