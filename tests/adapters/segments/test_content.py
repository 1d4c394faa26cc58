"""Header segments: kept as they came, looked up without reading, spliced, and read as canonical
properties."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.segments import essentials
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.content import SEGMENTS, canonical, received, sent
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.essentials import Arrived, arrived, read_arrived, route, value_places
from gateway.adapters.segments.splicing import NO_BODY, delivered, delivery_properties
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import layouts as w
from gateway.message import Essentials, Properties
from gateway.values import Milliseconds, ULong
from tests.adapters.segments.records import MAPS, STRUCTS, structs

DELIVERY = structs(STRUCTS["message.delivery-properties"][1])
MESSAGE = structs(STRUCTS["message.message-properties"][1])
UNKNOWN = some.binary(max_size=9).map(lambda octets: ops.coded(0x0777, octets))


def segment(*records: Any) -> bytes:
    """A header segment of these structs."""
    found = b""
    for record in records:
        octets = record if isinstance(record, bytes) else ops.write_struct(record)
        found += octets if isinstance(record, bytes) else len(octets).to_bytes(4) + octets
    return found


HEADERS = some.lists(DELIVERY | MESSAGE | UNKNOWN, max_size=3).map(lambda each: segment(*each))


def test_recorded_header() -> None:
    header = bytes.fromhex("00000016040138020702000000000000ea60076361702e6b6579") + segment(
        w.MessageProperties(
            message_id=bytes(range(16)), correlation_id=b"corr-1",
            reply_to=w.ReplyTo("amq.direct", "reply.key"), content_type="text/plain",
            user_id=b"guest", app_id=b"cap",
            application_headers=write_map({"s": "text", "qpid.subject": "news"}),
        )
    )  # fmt: skip
    known = arrived(header)
    assert known.essentials == Essentials(True, 7, 60000, "guest", True)
    assert (known.exchange, known.key, known.header) == ("", "cap.key", header)
    found = SEGMENTS.read(header)
    assert found == Properties(
        durable=True, priority=7, ttl=60000, message_id=UUID(bytes=bytes(range(16))),
        correlation_id="corr-1", reply_to="/exchanges/amq.direct/reply.key",
        content_type="text/plain", user_id=b"guest", app_id="cap",
        subject="news", application={"s": "text"},
    )  # fmt: skip
    assert SEGMENTS.read(SEGMENTS.write(found)) == found


@given(HEADERS)
def test_essentials_agree_with_reading(header: bytes) -> None:
    try:
        known = read_arrived(header)
    except FieldError:
        codes = [code for code, _, _ in ops.structs(header)]
        assert len(set(codes)) < len(codes), "only a struct that comes twice is refused"
        return
    read = SEGMENTS.read(header)
    delivery = delivery_properties(header)[0]
    assert known.essentials.durable == (read.durable or False)
    assert known.essentials.priority == read.priority and known.essentials.ttl == read.ttl
    assert known.key == (delivery.routing_key or "") and known.exchange == (delivery.exchange or "")
    user = None if read.user_id is None else read.user_id.decode("utf-8", "surrogateescape")
    assert known.essentials.user_id == user


def outcome(read: Callable[[bytes], Arrived], header: bytes) -> Arrived | str:
    """What is found in a header, or why nothing is."""
    try:
        return read(header)
    except FieldError as error:
        return str(error)


WITH_ID = w.MessageProperties(content_length=5, message_id=bytes(16), content_type="text/plain")
KNOWN = [
    segment(w.DeliveryProperties(timestamp=1_700_000_000_123, routing_key="key"), WITH_ID),
    segment(w.DeliveryProperties(priority=1, timestamp=5, expiration=5), WITH_ID),
    segment(WITH_ID, w.DeliveryProperties(routing_key="key")),
    segment(w.DeliveryProperties(), w.MessageProperties(message_id=bytes(16))),
    segment(
        w.DeliveryProperties(delivery_mode=2, ttl=9, timestamp=5, exchange="x", routing_key="key"),
        w.MessageProperties(
            correlation_id=b"12345",
            user_id=b"guest",
            application_headers=write_map({"n": 1, "s": "text", "m": {"a": [1]}, "f": 1.5}),
        ),
    ),
]


def like(header: bytes, octet: int) -> bytes:
    """The header with other values where these do not matter."""
    made = bytearray(header)
    for place in essentials.value_places(header):
        made[place.start : place.stop] = bytes((octet,)) * (place.stop - place.start)
    return bytes(made)


@given(some.data(), some.sampled_from(KNOWN))
def test_a_header_is_looked_up_as_if_it_were_read(data: Any, header: bytes) -> None:
    """Another id, other octets, cut: the look-up by template agrees with reading."""
    for octet in b"abc":
        assert arrived(like(header, octet)) == read_arrived(like(header, octet))
    at = data.draw(some.integers(0, len(header)))
    octets = data.draw(some.binary(max_size=20))
    for raw in (header[:at] + octets + header[at + len(octets) :], header[:at]):
        assert outcome(arrived, raw) == outcome(read_arrived, raw)


@pytest.mark.parametrize("header", KNOWN)
def test_a_header_that_is_cut_is_not_taken_for_another_kind(header: bytes) -> None:
    arrived(header)
    for at in range(1, len(header)):
        assert outcome(arrived, header[:at]) == outcome(read_arrived, header[:at])


def test_headers_of_one_kind_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers give each message an id and a time of its own."""
    walked: list[bytes] = []
    walk = essentials.read_arrived

    def spy(header: bytes) -> Arrived:
        walked.append(header)
        return walk(header)

    monkeypatch.setattr(essentials, "read_arrived", spy)
    for number in range(50):
        header = segment(
            w.DeliveryProperties(timestamp=1_700_000_000_000 + number, routing_key="one kind"),
            w.MessageProperties(message_id=number.to_bytes(16), content_type="text/plain"),
        )
        assert arrived(header).key == "one kind" and arrived(header).header == header
        again = arrived(segment(w.DeliveryProperties(routing_key="repeated")))
    assert len(walked) == 3, "one, and two of which the second is the template"
    assert again.header is arrived(segment(w.DeliveryProperties(routing_key="repeated"))).header


