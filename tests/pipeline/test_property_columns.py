"""Columns that were learned equal those that are decoded."""

import random
import string
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("pyspark", reason="needs the extra `spark`")

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.journal.canonical import BY_NAME, COLUMNS, LEGACY, Rows
from gateway.journal.entries import Entry, Publisher
from gateway.message import Dialect, Message, Properties
from gateway.values import Byte, Int, Short, Symbol, Timestamp
from pyspark_amqp import arrays, property_columns, property_learning
from pyspark_amqp.header_groups import HeaderGroups
from pyspark_amqp.property_columns import PropertyColumns, is_learnable
from pyspark_amqp.property_learning import Learner, NoTemplate
from tests.drawing import examples
from tests.pipeline.test_rows import kind
from tests.pipeline.traffic import BEGIN

pytestmark = pytest.mark.extras

NAMES = [one.name for one in COLUMNS if is_learnable(one.name)]
DIALECTS = {one.name: one for one in (BASIC, SECTIONS, SEGMENTS)}


def schema() -> Any:
    from pyspark.sql import types
    from pyspark.sql.pandas.types import to_arrow_schema

    fields = [types.StructField(name, kind(BY_NAME[name].type)) for name in NAMES]
    return to_arrow_schema(types.StructType(fields), timezone="UTC")


def compare(messages: list[Message], large: Mapping[int, int] = {}) -> None:
    """``large``: octets of bodies that are elsewhere, by index."""
    from gateway.journal.columns import to_batch

    entries = [
        Entry(
            pos, BEGIN + pos, "/", "/queues/q", pos, Publisher(), one, large.get(pos, len(one.body))
        )
        for pos, one in enumerate(messages)
    ]
    import pyarrow as pa

    table = pa.Table.from_batches([to_batch(entries)])
    found = PropertyColumns("known", NAMES, schema()).of(table, *HeaderGroups().of(table))
    expected = zip(*Rows("known", NAMES).of(entries), strict=True)
    for name, values in zip(NAMES, expected, strict=True):
        shown = found[name].to_pylist()
        if BY_NAME[name].type.startswith("MAP"):
            shown = [dict(one) for one in shown]
        assert shown == list(values), name


def message(
    dialect: Dialect, properties: Properties, exchange: str = "x", key: str = "k"
) -> Message:
    header = dialect.write(properties)
    return Message(dialect, header, b"", exchange, key, dialect.essentials(header))


def text(draw: random.Random, size: int, letters: str = string.ascii_letters) -> str:
    return "".join(draw.choices(letters, k=size))


def traffic(draw: random.Random, dialect: Dialect, count: int) -> list[Message]:
    """Messages of one program: what they have in common, and values of their own."""
    has = {name: draw.random() < 0.7 for name in ("id", "correlation", "time", "headers", "more")}
    size = draw.randrange(1, 40)
    begin = draw.choice(["", "ID:", "order-", "ä"])
    reals = draw.random() < 0.5
    found = []
    for number in range(count):
        given: dict[str, Any] = {"durable": True, "content_type": "text/plain"}
        if has["id"]:
            given["message_id"] = begin + text(draw, size)
        if has["correlation"]:
            given["correlation_id"] = str(UUID(int=draw.getrandbits(128)))
        if has["time"]:
            given["creation_time"] = BEGIN + 1000 * draw.randrange(10_000)
        if has["headers"]:
            given["application"] = {
                "tenant": text(draw, 6, "abcß"),
                "number": draw.choice([draw.randrange(-(1 << 40), 1 << 40), draw.randrange(300)]),
                "at": Timestamp(BEGIN + 1000 * number),
                "kind": draw.choice([None, "same"]),
            }
            if has["more"]:
                given["application"] |= {"octets": draw.randbytes(5), "rate": Decimal("1.5")}
                if dialect is not BASIC:
                    del given["application"]["rate"]
            if reals:
                given["application"]["share"] = draw.random()
        found.append(
            message(dialect, Properties(**given), draw.choice(["", "x"]), text(draw, 3, "abü"))
        )
    return found


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_equal(name: str, seed: int) -> None:
    draw = random.Random(seed)
    messages = traffic(draw, DIALECTS[name], 60) + traffic(draw, DIALECTS[name], 40)
    if seed % 2:
        draw.shuffle(messages)
    compare(messages)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """The entries that are decoded for columns of many rows."""
    found: list[Entry] = []
    columns_of = arrays.columns_of

    def counted(schema: Any, rows: Rows, entries: list[Entry]) -> dict[str, Any]:
        found.extend(entries)
        return columns_of(schema, rows, entries)

    monkeypatch.setattr(property_columns, "columns_of", counted)
    return found


