"""The columns for which messages are converted to 1.0, for all rows of a group at once. Rows of no
group, and of a template that has no plan, are converted one by one. This module needs numpy and
pyarrow.

The order of rows makes no difference: ids to which later messages may refer are remembered when
messages of 1.0 are converted to another version, which is not done here.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import DATA, data_prefix, is_plain
from gateway.crossing.plans import UNREAD, Plan
from gateway.journal import columns as own
from gateway.journal.canonical import LOSSY, Rows, is_sampled
from gateway.message import DIALECTS, Message
from pyspark_amqp.arrays import array_of, no_collection
from pyspark_amqp.header_groups import Group, Template
from pyspark_amqp.octets import BINARY, EMPTY, content, in_order, one_chunk
from pyspark_amqp.plan_columns import Piece, headers, joined, narrowed

AMQP10 = "amqp10"
NAMES = (AMQP10, LOSSY)
Converted = tuple[bytes | None, list[dict[str, str]] | None]
"""The two columns of a row."""


class CrossedColumns:
    """Those of ``NAMES`` that are asked for. For one thread at a time."""

    def __init__(self, journal: str, names: list[str], schema: Any, sample: float) -> None:
        self.names = names
        self._schema = schema
        self._rows = Rows(journal, names, sample)
        self._shapes = {name: self._rows.crossing.shapes(name, SECTIONS.name) for name in DIALECTS}
        self._plans: dict[Template, Plan | None] = {}

    def of(self, table: Any, groups: list[Group]) -> dict[str, Any]:
        """The columns as Arrow has them, for rows of a segment (``gateway.journal.columns``)."""
        parts: list[tuple[Any, list[Piece]]] = []
        native = _native(table)
        if len(native):
            parts.append((native, [one_chunk(table["header"]).take(pa.array(native))]))
        for group in groups if _has_texts(table) else []:
            pieces = self._headers(table, group)
            if pieces is not None:
                parts.append((group.rows, pieces))
        left: Any = np.ones(table.num_rows, bool)
        for rows, _ in parts:
            left[rows] = False
        rest = np.flatnonzero(left)
        with no_collection():
            single = self._one_by_one(table, rest)
        found: dict[str, Any] = {}
        if AMQP10 in self.names:
            if len(rest):
                parts.append((rest, [pa.array([one for one, _ in single.values()], BINARY)]))
            found[AMQP10] = _with_bodies(table, parts, rest)
        if LOSSY in self.names:
            found[LOSSY] = self._losses(table, single)
        return found

    def _losses(self, table: Any, single: dict[int, Converted]) -> Any:
        """Rows with a plan lose nothing."""
        kind, sample = self._schema.field(LOSSY).type, self._rows.sample
        if sample >= 1:
            losses: list[Any] = [[]] * table.num_rows
        else:
            positions = table["pos"].to_pylist()
            losses = [[] if is_sampled(pos, sample) else None for pos in positions]
        for row, (_, loss) in single.items():
            losses[row] = loss
        return array_of(losses, kind)

    # --- by plan --------------------------------------------------------------------------------

    def _plan(self, template: Template) -> Plan | None:
        """The plan for the values at the places of a template."""
        if template not in self._plans:
            self._plans[template] = self._planned(template)
        return self._plans[template]

    def _planned(self, template: Template) -> Plan | None:
        shapes, fixed = self._shapes[template.dialect], template.fixed
        plan = None if shapes is None else shapes.plan_of(template.key)
        if plan is None or not _begins_plain(plan.parts[0]):
            return None
        if plan.correlation >= 0 and fixed[plan.correlation] is not None:
            return None
        return plan.with_fixed(fixed)

    def _headers(self, table: Any, group: Group) -> list[Piece] | None:
        """The pieces of the headers of a group; ``None`` if there is no plan for it."""
        plan = self._plan(group.template)
        if plan is None:
            return None
        hop = [one_chunk(table[name]) for name in ("exchange", "routing_key")]
        if len(group.rows) < table.num_rows:
            hop = [one.take(pa.array(group.rows)) for one in hop]
        values = [group.values(place) for place in group.template.places]
        try:
            return headers(plan, values, (hop[0], hop[1]))
        except UNREAD:
            return None

    # --- one by one -----------------------------------------------------------------------------

    def _one_by_one(self, table: Any, rows: Any) -> dict[int, Converted]:
        """The columns of each of these rows. Hot."""
        found: dict[int, Converted] = {}
        if not len(rows):
            return found
        sample = self._rows.sample
        some = table.select([*own.CONTENT, "body", "reference"])
        if len(rows) < table.num_rows:
            some = some.take(pa.array(rows))
        for row, entry in zip(rows.tolist(), own.to_messages(some), strict=True):
            message = entry.message
            shapes = self._shapes[message.dialect.name]
            plain = not message.added_headers and not entry.reference
            if shapes is not None and plain and is_valid(message):
                written = shapes.like(message.header, message.exchange, message.key)
                if written is not None and is_plain(written[0]):
                    body: Any = message.body
                    octets = b"".join((written[0], data_prefix(len(body)), body))
                    known = sample >= 1 or is_sampled(entry.pos, sample)
                    found[row] = octets, [] if known else None
                    continue
            values = dict(zip(self.names, self._rows.of([entry])[0], strict=True))
            found[row] = values.get(AMQP10), values.get(LOSSY)
        return found


def is_valid(message: Message) -> bool:
    """Whether its header is what its dialect accepts. Octets of a file may be anything."""
    try:
        message.dialect.essentials(message.header)
    except UNREAD:
        return False
    return True


def _native(table: Any) -> Any:
    """Rows with messages of 1.0 that stay as they are."""
    own_dialect = compute.equal(table["dialect"], SECTIONS.name).to_numpy()
    changed = compute.or_(table["added"].is_valid(), table["reference"].is_valid()).to_numpy()
    rows = np.flatnonzero(own_dialect & ~changed)
    starts, ends, octets = content(one_chunk(table["header"]))
    starts, sizes = starts[rows], ends[rows] - starts[rows]
    # As ``is_plain``.
    plain = sizes == 0
    begin = starts[sizes > 2]
    plain[sizes > 2] = (octets[begin + 1] == 0x53) & (octets[begin + 2] < DATA)
    return rows[plain]


def _has_texts(table: Any) -> bool:
    """Whether all exchanges and routing keys are texts, of which there may be others."""
    try:
        for name in ("exchange", "routing_key"):
            table[name].cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _begins_plain(octets: bytes) -> bool:
    """Whether all headers that begin so are plain."""
    return len(octets) > 2 and is_plain(octets)


def _with_bodies(table: Any, parts: list[tuple[Any, list[Piece]]], whole: Any) -> Any:
    """The sections of each row: the pieces of its header, and its body as data. ``whole``: rows
    whose pieces have the body already."""
    pieces = parts[0][1]
    if len(parts) > 1:
        pieces = [in_order([rows for rows, _ in parts], [joined(one) for _, one in parts])]
    if len(whole) == table.num_rows:
        return pieces[0]
    body = one_chunk(table["body"])
    ends: list[Piece] = [*narrowed(_data_prefix, _sizes(body)), body]
    if len(whole):
        has: Any = np.zeros(len(body), bool)
        has[whole] = True
        ends = [
            compute.if_else(has, EMPTY, pa.scalar(one) if isinstance(one, bytes) else one)
            for one in ends
        ]
    return joined([*pieces, *ends])


def _sizes(body: Any) -> Any:
    """As numbers of four octets."""
    sizes = compute.binary_length(body).fill_null(0).to_numpy()
    return sizes.astype(">u4").view(np.uint8).reshape(-1, 4)


def _data_prefix(size: bytes) -> bytes:
    return data_prefix(int.from_bytes(size))