@given(some.binary(max_size=60), HEADERS)
def test_any_octets(octets: bytes, header: bytes) -> None:
    """Never another exception than ``FieldError``; what is accepted can be read."""
    message = b"\0\0\0" + bytes((len(octets) + 2,)) + b"\4\3" + octets
    delivery = b"\0\0\0" + bytes((len(octets) + 2,)) + b"\4\1" + octets
    for raw in (octets, header + octets, message, delivery, message + delivery):
        try:
            read_arrived(raw)
        except FieldError:
            continue
        SEGMENTS.read(raw)
        SEGMENTS.with_headers(raw, {"x": 1})
        SEGMENTS.everlasting(raw)
        delivered(raw, "e", "k", 5, True)


TEXTS = some.text(max_size=20)
PROPERTIES = some.builds(
    Properties,
    durable=some.none() | some.booleans(),
    priority=some.none() | some.integers(0, 255),
    ttl=some.none() | some.integers(0, 1 << 40),
    message_id=some.none() | some.uuids() | TEXTS | some.binary(max_size=9)
    | some.integers(0, 99).map(ULong),
    correlation_id=some.none() | some.uuids() | TEXTS | some.binary(max_size=9)
    | some.integers(0, 99).map(ULong),
    user_id=some.none() | some.binary(max_size=9),
    to=some.none() | TEXTS,
    subject=some.none() | TEXTS,
    reply_to=some.none() | some.text(some.characters(exclude_characters="/"), max_size=20)
    | some.just("exchange/key"),
    content_type=some.none() | TEXTS,
    creation_time=some.none() | some.integers(0, 1 << 42),
    absolute_expiry_time=some.none() | some.integers(1000, 1 << 42),
    group_id=some.none() | TEXTS,
    group_sequence=some.none() | some.integers(0, 99),
    type=some.none() | TEXTS,
    app_id=some.none() | TEXTS,
    cluster_id=some.none() | TEXTS,
    annotations=some.none() | some.dictionaries(TEXTS, TEXTS, max_size=2),
    body_kind=some.none() | some.sampled_from(["value", "sequence"]),
)  # fmt: skip


