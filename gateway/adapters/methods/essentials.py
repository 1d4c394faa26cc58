"""The essentials of encoded basic properties, without decoding the rest.

Every message whose properties have not been seen before comes through here, so lengths and tags are
checked by stepping over them: about a third of the cost of reading them.
"""

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods.tags import ALLOWANCE, FieldError, TooManyValues
from gateway.adapters.methods.types import DEPTH
from gateway.message import Essentials

PERSISTENT = 2

EPOCH_LIMIT = 10**11
"""Above it a timestamp counts milliseconds, and an expiration is a date (Qpid's Java client):
as seconds it would lie beyond the year 5138, as a time to live beyond three years."""

(
    CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY, CORRELATION_ID,
    REPLY_TO, EXPIRATION, MESSAGE_ID, TIMESTAMP, TYPE, USER_ID, APP_ID, CLUSTER_ID,
) = (0x8000 >> bit for bit in range(14))  # fmt: skip
"""Property flags in the order of the properties (0-9-1 §4.2.6.1)."""


class BadExpiration(ValueError):
    """The expiration is no number of milliseconds. The publisher's mistake, not a broken frame."""


def expiration(text: str | None) -> int | None:
    """Milliseconds, from any origin."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise BadExpiration(f"invalid expiration '{text[:32]}'")
    return int(text)


def read_essentials(header: bytes) -> Essentials:
    """The essentials of these properties. Raises ``ValueError``. Warm: steps over the rest,
    checking lengths and tags only."""
    try:
        return _walk(header)
    except IndexError as error:
        raise ValueError("the properties are cut short") from error


def arrived(header: bytes) -> Essentials:
    """The same of a message that a client publishes, whose headers may hold ``MOST_VALUES``."""
    if len(header) <= MOST_VALUES:  # each takes an octet at least
        return read_essentials(header)
    with ALLOWANCE.within():
        return read_essentials(header)


def _walk(header: bytes) -> Essentials:
    flags = header[0] << 8 | header[1]
    if flags & 3:
        raise ValueError(f"flags {flags:04x} name unknown properties")
    at, priority, ttl, user, headers = 2, None, None, None, False
    if flags & CONTENT_TYPE:
        at += 1 + header[at]
    if flags & CONTENT_ENCODING:
        at += 1 + header[at]
    if flags & HEADERS:
        end = at + 4 + int.from_bytes(header[at : at + 4], "big")
        if end > len(header):
            raise ValueError("the headers run past the properties")
        check_table(header, at + 4, end)
        headers = end > at + 4
        at = end
    durable = False
    if flags & DELIVERY_MODE:
        durable = header[at] == PERSISTENT
        at += 1
    if flags & PRIORITY:
        priority = header[at]
        at += 1
    if flags & CORRELATION_ID:
        at += 1 + header[at]
    if flags & REPLY_TO:
        at += 1 + header[at]
    if flags & EXPIRATION:
        end = at + 1 + header[at]
        ttl = expiration(header[at + 1 : end].decode("utf-8", "surrogateescape"))
        if ttl is not None and ttl > EPOCH_LIMIT:
            ttl = None
        at = end
    if flags & MESSAGE_ID:
        at += 1 + header[at]
    if flags & TIMESTAMP:
        at += 8
    if flags & TYPE:
        at += 1 + header[at]
    if flags & USER_ID:
        end = at + 1 + header[at]
        user = header[at + 1 : end].decode("utf-8", "surrogateescape")
        at = end
    if flags & APP_ID:
        at += 1 + header[at]
    if flags & CLUSTER_ID:
        at += 1 + header[at]
    if at != len(header):
        raise ValueError("the properties do not end where the frame ends")
    return Essentials(durable, priority, ttl, user, headers)


# --- tables ---------------------------------------------------------------------------------

_WIDTHS = {
    ord(tag): width
    for tags, width in (("tbBk", 1), ("sUu", 2), ("Iif", 4), ("lLdT", 8), ("D", 5), ("V", 0))
    for tag in tags
}
_LONG = frozenset(b"ScCx")
_TABLE, _ARRAY = ord("F"), ord("A")
FEW = 8
"""Entries of a table that are not worth counting: the table itself counts as a value of its
parent."""


def check_table(buf: bytes, at: int, end: int, depth: int = 0) -> None:
    """Raise ``FieldError`` unless these entries can be read (default dialect). Decodes nothing."""
    count, most = 0, ALLOWANCE.left
    while at < end:
        at += 1 + buf[at]
        if at >= end:
            raise FieldError("a field name runs past its table")
        at = check_value(buf, at, end, depth)
        count += 1
        if count > most:
            raise TooManyValues
    if at != end:
        raise FieldError("a field runs past its table")
    if count > FEW:
        ALLOWANCE.take(count)


def check_value(buf: bytes, at: int, end: int, depth: int) -> int:
    """Where the value whose tag stands at ``at`` ends."""
    tag = buf[at]
    width = _WIDTHS.get(tag)
    if width is not None:
        return at + 1 + width
    start = at + 5
    stop = start + int.from_bytes(buf[at + 1 : start], "big")
    if stop > end:
        raise FieldError("a field runs past its table")
    if tag in _LONG:
        return stop
    if depth >= DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    if tag == _TABLE:
        check_table(buf, start, stop, depth + 1)
    elif tag == _ARRAY:
        check_array(buf, start, stop, depth + 1)
    else:
        raise FieldError(f"a field has the unknown tag {tag:#04x}")
    return stop


def count_arguments(entries: bytes) -> None:
    """Raise ``TooManyValues`` if a method's table holds more than ``MOST_VALUES``."""
    if len(entries) <= MOST_VALUES:
        return
    with ALLOWANCE.within():
        try:
            check_table(entries, 0, len(entries))
        except TooManyValues:
            raise
        except (FieldError, IndexError):
            pass  # or in another dialect it is good; its reader finds out


def check_array(buf: bytes, at: int, end: int, depth: int) -> None:
    """As ``check_table``."""
    count, most = 0, ALLOWANCE.left
    while at < end:
        at = check_value(buf, at, end, depth)
        count += 1
        if count > most:
            raise TooManyValues
    if at != end:
        raise FieldError("an item runs past its array")
    ALLOWANCE.take(count)
