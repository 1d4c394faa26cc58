"""The essentials of encoded basic properties, without decoding the rest.

Every message whose properties have not been seen before comes through here, so lengths and tags are
checked by stepping over them: about a third of the cost of reading them.
"""

from typing import NamedTuple

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.core.templates import Place
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
        return step_over(header)
    except IndexError as error:
        raise ValueError("the properties are cut short") from error


def arrived(header: bytes) -> Essentials:
    """The same of a message that a client publishes, whose headers may hold ``MOST_VALUES``."""
    if len(header) <= MOST_VALUES:  # each takes an octet at least
        return read_essentials(header)
    with ALLOWANCE.within():
        return read_essentials(header)


class Plan(NamedTuple):
    """How to step over properties with these flags. ``before``: short strings before the headers.
    ``after`` the priority: octets of each property, or one of ``STRING``, ``USER``, ``LIFE``."""

    before: int
    headers: int
    mode: int
    priority: int
    after: tuple[int, ...]


STRING, USER, LIFE = 0, -1, -2
AFTER = {
    CORRELATION_ID: STRING, REPLY_TO: STRING, EXPIRATION: LIFE, MESSAGE_ID: STRING, TIMESTAMP: 8,
    TYPE: STRING, USER_ID: USER, APP_ID: STRING, CLUSTER_ID: STRING,
}  # fmt: skip
PLANS: dict[int, Plan] = {}
"""By flags, of which there are 14."""
ALIKE: dict[tuple[bool, int | None, bool], Essentials] = {}
"""Essentials without a time to live and a user, which messages share."""


def plan(flags: int) -> Plan:
    """Raises ``ValueError`` if the flags name unknown properties."""
    if flags & 3:
        raise ValueError(f"flags {flags:04x} name unknown properties")
    before = (flags & (CONTENT_TYPE | CONTENT_ENCODING)).bit_count()
    after = tuple(step for flag, step in AFTER.items() if flags & flag)
    found = Plan(before, flags & HEADERS, flags & DELIVERY_MODE, flags & PRIORITY, after)
    PLANS[flags] = found
    return found


def step_over(header: bytes) -> Essentials:
    """``read_essentials``; raises ``IndexError`` too. Hot."""
    flags = header[0] << 8 | header[1]
    before, headers, mode, priority, after = PLANS.get(flags) or plan(flags)
    at = 2
    while before:
        at += 1 + header[at]
        before -= 1
    has_headers = durable = False
    level = ttl = user = None
    if headers:
        start = at + 4
        at = start + int.from_bytes(header[at:start], "big")
        if at > len(header):
            raise ValueError("the headers run past the properties")
        check_table(header, start, at)
        has_headers = at > start
    if mode:
        durable = header[at] == PERSISTENT
        at += 1
    if priority:
        level = header[at]
        at += 1
    for step in after:
        if step > 0:
            at += step
        elif step == STRING:
            at += 1 + header[at]
        else:
            start = at + 1
            at = start + header[at]
            text = header[start:at].decode("utf-8", "surrogateescape")
            if step == USER:
                user = text
            else:
                ttl = expiration(text)
                if ttl is not None and ttl > EPOCH_LIMIT:
                    ttl = None
    if at != len(header):
        raise ValueError("the properties do not end where the frame ends")
    if ttl is None and user is None:
        alike = durable, level, has_headers
        found = ALIKE.get(alike)
        if found is None:
            found = ALIKE[alike] = Essentials(durable, level, None, None, has_headers)
        return found
    return Essentials(durable, level, ttl, user, has_headers)


# --- values that change nothing --------------------------------------------------------------


def value_places(header: bytes) -> list[Place]:
    """The places of values that change neither the essentials of properties nor whether they can be
    read. The properties have been read."""
    found: list[Place] = []
    flags = header[0] << 8 | header[1]
    before, headers, mode, priority, after = PLANS.get(flags) or plan(flags)
    at = 2
    for _ in range(before):
        at += 1 + header[at]
    if headers:
        start = at + 4
        at = start + int.from_bytes(header[at:start], "big")
        found += places_in_table(header, start, at)
    at += bool(mode) + bool(priority)
    for step in after:
        start = at if step > 0 else at + 1
        at = start + (step if step > 0 else header[at])
        if step >= STRING:
            found.append(Place(start, at))
    return found


def places_in_table(header: bytes, at: int, end: int) -> list[Place]:
    found: list[Place] = []
    while at < end:
        at += 1 + header[at]
        tag = header[at]
        stop = check_value(header, at, end, 0)
        if tag in _LONG:
            found.append(Place(at + 5, stop))
        elif tag in _WIDTHS:
            found.append(Place(at + 1, stop))
        at = stop
    return found


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
        width = _WIDTHS.get(buf[at])  # as ``check_value``, without a call for most values
        if width is not None:
            at += 1 + width
        elif buf[at] in _LONG:
            start = at + 5
            at = start + int.from_bytes(buf[at + 1 : start], "big")
            if at > end:
                raise FieldError("a field runs past its table")
        else:
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
