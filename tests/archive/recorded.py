"""The recordings of all versions as files of an archive."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gateway.archive.recordings import Counts, Item, read_recording
from gateway.archive.side import Bad, Found
from tests.adapters.commands import recorded as commands
from tests.adapters.methods.drafts import recorded as drafts
from tests.adapters.methods.transitional import recorded as transitional
from tests.adapters.segments import recorded as segments

NAMES = {
    "0.8a2": commands.CONVERSATIONS,
    "0-9a6": drafts.NAMES,
    "0-10-07": transitional.NAMES,
    "0-10": segments.NAMES,
}
ALL = [(family, name) for family, names in NAMES.items() for name in names]


class Frame(NamedTuple):
    connection: str
    from_client: bool
    octets: bytes


def frames(family: str, name: str) -> list[Frame]:
    found: Iterable[Any]
    if family == "0.8a2":
        found = (Frame(*line[:3]) for line in commands.read(name))
    elif family == "0-9a6":
        found = (Frame("1", one.from_client, one.octets) for one in drafts.frames(name))
    elif family == "0-10-07":
        found = (Frame("1", one.from_client, one.octets) for one in transitional.frames(name))
    else:
        found = (Frame(*one[:3]) for one in segments.frames(name))
    return [one for one in found if one.octets]


def document(recorded: Iterable[Frame], **others: str) -> str:
    """Capture JSON."""
    listed = [
        {
            "connection": one.connection,
            "direction": "client->server" if one.from_client else "server->client",
            "hex": one.octets.hex(),
        }
        for one in recorded
    ]
    return json.dumps({**others, "frames": listed})


def form_of(family: str, name: str) -> dict[str, str]:
    """What the recordings of July 2007 say of themselves: their header tells no more than 0-10."""
    if family != "0-10-07":
        return {}
    return {"form": f"transitional, revision of {name[8:10]} July 2007"}


def write_archive(folder: Path) -> list[Path]:
    """A file for each recording."""
    found = []
    for family, name in ALL:
        path = folder / family / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document(frames(family, name), **form_of(family, name)))
        found.append(path)
    return found


class Read(NamedTuple):
    """What came of a file."""

    items: list[Item]
    messages: int
    unreadable: int

    @property
    def found(self) -> list[Found]:
        return [one.found for one in self.items if isinstance(one.found, Found)]

    @property
    def bad(self) -> list[Bad]:
        return [one.found for one in self.items if isinstance(one.found, Bad)]

    @property
    def adds_up(self) -> bool:
        return self.messages + self.unreadable == len(self.items)


def read(path: Path, as_version: str | None = None) -> Read:
    counts = Counts()
    items = list(read_recording(path, as_version, counts))
    return Read(items, counts.messages, counts.unreadable)


def plainly(found: Iterable[Found]) -> list[tuple[Any, ...]]:
    """Messages without their places, in a form that can be compared and sorted."""
    return [
        (one.direction, one.dialect.name, one.exchange, one.key, one.header, bytes(one.body[:]))
        for one in found
    ]
