"""Generated messages of either version, octet by octet."""

import struct
from typing import Any

from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives import sections as s
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire import tables
from gateway.bodies import Body
from gateway.crossing.conversion import natural_form
from gateway.crossing.forms import BASIC_FORM, SECTIONS_FORM
from gateway.message import Message
from gateway.values import Symbol
from tests import in_memory
from tests.adapters.performatives.amqp_values import BY_TYPE, scalars, values

# --- 0-9-1 --------------------------------------------------------------------------------------

SHORT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text("abc/:?&=", max_size=12),
    st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.just("\u00e9" * 127),
)
IDS = SHORT | st.uuids().map(lambda u: f"urn:uuid:{u}") | st.sampled_from(
    ["AMQP_ULONG:7", "AMQP_BINARY:00ff", "AMQP_STRING:AMQP_ULONG:7", "AMQP_REF:x", "ID:7",
     "urn:uuid:00000000-0000-0000-0000-00000000000A"]
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "trace", "x-cause", "x-opt-a", "x-opt-b", "x-exchange", "CC", "x-delivery-count",
         "JMSXGroupID", "JMSXGroupSeq", "x-death", "x-amqp10-to", "x-amqp10-body",
         "x-amqp10-subject", "x-amqp10-message-id", "x-amqp10-properties", "x-amqp10-annotations",
         "x-amqp10-footer", "x-gateway-types", "x-gateway-origin", "x-first-death-queue"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
)  # fmt: skip


def fixed(tag: bytes, size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size).map(lambda raw: tag + raw)


def long(tag: bytes, octets: bytes) -> bytes:
    return tag + struct.pack(">I", len(octets)) + octets


LEAVES = st.one_of(
    fixed(b"t", 1), fixed(b"b", 1), fixed(b"B", 1), fixed(b"s", 2), fixed(b"U", 2), fixed(b"u", 2),
    fixed(b"I", 4), fixed(b"i", 4), fixed(b"l", 8), fixed(b"L", 8), fixed(b"d", 8),
    fixed(b"D", 5), fixed(b"f", 4), st.just(b"V"), st.just(b"T" + bytes(4) + b"\x6a\x00\x00\x00"),
    fixed(b"T", 8),
    st.text(max_size=12).map(lambda t: long(b"S", t.encode("utf-8", "replace"))),
    st.binary(max_size=12).map(lambda o: long(b"S", o)),
    st.binary(max_size=12).map(lambda o: long(b"x", o)),
)  # fmt: skip


def entry(pair: tuple[str, bytes]) -> bytes:
    name = pair[0].encode()[:255].decode("utf-8", "ignore").encode()
    return bytes((len(name),)) + name + pair[1]


def compounds(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: long(b"A", b"".join(items))),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: long(b"F", b"".join(map(entry, pairs)))
        ),
    )


FIELDS = st.recursive(LEAVES, compounds, max_leaves=6)
TABLES = st.lists(st.tuples(NAMES, FIELDS), max_size=5).map(lambda p: b"".join(map(entry, p)))


def absent(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


WIRE = st.builds(
    BasicProperties,
    content_type=absent(SHORT | st.sampled_from(["text/plain", "text/plain; charset=utf-8"])),
    content_encoding=absent(SHORT),
    headers=absent(TABLES),
    delivery_mode=absent(st.sampled_from([0, 1, 2, 3])),
    priority=absent(st.integers(0, 255)),
    correlation_id=absent(IDS),
    reply_to=absent(SHORT | st.sampled_from(["q", "/queues/q", "direct://x//q?a=b"])),
    expiration=absent(
        st.integers(0, 10**13).map(str) | st.sampled_from(["0", "007", "1790000000123"])
    ),
    message_id=absent(IDS),
    timestamp=absent(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1790000000, 1790000000123])),
    type=absent(SHORT),
    user_id=absent(SHORT),
    app_id=absent(SHORT),
    cluster_id=absent(SHORT),
)
LEGACY = WIRE.map(write_basic_properties)


def legacy(header: bytes, body: bytes = b"body", exchange: str = "x", key: str = "k") -> Message:
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


# --- 1.0 ----------------------------------------------------------------------------------------


def section(code: int, value: Any) -> bytes:
    return b"\x00\x53" + bytes((code,)) + write_value(value)


def long_form(octets: bytes) -> bytes:
    """The same section behind its symbol."""
    return b"\x00" + write_value(Symbol(tables.SECTIONS[octets[2]][1])) + octets[3:]


