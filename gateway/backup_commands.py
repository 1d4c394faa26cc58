"""The commands `amqp-gateway backup` and `restore`."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.administration import AsJson, fail, out, show_json
from gateway.command_options import ConfigFile, DataDir

if TYPE_CHECKING:
    from gateway.backup.manifest import Manifest


def backup(
    directory: Annotated[Path, typer.Argument(help="Where to: new or empty.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup of a data directory, also while a gateway runs on it."""
    from gateway.backup.making import make_backup

    data, segments = places(config, data_dir)
    allow_files()
    made = make_backup(data, segments, directory)
    if as_json:
        return show_json(made.summary())
    out.print(f"{directory} is a backup of {data}", highlight=False, markup=False, soft_wrap=True)
    describe(made)


def restore(
    directory: Annotated[Path, typer.Argument(help="A backup.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare it with its checksums; restore nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a new or empty data directory."""
    from gateway.backup.restoring import check_backup, restore_backup

    if check:
        found = check_backup(directory)
        done = f"{directory} is whole"
    else:
        data, segments = places(config, data_dir)
        found = restore_backup(directory, data, segments)
        done = f"{data} is restored from {directory}"
    if as_json:
        return show_json(found.summary())
    out.print(done, highlight=False, markup=False, soft_wrap=True)
    describe(found)


def places(config: Path | None, data_dir: Path | None) -> tuple[Path, Path]:
    """The data directory, and that of sealed segments."""
    from gateway.config import read_settings
    from gateway.journal.reader import SEGMENTS

    settings = read_settings(config, **({} if data_dir is None else {"data_dir": data_dir}))
    if not settings.durable:
        fail("durable = false: a volatile gateway has nothing on disk")
    return settings.data_dir, settings.journal.directory or settings.data_dir / SEGMENTS


def describe(manifest: "Manifest") -> None:
    rows = manifest.rows
    messages = rows.get("messages", 0) + rows.get("shares", 0)
    lines = [
        f"taken {manifest.taken} with gateway {manifest.gateway}, store format"
        f" {manifest.store_format}",
        f"{len(manifest.files)} files, {manifest.octets:,} octets",
        f"{messages:,} rows of messages, {rows.get('records', 0):,} records of topology",
    ]
    if manifest.journal:
        lines.append(f"journal {manifest.journal} up to position {manifest.position}")
    for line in lines:
        out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def allow_files() -> None:
    """As many open files as this process may have: each large message is one."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
