"""A reserve of disk space that lets a gateway start on a full disk.

A database in WAL mode cannot be opened, not even for reading, without some space for its auxiliary
files. A reserve file beside the database is deleted when opening fails, and created again when
there is enough free space.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
OCTETS = 4 << 20
PLENTY = 64 * OCTETS
"""Minimum free octets for creating a reserve."""


def release_space(directory: Path) -> bool:
    """Delete the reserve. Returns whether there was one."""
    try:
        (directory / NAME).unlink()
    except OSError:
        return False
    return True


def reserve_space(directory: Path) -> None:
    """Create the reserve if there is none and enough free space. Never raises: it is a
    precaution."""
    file = directory / NAME
    try:
        if file.exists() or shutil.disk_usage(directory).free < PLENTY:
            return
        with file.open("xb") as sink:
            file.chmod(0o600)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(sink.fileno(), 0, OCTETS)
            else:
                sink.write(bytes(OCTETS))
    except OSError:
        with suppress(OSError):
            file.unlink()
