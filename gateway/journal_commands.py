"""The commands ``amqp-gateway journal …``: they read the files of a journal, in use or not."""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from gateway.administration import fail, out
from gateway.command_options import ConfigFile, DataDir

if TYPE_CHECKING:
    from gateway.journal.entries import Portion, Question
    from gateway.journal.reader import JournalReader

journal = typer.Typer(help="Look at accepted and forwarded messages.")

Directory = Annotated[
    Path | None, typer.Option("--directory", help="A directory of sealed segments, alone.")
]
Address = Annotated[str, typer.Option(help="Addresses, `*` is any text.")]
Vhost = Annotated[str, typer.Option(help="Virtual hosts, `*` is any text.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]

COLUMNS = "pos,address,offset,ingest_ts,protocol,user_id,body_len"
SHOWN_OCTETS = 60


@contextlib.contextmanager
def opened(
    config: Path | None, data_dir: Path | None, directory: Path | None
) -> Iterator["JournalReader"]:
    from gateway.config import read_settings
    from gateway.journal.entries import JournalError
    from gateway.journal.reader import JournalReader

    try:
        if directory is not None:
            if not directory.is_dir():
                fail(f"{directory} is not a directory")
            reader = JournalReader(None, directory)
        else:
            given = {} if data_dir is None else {"data_dir": data_dir}
            settings = read_settings(config, **given)
            reader = JournalReader(settings.data_dir, settings.journal.directory)
        with contextlib.closing(reader):
            yield reader
    except JournalError as error:
        fail(str(error))


@journal.command("list")
def list_journal(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    directory: Directory = None,
    consumers: Annotated[bool, typer.Option(help="Show who reads it, alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the span of the journal, its segments and its addresses."""
    if consumers:
        list_consumers(config, data_dir, directory, as_json)
        return
    with opened(config, data_dir, directory) as reader:
        overview = reader.overview()
        segments = [
            {"file": one.path.name, "entries": one.notes.entries, "octets": one.octets}
            for one in reader.segments()
        ]
        names = set() if reader.tail is None else set(reader.tail.addresses().values())
        for one in reader.segments():
            names |= one.notes.addresses
    if as_json:
        addresses = [{"vhost": vhost, "address": name} for vhost, name in sorted(names)]
        shown: dict[str, Any] = {"journal": overview.id, "start": overview.start}
        shown |= {"sealed": overview.sealed, "end": overview.end}
        shown |= {"segments": segments, "addresses": addresses}
        typer.echo(json.dumps(shown))
        return
    if not overview.id:
        out.print("nothing is recorded yet")
        return
    out.print(f"journal {overview.id}", highlight=False)
    out.print(
        f"positions {overview.start} to {overview.end - 1}, sealed before {overview.sealed}"
        if overview.end > overview.start
        else f"no entries; the next position is {overview.end}",
        highlight=False,
    )
    table = Table("virtual host", "address")
    for vhost, name in sorted(names):
        table.add_row(vhost, name)
    out.print(table)
    files = Table("segment", "entries", "octets")
    for segment in segments:
        files.add_row(*(str(value) for value in segment.values()))
    if segments:
        out.print(files)


def list_consumers(
    config: Path | None, data_dir: Path | None, directory: Path | None, as_json: bool
) -> None:
    from gateway.journal.consumers import Consumers

    with opened(config, data_dir, directory) as reader:
        overview = reader.overview()
        found = Consumers(reader.directory).all()
    table = Table("consumer", "virtual host", "user", "position", "lag", "seen")
    for one in found:
        lag = one.lag(overview.id, overview.end)
        seen = datetime.fromtimestamp(one.seen / 1000, UTC) if one.seen else None
        if as_json:
            shown = one._asdict() | {"lag": lag, "seen": seen and seen.isoformat()}
            typer.echo(json.dumps(shown))
            continue
        behind = "another journal" if lag is None else str(lag)
        table.add_row(one.name, one.vhost, one.user, str(one.position), behind, short(seen))
    if not as_json:
        out.print(table)


@journal.command("show")
def show_journal(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    directory: Directory = None,
    start: Annotated[int | None, typer.Option("--from", min=0, help="First position.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most entries.")] = 20,
    vhost: Vhost = "*",
    address: Address = "*",
    columns: Annotated[str, typer.Option(help="Names, separated by commas.")] = COLUMNS,
    as_json: AsJson = False,
) -> None:
    """Show entries, the oldest first."""
    from fnmatch import fnmatchcase

    from gateway.journal.canonical import BY_NAME, Rows
    from gateway.journal.entries import ALL

    names = columns.split(",")
    for name in names:
        if name not in BY_NAME:
            fail(f"--columns: no column {name!r}; there are {', '.join(BY_NAME)}")
    with opened(config, data_dir, directory) as reader:
        overview = reader.overview()
        rows = Rows(overview.id, names)

        def wanted(host: str, name: str) -> bool:
            return fnmatchcase(host, vhost) and fnmatchcase(name, address)

        question = ALL._replace(wanted=wanted, bodies=rows.needs_bodies, entries=limit)
        at = overview.start if start is None else start
        table = Table(*names)
        left = limit
        for portion in portions(reader, at, overview.end, question):
            for values in rows.of(portion.entries[:left]):
                if as_json:
                    shown = {
                        name: shown_as(value) for name, value in zip(names, values, strict=True)
                    }
                    typer.echo(json.dumps(shown))
                else:
                    table.add_row(*(short(value) for value in values))
            left -= len(portion.entries)
            if left <= 0:
                break
        if not as_json:
            out.print(table)


def portions(
    reader: "JournalReader", start: int, end: int, question: "Question"
) -> Iterator["Portion"]:
    """The journal from a position on, a portion at a time."""
    while start < end:
        portion = reader.read(start, question)
        if portion.next <= start:
            return
        yield portion
        start = portion.next


def shown_as(value: Any) -> Any:
    """A value of a column in JSON; octets in base64."""
    import base64

    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value if isinstance(value, str | int | float | bool | None | dict | list) else str(value)


def short(value: Any) -> str:
    """In a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").removesuffix("+00:00")
    if isinstance(value, bytes):
        text = value[:SHOWN_OCTETS].decode("utf-8", "backslashreplace")
        return text + "…" * (len(value) > SHOWN_OCTETS)
    return str(value)
