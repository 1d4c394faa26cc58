"""The description of a backup, ``manifest.json``. It is written last: a directory without it is
no whole backup."""

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gateway.backup.files import BackupError, Copied, write_file
from gateway.journal.segments import sync

NAME = "manifest.json"
FORM = 1
"""Of the description."""


class Manifest(NamedTuple):
    """``gateway`` is the version that has made the backup, ``taken`` the moment that it shows
    (ISO 8601). ``rows`` are those of each table of the database. ``journal`` is the id of the
    journal, or "", and ``position`` its end. ``files`` are by their names below the directory."""

    gateway: str
    store_format: int
    taken: str
    rows: dict[str, int]
    journal: str
    position: int
    files: dict[str, Copied]

    @property
    def octets(self) -> int:
        return sum(one.octets for one in self.files.values())

    def summary(self) -> dict[str, Any]:
        """All but the list of files."""
        shown = self._asdict()
        del shown["files"]
        return {**shown, "files": len(self.files), "octets": self.octets}


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Raises ``OSError``."""
    shown = {"form": FORM, **manifest._asdict()}
    shown["files"] = {name: one._asdict() for name, one in sorted(manifest.files.items())}
    fresh = directory / f".{NAME}"
    write_file(fresh, [json.dumps(shown, indent=1).encode()])
    fresh.rename(directory / NAME)
    if os.name == "posix":
        sync(directory)


def read_manifest(directory: Path) -> Manifest:
    """Raises ``BackupError``."""
    file = directory / NAME
    try:
        given = json.loads(file.read_bytes())
        if given["form"] > FORM:
            raise BackupError(
                f"{file} has form {given['form']}; this gateway knows form {FORM}:"
                " use the newer gateway that wrote it"
            )
        files = {
            str(name): Copied(int(one["octets"]), str(one["sha256"]))
            for name, one in given["files"].items()
        }
        found = Manifest(
            str(given["gateway"]),
            int(given["store_format"]),
            str(given["taken"]),
            {str(name): int(count) for name, count in given["rows"].items()},
            str(given["journal"]),
            int(given["position"]),
            files,
        )
    except FileNotFoundError:
        raise BackupError(
            f"{directory} is not a whole backup: it has no {NAME}, which is written last"
        ) from None
    except OSError as error:
        raise BackupError(str(error)) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BackupError(f"{file} is damaged: {error!r}") from None
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or "/".join(parts) != name or ".." in parts or parts[0] == "/":
            raise BackupError(f"{file} is damaged: {name!r} is not the name of a file of a backup")
    return found
