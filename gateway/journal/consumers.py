"""Who reads the journal: named consumers, each with the position up to which it is done.

A consumer is a file in ``consumers`` beside the segments, so that readers of the files and the
gateway share them. Those of readers over HTTP are in a folder of their virtual host. A file is
replaced whole. Consumers are a matter of record: retention does not wait for them.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

from gateway.journal.entries import JournalError

FOLDER = "consumers"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
MOST = 1000
"""Consumers of a journal."""
VHOST = "@"
"""Begins the names of the folders of virtual hosts."""


class TooMany(JournalError):
    """There are ``MOST`` consumers."""


class Consumer(NamedTuple):
    """``start`` is the position at which it began, ``position`` that before which it is done with
    all, in this ``journal``. ``seen`` is when it was here last, ms since 1970. ``vhost`` and
    ``user`` are "" for readers of the files."""

    name: str
    journal: str
    start: int
    position: int
    seen: int = 0
    vhost: str = ""
    user: str = ""

    def lag(self, journal: str, end: int) -> int | None:
        """Positions up to the end; ``None`` in another journal."""
        return max(0, end - self.position) if self.journal in ("", journal) else None


class Consumers:
    """Those in the folder of a directory of segments. Raises ``JournalError`` and ``OSError``."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / FOLDER

    def _file(self, name: str, vhost: str) -> Path:
        if NAME.fullmatch(name) is None:
            text = "letters, digits, - _ and . only, at most 128, and no . at the beginning"
            raise JournalError(f"consumer: {text}, not {name!r}")
        folder = self.folder / (VHOST + quote(vhost, safe="")) if vhost else self.folder
        return folder / f"{name}.json"

    def get(self, name: str, vhost: str = "") -> Consumer | None:
        return read(self._file(name, vhost), name, vhost)

    def all(self) -> list[Consumer]:
        """By virtual host and name."""
        found = []
        for file in self.files():
            folder = file.parent.name
            vhost = unquote(folder.removeprefix(VHOST)) if file.parent != self.folder else ""
            with suppress(JournalError):
                one = read(file, file.name.removesuffix(".json"), vhost)
                if one is not None:
                    found.append(one)
        return sorted(found, key=lambda one: (one.vhost, one.name))

    def files(self) -> list[Path]:
        """One for each of them."""
        return [*self.folder.glob("*.json"), *self.folder.glob(f"{VHOST}*/*.json")]

    def begin(self, wanted: Consumer) -> Consumer:
        """The one with this name, or this one from now on. Raises ``TooMany``."""
        file = self._file(wanted.name, wanted.vhost)
        known = read(file, wanted.name, wanted.vhost)
        if known is not None:
            return known
        if len(self.files()) >= MOST:
            raise TooMany(f"the journal has {MOST} consumers already")
        # Of several that begin at once, the first is it.
        with written_beside(file, wanted) as fresh, suppress(FileExistsError):
            os.link(fresh, file)
        return read(file, wanted.name, wanted.vhost) or wanted

    def advance(self, name: str, position: int, vhost: str = "", seen: int = 0) -> Consumer:
        """It is done with all before a position, or just here again. Positions never go back.
        Raises ``JournalError`` if there is none of this name."""
        file = self._file(name, vhost)
        known = read(file, name, vhost)
        if known is None:
            raise JournalError(f"no consumer {name!r}")
        moved = known._replace(position=max(known.position, position), seen=seen or now())
        with written_beside(file, moved) as fresh:
            fresh.rename(file)
        return moved

    def remove(self, name: str, vhost: str = "") -> bool:
        """Returns whether it was there."""
        file = self._file(name, vhost)
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        return True


def now() -> int:
    """Ms since 1970."""
    return int(time.time() * 1000)


def read(file: Path, name: str, vhost: str) -> Consumer | None:
    try:
        given: dict[str, Any] = json.loads(file.read_text())
        return Consumer(
            name,
            str(given["epoch"]),
            int(given["pos"]),
            int(given.get("done", given["pos"])),
            int(given.get("seen", 0)),
            vhost,
            str(given.get("user", "")),
        )
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise JournalError(f"{file} is damaged: {error}") from error


@contextmanager
def written_beside(file: Path, consumer: Consumer) -> Iterator[Path]:
    """A new file, synced, that gets the name of this one in the block. Its own name is gone then,
    also if it could not be written."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{uuid4().hex}")
    shown = {
        "epoch": consumer.journal,
        "pos": consumer.start,
        "done": consumer.position,
        "seen": consumer.seen,
        "user": consumer.user,
    }
    try:
        with fresh.open("w") as sink:
            json.dump(shown, sink, sort_keys=True)
            sink.flush()
            os.fsync(sink.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
