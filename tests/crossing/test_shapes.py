"""Conversion by shape gives what conversion of every header gives, octet by octet."""

import random
import string
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import values
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing.basic_shapes import BASIC_NOTATION
from gateway.crossing.crossing import Crossing
from gateway.crossing.notations import NOTATIONS
from gateway.crossing.plans import GROUP, UNREAD, Key, Notation, plan_of, tokens
from gateway.crossing.section_shapes import WIDE
from gateway.crossing.shapes import LONGEST, MANY_MISSES, MOST_PLANS, MOST_SEEN, WARM
from gateway.message import Dialect, Message, Properties
from tests.crossing import messages, segments
from tests.drawing import examples

KEY = b"k" * 32
NOW = 1_700_000_000
MODES = st.sampled_from(["lossless", "lossless", "strict", "lenient", "natural"])
FIDELITIES = st.sampled_from(["values", "values", "bytes"])

TEXTS = st.one_of(
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=4),
    st.integers(0, 400).map(lambda size: b"m" * size),
    st.sampled_from(
        [b"", b"ID:7", b"AMQP_ULONG:7", b"AMQP_BINARY:00ff", b"AMQP_STRING:AMQP_ULONG:7",
         b"AMQP_REF:x", b"urn:uuid:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468", b"urn:uuid:x",
         b"amqp/map", b"x-amqp10-body", b"x-gateway-origin", b"/queues/q", b"direct://x//q",
         b"\xff", b"\xc3\xa9",
         b"ID:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468", b"x" * 60, b"x" * 61, b"x" * 254, b"x" * 255]
    ),
)  # fmt: skip
NUMBERS = [0, 1, 127, 128, 255, 256, -1, -128, -129, 10**11, 10**11 + 1, 10**14, (1 << 43) - 1,
           1 << 43, 1_700_000_000, 1_700_000_000_000, 1_700_000_000_123, 1 << 31, 1 << 63,
           0x7FF0000000000001, 0x7F800001]  # fmt: skip


def value(octets: bytes) -> st.SearchStrategy[bytes]:
    """Another value of a token: a text, or as many octets."""
    size = len(octets)
    sized = st.one_of(
        st.binary(min_size=size, max_size=size),
        st.sampled_from(NUMBERS).map(lambda number: (number % (1 << 8 * size)).to_bytes(size)),
    )
    return sized


def rewritten(notation: Notation, key: Key, values: list[bytes]) -> bytes:
    """The header of this shape with these values."""
    sources: list[Any] = list(values)
    return plan_of(notation, key, sources).filled([])


def outcome(crossing: Crossing, message: Message, reader: Dialect) -> object:
    """All that a conversion results in."""
    found: object
    try:
        found = tuple(crossing.cross(message, reader))
    except (ValueError, OverflowError, RecursionError) as error:
        found = type(error)
    return found, crossing._references._of_users, crossing.forged


def warm(crossing: Crossing) -> Crossing:
    """Shapes have a plan when they come for the first time."""
    for shapes in crossing._shapes.values():
        shapes.warm = 0
    return crossing


