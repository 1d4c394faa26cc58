"""Opens the spool of large bodies and the store of partial bodies, both beside the data, whose disk
is watched."""

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
    """Most files that large bodies hold open: half of the process's limit, 0 for no limit."""
    if sys.platform == "win32":
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else max(1, soft // 2)


def open_spool(settings: Settings) -> Spool:
    """The spool of large bodies, for all protocols. Raises ``ConfigError``."""
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
    """Partial bodies of messages and files, also from before the last stop. Raises
    ``ConfigError``."""
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
