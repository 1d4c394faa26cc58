"""Archives that tests unpack."""

import tarfile
from pathlib import Path
from typing import Any

SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""What keeps an archive within its folder, which Python has since 3.11.4. Those of the tests
are our own, or known by their digests."""


def unpack(source: Path, folder: Path) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(folder, **SAFELY)
