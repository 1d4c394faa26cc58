"""Controls, commands and structs by their codes: octets to records and back.

A control segment holds the class and the code, then the packed fields. A command segment has the
struct ``session.header`` between them, whose only field is the bit ``sync``. A struct with a code
stands behind its size in a header segment, in ``execution.result`` and in an array of structs.
"""

import struct
from collections.abc import Iterator
from struct import Struct
from typing import Any

from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import tables

_H, _I, _IH = Struct(">H"), Struct(">I"), Struct(">IH")

SYNC, NO_SYNC = b"\x01\x01", b"\x01\x00"
"""The struct ``session.header``: its size, then its flags."""

COMMAND_START = 4
"""Octets of a command segment before the presence flags: class, code and ``session.header``."""
CONTROL_START = 2

CUT = (struct.error, IndexError)


def read_fields(kind: Any, buf: bytes, at: int, end: int) -> Any:
    """The record of an operation or a struct, from its presence flags at ``at`` to its end. Raises
    ``FieldError``."""
    try:
        record, stop = kind.read(buf, at)
    except CUT as error:
        raise FieldError(f"{kind.name} is cut short") from error
    if stop != end:
        raise FieldError(f"{kind.name} ends at {stop - at} of {end - at} octets")
    return record


def read_command_start(buf: bytes, at: int, end: int) -> tuple[int, bool]:
    """Class and code of a command segment, and whether it asks for a sync. Raises
    ``FieldError``."""
    if end - at < COMMAND_START or buf[at + 2] != 1 or buf[at + 3] > 1:
        raise FieldError("a command segment begins with class, code and session.header")
    return buf[at] << 8 | buf[at + 1], buf[at + 3] == 1


def write_control(record: Any) -> bytes:
    """A control segment. Raises ``FieldError`` if a value does not fit its field."""
    kind = tables.BY_RECORD[record.__class__]
    return _H.pack(kind.code) + write_fields(kind, record)


def write_command(record: Any, sync: bool = False) -> bytes:
    """A command segment. Raises ``FieldError`` if a value does not fit its field."""
    kind = tables.BY_RECORD[record.__class__]
    return _H.pack(kind.code) + (SYNC if sync else NO_SYNC) + write_fields(kind, record)


def write_fields(kind: Any, record: Any) -> bytes:
    """Presence flags and fields. Raises ``FieldError``."""
    try:
        octets: bytes = kind.write(record)
    except (struct.error, UnicodeError) as error:
        raise FieldError(f"a value does not fit its field: {record!r}") from error
    return octets


# --- structs with a code --------------------------------------------------------------------------


def read_struct(octets: bytes) -> Any:
    """The record of a struct32, whose octets without the size these are; ``None`` if its code is
    not known. Raises ``FieldError``."""
    if len(octets) < 2:
        raise FieldError("a struct without a code")
    kind = tables.STRUCTS.get(octets[0] << 8 | octets[1])
    return None if kind is None else read_fields(kind, octets, 2, len(octets))


def write_struct(record: Any) -> bytes:
    """A struct32 without its size. Raises ``FieldError``."""
    kind = tables.BY_STRUCT[record.__class__]
    return _H.pack(kind.code) + write_fields(kind, record)


def struct_of(value: Any, kind: type[Any]) -> Any:
    """The struct of a result. Raises ``FieldError``."""
    if not isinstance(value, kind):
        raise FieldError(f"a command is complete without its {kind.__name__}")
    return value


def structs(header: bytes) -> Iterator[tuple[int, int, int]]:
    """The structs of a header segment: code, where the presence flags stand, where it ends. Raises
    ``FieldError``."""
    at, size = 0, len(header)
    while at < size:
        if size - at < 6:
            raise FieldError("the header segment is cut short")
        length, code = _IH.unpack_from(header, at)
        end = at + 4 + length
        if length < 2 or end > size:
            raise FieldError("a struct runs past its header segment")
        yield code, at + 6, end
        at = end


def coded(code: int, octets: bytes) -> bytes:
    """A struct of a header segment from its presence flags and fields."""
    return _IH.pack(len(octets) + 2, code) + octets