FORMS = st.sampled_from([lambda o: o, lambda o: o, lambda o: o, long_form])
TEXT = BY_TYPE["string"]
SYMBOLS = BY_TYPE["symbol"]
KEYS = st.one_of(
    SYMBOLS,
    st.sampled_from(
        ["x-opt-a", "x-exchange", "x-routing-key", "x-cc", "x-opt-deaths", "x-basic-type",
         "x-opt-gateway-headers", "x-opt-gateway-properties", "x-opt-gateway-origin", "x-death",
         "x-opt-app-id", "x-first-death-queue"]
    ).map(Symbol),
    BY_TYPE["ulong"],
)  # fmt: skip
MAPS = st.dictionaries(KEYS, values, max_size=3)
WORDS = st.one_of(
    TEXT,
    st.sampled_from(
        ["x-gateway-types", "x-gateway-origin", "x-amqp10-to", "x-amqp10-body", "JMSXGroupID",
         "x-opt-a", "CC", "x-delivery-count", "x-death", "n" * 300]
    ),
)  # fmt: skip
ANY_ID = st.one_of(
    TEXT, BY_TYPE["uuid"], BY_TYPE["ulong"], BY_TYPE["binary"],
    st.sampled_from(["AMQP_ULONG:7", "m" * 300, "AMQP_REF:x", "urn:uuid:x"]),
)  # fmt: skip
PROPERTIES = st.builds(
    w.Properties,
    message_id=absent(ANY_ID),
    user_id=absent(BY_TYPE["binary"]),
    to=absent(TEXT),
    subject=absent(TEXT),
    reply_to=absent(TEXT | st.sampled_from(["/queues/q", "/queues/a%2Fb", "q"])),
    correlation_id=absent(ANY_ID),
    content_type=absent(SYMBOLS | st.just(Symbol("text/plain; charset=utf-8"))),
    content_encoding=absent(SYMBOLS),
    absolute_expiry_time=absent(BY_TYPE["timestamp"]),
    creation_time=absent(BY_TYPE["timestamp"]),
    group_id=absent(TEXT),
    group_sequence=absent(BY_TYPE["uint"]),
    reply_to_group_id=absent(TEXT),
)
TRANSPORT = st.builds(
    w.Header,
    durable=absent(st.booleans()),
    priority=absent(st.integers(0, 255)),
    ttl=absent(st.integers(0, 2**32 - 1)),
    first_acquirer=absent(st.booleans()),
    delivery_count=absent(st.integers(0, 2**32 - 1)),
)
DATA = st.one_of(
    st.binary(max_size=300).map(lambda b: section(s.DATA, b)),
    st.binary(max_size=9).map(lambda b: b"\x00\x53\x75\xb0" + len(b).to_bytes(4, "big") + b),
)
BODIES = st.one_of(
    DATA.map(lambda one: [one]),
    st.lists(DATA, max_size=3),
    st.lists(st.lists(values, max_size=3).map(lambda v: section(s.SEQUENCE, v)), min_size=1,
             max_size=2),
    st.one_of(scalars, values, TEXT).map(lambda v: [section(s.VALUE, v)]),
    st.just([b"\x00\x53\x77\xb1\x00\x00\x00\x01a"]),
)  # fmt: skip


@st.composite
def sections(draw: st.DrawFn) -> bytes:
    """A whole message of 1.0."""
    head = [
        w.write_header(draw(TRANSPORT)),
        section(s.ANNOTATIONS, draw(MAPS)),
        w.write_properties(draw(PROPERTIES)),
        section(s.APPLICATION, draw(st.dictionaries(WORDS, scalars | values, max_size=4))),
    ]
    pieces = [piece for piece in head if draw(st.booleans())] + draw(BODIES)
    if draw(st.booleans()):
        pieces.append(section(s.FOOTER, draw(MAPS)))
    return b"".join(draw(FORMS)(piece) for piece in pieces)


def modern(octets: bytes) -> Message:
    header, body = s.part(octets)
    return Message(SECTIONS, header, body, "x", "k", SECTIONS.essentials(header))


def octets_of(message: Message) -> bytes:
    return in_memory.joined(s.pieces(message.header, message.body))


def to_basic(header: bytes, body: Body) -> tuple[bytes, Body]:
    """The natural form of a message of 1.0 for a reader of 0-9-1."""
    found = natural_form(SECTIONS_FORM, BASIC_FORM, header, body)
    return found.header, found.body
