"""Rows of an archive or a journal into a target, each once: ordered, paced, and resumable."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from gateway.journal.canonical import BY_NAME
from pyspark_amqp.jobs.inputs import Inputs, with_inputs
from pyspark_amqp.messages import PLACE, USED, Messages, rows_of
from pyspark_amqp.options import OptionError
from pyspark_amqp.publishing import Fate, Publishing, Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESULT = (
    "address STRING, target STRING, outcome STRING, problem STRING, messages BIGINT,"
    " first_pos BIGINT, last_pos BIGINT"
)
"""Columns of what has become of the messages."""
COLUMNS = ("journal_id", "pos", "vhost", "address", "offset", "annotations", "subject", "amqp10")
"""Columns that are read: the message is in ``amqp10``."""
PROBLEMS = 1000
"""Different problems that are told apart in a task."""
PROPERTY = "property:"


def replay(
    frame: "DataFrame", publishing: Publishing, key: str = "address", tasks: int = 2
) -> "DataFrame":
    """Publish the rows of a frame with canonical columns when the result is collected, and say what
    has become of them. Rows with the same ``key`` (``address``, a column, or ``property:NAME``) are
    published by one task, in the order of ``pos``. Raises ``OptionError``."""
    from pyspark.sql import functions as f

    given = sorted(frame.columns)
    missing = [name for name in (*PLACE, "pos") if name not in given]
    if missing:
        raise OptionError(f"schema: there is no column {missing[0]!r}")
    if not {"amqp10", "body"}.intersection(given):
        raise OptionError("schema: there is no column 'amqp10' or 'body'")
    ordered = frame.repartition(tasks, key_column(frame, key)).sortWithinPartitions(
        "journal_id", "pos"
    )
    wanted = ordered.select(*[name for name in frame.columns if name in USED])
    found = wanted.mapInArrow(publisher(publishing), RESULT)
    return (
        found.groupBy("address", "target", "outcome", "problem")
        .agg(
            f.sum("messages").alias("messages"),
            f.min("first_pos").alias("first_pos"),
            f.max("last_pos").alias("last_pos"),
        )
        .orderBy("address", "target", "outcome", "problem")
    )


def key_column(frame: "DataFrame", key: str) -> "Column":
    """The values whose order is kept. Raises ``OptionError``."""
    from pyspark.sql import functions as f

    if key.startswith(PROPERTY):
        if "properties" not in frame.columns:
            raise OptionError("key: there is no column 'properties'")
        return f.col("properties")[key.removeprefix(PROPERTY)]
    if key not in frame.columns:
        raise OptionError(f"key: address, a column, or {PROPERTY}NAME, not {key!r}")
    return f.col(key)


class Group(NamedTuple):
    """Messages of a task with the same address, target and fate."""

    address: str
    target: str
    outcome: str
    problem: str


def publisher(publishing: Publishing) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What tasks do: publish batches of rows, and give one row for each group."""

    def publish(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from pyspark_amqp.sink import publish as publish_rows

        rows = (row for batch in batches for row in rows_of(batch))
        messages = Messages(publishing.target, None)
        groups = grouped(publish_rows(publishing, messages, rows))
        if not groups:
            return
        values = [[*group, *span] for group, span in groups.items()]
        names = [one.split()[0] for one in RESULT.split(", ")]
        columns = [list(one) for one in zip(*values, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(one, pa.string()) for one in columns[:4]]
            + [pa.array(one, pa.int64()) for one in columns[4:]],
            names,
        )

    return publish


def grouped(fates: Iterator[Fate]) -> dict[Group, tuple[int, int, int]]:
    """By group: how many messages, and their first and last positions."""
    found: dict[Group, tuple[int, int, int]] = {}
    for message, outcome, problem in fates:
        target = message.to.rpartition("/")[0] if message.to.count("/") == 3 else message.to
        group = Group(message.address, target, outcome, problem)
        if group not in found and len(found) >= PROBLEMS:
            group = group._replace(problem="others" if problem else "")
        count, first, last = found.get(group, (0, message.pos, message.pos))
        found[group] = count + 1, min(first, message.pos), max(last, message.pos)
    return found


# --- command ------------------------------------------------------------------------------------


def frame_of(inputs: Inputs, spark: Any, key: str) -> "DataFrame":
    """The rows with the columns that are needed. Raises ``OptionError``."""
    from pyspark.sql import functions as f

    more = ["properties"] if key.startswith(PROPERTY) else [key] if key in BY_NAME else []
    if inputs.journal is not None or inputs.gateway is not None:
        names = dict.fromkeys((*COLUMNS, "body_ref", *more))
        return inputs.frame(spark, tuple(names), **inputs.whole)
    frame = inputs.frame(spark, tuple(dict.fromkeys((*sorted(USED), *more))))
    own = f.when(f.col("amqp10").isNull(), f.col("body"))
    return frame.withColumn("body", own)


class Given(NamedTuple):
    """Options of the command about the target."""

    target: str | None
    gateway: str | None
    user: str | None
    password_file: Path | None
    token: str | None
    vhost: str | None
    replay_id: str
    rate: str | None
    on_reject: str
    max_in_flight: int


def publishing_of(inputs: Inputs, given: Given, dry_run: bool) -> Publishing:
    """Where to publish: a gateway of its own, or the one that is read. Raises ``OptionError``."""
    from pyspark_amqp.sink import sink_options

    same = given.gateway is None
    values = {
        "gateway": inputs.gateway if same else given.gateway,
        "user": inputs.user if same else given.user,
        "passwordFile": inputs.password_file if same else given.password_file,
        "token": inputs.token if same else given.token,
        "vhost": given.vhost or (inputs.vhost if same else None),
        "target": given.target,
        "replayId": given.replay_id,
        "rate": given.rate,
        "onReject": given.on_reject,
        "maxInFlight": given.max_in_flight,
    }
    try:
        found = sink_options({k: str(v) for k, v in values.items() if v is not None})
    except OptionError as error:
        name, colon, text = str(error).partition(":")
        raise OptionError(f"{FLAGS.get(name, name)}{colon}{text}") from None
    return found._replace(dry_run=dry_run, skip=found.skip or dry_run)


FLAGS = {
    "gateway": "--to", "user": "--to-user", "passwordFile": "--to-password-file",
    "vhost": "--to-vhost", "target": "--target", "replayId": "--replay-id", "rate": "--rate",
    "onReject": "--on-reject", "maxInFlight": "--max-in-flight",
}  # fmt: skip


@with_inputs
def command(
    inputs: Inputs,
    replay_id: Annotated[
        str,
        typer.Option(help="Name of the replay: what was published in it is not published again."),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="/queues/NAME, /exchanges/NAME or /exchanges/NAME/KEY. [default: the address]"
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Base URL of the gateway of the target. [default: --gateway]")
    ] = None,
    to_user: Annotated[str | None, typer.Option(help="User, with --to.")] = None,
    to_password_file: Annotated[
        Path | None, typer.Option(help="File with the password of --to-user.")
    ] = None,
    to_token: Annotated[
        str | None,
        typer.Option(help="Bearer token, instead of --to-user.", envvar="AMQP_GATEWAY_TO_TOKEN"),
    ] = None,
    to_vhost: Annotated[str | None, typer.Option(help="Virtual host of the target.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Messages per second, of all tasks together: 500/s.")
    ] = None,
    key: Annotated[
        str,
        typer.Option(help=f"Rows whose order is kept: address, a column, or {PROPERTY}NAME."),
    ] = "address",
    tasks: Annotated[int, typer.Option(min=1, max=1000, help="Tasks that publish.")] = 2,
    on_reject: Annotated[
        str, typer.Option(help="fail, or skip messages that are rejected.")
    ] = "fail",
    max_in_flight: Annotated[
        int, typer.Option(min=1, max=500, help="Messages of a task without an answer.")
    ] = 500,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Publish nothing; show what would be.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget the replay, which has ended; publish nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Publish an archive or a journal again: each message once, also if this is stopped and started
    again. Status 1: messages were rejected, or would be."""
    from pyspark_amqp.session import session

    given = Given(
        target, to, to_user, to_password_file, to_token, to_vhost, replay_id, rate, on_reject,
        max_in_flight,
    )  # fmt: skip
    publishing = publishing_of(inputs, given, dry_run)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    gateway = Target(publishing)
    try:
        if forget:
            known = gateway.forget(replay_id)
            out.print(f"{replay_id}: forgotten" if known else f"{replay_id}: no such replay")
            return
        before = gateway.published(replay_id)
        spark = session("replay")
        with err.status("Counting messages …", spinner="dots"):
            total = inputs.frame(spark, ("pos",)).count()
        result = replay(frame_of(inputs, spark, key), publishing, key, tasks)
        watched = Watched(gateway, replay_id, 0 if as_json else total, err)
        rows = watched.run(result.collect)
    finally:
        gateway.close()
    document = document_of(publishing, total, before, [row.asDict() for row in rows])
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        show(document, out)
    if document["rejected"]:
        raise typer.Exit(1)


class Watched:
    """Runs the query, and shows how much the gateway has published meanwhile."""

    def __init__(self, gateway: Target, replay_id: str, total: int, console: Console) -> None:
        self.gateway = gateway
        self.replay_id = replay_id
        self.total = total
        self.console = console

    def run(self, query: Callable[[], list[Any]]) -> list[Any]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if not self.total:
            return query()
        done = threading.Event()
        name = "Trying" if self.gateway.publishing.dry_run else "Publishing"
        columns = (TextColumn(name), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(name, total=self.total)

            def watch() -> None:
                while not done.wait(1):
                    published = self.gateway.peek(self.replay_id)
                    if published is not None:
                        progress.update(task, completed=min(published, self.total))

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                return query()
            finally:
                done.set()
                watcher.join(5)


def document_of(
    publishing: Publishing, total: int, before: int, rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What ``--json`` prints. ``messages`` are those of the archive, ``before`` those that were
    published in this replay by earlier runs."""

    def count(outcome: str) -> int:
        return sum(row["messages"] for row in rows if row["outcome"] == outcome)

    return {
        "replay": publishing.replay,
        "target": publishing.target or None,
        "dry_run": publishing.dry_run,
        "messages": total,
        "before": before,
        "published": count("published"),
        "duplicates": count("duplicate"),
        "rejected": count("rejected"),
        "groups": list(rows),
    }


def show(document: dict[str, Any], console: Console) -> None:
    """For people."""
    dry = document["dry_run"]
    table = Table("Address", "Target", "Outcome", box=None, header_style="bold")
    for name in ("Messages", "First", "Last"):
        table.add_column(name, justify="right")
    table.add_column("Problem")
    words = {"published": "would be published" if dry else "published",
             "duplicate": "published before", "rejected": "[red]rejected[/red]"}  # fmt: skip
    for row in document["groups"]:
        span = [f"{row[name]:,}" for name in ("messages", "first_pos", "last_pos")]
        table.add_row(
            row["address"], row["target"], words[row["outcome"]], *span, row["problem"] or ""
        )
    console.print(table)
    console.print(
        f"{document['replay']}: {document['messages']:,} messages, {document['published']:,} "
        f"{words['published']}, {document['duplicates']:,} {words['duplicate']}, "
        f"{document['rejected']:,} rejected",
        soft_wrap=True,
    )