@given(PROPERTIES, some.none() | MAPS)
def test_canonical_properties(properties: Properties, application: Any) -> None:
    properties.application = application
    header = SEGMENTS.write(properties)
    found = SEGMENTS.read(header)
    read_arrived(header)
    if not application:
        found.application = application  # a table with nothing but ours was empty, or absent
    assert found == properties
    assert type(found.message_id) is type(properties.message_id)
    assert type(found.correlation_id) is type(properties.correlation_id)
    assert SEGMENTS.write(SEGMENTS.read(header)) == header


def test_times() -> None:
    """Seconds by the text, milliseconds from Java clients."""
    read = canonical(w.DeliveryProperties(timestamp=1_200_000_000), w.MessageProperties())
    assert read.creation_time == 1_200_000_000_000
    java = w.DeliveryProperties(timestamp=1_700_000_000_123, expiration=1_700_000_060_123)
    read = canonical(java, w.MessageProperties())
    assert read.creation_time == 1_700_000_000_123
    assert read_arrived(segment(java)).essentials.expiry == 1_700_000_060_123
    java.ttl = 60000
    assert read_arrived(segment(java)).essentials == Essentials(ttl=60000)
    never = w.DeliveryProperties(expiration=0)
    assert read_arrived(segment(never)).essentials.expiry is None
    assert SEGMENTS.read(segment(never)).absolute_expiry_time is None


def test_reply_to() -> None:
    for text, address in {
        "queue": w.ReplyTo("", "queue"), "amq.direct/key": w.ReplyTo("amq.direct", "key"),
        "/a/b": w.ReplyTo("", "a/b"), "topic/": w.ReplyTo("topic", ""),
    }.items():  # fmt: skip
        header = SEGMENTS.write(Properties(reply_to=text))
        ((_, at, end),) = ops.structs(header)
        assert w.read_message_properties(header, at)[0].reply_to == address
        assert SEGMENTS.read(header).reply_to == text


def test_delivery() -> None:
    mine = w.MessageProperties(content_type="a/b")
    delivery = w.DeliveryProperties(priority=3, ttl=1000, routing_key="k")
    for header in (segment(mine, delivery), segment(delivery, mine)):
        out = delivered(header, "amq.direct", "k", 900, True)
        read = delivery_properties(out)[0]
        assert read == w.DeliveryProperties(
            priority=3, ttl=900, exchange="amq.direct", routing_key="k", redelivered=True
        )
        assert out[4:6] == header[4:6] and ops.write_struct(mine) in out, "the order is kept"
    assert delivered(segment(mine), "e", "k").endswith(segment(mine))
    assert delivered(b"", "e", "k") == segment(w.DeliveryProperties(exchange="e", routing_key="k"))
    again = [delivered(segment(mine), "e", "k") for _ in range(40)]
    assert again[-1] is again[-2], "asked often, it is the same object"


@given(
    HEADERS, TEXTS.filter(lambda text: len(text.encode()) < 256), TEXTS, some.booleans(),
    some.none() | some.integers(0, 1 << 50), some.booleans(),
)  # fmt: skip
def test_any_delivery(
    header: bytes, exchange: str, key: str, own_key: bool, left: int | None, redelivered: bool
) -> None:
    """As if the struct were read, changed and written; nothing else is touched."""
    if len({code for code, _, _ in ops.structs(header)}) < len(list(ops.structs(header))):
        return
    before = delivery_properties(header)[0]
    if own_key and before.routing_key:
        key = before.routing_key
    for mark in (b"", NO_BODY):
        out = delivered(mark + header, exchange, key, left, redelivered)
        after = delivery_properties(out)[0]
        before.exchange, before.routing_key, before.redelivered = exchange, key, redelivered
        before.ttl = before.ttl if left is None else left
        assert after == before
        others = [
            [header_[at:end] for code, at, end in ops.structs(header_) if code != 0x0401]
            for header_ in (header, out)
        ]
        assert others[0] == others[1]
        for time in (bytes(8), b"\xff" * 8):  # what is remembered holds for any timestamp
            later = with_timestamp(mark + header, time)
            changed = delivered(later, exchange, key, left, redelivered)
            assert changed == with_timestamp(out, time)


