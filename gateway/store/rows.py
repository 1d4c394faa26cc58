"""A message as one row: ``head`` packs everything except the body.

Three values per row cost 2.6 us where eight typed columns cost 3.9 us (256 octets, 2000 rows per
commit), so exchange, key, dialect and the sender's header travel in one blob:

    flags u8, length of dialect u8, of exchange u16, of key u32      (big-endian)
    dialect, exchange, key                                           (UTF-8)
    [expires i64]  if flags & 1                                      (ms since 1970)
    [length u32, added headers as tagged JSON]  if flags & 2
    header                                                           (the rest)
"""

import struct
from struct import Struct
from typing import Any

from gateway.bodies import Body
from gateway.errors import LocalError, StoreError
from gateway.message import DIALECTS, NO_ESSENTIALS, Dialect, Essentials, Message
from gateway.store.plain import read_plain

EXPIRES, ADDED = 1, 2
NEVER = (1 << 63) - 1
"""Latest time that can be written, in ms; later times are clamped to it."""

LONGEST_NAME = 16_383
"""Maximum characters of an exchange name or routing key; with four octets each they fit the length
field."""
MOST_OCTETS = 900_000_000
"""Maximum octets of a body in a row; SQLite limits the whole row to 1,000,000,000."""

REMEMBERED = 4096
"""Maximum entries of each cache below. Routes and headers usually repeat, but need not."""

_FIRST = Struct(">BBHI")
_TIME = Struct(">q")
_LENGTH = Struct(">I")


def _front(flags: int, dialect: str, exchange: str, key: str) -> bytes:
    # surrogatepass: surrogates that an adapter decoded from invalid octets are preserved
    names = [name.encode("utf-8", "surrogatepass") for name in (dialect, exchange, key)]
    lengths = [len(name) for name in names]
    if lengths[0] > 0xFF or lengths[1] > 0xFFFF or lengths[2] > 0xFFFFFFFF:
        raise LocalError("exchange or routing key too long for the store")
    return _FIRST.pack(flags, *lengths) + b"".join(names)


def split_head(head: bytes) -> tuple[str, str, bytes, int | None, bytes | None, bytes]:
    """The parts of a head: dialect, exchange, key, when it expires, added headers, header."""
    flags, named, exchanged, keyed = _FIRST.unpack_from(head)
    start = _FIRST.size
    at = start + named + exchanged + keyed
    expires = added = None
    if flags & EXPIRES:
        (expires,) = _TIME.unpack_from(head, at)
        at += _TIME.size
    if flags & ADDED:
        (length,) = _LENGTH.unpack_from(head, at)
        at += _LENGTH.size
        added = head[at : at + length]
        at += length
    exchange_end = start + named + exchanged
    return (
        head[start : start + named].decode(),
        head[start + named : exchange_end].decode("utf-8", "surrogatepass"),
        head[exchange_end : exchange_end + keyed],
        expires,
        added,
        head[at:],
    )


class Packer:
    """Writes heads. The front of a head without added headers depends on the route only and is
    cached, with and without an expiry."""

    def __init__(self) -> None:
        self.fronts: dict[tuple[str, str, str], bytes] = {}
        self.expiring: dict[tuple[str, str, str], bytes] = {}

    def head(self, message: Message, expires: int | None, added: bytes | None) -> bytes:
        route = (message.dialect.name, message.exchange, message.key)
        if expires is None and added is None:
            front = self.fronts.get(route)
            if front is None:
                if len(self.fronts) >= REMEMBERED:
                    self.fronts.clear()
                front = self.fronts[route] = _front(0, *route)
            return front + message.header
        if added is None:
            front = self.expiring.get(route)
            if front is None:
                if len(self.expiring) >= REMEMBERED:
                    self.expiring.clear()
                front = self.expiring[route] = _front(EXPIRES, *route)
            assert expires is not None
            return front + _TIME.pack(expires if expires < NEVER else NEVER) + message.header
        flags = (EXPIRES if expires is not None else 0) | (ADDED if added is not None else 0)
        pieces = [_front(flags, *route)]
        if expires is not None:
            pieces.append(_TIME.pack(min(expires, NEVER)))
        if added is not None:
            pieces += (_LENGTH.pack(len(added)), added)
        pieces.append(message.header)
        return b"".join(pieces)


class Unpacker:
    """Reads heads. Equal names and essentials are shared between messages. ``bare``: messages get
    no essentials, for readers that need none."""

    def __init__(self, bare: bool = False) -> None:
        self.bare = bare
        self.routes: dict[bytes, tuple[Dialect, str, str]] = {}
        self.essentials: dict[tuple[str, bytes], Essentials] = {}

    def message(self, head: bytes, body: Body) -> tuple[Message, int | None]:
        """The message and when it expires. Raises ``StoreError`` if the head is damaged."""
        try:
            return self._message(head, body)
        except StoreError:
            raise
        except (ValueError, LookupError, TypeError) as error:
            raise StoreError(f"a stored message is damaged: {error}") from error
        except Exception as error:  # struct.error is not a ValueError
            raise StoreError(f"a stored message cannot be read: {error}") from error

    def _message(self, head: bytes, body: Body) -> tuple[Message, int | None]:
        flags, named, exchanged, keyed = _FIRST.unpack_from(head)
        at = _FIRST.size + named + exchanged + keyed
        dialect, exchange, key = self._route(head[1:at], named, exchanged)
        expires: int | None = None
        added: dict[str, Any] | None = None
        if flags & EXPIRES:
            (expires,) = _TIME.unpack_from(head, at)
            at += _TIME.size
        if flags & ADDED:
            (length,) = _LENGTH.unpack_from(head, at)
            at += _LENGTH.size
            added = read_plain(head[at : at + length])
            at += length
        header = head[at:]
        essentials = NO_ESSENTIALS if self.bare else self._essentials(dialect, header)
        return Message(dialect, header, body, exchange, key, essentials, added), expires

    def _route(self, front: bytes, named: int, exchanged: int) -> tuple[Dialect, str, str]:
        found = self.routes.get(front)
        if found is None:
            start = _FIRST.size - 1
            name, exchange, key = (
                part.decode("utf-8", "surrogatepass")
                for part in (
                    front[start : start + named],
                    front[start + named : start + named + exchanged],
                    front[start + named + exchanged :],
                )
            )
            if name not in DIALECTS:
                raise StoreError(f"a stored message is in the unknown dialect {name!r}")
            if len(self.routes) >= REMEMBERED:
                self.routes.clear()
            found = self.routes[front] = (DIALECTS[name], exchange, key)
        return found

    def _essentials(self, dialect: Dialect, header: bytes) -> Essentials:
        found = self.essentials.get((dialect.name, header))
        if found is None:
            if len(self.essentials) >= REMEMBERED:
                self.essentials.clear()
            try:
                found = dialect.essentials(header)
            except (ValueError, LookupError, struct.error):
                # The header was valid when the message arrived. If it cannot be decoded now, the
                # message is delivered with default essentials rather than lost.
                found = Essentials(durable=True)
            self.essentials[dialect.name, header] = found
        return found
