"""Retention: how long the entries of each address are kept, and segments without those that are
kept no longer.

A segment never changes. One of which some addresses are too old is written anew without them, for
the same range of positions under a name that counts how often; readers take the last, and one that
has the other open reads on.
"""

from collections.abc import Iterable, Set
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.config.journal import JournalSettings
from gateway.journal.segments import Notes, Segment, close_writer, file_name, open_writer

Address = tuple[str, str]
"""A virtual host, and the name of an address there."""


class Keep(NamedTuple):
    """How long entries of an address are kept, and how many octets of their bodies."""

    seconds: float
    octets: float


class Outdated(NamedTuple):
    """A segment of which these addresses are kept no longer."""

    segment: Segment
    gone: Set[Address]

    @property
    def whole(self) -> bool:
        return len(self.gone) == len(self.segment.notes.shares)


class Retention:
    """How long the entries of each address are kept: as the first rule that fits it says, or as
    the journal."""

    def __init__(self, settings: JournalSettings) -> None:
        self.settings = settings
        self.rules = [
            one
            for one in settings.recording
            if one.keep_seconds is not None or one.keep_octets is not None
        ]
        """Those with a retention of their own."""
        self._known: dict[Address, Keep] = {}

    def of(self, address: Address) -> Keep:
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = self._look_up(*address)
        return found

    def _look_up(self, vhost: str, name: str) -> Keep:
        seconds: float | None = None
        octets: int | None = None
        for one in self.settings.recording:
            if fnmatchcase(vhost, one.vhost) and fnmatchcase(name, one.address):
                seconds, octets = one.keep_seconds, one.keep_octets
                break
        return Keep(
            self.settings.keep_seconds if seconds is None else seconds,
            float("inf") if octets is None else octets,
        )

    def outdated(self, segments: Iterable[Segment], now: float) -> list[Outdated]:
        """The segments, oldest first, of which something is kept no longer. ``now`` is seconds
        since 1970. Raises ``FileNotFoundError`` and ``JournalError``."""
        octets: dict[Address, int] = {}
        found: list[Outdated] = []
        for segment in reversed(list(segments)):
            notes = segment.notes
            gone: set[Address] = set()
            for address, share in notes.shares.items():
                keep = self.of(address)
                octets[address] = octets.get(address, 0) + share.octets
                if notes.newest < (now - keep.seconds) * 1000 or octets[address] > keep.octets:
                    gone.add(address)
            if gone:
                found.append(Outdated(segment, gone))
        return found[::-1]


def rewrite(outdated: Outdated) -> Segment:
    """Write a segment anew, and remove the old one and the bodies that only it has. Raises
    ``OSError`` and ``JournalError``."""
    import pyarrow.compute as compute

    from gateway.journal.columns import SCHEMA, of_this_version

    segment, gone = outdated
    notes = segment.notes
    directory = segment.path.parent
    path = directory / f"{segment.start:020d}.part"
    writer = open_writer(path)
    references: list[str] = []
    oldest, newest = notes.newest, notes.oldest
    try:
        for table in segment.tables(segment.start, segment.end, SCHEMA.names):
            table = of_this_version(table)
            drop = None
            for vhost, name in sorted(gone):
                here = compute.and_(
                    compute.equal(table["vhost"], vhost), compute.equal(table["address"], name)
                )
                drop = here if drop is None else compute.or_(drop, here)
            references += [
                one for one in table.filter(drop)["reference"].to_pylist() if one is not None
            ]
            kept = table.filter(compute.invert(drop))
            if kept.num_rows:
                stamps = compute.min_max(kept["stamp"]).as_py()
                oldest, newest = min(oldest, stamps["min"]), max(newest, stamps["max"])
                writer.write_table(kept, row_group_size=kept.num_rows)
        shares = {key: one for key, one in notes.shares.items() if key not in gone}
        rest = Notes(notes.journal, 0, oldest, newest, shares)
        name = file_name(segment.start, segment.end, segment.version + 1)
        made = close_writer(writer, path, rest, name)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    segment.close()
    segment.path.unlink(missing_ok=True)
    for one in references:
        (directory / one).unlink(missing_ok=True)
    return made
