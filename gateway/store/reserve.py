"""Room on the disk that a gateway keeps for a start without any.

A database in WAL mode cannot be opened, not even to read it, without a little room for its files.
So a file stands beside it that is given up when the database cannot be opened, and made again when
there is plenty.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
OCTETS = 4 << 20
PLENTY = 64 * OCTETS
"""Free octets from which on a reserve is made."""


def spend(directory: Path) -> bool:
    """Give the room up; whether there was any."""
    try:
        (directory / NAME).unlink()
    except OSError:
        return False
    return True


def lay_by(directory: Path) -> None:
    """Make the reserve if there is none and enough room. Costs no error: it is a precaution."""
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
