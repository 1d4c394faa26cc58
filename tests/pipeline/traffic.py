"""Known traffic as a directory of sealed segments: each entry is written by hand."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.journal.entries import Entry, Publisher
from gateway.message import Message, Properties

BEGIN = 1_795_305_600_000
"""The first hour, ms since 1970: 2026-11-22T00:00:00Z."""
HOUR = 3_600_000


class Sent(NamedTuple):
    """A message: of which publisher, where to, in which hour, how large, with which properties."""

    publisher: Publisher
    address: str
    hour: int = 0
    size: int = 10
    given: dict[str, Any] = {}
    vhost: str = "/"
    body: bytes = b""


def entries_of(sent: Iterable[Sent], start: int = 0) -> list[Entry]:
    offsets: dict[tuple[str, str], int] = {}
    found = []
    for pos, one in enumerate(sent, start):
        dialect = BASIC if one.publisher.protocol.startswith("amqp-0") else SECTIONS
        header = dialect.write(Properties(**one.given))
        body = one.body or b"x" * one.size
        kind, _, name = one.address.removeprefix("/").partition("/")
        exchange, key = (name, "key") if kind == "exchanges" else ("", name)
        message = Message(dialect, header, body, exchange, key, dialect.essentials(header))
        offset = offsets.get((one.vhost, one.address), 0)
        offsets[one.vhost, one.address] = offset + 1
        found.append(
            Entry(
                pos, BEGIN + one.hour * HOUR + pos, one.vhost, one.address, offset, one.publisher,
                message, len(body),
            )
        )  # fmt: skip
    return found


def write_journal(folder: Path, sent: Iterable[Sent], per_segment: int = 1000) -> Path:
    """A directory of segments for ``--journal``."""
    return write_entries(folder, entries_of(sent), per_segment)


def write_messages(folder: Path, queues: Mapping[str, Sequence[Message]]) -> Path:
    """The same of messages by address."""
    found: list[Entry] = []
    for address, messages in queues.items():
        for offset, one in enumerate(messages):
            pos = len(found)
            found.append(
                Entry(pos, BEGIN + pos, "/", address, offset, Publisher(), one, len(one.body))
            )
    return write_entries(folder, found, 1000)


def write_entries(folder: Path, entries: list[Entry], per_segment: int) -> Path:
    from gateway.journal.segments import SegmentWriter

    for start in range(0, len(entries), per_segment):
        writer = SegmentWriter(folder, "known", start)
        for one in entries[start : start + per_segment]:
            writer.add(one)
        writer.finish(min(len(entries), start + per_segment))
    return folder
