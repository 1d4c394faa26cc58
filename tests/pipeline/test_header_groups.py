"""Rows are put into groups by their headers, each into one at most."""

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("numpy", reason="needs the extra `spark`")

import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.journal.columns import to_batch
from gateway.journal.entries import Entry, Publisher
from gateway.message import Message, Properties
from pyspark_amqp import header_groups
from pyspark_amqp.header_groups import LEAST, MOST_TRIES, HeaderGroups
from tests.drawing import examples
from tests.pipeline.test_property_columns import DIALECTS, message, traffic

pytestmark = pytest.mark.extras


def table_of(messages: list[Message]) -> Any:
    entries = [
        Entry(pos, 0, "/", "/queues/q", pos, Publisher(), one, 0)
        for pos, one in enumerate(messages)
    ]
    return pa.Table.from_batches([to_batch(entries)])


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_each_row_is_in_its_group_or_in_none(seed: int) -> None:
    draw = random.Random(seed)
    messages = [one for each in DIALECTS.values() for one in traffic(draw, each, 50)]
    messages += [Message(BASIC, b"", b"", "", "", BASIC.essentials(b"\0\0"))] * 20
    draw.shuffle(messages)
    alike = HeaderGroups()
    for rows in (messages[:90], messages[90:], messages):
        groups, others = alike.of(table_of(rows))
        assert sorted([*others, *(row for one in groups for row in one.rows)]) == list(
            range(len(rows))
        )
        for group in groups:
            assert len(group.rows) >= LEAST and sorted(group.rows) == list(group.rows)
            for row, header in zip(group.rows, group.headers, strict=True):
                assert rows[row].header == header.tobytes()
                assert rows[row].dialect.name == group.template.dialect


def test_programs_whose_headers_are_of_one_size() -> None:
    """And headers that are like none."""
    one, other = (
        [message(BASIC, Properties(**{name: f"m-{number:05}"})) for number in range(100)]
        for name in ("message_id", "correlation_id")
    )
    size = len(one[0].header)
    odd = [
        message(BASIC, Properties(content_type=f"{number:07}")) for number in range(MOST_TRIES - 2)
    ]
    assert {len(each.header) for each in (*one, *other, *odd)} == {size}
    mixed = [*odd, *(each for pair in zip(one, other, strict=True) for each in pair)]
    groups, others = HeaderGroups().of(table_of(mixed))
    assert [len(group.rows) for group in groups] == [100, 100]
    assert list(others) == list(range(len(odd)))


def test_few_headers_of_a_size_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def counted(dialect: str, header: bytes) -> Any:
        tried.append(header)

    monkeypatch.setattr(header_groups, "template_of", counted)
    alike = HeaderGroups()
    for _ in range(3):
        table = table_of(
            [message(BASIC, Properties(message_id=f"{number}")) for number in range(100, 200)]
        )
        groups, others = alike.of(table)
        assert not groups and len(others) == 100
    assert len(tried) == MOST_TRIES
