"""Messages <-> fragments: header and body as one run of octets, cut to the size of the peer's
frames (document §3.4)."""

from collections.abc import Iterator
from typing import NamedTuple

from gateway.adapters.kept import Kept
from gateway.adapters.v0_8a import fields
from gateway.adapters.v0_8a.content import (
    COMMAND,
    SIZE_OCTETS,
    end_of_head,
    least,
    read_head,
    read_header,
)
from gateway.adapters.v0_8a.violation import Violation
from gateway.adapters.v0_8a.wire.layouts import write_message_properties
from gateway.bodies import Body
from gateway.errors import Lost
from gateway.message import Essentials, Message

REMEMBERED = 1024
"""Headers whose meaning is remembered."""


class Known(NamedTuple):
    """A header in the dialect's octets, what the broker reads of it, the millisecond of expiry."""

    header: bytes
    essentials: Essentials
    expires: int | None


class Headers:
    """Headers of one connection: defaults and aliases applied, what the broker needs read.

    ``full`` are the full names by alias, ``alias`` the other way round (§3.2.5.2).
    """

    def __init__(self) -> None:
        self.full: dict[str, str] = {}
        self.alias: dict[str, str] = {}
        self._known: Kept[bytes, Known] = Kept(REMEMBERED)
        self._arrived: Kept[tuple[bytes, str, str], Known] = Kept(REMEMBERED)

    def add(self, dictionary: bytes) -> None:
        """Merge a dictionary of the peer. Raises ``ValueError``."""
        for alias, name in fields.read_table(dictionary).items():
            if not isinstance(name, str) or not name:
                raise fields.FieldError(f"alias '{alias[:60]}' stands for no name")
            self.full[alias] = name
            self.alias.setdefault(name, alias)
        self._arrived.clear()

    def arrived(self, raw: bytes, mime_type: str, encoding: str) -> Known:
        """A header as it came, without the size of the body, and the handle's defaults. Raises
        ``ValueError``. Hot."""
        if not (self.full or mime_type or encoding) and raw[:1] < b"\2":
            return self._known.get(raw) or self.known(raw)
        key = (raw, mime_type, encoding)
        found = self._arrived.get(key)
        if found is None:
            record = read_header(raw)
            record.mime_type = record.mime_type or mime_type
            record.encoding = record.encoding or encoding
            if self.full and record.headers:
                record.headers = fields.renamed(record.headers, self.full)
            header = write_message_properties(record)[SIZE_OCTETS:]
            found = self._arrived.keep(key, self.known(header))
        return found

    def first(self, fragment: bytes, mime_type: str, encoding: str) -> tuple[int, Known, int]:
        """Size of the body, header, and where the body begins in the first fragment. Raises
        ``ValueError``."""
        _, start = end_of_head(fragment)
        size = int.from_bytes(fragment[:SIZE_OCTETS], "big")
        return size, self.arrived(fragment[SIZE_OCTETS:start], mime_type, encoding), start

    def known(self, header: bytes) -> Known:
        """What is read of a header in the dialect's octets. Raises ``ValueError``."""
        found = self._known.get(header)
        if found is None:
            seconds = int.from_bytes(header[2:6], "big")
            expires = seconds * 1000 if seconds else None
            found = self._known.keep(header, Known(header, COMMAND.essentials(header), expires))
        return found

    def leaving(self, message: Message, limit: int) -> tuple[bytes, bytes]:
        """Header with the size of the body, and body, for the peer: with short names, and without
        fields if it does not fit a fragment. Raises ``ValueError`` if it has no such form."""
        header, large = message.form_for(COMMAND)
        body = loaded(large)
        if self.alias:
            head = read_head(bytes(SIZE_OCTETS) + header)[0]
            head.headers = fields.renamed(head.headers, self.alias)
            header = write_message_properties(head)[SIZE_OCTETS:]
        if len(header) + SIZE_OCTETS > limit:
            header = least(header)
        return len(body).to_bytes(SIZE_OCTETS, "big") + header, body


def loaded(body: Body) -> bytes:
    """The octets of a body that may be in a file: this version's adapter has them in memory.
    Raises ``ValueError`` if they cannot be read."""
    if isinstance(body, bytes):
        return body
    try:
        return body[:]
    except OSError as error:
        raise ValueError(f"the body cannot be read: {error.strerror}") from error


def cut(octets: bytes, limit: int) -> Iterator[tuple[bytes, bool]]:
    """Fragments, and whether more follow; one of them in any case."""
    if len(octets) <= limit:
        yield octets, False
        return
    end = len(octets)
    for at in range(0, end, limit):
        yield octets[at : at + limit], at + limit < end


class Arriving:
    """A message of which not all has come. ``digest`` is what it must have, "" if nobody said."""

    __slots__ = ("handle", "header", "size", "parts", "have", "digest")

    def __init__(self, handle: int, header: bytes, size: int) -> None:
        self.handle = handle
        self.header = header
        self.size = size
        self.parts: list[bytes] = []
        self.have = 0
        self.digest = ""

    def add(self, octets: bytes, last: bool) -> None:
        """The next fragment. Raises ``Violation`` if the body is not what the header says."""
        self.have += len(octets)
        if octets:
            self.parts.append(octets)
        if self.have > self.size or (last and self.have != self.size):
            text = f"a body of {self.size} octets was announced, {self.have} have come"
            raise Violation("invalid-message", text, Lost.LINK)

    def body(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
