"""Conversations of the programs of July 2007, frame by frame (``recordings/``)."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


class Frame(NamedTuple):
    """``meaning`` is the description that was stored with the octets."""

    from_client: bool
    octets: bytes
    meaning: str


def version_of(name: str) -> str:
    """ "0-10-07-24" or "0-10-07-27"."""
    return name[:10]


@cache
def frames(name: str) -> tuple[Frame, ...]:
    """All frames of a recording, the protocol header first."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["frames"]
    return tuple(
        Frame(frame["direction"] == "client->server", bytes.fromhex(frame["hex"]), frame["meaning"])
        for frame in recorded
        if frame["hex"]
    )


def octets(name: str, from_client: bool) -> bytes:
    """All octets of one side."""
    return b"".join(frame.octets for frame in frames(name) if frame.from_client == from_client)
