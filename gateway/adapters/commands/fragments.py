"""Messages <-> fragments: header and body as one run of octets, cut to the size of the peer's
frames (document §3.4)."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import (
    COMMAND,
    SIZE_OCTETS,
    end_of_head,
    fitting,
    read_head,
    read_header,
)
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.layouts import write_message_properties
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.bodies import WRITE_FROM, Body, LargeBody, Spool, incoming_body
from gateway.errors import Lost
from gateway.message import Essentials, Message

REMEMBERED = 1024
"""Parsed headers kept in a cache."""


class ParsedHeader(NamedTuple):
    """A header in the dialect's octets, its essentials, and its expiry in milliseconds since
    1970."""

    header: bytes
    essentials: Essentials
    expires: int | None


class Headers:
    """Reads and writes message headers for one connection, with defaults and aliases applied.

    ``full``: full names by alias; ``alias``: aliases by full name (§3.2.5.2).
    """

    def __init__(self) -> None:
        self.full: dict[str, str] = {}
        self.alias: dict[str, str] = {}
        self._parsed: BoundedCache[bytes, ParsedHeader] = BoundedCache(REMEMBERED)
        self._from_peer: BoundedCache[tuple[bytes, str, str], ParsedHeader] = BoundedCache(
            REMEMBERED
        )

    def add(self, dictionary: bytes) -> None:
        """Merge a dictionary of the peer. Raises ``ValueError``."""
        for alias, name in fields.read_table(dictionary).items():
            if not isinstance(name, str) or not name:
                raise fields.FieldError(f"alias '{alias[:60]}' stands for no name")
            self.full[alias] = name
            self.alias.setdefault(name, alias)
        self._from_peer.clear()

    def from_peer(self, raw: bytes, mime_type: str, encoding: str) -> ParsedHeader:
        """Parse a received header, without the size of the body, and apply the handle's defaults.
        Raises ``ValueError``. Hot."""
        if not (self.full or mime_type or encoding) and raw[:1] < b"\2":
            return self.parsed(raw)
        key = (raw, mime_type, encoding)
        found = self._from_peer.get(key)
        if found is None:
            record = read_header(raw)
            record.mime_type = record.mime_type or mime_type
            record.encoding = record.encoding or encoding
            if self.full and record.headers:
                record.headers = fields.renamed(record.headers, self.full)
            header = write_message_properties(record)[SIZE_OCTETS:]
            found = self._from_peer.keep(key, self.parsed(header))
        return found

    def first(
        self, fragment: bytes, mime_type: str, encoding: str
    ) -> tuple[int, ParsedHeader, int]:
        """Parse the head of a first fragment: size of the body, header, and offset of the body.
        Raises ``ValueError``."""
        _, start = end_of_head(fragment)
        size = int.from_bytes(fragment[:SIZE_OCTETS], "big")
        return size, self.from_peer(fragment[SIZE_OCTETS:start], mime_type, encoding), start

    def parsed(self, header: bytes) -> ParsedHeader:
        """Parse a header in the dialect's octets. Raises ``ValueError``. Hot."""
        found = self._parsed.get(header)
        if found is None:
            seconds = int.from_bytes(header[2:6], "big")
            expires = seconds * 1000 if seconds else None
            found = self._parsed.keep(
                header, ParsedHeader(header, COMMAND.essentials(header), expires)
            )
        return found

    def for_peer(self, message: Message, limit: int) -> tuple[bytes, Body]:
        """Header with the size of the body, and body, in the peer's form: with its aliases and
        without fields that do not fit a fragment. Raises ``ValueError`` if there is no such
        form."""
        header, body = message.form_for(COMMAND)
        if self.alias:
            head = read_head(bytes(SIZE_OCTETS) + header)[0]
            head.headers = fields.renamed(head.headers, self.alias)
            header = write_message_properties(head)[SIZE_OCTETS:]
        if len(header) + SIZE_OCTETS > limit:
            header = fitting(header, limit - SIZE_OCTETS)
        return len(body).to_bytes(SIZE_OCTETS, "big") + header, body


