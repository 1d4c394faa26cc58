"""Generated records: plain classes with slots that behave as data."""

import copy
import dataclasses
from typing import Any

import pytest

from gateway.adapters.commands.wire import layouts as commands
from gateway.adapters.methods.wire import layouts as published
from gateway.adapters.methods.wire import layouts_0_9a0, layouts_0_9a6
from gateway.adapters.performatives.wire import layouts as performatives
from gateway.adapters.record import Record, annotations

MODULES = (commands, published, layouts_0_9a0, layouts_0_9a6, performatives)
RECORDS: list[Any] = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, Record) and "NAME" in vars(value)
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_record(kind: type[Record]) -> None:
    made = kind()
    assert not dataclasses.is_dataclass(kind) and not hasattr(made, "__dict__")
    names = list(kind.__slots__)
    assert list(kind.defaults()) == names == list(annotations(kind))
    assert {name: getattr(made, name) for name in names} == kind.defaults()
    marks = [object() for _ in names]
    by_place, by_name = kind(*marks), kind(**dict(zip(names, marks, strict=True)))
    assert [getattr(by_place, name) for name in names] == marks
    assert by_place == by_name
    assert (by_place == made) == (not names)
    for name in names:
        other = copy.copy(by_place)
        assert other == by_place
        setattr(other, name, None)
        assert other != by_place


def test_records_of_other_classes_differ() -> None:
    assert published.TxCommit() != published.TxRollback()
    assert published.BasicAck(1) != performatives.Accepted()
    assert published.TxCommit() != ()


def test_they_are_shown_as_they_are_made() -> None:
    shown = repr(published.BasicQos(prefetch_count=7))
    assert shown == "BasicQos(prefetch_size=0, prefetch_count=7, global_=False)"
    assert eval(shown, vars(published)) == published.BasicQos(0, 7)


def test_they_may_change_and_are_no_keys() -> None:
    record = published.QueueDeclare(queue="q")
    record.no_wait = True
    assert record == published.QueueDeclare(queue="q", no_wait=True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)
    with pytest.raises(AttributeError):
        record.nowait = True  # type: ignore[attr-defined]
