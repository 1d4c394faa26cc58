"""The columns of properties, for many messages at once.

Messages of one program differ in ids, times and a few other values only. For the headers of one
size a *template* (``gateway.adapters.core.templates``) is learned from one of them: its values are
replaced by others, and the change in the columns says which column has which value, and in
which form. Then the values of a thousand headers are columns without decoding any of them. Headers
that no template fits, and columns that no form explains, are decoded.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from random import Random
from struct import unpack
from typing import Any, NamedTuple

from gateway.adapters.core.templates import Place, Template, Templates, template
from gateway.crossing.notations import SINCE_0_8
from gateway.crossing.plans import UNREAD, in_hexadecimal, places_in
from gateway.inventory.observer import LARGE
from gateway.journal.canonical import BY_NAME, LEGACY, UNSIGNED, Rows
from gateway.journal.entries import NOBODY, Entry
from gateway.message import DIALECTS, NO_ESSENTIALS, Message
from pyspark_amqp.arrays import columns_of, no_collection

LEAST = 16
"""Rows of a template that are worth a group of their own."""
MOST_LEARNED = 512
"""Headers that are learned from: each costs as much as decoding some ten."""
MOST_FAILURES = 2
"""The same of one size that gave no template."""
LETTERS = b"abcdefghijklmnopqrstuvwxyz"
DIGITS = b"0123456789"

Form = Callable[[bytes], Any]


class NoTemplate(Exception):
    """The columns of a header are not explained by its values."""


def as_text(raw: bytes) -> str:
    return raw.decode()


def as_uuid(raw: bytes) -> str:
    return in_hexadecimal(raw).decode()


def is_learnable(name: str) -> bool:
    """Whether a column depends on the properties, the exchange and the routing key alone, if the
    body is not large."""
    return name in ("annotations", "features") or bool(BY_NAME[name].of_property)


def _numbers(signed: bool, scale: int) -> tuple[Form, Form]:
    """A number, within the range of the columns of numbers, and its digits."""

    def number(raw: bytes) -> int:
        return max(-UNSIGNED - 1, min(int.from_bytes(raw, signed=signed) * scale, UNSIGNED))

    def digits(raw: bytes) -> str:
        return str(int.from_bytes(raw, signed=signed) * scale)

    return number, digits


def _real(code: str, size: int) -> Form:
    def text(raw: bytes) -> str | None:
        return str(unpack(code, raw)[0]) if len(raw) == size else None

    return text


FORMS: tuple[Form, ...] = (
    as_text,
    *_numbers(False, 1), *_numbers(True, 1), *_numbers(False, 1000),
    as_uuid, _real(">d", 8), _real(">f", 4),
)  # fmt: skip
"""How the octets of a value are written in a column."""


class Fixed(NamedTuple):
    """A value that all headers of a template have."""

    value: Any


class Drawn(NamedTuple):
    """A value at a place of the template, and its form."""

    place: int
    form: Form


Source = Fixed | Drawn


class Pairs(NamedTuple):
    """A map: its keys and the sources of their values."""

    keys: tuple[str, ...]
    items: tuple[Source, ...]


Learned = dict[str, Source | Pairs]
"""By column."""


class PropertyColumns:
    """The columns of these names, which are learnable. For one thread at a time."""

    def __init__(self, journal: str, names: list[str], schema: Any) -> None:
        self.names = names
        self._schema = schema
        self._rows = Rows(journal, names)
        self._templates: defaultdict[str, Templates[Learned]] = defaultdict(Templates)
        """By dialect."""
        self._learned = 0
        self._failures: Counter[tuple[str, int]] = Counter()
        """By dialect and size."""

    def of(self, table: Any) -> dict[str, Any]:
        """The columns as Arrow has them, for rows of a segment (``gateway.journal.columns``)."""
        from gateway.journal import columns as own

        groups, others = self._groups(table)
        parts: list[tuple[list[int], dict[str, Any]]] = []
        for learned, members in groups:
            indexes = [index for index, _ in members]
            found = self._group(table, learned, indexes, [values for _, values in members])
            if found is None:
                others += indexes
            else:
                parts.append((indexes, found))
        if others:
            others.sort()
            some = _rows_of(table.select([*own.CONTENT, "reference"]), others)
            with no_collection():
                entries = own.to_messages(some, False)
            parts.append((others, columns_of(self._schema, self._rows, entries)))
        return parts[0][1] if len(parts) == 1 else self._in_order(parts)

    def _in_order(self, parts: list[tuple[list[int], dict[str, Any]]]) -> dict[str, Any]:
        import pyarrow as pa

        indexes = list(chain.from_iterable(part for part, _ in parts))
        order = [0] * len(indexes)
        for at, index in enumerate(indexes):
            order[index] = at
        given = pa.array(order, pa.int32())
        return {
            name: pa.concat_arrays([found[name] for _, found in parts]).take(given)
            for name in self.names
        }

    def _groups(
        self, table: Any
    ) -> tuple[list[tuple[Learned, list[tuple[int, tuple[bytes, ...]]]]], list[int]]:
        """The rows of each template with their values, and the rows of none. Hot."""
        from pyarrow import compute

        members: dict[int, list[tuple[int, tuple[bytes, ...]]]] = {}
        used: dict[int, Learned] = {}
        others: list[int] = []
        headers, dialects = table["header"].to_pylist(), table["dialect"].to_pylist()
        apart = compute.or_(table["added"].is_valid(), compute.greater(table["size"], LARGE))
        decoded = apart.to_pylist()
        for index, header in enumerate(headers):
            templates = self._templates[dialects[index]]
            known = templates.get(len(header))
            values = None if known is None or decoded[index] else known.values(header)
            if known is None or values is None:
                others.append(index)
                if not decoded[index]:
                    self._keep(templates, dialects[index], header)
                continue
            found = members.get(id(known.found))
            if found is None:
                used[id(known.found)] = known.found
                found = members[id(known.found)] = []
            found.append((index, values))
        groups = []
        for which, found in members.items():
            if len(found) < LEAST:
                others += [index for index, _ in found]
            else:
                groups.append((used[which], found))
        return groups, others

    # --- columns of a template ------------------------------------------------------------------

    def _group(
        self, table: Any, learned: Learned, indexes: list[int], values: list[tuple[bytes, ...]]
    ) -> dict[str, Any] | None:
        """The columns of some rows; ``None`` if one of them has a text that is none."""
        import pyarrow as pa

        places = list(zip(*values, strict=True))
        count = len(indexes)
        found: dict[str, Any] = {}
        try:
            for name, source in learned.items():
                kind = self._schema.field(name).type
                if not isinstance(source, Pairs):
                    found[name] = _array(source, places, count, kind)
                    continue
                items = [_array(one, places, count, kind.item_type) for one in source.items]
                keys = source.keys
                if name == "annotations":
                    keys = (*LEGACY, *keys)
                    hop = _rows_of(table.select(["exchange", "routing_key"]), indexes)
                    items = [one.combine_chunks().cast(kind.item_type) for one in hop] + items
                found[name] = _maps(keys, items, count, kind)
        except pa.ArrowInvalid:
            return None
        return found

    # --- learning -------------------------------------------------------------------------------

    def _keep(self, templates: Templates[Learned], dialect: str, header: bytes) -> None:
        """A header that no template fits."""
        size = dialect, len(header)
        if dialect not in SINCE_0_8 or self._failures[size] >= MOST_FAILURES:
            return

        def learn() -> Template[Learned] | None:
            if self._learned >= MOST_LEARNED:
                return None
            self._learned += 1
            found = self._learn(dialect, header)
            self._failures[size] += found is None
            return found

        templates.keep(header, learn)

    def _learn(self, dialect: str, header: bytes) -> Template[Learned] | None:
        """The template of a header, with the columns in which its values stand."""
        try:
            scanned = SINCE_0_8[dialect].scan(header)
            if scanned is None:
                return None
            octets, found = places_in(SINCE_0_8[dialect], *scanned)
        except UNREAD:
            return None
        places = sorted(
            (one for one in found if one is not None and one.stop > one.start),
            key=lambda one: one.start,
        )
        if octets != header or not places:
            return None
        try:
            return template(header, places, Learner(self._rows, dialect, header, places).learn())
        except NoTemplate:
            return None


class Learner:
    """Finds the columns of ``rows`` in which the values at the places of a header stand."""

    def __init__(self, rows: Rows, dialect: str, header: bytes, places: list[Place]) -> None:
        self._rows = rows
        self._dialect = DIALECTS[dialect]
        self._header = header
        self._places = places
        self._given = [header[one.start : one.stop] for one in places]
        self._random = Random(header)

    def learn(self) -> Learned:
        """Raises ``NoTemplate``."""
        others = [list(pair) for pair in zip(*map(self._stand_ins, self._places), strict=True)]
        samples = [self._given, *others]
        shown = [self._columns(one) for one in samples]
        learned: Learned = {}
        for column, values in zip(self._rows.columns, zip(*shown, strict=True), strict=True):
            if not isinstance(values[0], dict):
                learned[column.name] = self._source(samples, values)
                continue
            if column.name == "annotations":
                # The first two are of each message.
                if any(tuple(one)[: len(LEGACY)] != LEGACY for one in values):
                    raise NoTemplate
                values = tuple(dict(list(one.items())[len(LEGACY) :]) for one in values)
            keys = tuple(values[0])
            if any(tuple(one) != keys for one in values):
                raise NoTemplate
            items = [self._source(samples, tuple(one[key] for one in values)) for key in keys]
            learned[column.name] = Pairs(keys, tuple(items))
        return learned

    def _source(self, samples: list[list[bytes]], values: tuple[Any, ...]) -> Source:
        """Where the values of a column come from, in each sample."""
        if all(one.__class__ is values[0].__class__ and one == values[0] for one in values):
            return Fixed(values[0])
        for place in range(len(self._places)):
            for form in FORMS:
                if all(
                    _formed(form, given[place]) == value
                    for given, value in zip(samples, values, strict=True)
                ):
                    return Drawn(place, form)
        raise NoTemplate

    def _columns(self, values: list[bytes]) -> list[Any]:
        parts, last = [], 0
        for place, value in zip(self._places, values, strict=True):
            parts += [self._header[last : place.start], value]
            last = place.stop
        header = b"".join((*parts, self._header[last:]))
        message = Message(self._dialect, header, b"", "", "", NO_ESSENTIALS)
        entry = Entry(0, 0, "", "", 0, NOBODY, message, 0, "", 0, 0)
        return self._rows.of([entry])[0]

    def _stand_ins(self, place: Place) -> tuple[bytes, ...]:
        """Three other values that the place may have. Raises ``NoTemplate``."""
        given = self._header[place.start : place.stop]
        size, draw = len(given), self._random
        text = given.isascii() and given.decode().isprintable()
        found: list[bytes] = []
        for turn in range(36):
            if text and turn < 6:
                made = bytes(draw.choices(LETTERS, k=size))
            elif not text and turn < 12:
                # With and without the sign of a number.
                made = bytes((draw.randrange(128) | 128 * (turn % 2),)) + draw.randbytes(size - 1)
            elif not text and turn < 24:
                # A time whose parts of a second stay.
                later = int.from_bytes(given) + 1000 * draw.randrange(1, 1_000_000)
                made = (later % (1 << 8 * size)).to_bytes(size)
            else:
                # Like it but for its last octets: digits, letters, or anything.
                tail = min(size, 1 + turn % 2)
                kind = DIGITS if given[-1:].isdigit() else LETTERS if text else bytes(range(256))
                made = given[: size - tail] + bytes(draw.choices(kind, k=tail))
            if made != given and made not in found and (place.check is None or place.check(made)):
                found.append(made)
                if len(found) == 3:
                    return tuple(found)
        raise NoTemplate


def _formed(form: Form, raw: bytes) -> Any:
    try:
        return form(raw)
    except ValueError:
        return None


def _rows_of(table: Any, indexes: list[int]) -> Any:
    return table if len(indexes) == table.num_rows else table.take(indexes)


def _array(source: Source, places: list[tuple[bytes, ...]], count: int, kind: Any) -> Any:
    """The values of a source. Raises ``pyarrow.ArrowInvalid`` for a text that is none."""
    import pyarrow as pa

    if isinstance(source, Fixed):
        if source.value is None:
            return pa.nulls(count, kind)
        return pa.repeat(pa.scalar(source.value, kind), count)
    raw = places[source.place]
    if source.form is as_text:
        return pa.array(raw, pa.binary()).cast(kind)
    return pa.array(list(map(source.form, raw)), kind)


def _maps(keys: Iterable[str], items: list[Any], count: int, kind: Any) -> Any:
    """A map for each row, with the same keys in all."""
    import pyarrow as pa

    names = list(keys)
    width = len(names)
    offsets = pa.array(
        range(0, width * count + 1, width) if width else [0] * (count + 1), pa.int32()
    )
    if not width:
        empty = pa.array([], kind.key_type), pa.array([], kind.item_type)
        return pa.MapArray.from_arrays(offsets, *empty).cast(kind)
    # Row by row, from one array behind the other.
    order = pa.array([at for row in range(count) for at in range(row, width * count, count)])
    values = pa.concat_arrays(items).take(order)
    return pa.MapArray.from_arrays(offsets, pa.array(names * count, kind.key_type), values).cast(
        kind
    )