def octets_of(body: Body) -> bytes:
    """The octets of a body that may be in a file and is small enough to be read at once. Raises
    ``ValueError`` if it cannot be read."""
    if isinstance(body, bytes):
        return body
    try:
        return body[:]
    except OSError as error:
        raise ValueError(f"the body cannot be read: {error.strerror}") from error


def cut_fragments(octets: bytes, limit: int) -> Iterator[tuple[bytes, bool]]:
    """Fragments, each with whether more follow; there is always at least one."""
    if len(octets) <= limit:
        yield octets, False
        return
    end = len(octets)
    for at in range(0, end, limit):
        yield octets[at : at + limit], at + limit < end


class IncomingMessage:
    """A message that is still being received. ``digest``: the SHA-1 that it must have, "" if none
    was given. All methods raise ``Violation``."""

    __slots__ = ("handle", "header", "size", "have", "digest", "_place", "_hash")

    def __init__(
        self, handle: int, header: bytes, size: int, spool: Spool | None, digest: str = ""
    ) -> None:
        self.handle = handle
        self.header = header
        self.size = size
        self.have = 0
        self.digest = digest
        self._hash = hashlib.sha1() if digest else None
        try:
            self._place = incoming_body(spool, size)
        except OSError as error:
            raise self._not_kept(error) from error

    @property
    def held(self) -> int:
        """Octets that the message will use in memory."""
        return self._place.held

    def add(self, octets: bytes, last: bool) -> None:
        """Add a fragment."""
        self.have += len(octets)
        if self.have > self.size or (last and self.have != self.size):
            text = f"a body of {self.size} octets was announced, {self.have} have come"
            raise Violation("invalid-message", text, Lost.LINK)
        if not octets:
            return
        try:
            self._place.add(octets)
        except OSError as error:
            raise self._not_kept(error) from error
        if self._hash is not None:
            self._hash.update(octets)

    def body(self) -> Body:
        """The complete body, if its digest is right."""
        if self._hash is not None and self._hash.hexdigest() != self.digest:
            raise Violation("invalid-message", "the hash is another", Lost.LINK)
        try:
            return self._place.finish()
        except OSError as error:
            raise self._not_kept(error) from error

    def abandon(self) -> None:
        """Discard the message."""
        self._place.abandon()

    def _not_kept(self, error: OSError) -> Violation:
        text = f"there is no room for a message of {self.size} octets: {error.strerror}"
        return Violation("message-too-large", text, Lost.SESSION)


MakeFrame = Callable[[bytes, bool], bytes]
"""Makes a command with a fragment; the flag says whether more follow."""


@dataclass(slots=True, eq=False)
class Fragments:
    """A ``BodyWriter``: header and large body in as many fragments as they need."""

    _make: MakeFrame
    _head: bytes
    _body: LargeBody
    _limit: int
    _at: int = 0
    over: bool = False
    spent: int = 0

    def frame(self) -> bytes:
        head, self._head = self._head, b""
        octets = self._body[self._at : self._at + max(0, self._limit - len(head))]
        self._at += len(octets)
        self.over = self._at >= len(self._body)
        self.spent = len(head) + len(octets)
        return self._make(head + octets, not self.over)


@dataclass(slots=True, eq=False)
class HashedBody:
    """A ``BodyWriter``: a command with the SHA-1 of a large body. Hashing a gigabyte takes a
    second, so it is done in portions too."""

    _make: Callable[[str], bytes]
    _body: LargeBody
    _at: int = 0
    over: bool = False
    spent: int = 0
    _hash: Any = field(default_factory=hashlib.sha1)

    def frame(self) -> bytes:
        octets = self._body[self._at : self._at + WRITE_FROM]
        self._hash.update(octets)
        self._at += len(octets)
        self.spent = len(octets)
        self.over = self._at >= len(self._body)
        return self._make(self._hash.hexdigest()) if self.over else b""
