"""The job ``maintain``: small files of a landed table into larger ones, and files away that it does
not have. It needs neither Spark nor Java, and may run while rows land."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pyspark_amqp.options import OptionError

OCTETS = 256 << 20
WEEK = 168


def compact(path: Path, octets: int = OCTETS) -> dict[str, int]:
    """Files of one day and bucket into files of about so many octets. The files before stay for
    readers of earlier versions, until ``vacuum``."""
    found = opened(path).optimize.compact(target_size=octets)
    return {"files_removed": found["numFilesRemoved"], "files_added": found["numFilesAdded"]}


def vacuum(path: Path, hours: int) -> list[str]:
    """Remove files older than this that the table has no more, or never had: those of a query
    that was killed. Files of a batch that is being written are neither: give more than it takes.
    Returns their paths."""
    table = opened(path)
    found: list[str] = table.vacuum(
        retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
    )
    return found


def opened(path: Path) -> Any:
    """Raises ``OptionError``."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path)
    except TableNotFoundError:
        raise OptionError(f"--table: {path} is not a Delta table") from None


def measured(path: Path) -> dict[str, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = opened(path)
    files = pa.table(table.get_add_actions(flatten=True))
    return {
        "version": table.version(),
        "files": files.num_rows,
        "rows": pc.sum(files["num_records"]).as_py() or 0,
        "octets": pc.sum(files["size_bytes"]).as_py() or 0,
    }


def command(
    table: Annotated[Path, typer.Option(help="Delta table of the job land.")],
    compact_: Annotated[bool, typer.Option("--compact", help="Put small files together.")] = False,
    octets: Annotated[
        int, typer.Option(min=1 << 20, help="Octets of a file, with --compact.")
    ] = OCTETS,
    vacuum_: Annotated[
        int | None,
        typer.Option(
            "--vacuum",
            min=1,
            metavar="HOURS",
            help="Remove files that the table has not had for so many hours.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compact and vacuum a landed table; without an option, show its size."""
    done: dict[str, Any] = {"table": str(table)}
    console = Console(stderr=True, highlight=False)
    opened(table)
    if compact_:
        with console.status("compacting"):
            done |= compact(table, octets)
    if vacuum_ is not None:
        with console.status("removing files"):
            done["files_deleted"] = len(vacuum(table, vacuum_))
    done |= measured(table)
    if as_json:
        typer.echo(json.dumps(done))
        return
    for name, value in done.items():
        typer.echo(f"{name.replace('_', ' ')}: {value if isinstance(value, str) else f'{value:,}'}")
