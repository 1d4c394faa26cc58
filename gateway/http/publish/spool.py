"""Where large bodies stand, and what there is of those that are not all here: with the data, whose
disk is watched."""

import sys
import tempfile
import time
from pathlib import Path

from gateway.bodies import Spool
from gateway.config import Settings
from gateway.errors import ConfigError
from gateway.partial_bodies import PartialBodyStore

if sys.platform != "win32":
    import resource


def spool_place(wanted: Path | None, data_dir: Path | None) -> str | None:
    """A directory in which files can be made: the one that is wanted, else one beside the data.
    ``None`` without either: the system's place, which may be memory. The files have no names, so
    that nothing is left of them. Raises ``OSError``."""
    if wanted is None:
        if data_dir is None:
            return None
        wanted = data_dir / "spool"
    wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=wanted):
        return str(wanted)


def most_files() -> int:
    """How many files large bodies may hold open: half of what the process may, 0 for no limit."""
    if sys.platform == "win32":
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else max(1, soft // 2)


def open_spool(settings: Settings) -> Spool:
    """Where large bodies stand, of all doors. Raises ``ConfigError``."""
    limits = settings.limits
    try:
        data_dir = settings.data_dir if settings.durable else None
        directory = spool_place(settings.http.spool_dir, data_dir)
    except OSError as error:
        raise ConfigError(f"http.spool_dir {error.filename}: {error.strerror}") from None
    return Spool(
        directory,
        threshold=limits.large_octets,
        most_octets=limits.spool_octets,
        most_files=most_files(),
    )


def open_partial_bodies(settings: Settings, spool: Spool) -> PartialBodyStore:
    """What half came of messages and files, before the last stop too. Raises ``ConfigError``."""
    limits = settings.limits
    directory = settings.data_dir / "staged" if settings.durable else None
    try:
        return PartialBodyStore(
            spool,
            directory,
            most_octets=limits.staged_octets,
            most_items=limits.staged_items,
            keep_ms=limits.staged_seconds * 1000,
            now=int(time.time() * 1000),
        )
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}") from None
