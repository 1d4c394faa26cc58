"""Conversations of the original 0-9a6 client, frame by frame (``recordings/``)."""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


class Frame(NamedTuple):
    """``what`` is a method's name, "protocol-header", "content-header" or "content-body"."""

    from_client: bool
    octets: bytes
    what: str
    facts: dict[str, Any]


def frames(name: str) -> list[Frame]:
    found = []
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        side, octets, what, facts = line.split(" ", 3)
        told = json.loads(facts)
        whole = lost_body(told) if octets == "-" else bytes.fromhex(octets)
        found.append(Frame(side == ">", whole, what, told))
    return found


def lost_body(facts: dict[str, Any]) -> bytes:
    """A body frame of which only the length is known."""
    size: int = facts["octets_on_wire"] - 8
    return (
        b"\x03\0"
        + int(facts["channel"]).to_bytes(2, "big")
        + size.to_bytes(4, "big")
        + bytes(size - 1)
        + b"\xce"
    )


def octets(name: str, from_client: bool) -> bytes:
    """All that one side said."""
    return b"".join(frame.octets for frame in frames(name) if frame.from_client == from_client)
