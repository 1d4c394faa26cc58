"""What jobs read, by options that have the same names in each: ``--journal``, ``--gateway``,
``--table`` or ``--parquet``, and which rows of it."""

import inspect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from gateway.journal.canonical import BY_NAME, COLUMNS
from pyspark_amqp.options import OptionError, read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PLACES = ("journal", "gateway", "table", "parquet")
FLAGS = {
    "passwordFile": "password-file",
    "startPos": "start",
    "endPos": "end",
}
"""Options of the source whose names on the command line are others."""


class Inputs(NamedTuple):
    """One of ``journal``, ``gateway``, ``table`` and ``parquet`` is given."""

    journal: Annotated[
        str | None, typer.Option(help="Data directory of a gateway, or directory of segments.")
    ] = None
    gateway: Annotated[str | None, typer.Option(help="Base URL of a running gateway.")] = None
    user: Annotated[str | None, typer.Option(help="User, with --gateway.")] = None
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password of --user.")
    ] = None
    token: Annotated[
        str | None,
        typer.Option(help="Bearer token, instead of --user.", envvar="AMQP_GATEWAY_TOKEN"),
    ] = None
    vhost: Annotated[str | None, typer.Option(help="Virtual hosts, `*` is any text.")] = None
    addresses: Annotated[
        str | None, typer.Option(help="Addresses, separated by commas; `*` is any text.")
    ] = None
    since: Annotated[str | None, typer.Option(help="Entries of this time or later.")] = None
    until: Annotated[str | None, typer.Option(help="Entries before this time.")] = None
    start: Annotated[int | None, typer.Option(min=0, help="First position.")] = None
    end: Annotated[int | None, typer.Option(min=0, help="Position before which to stop.")] = None
    table: Annotated[str | None, typer.Option(help="Delta table of the job land.")] = None
    parquet: Annotated[
        str | None, typer.Option(help="Parquet files with the canonical columns.")
    ] = None

    def options(self) -> dict[str, str]:
        """Options of the format ``amqp``, for ``--journal`` and ``--gateway``. Raises
        ``OptionError``, with the name that the command line has."""
        given = {
            "journal": self.journal,
            "gateway": self.gateway,
            "user": self.user,
            "passwordFile": self.password_file,
            "token": self.token,
            "vhost": self.vhost,
            "addresses": self.addresses,
            "since": self.since,
            "until": self.until,
            "startPos": self.start,
            "endPos": self.end,
        }
        options = {name: str(value) for name, value in given.items() if value is not None}
        _checked(options)
        return options

    @property
    def whole(self) -> dict[str, str]:
        """Further options, for a job that needs the large bodies too, where they can be read."""
        return {"largeBodies": "true"} if self.journal or self.gateway else {}

    def frame(self, spark: "SparkSession", columns: Sequence[str] = (), **more: str) -> "DataFrame":
        """The rows, with these canonical columns, or all of them. Name the columns that a job uses:
        others are then not made. ``more``: further options of the format ``amqp``. Raises
        ``OptionError``."""
        given = [name for name in PLACES if getattr(self, name) is not None]
        if len(given) != 1:
            told = f"not {' and '.join(f'--{name}' for name in given)}" if given else "one of them"
            raise OptionError(f"--journal, --gateway, --table or --parquet: give {told}")
        names = tuple(columns) or tuple(column.name for column in COLUMNS)
        if given[0] in ("journal", "gateway"):
            reader = spark.read.format("amqp").options(**self.options(), **more)
            return reader.schema(ddl_of(names)).load()
        for name in ("user", "password_file", "token"):
            if getattr(self, name) is not None:
                raise OptionError(f"--{name.replace('_', '-')}: only with --gateway")
        # The same rules for values as the source has; the place is not looked at.
        checked = Inputs(
            journal=".", vhost=self.vhost, addresses=self.addresses, since=self.since,
            until=self.until, start=self.start, end=self.end,
        ).options()  # fmt: skip
        needed = {*names, "vhost", "address", "pos", "ingest_ts"}
        schema = ddl_of([column.name for column in COLUMNS if column.name in needed])
        if self.table is not None:
            frame = table_frame(spark, self.table, schema)
        else:
            assert self.parquet is not None
            frame = spark.read.schema(schema).parquet(self.parquet)
        return self._chosen(frame, checked).select(*names)

    def _chosen(self, frame: "DataFrame", checked: dict[str, str]) -> "DataFrame":
        from pyspark.sql import functions as f

        options = read_options(checked)
        if options.vhost != "*":
            frame = frame.where(like_any(f.col("vhost"), [options.vhost]))
        if options.addresses:
            frame = frame.where(like_any(f.col("address"), options.addresses))
        for bound, column, later in (
            (options.start, "pos", True),
            (options.end, "pos", False),
            (_moment(options.since), "ingest_ts", True),
            (_moment(options.until), "ingest_ts", False),
        ):
            if bound is not None:
                frame = frame.where(f.col(column) >= bound if later else f.col(column) < bound)
        return frame


def _checked(options: dict[str, str]) -> None:
    try:
        read_options(options)
    except OptionError as error:
        name, colon, text = str(error).partition(":")
        raise OptionError(f"--{FLAGS.get(name, name)}{colon}{text}") from None


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def ddl_of(names: Sequence[str]) -> str:
    """A schema of these canonical columns, in this order."""
    return ", ".join(f"`{name}` {BY_NAME[name].type}" for name in names)


def like_any(column: "Column", patterns: Sequence[str]) -> "Column":
    """Whether a column fits one of these patterns, in which `*` is any text."""
    from pyspark.sql import functions as f

    # Java and Python agree on what ``translate`` makes, but for the end of the text.
    whole = "|".join(translate(one).removesuffix(r"\Z").removesuffix(r"\z") for one in patterns)
    return f.regexp_like(column, f.lit(f"^(?:{whole})$"))


def table_frame(spark: "SparkSession", table: str, schema: str) -> "DataFrame":
    """The rows of a Delta table, read by Spark's own Parquet reader. Raises ``OptionError``."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        found = DeltaTable(table)
    except TableNotFoundError:
        raise OptionError(f"--table: {table} is not a Delta table") from None
    files = found.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", found.table_uri).parquet(*files)


def with_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take the options of ``Inputs`` for its parameters of this type, which are its
    first. Of several, the names of options begin with the name of the parameter:
    ``--old-journal``."""
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command, eval_str=True).parameters.values()
    taken = [one.name for one in given if hints.get(one.name) is Inputs]
    prefixes = {name: f"{name}_" if len(taken) > 1 else "" for name in taken}
    kinds = get_type_hints(Inputs, include_extras=True)
    fields = {
        f"{prefix}{name}": (kinds[name], Inputs._field_defaults[name])
        for prefix in prefixes.values()
        for name in Inputs._fields
    }
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in fields.items()
    ]
    parameters += [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in given if one.name not in taken
    ]

    def run(**values: Any) -> Any:
        read = [
            Inputs(**{name: values.pop(f"{prefix}{name}") for name in Inputs._fields})
            for prefix in prefixes.values()
        ]
        return command(*read, **values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    shown = {name: kind for name, (kind, _) in fields.items()}
    run.__annotations__ = {**shown, **{k: v for k, v in hints.items() if k not in taken}}
    return run
