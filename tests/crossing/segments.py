"""Generated header segments of 0-10."""

from typing import Any

from hypothesis import strategies as st

from gateway.adapters.segments.content import SEGMENTS
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.operations import coded, write_fields
from gateway.adapters.segments.splicing import NO_BODY
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties, ReplyTo
from gateway.adapters.segments.wire.tables import BY_STRUCT
from gateway.message import Message
from gateway.values import (
    Byte,
    Char,
    CodedOctets,
    Float,
    Int,
    Seconds,
    Short,
    ShortString,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)

TEXTS = st.text(max_size=12)
SHORT = st.text("abc/ é", max_size=12)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=12),
    st.uuids(),
    st.integers(-128, 127).map(Byte),
    st.integers(0, 255).map(UByte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(0, 2**16 - 1).map(UShort),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.floats(width=32, allow_nan=False).map(Float),
    st.integers(0, 10**11).map(Seconds),
    SHORT.map(ShortString),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.binary(max_size=4).map(lambda octets: CodedOctets(octets, 0x80)),
    st.lists(SHORT, max_size=3).map(lambda items: TypedArray(items, 0x95)),
)
NAMES = st.text("abcx-é.", min_size=1, max_size=8) | st.sampled_from(
    ["qpid.subject", "x-jms-type", "x-amqp10-to", "x-amqp10-message-id", "x-opt-a"]
)
TABLES = st.dictionaries(
    NAMES,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=4,
    ),
    max_size=4,
)
MOMENTS = st.integers(0, 2**40) | st.integers(1_700_000_000_000, 1_800_000_000_000)


def absent(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | some


DELIVERY = st.builds(
    DeliveryProperties,
    priority=absent(st.integers(0, 255)),
    delivery_mode=absent(st.integers(0, 3)),
    ttl=absent(st.integers(0, 2**50)),
    timestamp=absent(MOMENTS),
    expiration=absent(MOMENTS),
    exchange=absent(SHORT),
    routing_key=absent(SHORT),
    resume_id=absent(SHORT),
)
MESSAGE = st.builds(
    MessageProperties,
    content_length=absent(st.just(4)),
    message_id=absent(st.binary(min_size=16, max_size=16)),
    correlation_id=absent(st.binary(max_size=12) | TEXTS.map(str.encode)),
    reply_to=absent(st.builds(ReplyTo, absent(SHORT), absent(SHORT))),
    content_type=absent(SHORT | st.just("text/plain")),
    content_encoding=absent(SHORT),
    user_id=absent(st.binary(max_size=12)),
    app_id=absent(st.binary(max_size=12)),
    application_headers=absent(TABLES.map(write_map)),
)


def segment(*records: Any) -> bytes:
    kinds = (BY_STRUCT[type(record)] for record in records)
    return b"".join(
        coded(kind.code, write_fields(kind, record))
        for kind, record in zip(kinds, records, strict=True)
    )


HEADERS = st.one_of(
    st.builds(segment, DELIVERY, MESSAGE),
    st.builds(segment, MESSAGE, DELIVERY),
    st.builds(segment, MESSAGE),
    st.builds(lambda *each: NO_BODY + segment(*each), DELIVERY, MESSAGE),
    st.builds(lambda each: segment(each) + coded(0x0777, b"\0\0"), DELIVERY),
)


def of_0_10(header: bytes, body: bytes = b"body") -> Message:
    return Message(SEGMENTS, header, body, "x", "k", SEGMENTS.essentials(header))
