"""Rows of one portion whose headers differ in the values at some places alone. Their columns are
made for all of them at once: from a matrix, and without an object for each.

What is compared and what is a value is as in ``gateway.crossing``: a header is scanned in its
notation, and the headers of its size that have the same octets around its values, and values that
pass the same checks, are of its template.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as compute

from gateway.adapters.core.templates import LONGEST, Check, Place, is_text
from gateway.crossing.notations import SINCE_0_8
from gateway.crossing.plans import IDS, JMS, OF_UUID, UNLIKE, UNREAD, Key, places_in
from gateway.inventory.observer import LARGE
from gateway.message import DIALECTS
from pyspark_amqp.octets import Matrix, content, octets_of, one_chunk, rows_at

LEAST = 16
"""Rows that are worth a group of their own."""
MOST_TRIES = 8
"""Headers of one size that are tried as templates."""
MOST = 512
"""Templates of all sizes: what is learned of one costs as much as decoding some ten headers."""


def _ascii(matrix: Matrix) -> Any:
    return (matrix < 128).all(axis=1)


def _plain_id(matrix: Matrix) -> Any:
    """Ids of no known beginning."""
    first = np.frombuffer(bytes({one[0] for one in UNLIKE}), np.uint8)
    return _ascii(matrix) & ~np.isin(matrix[:, 0], first)


def _jms_id(matrix: Matrix) -> Any:
    """Ids that begin with "ID:" and have another size than those with a UUID behind that."""
    begin = np.frombuffer(b"ID:", np.uint8)
    if matrix.shape[1] in (1, 2, 39):
        return np.zeros(len(matrix), bool)
    return _ascii(matrix) & (matrix[:, :3] == begin).all(axis=1)


Sure = Callable[[Matrix], Any]
SURE: dict[Check, Sure] = {is_text: _ascii} | {
    check: _jms_id if token & JMS else _plain_id
    for notation in SINCE_0_8.values()
    for token, check in notation.checks.items()
    if token in IDS and not token & OF_UUID
}
"""Which rows pass a check for certain. Of the others each is checked, and so are all of a check
that is not here."""


class Template:
    """A header with places for values. ``fixed``: the values of its shape that are the same in all
    headers, ``None`` for one that has a place."""

    def __init__(self, dialect: str, header: bytes, key: Key, values: list[bytes]) -> None:
        """Raises one of ``UNREAD`` for a header whose values have no places."""
        octets, found = places_in(SINCE_0_8[dialect], key, values)
        known = [one if one is not None and one.stop > one.start else None for one in found]
        self.places = [one for one in known if one is not None]
        if octets != header or not self.places:
            raise ValueError("values without places")
        self.dialect = dialect
        self.header = header
        self.key = key
        self.fixed = [
            value if place is None else None for value, place in zip(values, known, strict=True)
        ]
        self._same: Any = np.ones(len(header), bool)
        for place in self.places:
            self._same[place.start : place.stop] = False
        self._octets = np.frombuffer(header, np.uint8)[self._same]

    def fits(self, matrix: Matrix) -> Any:
        """Which rows are headers of this template."""
        found = (matrix[:, self._same] == self._octets).all(axis=1)
        for start, stop, check in self.places:
            if check is None:
                continue
            values = matrix[:, start:stop]
            sure = SURE.get(check)
            doubtful = found.copy() if sure is None else found & ~sure(values)
            if not doubtful.any():
                continue
            rows = np.flatnonzero(doubtful)
            found[rows] = [check(one) for one in octets_of(values[rows])]
        return found


class Group(NamedTuple):
    """The rows of a template in a portion, in order, and their headers."""

    template: Template
    rows: Any
    headers: Matrix

    def values(self, place: Place) -> Matrix:
        return self.headers[:, place.start : place.stop]


class HeaderGroups:
    """Finds groups. For one thread at a time."""

    def __init__(self) -> None:
        self._templates: defaultdict[tuple[str, int], list[Template]] = defaultdict(list)
        self._tries: Counter[tuple[str, int]] = Counter()
        """By dialect and size."""
        self._kept = 0

    def of(self, table: Any) -> tuple[list[Group], Any]:
        """The groups in rows of a segment (``gateway.journal.columns``), and the rows of none."""
        starts, ends, octets = content(one_chunk(table["header"]))
        dialects = one_chunk(table["dialect"]).dictionary_encode()
        names = dialects.dictionary.to_pylist()
        sizes = ends - starts
        # What the gateway has added is not in the header, and bodies have features too.
        apart = compute.or_(
            compute.or_(table["added"].is_valid(), table["reference"].is_valid()),
            compute.greater(table["size"], LARGE),
        ).to_numpy()
        unfit = apart | (sizes > LONGEST) | (sizes == 0)
        kinds = dialects.indices.to_numpy() * (LONGEST + 1) + sizes
        kinds[unfit] = -1
        order = np.argsort(kinds, kind="stable")
        groups: list[Group] = []
        others = []
        for rows in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
            kind, count = int(kinds[rows[0]]), len(rows)
            if kind >= 0 and count >= LEAST:
                name, size = names[kind // (LONGEST + 1)], kind % (LONGEST + 1)
                rows = self._of_size(name, size, rows, rows_at(octets, starts[rows], size), groups)
            others.append(rows)
        return groups, np.sort(np.concatenate(others))

    def _of_size(
        self, dialect: str, size: int, rows: Any, headers: Matrix, groups: list[Group]
    ) -> Any:
        """Find groups among these rows. Returns the others."""
        others: list[Any] = []
        for template in self._templates[dialect, size]:
            rows, headers = _without(template, rows, headers, groups, others)
        while len(rows) >= LEAST and dialect in SINCE_0_8 and self._kept < MOST:
            if self._tries[dialect, size] == MOST_TRIES:
                break
            self._tries[dialect, size] += 1
            made = template_of(dialect, headers[0].tobytes())
            if made is None:
                others.append(rows[:1])
                rows, headers = rows[1:], headers[1:]
                continue
            before = len(groups)
            rows, headers = _without(made, rows, headers, groups, others)
            if len(groups) > before:
                self._kept += 1
                self._templates[dialect, size].append(made)
        return np.concatenate((*others, rows))


def _without(
    template: Template, rows: Any, headers: Matrix, groups: list[Group], others: list[Any]
) -> tuple[Any, Matrix]:
    """Put the rows of a template into a group, or with the others if they are few. Returns the
    rest."""
    fits = template.fits(headers)
    if fits.all():
        found = Group(template, rows, headers)
    else:
        found = Group(template, rows[fits], headers[fits])
    if len(found.rows) >= LEAST:
        groups.append(found)
    else:
        others.append(found.rows)
    return rows[~fits], headers[~fits]


def template_of(dialect: str, header: bytes) -> Template | None:
    try:
        DIALECTS[dialect].essentials(header)  # octets of a file may be anything
        scanned = SINCE_0_8[dialect].scan(header)
        return None if scanned is None else Template(dialect, header, *scanned)
    except UNREAD:
        return None