@pytest.mark.parametrize("name", DIALECTS)
def test_headers_of_one_program_are_not_decoded(name: str, decoded: list[Entry]) -> None:
    def made(number: int) -> Any:
        """0-10 has ids of one type; others are kept apart."""
        return UUID(int=number) if name == SEGMENTS.name else f"m-{number}"

    messages = [
        message(
            DIALECTS[name],
            Properties(
                durable=True, message_id=made(number), correlation_id=f"{number:016x}",
                creation_time=BEGIN + 1000 * number, content_type="application/json",
                application={"number": 1 << 40 | number, "tenant": f"t{number}", "kind": "k"},
            ),
        )
        for number in range(1000, 2000)
    ]  # fmt: skip
    compare(messages)
    assert not decoded


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "kind, first, least",
    [
        (Byte, 0x41, -20), (Short, 0x4142, -20), (Int, 0x41424344, -(1 << 20)),
        (int, 0x4142434445464748, -(1 << 40)),
    ],
)  # fmt: skip
def test_numbers_whose_octets_are_letters_have_a_sign(
    name: str, kind: type[int], first: int, least: int, decoded: list[Entry]
) -> None:
    compare(
        [
            message(DIALECTS[name], Properties(application={"n": kind(number)}))
            for number in (first, *range(least, least + 20))
        ]
    )
    assert not decoded


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("annotation", LEGACY)
@pytest.mark.parametrize("value", ["upstream", None])
def test_own_annotations_of_exchange_and_key(name: str, annotation: str, value: Any) -> None:
    """They are shown instead of the exchange and the routing key."""
    compare(
        [
            message(
                DIALECTS[name],
                Properties(
                    correlation_id=f"c-{number}",
                    annotations={Symbol("x-opt-a"): "a", Symbol(annotation): value},
                ),
            )
            for number in range(10, 40)
        ]
    )


def test_values_that_are_the_same_in_the_first_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of different places are kept apart, though few letters make other values alike."""
    monkeypatch.setattr(property_learning, "LETTERS", b"pqrs")
    for begin in "abcdefghij":
        draw = random.Random(begin)
        headers = [dict.fromkeys("abcde", "x")]
        headers += [dict(zip("abcde", text(draw, 5), strict=True)) for _ in range(30)]
        compare(
            [
                message(BASIC, Properties(message_id=f"{begin}{number:03}", application=one))
                for number, one in enumerate(headers)
            ]
        )


def test_texts_that_are_none() -> None:
    """A value that is no text makes the whole header one that cannot be read, or is shown as
    hexadecimal digits: both are decoded."""
    messages = [
        message(SECTIONS, Properties(subject="s", message_id=f"id-{number}"))
        for number in range(50)
    ]
    for one in messages[20:40]:
        one.header = one.header.replace(b"id-", b"\xff\xff\xff")
    compare(messages)
    octets = [
        message(BASIC, Properties(application={"b": (b"\xff%02d", b"x%02d")[number % 2] % number}))
        for number in range(60)
    ]  # fmt: skip
    compare(octets)
    exchanges = [
        message(BASIC, Properties(message_id=f"{number:03}"), "\udcff", "k") for number in range(50)
    ]
    compare(exchanges)


def test_what_is_not_explained_is_learned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning costs more than decoding."""
    learned = []

    def never(self: Any) -> Any:
        learned.append(self)
        raise NoTemplate

    monkeypatch.setattr(Learner, "learn", never)
    messages = [message(BASIC, Properties(message_id=f"m-{number}")) for number in range(100, 200)]
    compare(messages)
    assert len(learned) == 1


def test_nested_values_and_added_headers(tmp_path: Path) -> None:
    """Tables and lists are the same in all messages of a template, and what the gateway has added
    to a message is decoded."""
    messages = [
        message(
            BASIC,
            Properties(
                message_id=f"m-{number}",
                application={"x": {"y": [1, None]}, "CC": ["a"], "big": 1 << 62},
                annotations={"x-opt-a": number},
            ),
        )
        for number in range(100, 160)
    ]
    for one in messages[::7]:
        one.added_headers = {"x-death": [{"count": 1}]}
    compare(messages, dict.fromkeys(range(0, 60, 11), 1 << 25))
