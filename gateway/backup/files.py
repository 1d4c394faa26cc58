"""Files of a backup: written and synced, with their checksums."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gateway.errors import GatewayError
from gateway.journal.segments import sync

PIECE = 1 << 20
SYNC_OCTETS = 2 << 20
"""Written octets after which a file is synced. Otherwise the next commit of a gateway on the same
disk may have to wait until all of them are written."""


class BackupError(GatewayError):
    """A backup cannot be made or restored. The text is for the person who asked for it."""


class Copied(NamedTuple):
    """Size and SHA-256 (in hexadecimal) of a file."""

    octets: int
    sha256: str


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def write_file(path: Path, pieces: Iterable[bytes]) -> Copied:
    """Write a new file that only its owner may read, and sync it. Raises ``OSError``."""
    digest = hashlib.sha256()
    octets = unsynced = 0
    with open(path, "xb", buffering=0, opener=_private) as sink:
        for piece in pieces:
            digest.update(piece)
            octets += len(piece)
            unsynced += len(piece)
            left = memoryview(piece)
            while left:
                left = left[sink.write(left) :]
            if unsynced >= SYNC_OCTETS:
                os.fsync(sink.fileno())
                unsynced = 0
        os.fsync(sink.fileno())
    return Copied(octets, digest.hexdigest())


def pieces_of(path: Path) -> Iterable[bytes]:
    """The octets of a file. Raises ``OSError``."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def checksum(path: Path) -> Copied:
    """Size and checksum of a file now. Raises ``OSError``."""
    digest = hashlib.sha256()
    octets = 0
    for piece in pieces_of(path):
        digest.update(piece)
        octets += len(piece)
    return Copied(octets, digest.hexdigest())


def sync_folders(directory: Path) -> None:
    """Make the names of all files below a directory durable. Raises ``OSError``."""
    for folder, _, _ in os.walk(directory) if os.name == "posix" else ():
        sync(Path(folder))
