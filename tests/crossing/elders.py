"""Generated messages of the elder versions, from their own records: drafts of 2005, 0.8a2, files
and streams of 0-8, 0-9 and the transitional 0-10."""

import struct
from functools import cache
from typing import Any

from hypothesis import strategies as st

from gateway.adapters.commands.content import COMMAND, MORE, SIZE_OCTETS
from gateway.adapters.commands.wire.layouts import MessageProperties, write_message_properties
from gateway.adapters.methods.contents.dialect import ClassDialect, child
from gateway.adapters.methods.contents.published import CONTENTS as OTHERS
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.drafts.types import AS_WRITTEN, LENGTHS_0_9A0, LENGTHS_0_9A6, Lengths
from gateway.adapters.methods.transitional.contents import CONTENTS as TRANSITIONAL
from gateway.message import Dialect, Message
from tests.crossing.messages import IDS, LEAVES, LEGACY, SHORT, TABLES, absent, entry, fixed, long
from tests.crossing.messages import NAMES as ANY_NAMES

PUBLISHED: dict[str, ClassDialect] = {
    each.name: each for each in (*OTHERS["0-9"].values(), *TRANSITIONAL.values())
}
"""Files and streams of 0-8, 0-9 and the transitional 0-10."""
DRAFTS: dict[str, ClassDialect] = {each.name: each for each in CONTENTS.values()} | PUBLISHED
ELDERS: dict[str, Dialect] = {**DRAFTS, COMMAND.name: COMMAND}
"""All dialects of the family but that of 0-9-1."""

NAMES = ANY_NAMES | st.sampled_from(
    ["x-amqp09-file-name", "x-amqp09-timestamp", "x-amqp09-user-id", "x-opt-amqp09-children",
     MORE, "REPLY_TO", "CORRELATION_ID", "X_STREAM"]
)  # fmt: skip

# --- the drafts ---------------------------------------------------------------------------------


def sized(tag: bytes, width: int, octets: bytes) -> bytes:
    return tag + len(octets).to_bytes(width, "big") + octets


@cache
def entries(lengths: Lengths) -> st.SearchStrategy[bytes]:
    """A field table of a peer, with and without headers of other versions."""
    text = st.text(max_size=12).map(str.encode) | st.binary(max_size=12)
    own = st.one_of(
        text.map(lambda raw: sized(b"S", lengths[0], raw)),
        text.map(lambda raw: sized(b"L", lengths[1], raw)),
        fixed(b"I", 4), fixed(b"D", 5), fixed(b"T", 8),
    )  # fmt: skip
    other = LEAVES.filter(lambda raw: raw[:1] not in b"SL")
    fields = st.recursive(
        own | own | other,
        lambda inner: st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: long(b"F", b"".join(map(entry, pairs)))
        ),
        max_leaves=4,
    )
    return st.lists(st.tuples(NAMES, fields), max_size=4).map(lambda p: b"".join(map(entry, p)))


CHILDREN = st.lists(
    st.recursive(
        st.binary(max_size=12).map(lambda body: child(7, b"\x80\0\1x", [], body)),
        lambda inner: st.lists(inner, max_size=2).map(lambda c: child(6, b"\0\0", c, b"b")),
        max_leaves=3,
    ),
    max_size=2,
).map(b"".join)
STAMPS = {
    True: st.sampled_from(["", "0", "1117411200", "30 May 2005", "007", "9" * 40]) | SHORT,
    False: st.integers(0, 2**64 - 1) | st.sampled_from([0, 1117411200, 1117411200123]),
}
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "delivery_mode": st.sampled_from([0, 1, 2, 3]),
    "priority": st.integers(0, 255),
    "correlation_id": IDS,
    "message_id": IDS,
    "expiration": st.sampled_from(["", "0", "007", "60000", "1790000000123", "soon"]),
}


@cache
def draft_headers(name: str) -> st.SearchStrategy[bytes]:
    dialect = DRAFTS[name]
    first = name.startswith("0-9a0")
    record = dialect.record(b"\0\0")[0]
    lengths = (LENGTHS_0_9A0, LENGTHS_0_9A6) if first else (LENGTHS_0_9A6, AS_WRITTEN)
    children = CHILDREN
    if name in PUBLISHED:
        lengths, children = (LENGTHS_0_9A6, LENGTHS_0_9A6), st.just(b"")
    given: dict[str, st.SearchStrategy[Any]] = {}
    for slot in record.__slots__:
        given[slot] = absent(PLAIN.get(slot, SHORT | st.just("")))
        if slot == "timestamp":
            given[slot] = absent(STAMPS[first])
        elif slot == "headers":
            given[slot] = absent(entries(lengths[0]) | entries(lengths[0]) | entries(lengths[1]))
    made = st.builds(type(record), **given)
    return st.builds(dialect.joined, made, children).filter(lambda raw: readable(dialect, raw))


def readable(dialect: Dialect, header: bytes) -> bool:
    try:
        dialect.essentials(header)
    except ValueError:
        return False
    return True


# --- 0.8a2 --------------------------------------------------------------------------------------


def field(pair: tuple[str, bytes]) -> bytes:
    name = pair[0].encode()[:128].decode("utf-8", "ignore").encode() or b"A"
    return bytes((len(name),)) + name + pair[1]


STRINGS = (st.text(max_size=20).map(str.encode) | st.binary(max_size=20)).map(
    lambda raw: sized(b"S", 2, raw)
)
FIELDS = st.tuples(NAMES, STRINGS | STRINGS | fixed(b"I", 4) | fixed(b"D", 5) | fixed(b"T", 4)).map(
    field
)
MORES = (LEGACY | TABLES).map(lambda raw: field((MORE, sized(b"S", 2, raw))))


@st.composite
def command_headers(draw: st.DrawFn) -> bytes:
    some = draw(st.lists(FIELDS, max_size=5)) + draw(st.lists(MORES, max_size=1))
    record = MessageProperties(
        0,
        draw(st.booleans()),
        draw(st.integers(0, 255)),
        draw(st.just(0) | st.integers(0, 2**32 - 1)),
        draw(st.just("") | SHORT | st.just("text/plain")),
        draw(st.just("") | SHORT),
        draw(st.just("") | IDS),
        b"".join(some),
    )
    return write_message_properties(record)[SIZE_OCTETS:]


def headers(name: str) -> st.SearchStrategy[bytes]:
    """Headers of one of the dialects."""
    return command_headers() if name == COMMAND.name else draft_headers(name)


def elder(name: str, header: bytes, body: bytes = b"body") -> Message:
    dialect = ELDERS[name]
    return Message(dialect, header, body, "x", "k", dialect.essentials(header))


def typed(letter: bytes, number: int) -> bytes:
    """An integer field of either table."""
    return letter + struct.pack(">i", number)