def with_timestamp(header: bytes, octets: bytes) -> bytes:
    """The header with another timestamp, if it has one."""
    places = value_places(header)
    for code, at, end in ops.structs(header):
        if code == 0x0401 and w.read_delivery_properties(header, at)[0].timestamp is not None:
            (place,) = (each for each in places if at <= each.start < end)
            return header[: place.start] + octets + header[place.stop :]
    return header


def test_structs_of_unknown_codes_without_fields() -> None:
    """The second header of a size is a template."""
    for code in range(4):
        header = segment(w.DeliveryProperties(timestamp=code), b"\0\0\0\2\xff%c" % code)
        assert arrived(header) == read_arrived(header)


def test_absent_and_empty_bodies() -> None:
    header = segment(w.DeliveryProperties(routing_key="k"))
    absent, empty = received(arrived(header), None, "e"), received(arrived(header), b"", "e")
    assert (absent.exchange, absent.key, absent.body, empty.body) == ("e", "k", b"", b"")
    segments = segment(w.DeliveryProperties(exchange="e", routing_key="k"))
    assert sent(absent) == (segments, None) and sent(empty) == (segments, b"")
    assert (absent.properties.body_kind, empty.properties.body_kind) == ("none", None)
    bare = received(arrived(None), None, "e")
    assert bare.header == NO_BODY and sent(bare)[1] is None
    assert sent(received(arrived(NO_BODY), b"x", "e"))[1] == b"x"


def test_notes_and_everlasting() -> None:
    delivery = w.DeliveryProperties(priority=3, ttl=1000, expiration=5, routing_key="k")
    headers = write_map({"a": "1", "b": Milliseconds(1 << 45)})
    message = w.MessageProperties(correlation_id=b"\xff", application_headers=headers)
    header = segment(message, b"\0\0\0\5\7\7xyz", delivery)
    noted = SEGMENTS.with_headers(header, {"b": "2", "c": 3})
    assert SEGMENTS.read(noted).application == {"a": "1", "b": "2", "c": 3}
    assert b"\0\0\0\5\7\7xyz" in noted and noted.endswith(segment(delivery))
    assert SEGMENTS.read(SEGMENTS.with_headers(b"", {"c": 3})).application == {"c": 3}
    plain = SEGMENTS.everlasting(header)
    assert read_arrived(plain).essentials.ttl is None and plain.startswith(segment(message))
    assert SEGMENTS.everlasting(plain) is plain


def test_routes() -> None:
    assert route(bytes.fromhex("01000a") + b"amq.direct") == ("amq.direct", None, None)
    assert route(bytes.fromhex("0000")) == ("", None, None)
    assert route(bytes.fromhex("0700 0161 00 01")) == ("a", 0, 1)
    for broken in ("", "01", "010005", "0800", "000000"):
        with pytest.raises(FieldError):
            route(bytes.fromhex(broken))


def test_values_of_a_message_are_counted() -> None:
    headers = write_map({"l": [None] * (MOST_VALUES + 1)})
    header = segment(w.MessageProperties(application_headers=headers))
    with pytest.raises(FieldError, match="more than 8192 values"):
        arrived(header)
    assert read_arrived(header).essentials.has_headers, "one that is stored is read"


def test_struct_that_comes_twice() -> None:
    header = segment(w.DeliveryProperties(), w.DeliveryProperties())
    with pytest.raises(FieldError, match="twice"):
        arrived(header)