def counted(crossing: Crossing, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Headers that are converted from now on."""
    found: list[bytes] = []
    convert = crossing._convert

    def counting(source: Any, reader: Any, octets: bytes, *others: Any) -> Any:
        found.append(octets)
        return convert(source, reader, octets, *others)

    monkeypatch.setattr(crossing, "_convert", counting)
    return found


def cold(crossing: Crossing) -> Crossing:
    """Every header is converted."""
    crossing._shapes.clear()
    return crossing


def both_ways(message: Message, reader: Dialect, *settings: Any) -> None:
    """Compare the two paths."""
    fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
    assert outcome(fast, message, reader) == outcome(slow, message, reader), message.header.hex()


def received(
    dialect: Dialect, header: bytes, exchange: str = "x", key: str = "k"
) -> Message | None:
    """A message with this header, if it would be accepted."""
    try:
        essentials = dialect.essentials(header)
    except (ValueError, IndexError):
        return None
    return Message(dialect, header, b"body", exchange, key, essentials)


def varied(data: st.DataObject, message: Message, reader: Dialect) -> None:
    """Compare the paths for a message, and for others of its shape, or nearly so."""
    settings: Any = data.draw(MODES), data.draw(FIDELITIES)
    both_ways(message, reader, *settings)
    notation = NOTATIONS[message.dialect.name]
    try:
        scanned = notation.look(message.header)
    except UNREAD:
        return
    if scanned is None:
        return
    key, own = scanned
    kinds = tokens(key)
    fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
    for _ in range(3):
        drawn = [
            one if data.draw(st.booleans())
            else data.draw(TEXTS if token in notation.texts else value(one))
            for token, one in zip(kinds, own, strict=True)
        ]  # fmt: skip
        try:
            header = rewritten(notation, key, drawn)
        except (ValueError, OverflowError):
            continue  # too long for its place
        place = data.draw(st.sampled_from([("x", "k"), ("", "ü" * 100), ("e\udcff", "k")]))
        other = received(message.dialect, header, *place)
        if other is not None:
            assert outcome(fast, other, reader) == outcome(slow, other, reader), header.hex()


def choose(data: st.DataObject, dialects: list[Dialect]) -> Dialect:
    return dialects[data.draw(st.integers(0, len(dialects) - 1))]


@given(messages.LEGACY, st.data())
def test_basic_properties_by_shape(header: bytes, data: st.DataObject) -> None:
    message = received(BASIC, header)
    if message is not None:
        varied(data, message, choose(data, [SECTIONS, SEGMENTS]))


@given(messages.sections(), st.data())
def test_sections_by_shape(octets: bytes, data: st.DataObject) -> None:
    varied(data, messages.modern(octets), choose(data, [BASIC, SEGMENTS]))


@given(segments.HEADERS, st.data())
def test_segments_by_shape(header: bytes, data: st.DataObject) -> None:
    varied(data, segments.of_0_10(header), choose(data, [BASIC, SECTIONS]))


# --- messages as programs write them: most have a plan --------------------------------------------

NAMES = (
    "a", "number", "text", "traceparent", "x-first-death-queue", "x-delivery-count", "JMSXGroupID",
    "JMSXGroupSeq", "CC", "x-opt-note", "x-amqp10-message-id", "x-gateway-hops", "ü",
    "qpid.subject", "x-gateway-types",
)  # fmt: skip
ANNOTATIONS = (
    "x-opt-note", "x-opt-sequence", "x-exchange", "x-routing-key", "x-basic-type", "x-opt-app-id",
    "x-delivery-count", "x-cc", "other", "x-opt-gateway-id-prefix", "x-opt-jms-msg-type",
)  # fmt: skip
TYPED = (
    "AMQP_ULONG:7", "urn:uuid:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468", "ID:x", "short", "", "AMQP_",
    "ID:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468",
)  # fmt: skip
KINDS = (
    "text", "text", "text", "int", "long", "uint", "time", "uuid", "double", "single", "octets",
    "short", "ubyte", "fixed", "list", "ulong", "symbol",
)  # fmt: skip


def text(chance: random.Random) -> str:
    size = chance.choice([0, 1, 3, 4, 5, 5, 5, 20, 60, 61, 200, 254, 255, 256, 300])
    made = "".join(chance.choices(string.ascii_letters, k=size))
    return chance.choice([made, made, made, made, made + "ü"])


def moment(chance: random.Random) -> int:
    near = 1_700_000_000_000 + chance.randrange(10**9)
    return chance.choice([near, near // 1000 * 1000, near, 0, 1, 10**14, 10**14 + 1000, -5])


def drawn(chance: random.Random, kind: str) -> Any:
    if kind == "text":
        return text(chance)
    if kind == "int":
        return values.Int(chance.choice([0, -1, 127, 128, -128, -129, 70_000, -70_000]))
    if kind == "long":
        return chance.choice([0, -1, 5, 127, -128, 300, 1 << 31, 1 << 40, -(1 << 40)])
    if kind == "uint":
        return values.UInt(chance.choice([0, 1, 255, 256, 1 << 31]))
    if kind == "ulong":
        return values.ULong(chance.choice([0, 1, 255, 256, 1 << 63]))
    if kind == "time":
        return values.Timestamp(abs(moment(chance)))
    if kind == "uuid":
        return uuid.UUID(int=chance.getrandbits(128))
    if kind == "double":
        return chance.choice([0.0, -0.0, 0.1, float("inf"), float("nan"), chance.random()])
    if kind == "single":
        return values.Float(chance.choice([0.0, 0.5, float("inf"), float("nan"), 1e-40]))
    if kind == "octets":
        return chance.randbytes(chance.choice([0, 1, 255, 256]))
    if kind == "short":
        return values.Short(chance.choice([0, -1, 3, 300]))
    if kind == "ubyte":
        return values.UByte(chance.choice([0, 3, 255]))
    if kind == "symbol":
        return values.Symbol(chance.choice(["a", "b"]))
    return [text(chance)] if kind == "list" else True


def ids(chance: random.Random, uuids: bool) -> Any:
    other = uuid.UUID(int=chance.getrandbits(128))
    if not uuids:
        return chance.choice(
            [None, text(chance), text(chance), chance.choice(TYPED), f"ID:{other}"]
        )
    return chance.choice([None, text(chance), text(chance), chance.choice(TYPED), other])


def fixed_fields(chance: random.Random, modern: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "durable": chance.choice([None, True]),
        "priority": chance.choice([None, 3]),
        "content_type": chance.choice([None, "text/plain", "amqp/map"]),
        "reply_to": chance.choice([None, None, "answers"]),
        "ttl": chance.choice([None, None, 60_000]),
    }
    if modern:
        found["subject"] = chance.choice([None, "subject"])
        found["to"] = chance.choice([None, "to"])
    else:
        found["type"] = chance.choice([None, "kind"])
        found["app_id"] = chance.choice([None, "app"])
    return found


class Program:
    """Its messages have the same properties and headers, mostly with values of the same types."""

    def __init__(self, chance: random.Random, dialect: Dialect) -> None:
        self.chance, self.dialect, self.modern = chance, dialect, dialect is SECTIONS
        self.fixed = fixed_fields(chance, self.modern)
        self.has = {
            name
            for name in ("message_id", "correlation_id", "creation_time")
            if chance.random() < 0.6
        }
        if self.modern and chance.random() < 0.3:
            self.has.add("absolute_expiry_time")
        names = chance.sample(NAMES, chance.choice([0, 1, 1, 2, 2, 3]))
        self.kinds = {name: chance.choice(KINDS) for name in names}
        names = chance.sample(ANNOTATIONS, chance.choice([0, 0, 1, 2])) if self.modern else []
        self.annotated = {values.Symbol(name): chance.choice(KINDS) for name in names}
        self.uuids = dialect is not BASIC
        self.wide = self.modern and chance.random() < 0.2

    def message(self) -> Message | None:
        chance, fields = self.chance, dict(self.fixed)
        for name in self.has:
            id_ = name.endswith("_id")
            fields[name] = ids(chance, self.uuids) if id_ else moment(chance)
        for field, kinds in (("application", self.kinds), ("annotations", self.annotated)):
            if kinds:
                fields[field] = {name: drawn(chance, kind) for name, kind in kinds.items()}
        try:
            header = self.dialect.write(Properties(**fields))
        except (ValueError, OverflowError):
            return None
        scanned = NOTATIONS["1.0"].look(header) if self.wide else None
        if scanned is not None:
            key, found = scanned
            wide = tuple(
                each | WIDE if isinstance(each, int) and each >= GROUP else each for each in key
            )
            header = rewritten(NOTATIONS["1.0"], wide, found)
        place = chance.choice(["", "amq.direct"]), chance.choice(["q", "key", "ü" * 99])
        return received(self.dialect, header, *place)


WAYS = [
    (BASIC, SECTIONS),
    (SECTIONS, BASIC),
    (SEGMENTS, SECTIONS),
    (SEGMENTS, BASIC),
    (BASIC, SEGMENTS),
    (SECTIONS, SEGMENTS),
]


@pytest.mark.parametrize("seed", range(examples(400)))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].name} to {way[1].name}")
def test_every_header_is_as_if_it_were_the_only_one(
    way: tuple[Dialect, Dialect], seed: int
) -> None:
    chance = random.Random(seed)
    source, reader = way
    for _ in range(3):
        program = Program(chance, source)
        settings: Any = chance.choice([(), (), ("lossless", "bytes"), ("lenient",), ("natural",)])
        fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
        if chance.random() < 0.3:
            for crossing in (fast, slow):
                for known in ("short", "ID:x", "ID:short"):
                    crossing._references.remember("guest", known, b"the id")
        for _ in range(12):
            one = program.message()
            if one is not None:
                assert outcome(fast, one, reader) == outcome(slow, one, reader), one.header.hex()


# --- headers of one size --------------------------------------------------------------------------


def of_its_size(chance: random.Random, notation: Notation, header: bytes) -> bytes:
    """Another header of the shape with values of the same sizes, mostly of the same kinds."""
    scanned = notation.scan(header)
    assert scanned is not None
    key, own = scanned
    others = []
    for one in own:
        size = len(one)
        texts = [
            chance.randbytes(size),
            (chance.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size) if size else b"",
            (1_700_000_000_000 + chance.randrange(10**6)).to_bytes(8),
            (1_700_000_000 + chance.randrange(10**6)).to_bytes(8),
            f"ID:{uuid.UUID(int=chance.getrandbits(128))}".encode(),
            chance.choice(TYPED).encode(),
            "".join(chance.choices(string.ascii_letters, k=size)).encode(),
            "".join(chance.choices(string.ascii_letters, k=size)).encode(),
        ]
        others.append(chance.choice([each for each in texts if len(each) == size] + [one]))
    if chance.random() < 0.1:
        octets = bytearray(rewritten(notation, key, others))
        octets[chance.randrange(len(octets))] = chance.randrange(256)
        return bytes(octets)
    return rewritten(notation, key, others)


@pytest.mark.parametrize("seed", range(examples(400)))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].name} to {way[1].name}")
def test_headers_of_one_size(way: tuple[Dialect, Dialect], seed: int) -> None:
    chance = random.Random(seed)
    source, reader = way
    settings: Any = chance.choice([(), (), ("lossless", "bytes"), ("lenient",), ("natural",)])
    fast, slow = warm(Crossing(KEY, *settings)), cold(Crossing(KEY, *settings))
    first = Program(chance, source).message()
    if first is None or NOTATIONS[source.name].scan(first.header) is None:
        return
    if chance.random() < 0.3:
        for crossing in (fast, slow):
            crossing._references.remember("guest", "ID:x", b"the id")
    for _ in range(12):
        header = of_its_size(chance, NOTATIONS[source.name], first.header)
        place = chance.choice([("", "q"), ("amq.direct", "key"), ("x", "ü" * 99)])
        one = received(source, header, *place)
        if one is not None:
            assert outcome(fast, one, reader) == outcome(slow, one, reader), header.hex()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].name} to {way[1].name}")
def test_headers_of_one_size_are_not_scanned(
    way: tuple[Dialect, Dialect], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reader = way
    headers = [
        source.write(
            Properties(
                message_id=uuid.UUID(int=NOW << 64 | number)
                if source is SEGMENTS
                else f"message-{number}",
                creation_time=(NOW + number) * 1000,
                application={"trace": f"{number}", "count": 7, "large": 1 << 40 | number},
            )
        )
        for number in range(1000, 1010)
    ]
    notation, scanned = NOTATIONS[source.name], 0

    def scan(header: bytes) -> Any:
        nonlocal scanned
        scanned += 1
        return type(notation).scan(notation, header)

    monkeypatch.setattr(notation, "scan", scan)
    fast, slow = warm(Crossing(KEY)), cold(Crossing(KEY))
    for header in headers:
        one = received(source, header)
        assert one is not None
        assert outcome(fast, one, reader) == outcome(slow, one, reader)
    assert scanned == 2 + 2  # the first two, and twice for the plan


# --- what it costs --------------------------------------------------------------------------------


def message(**given: Any) -> Message:
    found = received(BASIC, BASIC.write(Properties(**given)), "", "q")
    assert found is not None
    return found


def test_ids_and_headers_are_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(1000, 1100):
        headers = {"n": number, "text": f"ü {number}", "yes": True}
        ids = {"message_id": f"m-{number}", "correlation_id": "c" * (number - 990)}
        one = message(creation_time=(NOW + number) * 1000, application=headers, **ids)
        made, body = crossing(one, SECTIONS)
        properties = SECTIONS.read(made)
        assert {name: getattr(properties, name) for name in ids} == ids
        assert properties.application == headers and body == b"body"
        assert properties.creation_time == (NOW + number) * 1000
    assert len(converted) == 2 * (WARM - 1 + 2), "until it is warm, and two stand-ins: two shapes"
    assert sum(crossing.counts.values()) == 100


def test_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(100):
        id_, headers = uuid.UUID(int=number), {"n": number, "text": f"ü {number}"}
        fields = {"message_id": id_, "creation_time": 1_700_000_000_001 + number * 1000}
        one = received(SECTIONS, SECTIONS.write(Properties(application=headers, **fields)))
        assert one is not None
        properties = BASIC.read(crossing(one, BASIC)[0])
        assert properties.application == headers
        assert {name: getattr(properties, name) for name in fields} == fields
    assert len(converted) == WARM - 1 + 2


def test_a_reply_is_correlated_by_the_id_that_its_text_refers_to() -> None:
    """Also when other replies of its shape came before."""
    crossing = warm(Crossing(KEY))
    for number in range(10):
        crossing(message(correlation_id=f"reply-{number}"), SECTIONS)
    crossing._references.remember("guest", "reply-77", b"the id")
    for number, wanted in ((77, b"the id"), (8, "reply-8")):
        found = SECTIONS.read(crossing(message(correlation_id=f"reply-{number}"), SECTIONS)[0])
        assert found.correlation_id == wanted


def test_an_id_with_a_text_of_its_own_is_remembered() -> None:
    crossing = warm(Crossing(KEY))
    for number in range(10):
        one = received(SECTIONS, SECTIONS.write(Properties(message_id=f"{number}" * 300)))
        assert one is not None
        crossing(one, BASIC)
    assert len(crossing._references) == 10


def test_a_peer_that_changes_its_shape_makes_nothing_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    shapes = crossing._shapes[BASIC.name, SECTIONS.name]
    common = [message(message_id=f"m-{number}") for number in range(2 * WARM)]
    for one in common:
        crossing(one, SECTIONS)
    assert len(shapes._plans) == 1
    converted = counted(crossing, monkeypatch)
    for number in range(MOST_SEEN + 10):
        crossing(message(message_id="m", application={f"header-{number}": "text"}), SECTIONS)
    assert len(converted) == MOST_SEEN + 10, "once each"
    assert len(shapes._plans) == 1 and len(shapes._seen) <= MOST_SEEN
    for number in range(8):
        crossing(message(message_id=f"another-{number}"), SECTIONS)
    assert len(converted) < MOST_SEEN + 10 + 8, "other peers keep their plans"


def test_headers_without_a_plan_are_not_looked_at_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    looked: list[bytes] = []
    scan = BASIC_NOTATION.scan

    def counting(header: bytes) -> Any:
        looked.append(header)
        return scan(header)

    monkeypatch.setattr(BASIC_NOTATION, "scan", counting)
    for number in range(MANY_MISSES + 800):
        crossing(message(message_id="m", application={f"header-{number}": "text"}), SECTIONS)
    assert len(looked) == MANY_MISSES + 100
    before = len(looked)
    for number in range(8 * WARM + 100):
        text = "x" * number  # headers of another size are looked at
        crossing(message(message_id="m", application={"a": text}), SECTIONS)
    assert len(looked) - before >= WARM + 100, "a shape gets warm, and then each is looked at"


def test_plans_are_few() -> None:
    crossing = warm(Crossing(KEY))
    shapes = crossing._shapes[BASIC.name, SECTIONS.name]
    for number in range(MOST_PLANS + 10):
        crossing(message(message_id="m", app_id=f"program-{number}"), SECTIONS)
        assert 0 < len(shapes._plans) <= MOST_PLANS


def test_long_headers_are_not_looked_at() -> None:
    crossing = warm(Crossing(KEY))
    crossing(message(message_id="m", application={"long": "x" * LONGEST}), SECTIONS)
    assert not crossing._shapes[BASIC.name, SECTIONS.name]._plans
