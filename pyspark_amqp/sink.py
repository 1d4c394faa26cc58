"""The sink of ``format("amqp")``: rows are published in a gateway, each once."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from gateway.journal.canonical import BY_NAME
from pyspark_amqp.messages import NEEDED, PLACE, Messages, rows_of
from pyspark_amqp.options import KNOWN as OPTIONS
from pyspark_amqp.options import OptionError
from pyspark_amqp.publishing import MOST, Fate, Publishing, Ready, ReplayError, Target

WHOLE = ("tinyint", "smallint", "int", "bigint")
BATCH = "streaming.sql.batchId"
"""The property of a task of a stream that names its batch."""
SHARED = ("gateway", "user", "password", "passwordFile", "token", "vhost")
"""Options that the source has too."""
OWN = ("replayId", "target", "maxInFlight", "rate", "onReject", "rejects", "dryRun")
BY_LOWER = {name.lower(): name for name in (*SHARED, *OWN, "checkpointLocation")}


def sink_options(given: Mapping[str, str]) -> Publishing:
    """Raises ``OptionError``. Names have any case, as Spark's have."""
    found: dict[str, str] = {}
    for key, value in given.items():
        name = BY_LOWER.get(key.lower())
        if name is None:
            raise OptionError(
                f"{key}: no such option of the sink; there are {', '.join(SHARED + OWN)}"
            )
        found[name] = str(value)
    shared: dict[str, Any] = {}
    for name in SHARED:
        if name in found:
            field, read = OPTIONS[name]
            shared[field] = read(name, found[name])
    if "gateway" not in shared:
        raise OptionError("gateway: give the base URL of a gateway, or table for a Delta table")
    if "token" not in shared and not ("user" in shared and "password" in shared):
        raise OptionError("user: give user and password, or token")
    if "*" in shared.get("vhost", ""):
        raise OptionError("vhost: one virtual host")
    if found.get("rejects") and found.get("onReject") != "skip":
        raise OptionError("rejects: only with onReject=skip")
    return Publishing(
        **shared,
        replay=replay_id("replayId", found["replayId"]) if "replayId" in found else "",
        target=target_of("target", found.get("target", "")),
        most=count("maxInFlight", found.get("maxInFlight", str(MOST))),
        rate=rate_of("rate", found["rate"]) if "rate" in found else None,
        skip=choice("onReject", found.get("onReject", "fail"), "fail", "skip") == "skip",
        rejects=found.get("rejects", ""),
        dry_run=choice("dryRun", found.get("dryRun", "false").lower(), "false", "true") == "true",
    )


def replay_id(name: str, value: str) -> str:
    """Raises ``OptionError``."""
    if not 0 < len(value.encode()) <= 200:
        raise OptionError(f"{name}: text of 1 to 200 octets")
    return value


def target_of(name: str, value: str) -> str:
    """Raises ``OptionError``."""
    parts = value.split("/")
    fine = (
        not value.startswith("/")
        or (len(parts) == 3 and parts[1] in ("queues", "exchanges") and parts[2])
        or (len(parts) == 4 and parts[1] == "exchanges" and parts[2])
    )
    if not fine:
        raise OptionError(f"{name}: /queues/NAME or /exchanges/NAME or /exchanges/NAME/KEY")
    return f"/queues/{value}" if value and not value.startswith("/") else value


def count(name: str, value: str) -> int:
    """Raises ``OptionError``."""
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= MOST:
        raise OptionError(f"{name}: a number from 1 to {MOST}, not {value!r}")
    return int(value)


def rate_of(name: str, value: str) -> float:
    """Messages per second: ``500`` or ``500/s``. Raises ``OptionError``."""
    try:
        found = float(value.removesuffix("/s"))
    except ValueError:
        found = 0.0
    if not 0 < found <= 1e9:
        raise OptionError(f"{name}: messages per second, such as 500/s, not {value!r}")
    return found


def choice(name: str, value: str, *values: str) -> str:
    """Raises ``OptionError``."""
    if value not in values:
        raise OptionError(f"{name}: {' or '.join(values)}, not {value!r}")
    return value


def check_columns(schema: Any, target: str) -> bool:
    """Whether rows have a key of their own. Raises ``OptionError`` that names a column."""
    names = {field.name for field in schema.fields}
    for field in schema.fields:
        column = BY_NAME.get(field.name)
        if column is None:
            raise OptionError(f"schema: {field.name!r} is no column of a message; drop it")
        own, kind = column.type.lower(), field.dataType.simpleString()
        fits = kind == own or (own in WHOLE and kind in WHOLE)
        if not fits and not (field.name == "body" and kind == "string"):
            raise OptionError(f"schema: the column {field.name!r} is {own}, not {kind}")
    if not names.intersection(NEEDED):
        raise OptionError("schema: there is no column 'amqp10' or 'body'")
    if not target and "address" not in names:
        raise OptionError("target: needed without the column 'address'")
    return names.issuperset(PLACE)


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """What a task has done: messages by their outcome."""

    counts: Mapping[str, int]


