"""Messages that are too large for memory are delivered like others, in any form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.large_messages import LONGEST_TAIL, Rope, SpooledMessage, unpack
from gateway.adapters.performatives.sections import part, pieces
from gateway.bodies import LargeBody, Spool
from tests import in_memory

HEAD = [
    b"",
    b"\x00\x53\x70\xc0\x02\x01\x41",
    b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x72\xc1\x01\x00\x00\x53\x73\xc0\x03\x01\xa1\x00",
    b"\x00\x53\x74\xd1\x00\x00\x00\x04\x00\x00\x00\x00",
]
FOOTER = b"\x00\x53\x78\xc1\x01\x00"
DELIVERY = b"\x00\x53\x71\xc1\x01\x00"
DATA = b"\x00\x53\x75"
DATA_BY_NAME = b"\x00\xa3\x10amqp:data:binary"
payloads = st.binary(max_size=400) | st.integers(0, 700).map(lambda size: b"x" * size)


def data(octets: bytes, short: bool = False, descriptor: bytes = DATA) -> bytes:
    if short and len(octets) < 256:
        return descriptor + b"\xa0" + bytes((len(octets),)) + octets
    return descriptor + b"\xb0" + len(octets).to_bytes(4, "big") + octets


bodies = st.one_of(
    payloads.map(lambda octets: data(octets, short=True)),
    st.lists(
        st.builds(data, payloads, st.booleans(), st.sampled_from([DATA, DATA_BY_NAME])),
        min_size=1,
        max_size=4,
    ).map(b"".join),
    payloads.map(lambda octets: b"\x00\x53\x77" + write_value(octets)),
    st.sampled_from([b"\x00\x53\x77\x40", b"\x00\x53\x77\x56\x01", b"\x00\x53\x77\x71abcd"]),
    st.lists(
        payloads.map(lambda octets: b"\x00\x53\x76" + write_value([octets])), min_size=1, max_size=3
    ).map(b"".join),
)
messages = st.builds(
    lambda head, body, tail: head + body + tail,
    st.sampled_from(HEAD),
    bodies,
    st.sampled_from([b"", FOOTER, DELIVERY, FOOTER]),
)


def taken_apart(octets: bytes, first: int, step: int) -> SpooledMessage | None:
    unpacking = unpack(octets[:first], Spool())
    if unpacking is None:
        return None
    for at in range(first, len(octets), step):
        unpacking.add(octets[at : at + step])
    return unpacking.finish()


@given(messages, st.integers(0, 200), st.integers(1, 300))
def test_taken_apart_as_in_memory(octets: bytes, first: int, step: int) -> None:
    """Cut anywhere, header and body are those of ``part``, and make the same message again."""
    found = taken_apart(octets, first, step)
    if found is None:
        return
    header, body = found.parts()
    again = part(octets)
    assert (header, body[:]) == again
    rope = Rope(pieces(header, body))
    whole = in_memory.joined(pieces(*again))
    assert len(rope) == len(whole)
    assert rope[:] == whole
    assert [rope[at : at + step] for at in range(0, len(rope), step)] == [
        whole[at : at + step] for at in range(0, len(whole), step)
    ]


def test_the_usual_shapes_are_taken() -> None:
    for head in HEAD:
        for body in (data(bytes(999)), b"\x00\x53\x77" + write_value("x" * 999)):
            assert taken_apart(head + body, len(head) + 20, 100) is not None


@pytest.mark.parametrize(
    "late",
    [
        b"\x00\x53\x77\x40",
        b"\x00\x53\x75\x40",
        b"nonsense, and more of it than any start of a section has octets" * 2,
        data(b"")[:-1],
        FOOTER + FOOTER,
        FOOTER[:-1],
    ],
)
def test_what_follows_the_body_must_be_right(late: bytes) -> None:
    octets = data(bytes(300)) + late
    with pytest.raises(FieldError):
        part(octets)
    with pytest.raises(FieldError):
        taken_apart(octets, 50, 7)


def test_little_may_follow_the_body() -> None:
    unpacking = unpack(data(bytes(300)) + FOOTER[:3], Spool())
    assert unpacking is not None
    with pytest.raises(FieldError, match="behind the body"):
        unpacking.add(bytes(LONGEST_TAIL))


@pytest.mark.parametrize(
    "octets", [b"", b"\x00", FOOTER, b"\x00\x53\x74\xd1\x00", b"\x00\x53\x77\x00\x53\x01\x40"]
)
def test_other_shapes_stay_in_memory(octets: bytes) -> None:
    assert unpack(octets, Spool()) is None


def test_a_rope_reads_a_file_in_parts() -> None:
    spooled = Spool().start()
    assert spooled is not None
    spooled.add(b"0123456789")
    body: LargeBody = spooled.finish()
    rope = Rope([b"ab", b"", body, b"cd", body.part(2, 4)])
    assert rope[:] == b"ab0123456789cd23"
    assert rope[1:4] == b"b01"
    assert rope[11:15] == b"9cd2"
    assert rope[16:20] == b""
