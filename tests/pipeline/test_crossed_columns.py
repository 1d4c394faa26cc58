"""The columns of messages in 1.0 equal those that are made message by message."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("pyspark", reason="needs the extra `spark`")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part
from gateway.crossing.crossing import Crossing
from gateway.journal.canonical import BY_NAME, Rows
from gateway.journal.entries import Entry, Publisher
from gateway.message import Message, Properties
from pyspark_amqp.crossed_columns import NAMES, CrossedColumns
from pyspark_amqp.header_groups import HeaderGroups
from tests.drawing import examples
from tests.pipeline.test_property_columns import DIALECTS, message, traffic
from tests.pipeline.test_rows import kind
from tests.pipeline.traffic import BEGIN

pytestmark = pytest.mark.extras

VALUE = part(b"\x00\x53\x77\xa1\x05value")
"""Header and body of a message whose body is a text."""


def schema(names: tuple[str, ...]) -> Any:
    from pyspark.sql import types
    from pyspark.sql.pandas.types import to_arrow_schema

    fields = [types.StructField(name, kind(BY_NAME[name].type)) for name in names]
    return to_arrow_schema(types.StructType(fields), timezone="UTC")


def compare(
    messages: list[Message], names: tuple[str, ...] = NAMES, sample: float = 1.0, apart: int = -1
) -> None:
    """``apart``: the message whose body is in a file."""
    import pyarrow as pa

    from gateway.journal.columns import to_batch

    entries = [
        Entry(pos, BEGIN + pos, "/", "/queues/q", pos, Publisher(), one, len(one.body),
              "bodies/1" if pos == apart else "")
        for pos, one in enumerate(messages)
    ]  # fmt: skip
    table = pa.Table.from_batches([to_batch(entries)])
    columns = CrossedColumns("known", list(names), schema(names), sample)
    expected = zip(*Rows("known", list(names), sample).of(entries), strict=True)
    alike = HeaderGroups()
    found = [columns.of(some, alike.of(some)[0]) for some in (table.slice(0, 70), table.slice(70))]
    for name, values in zip(names, expected, strict=True):
        assert [one for some in found for one in some[name].to_pylist()] == list(values), name
    # The order of messages makes no difference.
    assert not len(columns._rows.crossing._references)


def mixed(draw: random.Random) -> list[Message]:
    """Messages of several programs, some of them unlike all others."""
    messages = [one for dialect in DIALECTS.values() for one in traffic(draw, dialect, 60)]
    for one in messages:
        one.body = draw.randbytes(draw.choice([0, 3, 255, 256, 300]))
    odd = draw.sample(messages, 10)
    for one in odd[:5]:
        one.added_headers = {"x-death": draw.randrange(9)}
    for one in odd[5:]:
        one.header = one.header[:-1]  # no longer what it says
    if draw.random() < 0.3:
        messages[draw.randrange(len(messages))].exchange = "\udcff"
    messages.append(Message(SECTIONS, *VALUE, "", "q", SECTIONS.essentials(VALUE[0])))
    for pair in (0, 1):
        # An id of another type, and its text as that of a reply.
        asked = {"message_id": draw.randbytes(8)} if pair else {"message_id": draw.getrandbits(60)}
        messages.append(message(SECTIONS, Properties(**asked)))
        messages.append(message(BASIC, Properties(correlation_id=str(asked["message_id"]))))
    messages.append(Message(SECTIONS, b"", b"body", "", "q", SECTIONS.essentials(b"")))
    if draw.random() < 0.5:
        draw.shuffle(messages)
    return messages


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 1 << 32))
@example(seed=21)  # a header that is cut within a time
def test_equal(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.choice([NAMES, *((one,) for one in NAMES)])
    compare(mixed(draw), names, draw.choice([1.0, 0.5, 0.0]), draw.choice([-1, 7]))


def test_headers_of_one_program_are_converted_by_their_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one = []
    cross = Crossing.cross

    def counted(crossing: Crossing, given: Message, dialect: Any) -> Any:
        one_by_one.append(given)
        return cross(crossing, given, dialect)

    messages = [
        message(
            BASIC, Properties(message_id=f"m-{at:06}", application={"at": at << 9}), "", f"q{at}"
        )
        for at in range(1000)
    ]
    compare(messages)
    monkeypatch.setattr(Crossing, "cross", counted)
    compare(messages)
    assert len(one_by_one) == 1000  # those that are compared with


def test_messages_without_headers() -> None:
    messages = [Message(SECTIONS, b"", b"body", "", "q", SECTIONS.essentials(b""))] * 80
    compare(messages)
