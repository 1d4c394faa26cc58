"""Publishes that are like one before are read as each of them alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters import Limits
from gateway.adapters.core.templates import MANY
from gateway.adapters.methods import frames
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.publish_template import PATIENCE
from gateway.message import Message, Properties
from gateway.operations import Operation, Publish, PublishMany
from gateway.sessions.publishes import one_by_one
from tests.adapters.methods.test_mirror import plain
from tests.pair import VERSIONS, opened

KEYS = ("k", "key")


def publish(
    number: int, octets: int = 16, key: str = "k", digits: int = 8, mandatory: bool = False
) -> Publish:
    properties = Properties(
        message_id=f"{number:0{digits}}" if digits else None,
        creation_time=1_700_000_000_000 + 1000 * number,
        application={"trace": f"{number:012x}"},
    )
    header = BASIC.write(properties)
    body = bytes([number % 256]) * octets
    message = Message(BASIC, header, body, "x", key, BASIC.essentials(header))
    return Publish(1, message, mandatory, False)


def octets_of(pair: Any, said: list[Publish]) -> bytes:
    for one in said:
        pair.client.send(one)
    return b"".join(pair.client.output())


def heard(pair: Any, pieces: list[bytes]) -> list[Operation]:
    return [one for piece in pieces for one in pair.server.receive(piece)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % len(data) for place in places} - {0})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


ANY = st.builds(
    publish,
    st.integers(0, 10**6),
    st.sampled_from([0, 1, 16, 17, 300]),
    st.sampled_from(KEYS),
    st.sampled_from([0, 7, 8]),
    st.booleans(),
)
RUN = st.lists(st.builds(publish, st.integers(0, 10**6), st.sampled_from([1, 16, 300])), min_size=3)


def outcome(version: str, data: bytes, places: list[int], alone: bool) -> tuple[Any, bytes]:
    """What a server finds in octets that are cut at these places, and its answer. ``alone``: no
    publish is compared with one before."""
    frames._ALIKE.clear()
    pair = opened(version)
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(Frames, "_followers", lambda self, buf, at, *_: at)
        found = list(one_by_one(heard(pair, cut(data, places))))
    return [plain(one) for one in found], b"".join(pair.server.output())


@pytest.mark.parametrize("version", VERSIONS)
@given(
    said=st.lists(st.lists(ANY, max_size=5) | RUN, min_size=1, max_size=6),
    places=st.lists(st.integers(0, 10**6), max_size=6),
)
def test_as_each_of_them_alone(version: str, said: list[list[Publish]], places: list[int]) -> None:
    flat = [one for part in said for one in part]
    if flat:
        data = octets_of(opened(version), flat)
        found, answer = outcome(version, data, places, False)
        assert found == [plain(one) for one in flat]
        assert (found, answer) == outcome(version, data, places, True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_every_octet_of_a_publish_damaged(version: str, change: int) -> None:
    """The fourth of five: the same messages are found, and the same is answered."""
    each = [octets_of(opened(version), [publish(number)]) for number in range(5)]
    begin = sum(map(len, each[:3]))
    for place in range(begin, begin + len(each[3])):
        data = bytearray(b"".join(each))
        data[place] ^= change
        octets = bytes(data)
        assert outcome(version, octets, [], False) == outcome(version, octets, [], True)


def test_a_frame_beyond_the_limit_in_a_run() -> None:
    said = [publish(number, 5000 if number == 3 else 16) for number in range(5)]
    data = octets_of(opened("0-9-1"), said)
    heard_of = []
    for alone in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if alone:
                patch.setattr(Frames, "_followers", lambda self, buf, at, *_: at)
            pair = opened("0-9-1", limits=Limits(frame_max=4096))
            found = [plain(one) for one in one_by_one(heard(pair, [data]))]
            heard_of.append((found, b"".join(pair.server.output())))
    assert heard_of[0] == heard_of[1] and len(heard_of[0][0]) == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_publishes_alike_come_together(version: str) -> None:
    """Those of one read, but for the first two, by which they are found to be alike."""
    pair = opened(version)
    said = [publish(number, number % 7 + 1) for number in range(1000, 1050)]
    heard(pair, [octets_of(pair, said[:5])])
    first, second, many = heard(pair, [octets_of(pair, said[5:])])
    assert isinstance(first, Publish) and isinstance(second, Publish)
    assert isinstance(many, PublishMany) and many.channel == 1 and not many.mandatory
    assert [m.properties.message_id for m in many.messages] == [
        one.message.properties.message_id for one in said[7:]
    ]
    assert [m.body for m in many.messages] == [one.message.body for one in said[7:]]


def test_mandatory_publishes_stay_so() -> None:
    pair = opened("0-9-1")
    *_, many = heard(pair, [octets_of(pair, [publish(n, mandatory=True) for n in range(9)])])
    assert isinstance(many, PublishMany) and many.mandatory and len(many.messages) == 7


@pytest.mark.parametrize("version", ["0-8", "0-9"])
def test_immediate_publishes_come_alone(version: str) -> None:
    pair = opened(version)
    said = [Publish(1, publish(number).message, False, True) for number in range(9)]
    found = heard(pair, [octets_of(pair, said)])
    assert [plain(one) for one in found] == [plain(one) for one in said]


def test_equal_headers_are_kept_once() -> None:
    pair = opened("0-9-1")
    *_, many = heard(pair, [octets_of(pair, [publish(7)] * 20)])
    assert isinstance(many, PublishMany)
    assert len({id(message.header) for message in many.messages}) == 1


def test_every_cut_of_a_run() -> None:
    pair = opened("0-9-1")
    said = [publish(number, 3) for number in range(1000, 1005)]
    size = len(octets_of(pair, said))
    for place in range(1, size):
        found = heard(pair, cut(octets_of(pair, said), [place]))
        assert [plain(one) for one in one_by_one(found)] == [plain(one) for one in said]


def test_another_template_is_made_when_none_is_like_it() -> None:
    """A header of the same size that has its values at other places."""
    pair = opened("0-9-1")

    def other(number: int) -> Publish:
        header = BASIC.write(Properties(message_id=f"{number:08}", application={"t": "1" * 24}))
        return Publish(
            1, Message(BASIC, header, b"1", "x", "k", BASIC.essentials(header)), False, False
        )

    sizes = {len(other(1).message.header), len(publish(1).message.header)}
    assert len(sizes) == 1
    heard(pair, [octets_of(pair, [publish(n) for n in range(20)])])
    for turn in range(2 * PATIENCE + MANY):
        said = [other(10 * turn + n) for n in range(5)]
        found = heard(pair, [octets_of(pair, said)])
        assert [plain(one) for one in one_by_one(found)] == [plain(one) for one in said]
    assert len(found) == 3
