"""Values of columns as Arrow arrays."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from gateway.journal.canonical import Rows
from gateway.journal.entries import Entry


@contextmanager
def no_collection() -> Iterator[None]:
    """While many objects are made that all live: looking for garbage among them took a fifth of
    the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def columns_of(schema: Any, rows: Rows, entries: list[Entry]) -> dict[str, Any]:
    """The columns of ``rows`` for these entries, as Arrow has them."""
    with no_collection():
        return {
            column.name: array_of(values, schema.field(column.name).type)
            for column, values in zip(rows.columns, rows.by_column(entries), strict=True)
        }


def array_of(values: list[Any], kind: Any) -> Any:
    """The values of a column of this type."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return map_array(values, kind)
    if pa.types.is_list(kind) and None not in values:
        return list_array(values, kind)
    return pa.array(values, kind)


def map_array(values: list[dict[str, Any]], kind: Any) -> Any:
    """Half the time of making it of pairs."""
    import pyarrow as pa

    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    keys = pa.array([key for one in values for key in one], kind.key_type)
    items = pa.array([item for one in values for item in one.values()], kind.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items).cast(kind)


def list_array(values: list[list[Any]], kind: Any) -> Any:
    import pyarrow as pa

    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    items = pa.array([item for one in values for item in one], kind.value_type)
    return pa.ListArray.from_arrays(offsets, items).cast(kind)


def batch_of(schema: Any, columns: dict[str, Any], count: int) -> Any:
    """A record batch; columns that were not made are null."""
    import pyarrow as pa

    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)
