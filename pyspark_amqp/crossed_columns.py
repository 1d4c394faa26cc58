"""The columns for which messages are converted to 1.0, without an object for each message whose
header is like one that was converted before."""

from typing import Any

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import data_prefix, is_plain
from gateway.journal.canonical import LOSSY, Rows, is_sampled
from gateway.journal.entries import Entry
from pyspark_amqp.arrays import array_of, no_collection

AMQP10 = "amqp10"
NAMES = (AMQP10, LOSSY)


class CrossedColumns:
    """Those of ``NAMES`` that are asked for. For one thread at a time."""

    def __init__(self, journal: str, names: list[str], schema: Any, sample: float) -> None:
        self.names = names
        self._schema = schema
        self._rows = Rows(journal, names, sample)

    def of(self, table: Any) -> dict[str, Any]:
        """The columns as Arrow has them, for rows of a segment (``gateway.journal.columns``)."""
        with no_collection():
            found = self._values(table)
            return {
                name: array_of(found[name], self._schema.field(name).type) for name in self.names
            }

    def _values(self, table: Any) -> dict[str, list[Any]]:
        """Message by message, as a reply may refer to an id that was converted before. Hot."""
        from gateway.journal import columns as own

        crossing, sample = self._rows.crossing, self._rows.sample
        shapes = {
            name: crossing.shapes(name, SECTIONS.name)
            for name in table["dialect"].unique().to_pylist()
        }
        texts = {
            octets: octets.decode("utf-8", "surrogatepass")
            for name in ("exchange", "routing_key")
            for octets in table[name].unique().to_pylist()
        }
        columns = (
            "dialect",
            "header",
            "exchange",
            "routing_key",
            "added",
            "body",
            "reference",
            "pos",
        )
        entries: list[Entry] = []
        sections: list[bytes | None] = []
        losses: list[list[dict[str, str]] | None] = []
        for at, (dialect, header, exchange, key, added, body, reference, pos) in enumerate(
            zip(*(table[name].to_pylist() for name in columns), strict=True)
        ):
            crossed = None
            if added is None and reference is None:
                known = shapes[dialect]
                if known is not None:
                    written = known.like(header, texts[exchange], texts[key])
                    crossed = None if written is None else written[0]
                elif dialect == SECTIONS.name:
                    crossed = header
            if crossed is not None and is_plain(crossed):
                sections.append(b"".join((crossed, data_prefix(len(body)), body)))
                losses.append([] if sample >= 1 or is_sampled(pos, sample) else None)
                continue
            entries = entries or own.to_messages(table)
            values = dict(zip(self.names, self._rows.of([entries[at]])[0], strict=True))
            sections.append(values.get(AMQP10))
            losses.append(values.get(LOSSY))
        return {AMQP10: sections, LOSSY: losses}
