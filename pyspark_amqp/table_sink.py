"""The sink of ``format("amqp")`` with the option ``table``: a stream into a Delta table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_amqp import delta
from pyspark_amqp.options import OptionError, read_consumer

TABLE, CONSUMER = "table", "consumer"
KNOWN = (TABLE, CONSUMER, "checkpointLocation")


class LandingOptions(NamedTuple):
    """A directory, and the name under which the table keeps the position that has landed."""

    table: Path
    consumer: str


def landing_options(given: Mapping[str, str]) -> LandingOptions:
    """Raises ``OptionError``."""
    found = {}
    for key, value in given.items():
        name = next((one for one in KNOWN if one.lower() == key.lower()), None)
        if name is None:
            raise OptionError(f"{key}: no such option; there are {', '.join(KNOWN)}")
        found[name] = str(value)
    consumer = found.get(CONSUMER)
    if consumer is None:
        raise OptionError(f"{CONSUMER}: the name under which the table keeps its position")
    return LandingOptions(table_path(found[TABLE]), read_consumer(CONSUMER, consumer))


def table_path(value: str) -> Path:
    """The directory of a table. Raises ``OptionError``."""
    path = value.removeprefix("file://")
    if "://" in path or not path:
        raise OptionError(f"{TABLE}: a directory, not {value!r}")
    return Path(path).absolute()


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written, on its way to the commit."""

    attempt: delta.Attempt


class LandingWriter(DataSourceStreamArrowWriter):
    """``write`` runs in tasks; ``commit`` and ``abort`` in another process, with nothing but the
    messages."""

    def __init__(self, options: LandingOptions, schema: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.options = options
        self.schema = to_arrow_schema(schema, timezone="UTC")
        delta.make_table(options.table, self.schema)

    def write(self, iterator: Iterator[Any]) -> Written:
        options = self.options
        return Written(delta.write(options.table, options.consumer, self.schema, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        delta.commit(self.options.table, self.options.consumer, attempts_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark calls it also if the commit has failed after the table had it."""
        files = [file for one in attempts_of(messages) for file in one.files]
        if files:
            delta.discard(self.options.table, files)


def attempts_of(messages: list[WriterCommitMessage | None]) -> list[delta.Attempt]:
    return [one.attempt for one in messages if isinstance(one, Written)]


def writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> Any:
    """Raises ``OptionError``: what lands exactly once is a stream."""
    raise OptionError(f"{TABLE}: only with writeStream")


def stream_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> LandingWriter:
    """Raises ``OptionError``, or ``LandingError`` for a table with other columns."""
    return LandingWriter(landing_options(options), schema)