def publish(publishing: Publishing, messages: Messages, rows: Iterator[Any]) -> Iterator[Fate]:
    """Publish rows in their order. Raises ``ReplayError``, also for one that is rejected and may
    not be skipped."""
    unfit: list[Fate] = []

    def ready() -> Iterator[Ready]:
        for row in rows:
            one = messages.of(row)
            if isinstance(one, Ready):
                yield one
                continue
            if not publishing.skip:
                raise ReplayError(told(one))
            unfit.append(one)

    target = Target(publishing)
    try:
        for fate in target.publish(ready()):
            if fate.outcome == "rejected" and not publishing.skip:
                raise ReplayError(told(fate))
            yield fate
        yield from unfit
    finally:
        target.close()


def told(fate: Fate) -> str:
    """A rejected row, for people."""
    one = fate.message
    where = f"position {one.pos}" if one.pos >= 0 else f"partition {one.address}, row {one.offset}"
    if one.pos >= 0:
        where += f" ({one.address}, offset {one.offset})"
    return f"{where}: {fate.problem}"


class Task:
    """What both writers do in a task. ``own``: rows have keys of their own."""

    def __init__(self, publishing: Publishing, own: bool) -> None:
        self.publishing = publishing
        self.own = own

    def write(self, batches: Iterator[Any], replay: str, partition: int) -> Published:
        publishing = self.publishing._replace(replay=replay)
        place = None if self.own else ("rows", str(partition))
        messages = Messages(publishing.target, place)
        counts: dict[str, int] = {}
        rejects = Rejects(publishing.rejects, f"{replay}-{partition}")
        rows = (row for batch in batches for row in rows_of(batch))
        try:
            for fate in publish(publishing, messages, rows):
                counts[fate.outcome] = counts.get(fate.outcome, 0) + 1
                if fate.outcome == "rejected":
                    rejects.add(fate)
        finally:
            rejects.close()
        return Published(counts)


class Rejects:
    """A file with the rows of a task that were skipped, one JSON object in a line; made with the
    first."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = "".join(one if one.isalnum() or one in "-_." else "_" for one in name)
        self.file: Any = None

    def add(self, fate: Fate) -> None:
        if not self.folder:
            return
        if self.file is None:
            folder = Path(self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            self.file = (folder / f"{self.name}-{uuid4().hex[:8]}.jsonl").open("w")
        one = fate.message
        shown = {"journal_id": one.journal, "pos": one.pos, "address": one.address}
        shown |= {"offset": one.offset, "target": one.to, "problem": fate.problem}
        self.file.write(json.dumps(shown) + "\n")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def task_context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


class BatchWriter(DataSourceArrowWriter):
    """``write`` runs in tasks; ``commit`` and ``abort`` in another process."""

    def __init__(self, publishing: Publishing, own: bool) -> None:
        self.passing = not publishing.replay
        self.replay = publishing.replay or f"write-{uuid4()}"
        self.task = Task(publishing, own)

    def write(self, iterator: Iterator[Any]) -> Published:
        return self.task.write(iterator, self.replay, task_context().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._end()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._end()

    def _end(self) -> None:
        """A write that cannot be repeated needs its keys no longer."""
        if self.passing:
            forget(self.task.publishing, self.replay)


class StreamWriter(DataSourceStreamArrowWriter):
    """Rows without a key are those of their batch: its keys are needed until the next one."""

    def __init__(self, publishing: Publishing, own: bool) -> None:
        self.replay = publishing.replay
        self.task = Task(publishing, own)

    def write(self, iterator: Iterator[Any]) -> Published:
        context = task_context()
        replay = self.replay
        if not self.task.own:
            batch = context.getLocalProperty(BATCH)
            if batch is None:
                raise ReplayError(f"schema: without {', '.join(PLACE)} the batch must be known")
            replay = f"{replay}.{batch}"
        return self.task.write(iterator, replay, context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if not self.task.own and batchId > 0:
            forget(self.task.publishing, f"{self.replay}.{batchId - 1}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The batch will be repeated, with the same keys."""


def forget(publishing: Publishing, replay: str) -> None:
    target = Target(publishing)
    try:
        target.forget(replay)
    finally:
        target.close()


def writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> BatchWriter:
    """Raises ``OptionError``."""
    if overwrite:
        raise OptionError('mode: only "append": messages are not overwritten')
    publishing = sink_options(options)
    return BatchWriter(publishing, check_columns(schema, publishing.target))


def stream_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> StreamWriter:
    """Raises ``OptionError``."""
    publishing = sink_options(options)
    if not publishing.replay:
        raise OptionError("replayId: a stream needs one, by which it goes on after a restart")
    return StreamWriter(publishing, check_columns(schema, publishing.target))
