"""Every ordered pair of the ten versions: generated messages of the first arrive at the second and
come back; the table of docs/crossing.md is that of the code."""

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.registry import VERSIONS as ROWS
from gateway.crossing.crossing import Crossing
from gateway.message import Message
from specs.crossing_table import HOWS, TABLES, VERSIONS, Version, came_back, found, received
from tests.crossing.elders import ELDERS, elder, headers
from tests.crossing.messages import LEGACY, legacy, modern, sections
from tests.crossing.segments import HEADERS, of_0_10
from tests.crossing.test_elders import FEW, check
from tests.crossing.test_round_trips import HOP, KEY

PAIRS = [(one.name, other.name) for one, other in product(VERSIONS, VERSIONS)]
BY_NAME = {each.name: each for each in VERSIONS}


def messages(version: Version) -> st.SearchStrategy[Message]:
    """Messages that programs of this version send."""
    name = version.dialect.name
    if name in ELDERS:
        return headers(name).map(lambda header: elder(name, header))
    if version.received is not None:
        return LEGACY.map(legacy).map(lambda message: arrived(message, version))
    if version.dialect is BASIC:
        return LEGACY.map(legacy)
    if name == "0-10":
        return HEADERS.map(of_0_10)
    whole = sections().filter(lambda octets: not any(each in octets for each in HOP))
    return whole.map(modern)


def arrived(message: Message, version: Version) -> Message:
    """The message as a program of this version would send it."""
    try:
        return received(Crossing(KEY), message, version)
    except ValueError:
        assume(False)
        raise


@pytest.mark.parametrize(("source", "reader"), PAIRS)
@given(data=st.data())
@FEW
def test_messages_come_back(source: str, reader: str, data: st.DataObject) -> None:
    message = data.draw(messages(BY_NAME[source]))
    version = BY_NAME[reader]
    if version.received is not None:
        check_transitional(message, version)
    elif message.dialect is version.dialect:
        there = received(Crossing(KEY), message, version)
        assert (there.header, there.body) == (message.header, message.body)
    else:
        check(message, version.dialect)


FIELDS = ("message_id", "correlation_id", "reply_to", "content_type", "user_id")


def check_transitional(message: Message, version: Version) -> None:
    """A version whose programs tell nothing from nought, and have few types of headers: what its
    fields hold comes back, unless they are empty."""
    crossing = Crossing(KEY)
    there = arrived(message, version)
    assert arrived(there, version).header == there.header  # nothing more is lost
    body = came_back(crossing, there, message)[1]
    if message.dialect is BASIC:
        assert body == message.body[:]
        before, after = (BASIC.read(each.header) for each in (message, there))
        assert all(
            getattr(after, name) == getattr(before, name) or not_held(before, name)
            for name in FIELDS
        )


def not_held(found: Any, name: str) -> bool:
    return getattr(found, name) in ("", b"", None)


def test_the_table_is_current() -> None:
    assert TABLES.drift() == "", f"run: {TABLES.command}"


def test_the_table_has_every_version() -> None:
    transitional = {name for name in ROWS if "07-2" in name}
    ours = {each.name for each in VERSIONS if each.received is None}
    assert set(ROWS) - transitional - {"0-9a0-7"} == ours  # its frames differ, not its messages
    assert {name[-5:] for name in transitional} == {each.name for each in VERSIONS} - ours
    assert len(VERSIONS) == 10


def test_versions_in_one_row_are_equal() -> None:
    for first, rest in (("0-8", ("0-9", "0-9-1")), ("07-24", ("07-27",))):
        for other in rest:
            for each in VERSIONS:
                assert found(BY_NAME[first], each) == found(BY_NAME[other], each)
                assert found(each, BY_NAME[first]) == found(each, BY_NAME[other])


def test_only_the_transitional_version_loses_for_good() -> None:
    for one, other in product(VERSIONS, VERSIONS):
        by_how = found(one, other)
        assert other.received or not any(by_how[each] for each in HOWS[-2:])
        if one.dialect is other.dialect and not other.received:
            assert not any(by_how[each] for each in HOWS[1:])
