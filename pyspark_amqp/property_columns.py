"""The columns that depend on the properties alone, for all rows of a group at once.

What they show is learned of one header of each template (``property_learning``). Rows of no group,
and of a template that is not explained, are decoded. This module needs numpy and pyarrow.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from gateway.journal import columns as own
from gateway.journal.canonical import BY_NAME, LEGACY, Rows
from pyspark_amqp.arrays import columns_of, no_collection
from pyspark_amqp.header_groups import Group, Template
from pyspark_amqp.octets import in_order
from pyspark_amqp.property_learning import Fixed, Learned, Learner, NoTemplate, Pairs, Source


def is_learnable(name: str) -> bool:
    """Whether a column depends on the properties, the exchange and the routing key alone, if the
    body is not large."""
    return name in ("annotations", "features") or bool(BY_NAME[name].of_property)


class PropertyColumns:
    """The columns of these names, which are learnable. For one thread at a time."""

    def __init__(self, journal: str, names: list[str], schema: Any) -> None:
        self.names = names
        self._schema = schema
        self._rows = Rows(journal, names)
        self._learned: dict[Template, Learned | None] = {}

    def of(self, table: Any, groups: list[Group], others: Any) -> dict[str, Any]:
        """The columns as Arrow has them, for rows of a segment (``gateway.journal.columns``)."""
        parts: list[tuple[Any, dict[str, Any]]] = []
        for group in groups:
            found = self._group(table, group)
            if found is None:
                others = np.concatenate((others, group.rows))
            else:
                parts.append((group.rows, found))
        if len(others):
            others = np.sort(others)
            some = _rows_of(table.select([*own.CONTENT, "reference"]), others)
            with no_collection():
                entries = own.to_messages(some, False)
            parts.append((others, columns_of(self._schema, self._rows, entries)))
        rows = [one for one, _ in parts]
        return {name: in_order(rows, [found[name] for _, found in parts]) for name in self.names}

    def _group(self, table: Any, group: Group) -> dict[str, Any] | None:
        """The columns of the rows of a group; ``None`` if there is no way but decoding, as if one
        has a text that is none."""
        template = group.template
        if template not in self._learned:
            self._learned[template] = self._learn(template)
        learned = self._learned[template]
        if learned is None:
            return None
        count = len(group.rows)
        found: dict[str, Any] = {}
        try:
            for name, source in learned.items():
                kind = self._schema.field(name).type
                if not isinstance(source, Pairs):
                    found[name] = _array(source, group, kind)
                    continue
                items = [_array(one, group, kind.item_type) for one in source.items]
                keys = source.keys
                if name == "annotations":
                    keys = (*LEGACY, *keys)
                    hop = _rows_of(table.select(["exchange", "routing_key"]), group.rows)
                    items = [one.combine_chunks().cast(kind.item_type) for one in hop] + items
                found[name] = _maps(keys, items, count, kind)
        except pa.ArrowInvalid:
            return None
        return found

    def _learn(self, template: Template) -> Learned | None:
        learner = Learner(self._rows, template.dialect, template.header, template.places)
        try:
            return learner.learn()
        except NoTemplate:
            return None


def _rows_of(table: Any, rows: Any) -> Any:
    return table if len(rows) == table.num_rows else table.take(pa.array(rows))


def _array(source: Source, group: Group, kind: Any) -> Any:
    """The values of a source. Raises ``pyarrow.ArrowInvalid`` for a text that is none."""
    if isinstance(source, Fixed):
        if source.value is None:
            return pa.nulls(len(group.rows), kind)
        return pa.repeat(pa.scalar(source.value, kind), len(group.rows))
    return source.form.array(group.values(group.template.places[source.place]), kind)


def _maps(keys: Iterable[str], items: list[Any], count: int, kind: Any) -> Any:
    """A map for each row, with the same keys in all."""
    names = pa.array(list(keys), kind.key_type)
    width = len(names)
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    if not width:
        empty = pa.array([], kind.key_type), pa.array([], kind.item_type)
        return pa.MapArray.from_arrays(ends, *empty).cast(kind)
    # Row by row, from one array behind the other.
    order = np.arange(width * count).reshape(width, count).T.ravel()
    values = pa.concat_arrays(items).take(pa.array(order))
    each = names.take(pa.array(np.tile(np.arange(width), count)))
    return pa.MapArray.from_arrays(ends, each, values).cast(kind)
