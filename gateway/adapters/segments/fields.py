"""Fields of controls, commands and structs: helpers of the generated readers and writers."""

import struct
from struct import Struct

from gateway.adapters.segments.types import FieldError, Ranges

_B, _H, _I = Struct(">B"), Struct(">H"), Struct(">I")
_II, _QQ, _HII = Struct(">II"), Struct(">QQ"), Struct(">HII")

MOST_RANGES = 0xFFFF >> 3
"""Ranges in one sequence-set."""


def exactly(buf: bytes, at: int, width: int) -> bytes:
    """So many octets. Raises ``IndexError`` if there are less."""
    octets = buf[at : at + width]
    if len(octets) != width:
        raise IndexError
    return octets


def text8(value: str, where: str) -> bytes:
    """A str8. Raises ``FieldError``."""
    return octets8(value.encode("utf-8", "surrogateescape"), where)


def text16(value: str, where: str) -> bytes:
    """A str16. Raises ``FieldError``."""
    return octets16(value.encode("utf-8", "surrogateescape"), where)


def octets8(raw: bytes, where: str) -> bytes:
    """A vbin8. Raises ``FieldError``."""
    if len(raw) > 0xFF:
        raise FieldError(f"{where}: at most 255 octets, not {len(raw)}")
    return _B.pack(len(raw)) + raw


def octets16(raw: bytes, where: str) -> bytes:
    """A vbin16. Raises ``FieldError``."""
    if len(raw) > 0xFFFF:
        raise FieldError(f"{where}: at most 65535 octets, not {len(raw)}")
    return _H.pack(len(raw)) + raw


def octets32(raw: bytes, where: str = "") -> bytes:
    """A vbin32, map, list, array or struct32."""
    return _I.pack(len(raw)) + raw


def uuid(raw: bytes, where: str) -> bytes:
    """The octets of a uuid. Raises ``FieldError``."""
    if len(raw) != 16:
        raise FieldError(f"{where}: a uuid has 16 octets, not {len(raw)}")
    return raw


def read_set(buf: bytes, at: int) -> tuple[Ranges, int]:
    """A sequence-set and where it ends."""
    size = buf[at] << 8 | buf[at + 1]
    at += 2
    if size == 8:
        return ((int.from_bytes(buf[at : at + 4], "big"), _I.unpack_from(buf, at + 4)[0]),), at + 8
    if size & 7:
        raise FieldError(f"a sequence-set has pairs of 8 octets, not {size} octets")
    numbers = struct.unpack_from(f">{size >> 2}I", buf, at)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True)), at + size


def write_set(ranges: Ranges) -> bytes:
    """A sequence-set. Raises ``FieldError`` if there are more ranges than it can hold."""
    if len(ranges) == 1:
        return _HII.pack(8, *ranges[0])
    if len(ranges) > MOST_RANGES:
        raise FieldError(f"a sequence-set holds {MOST_RANGES} ranges, not {len(ranges)}")
    return _H.pack(len(ranges) << 3) + b"".join(_II.pack(*each) for each in ranges)


def read_byte_ranges(buf: bytes, at: int) -> tuple[Ranges, int]:
    """A byte-ranges and where it ends."""
    size = buf[at] << 8 | buf[at + 1]
    at += 2
    if size & 15:
        raise FieldError(f"byte-ranges are pairs of 16 octets, not {size} octets")
    numbers = struct.unpack_from(f">{size >> 3}Q", buf, at)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True)), at + size


def write_byte_ranges(ranges: Ranges) -> bytes:
    """A byte-ranges."""
    return _H.pack(len(ranges) << 4) + b"".join(_QQ.pack(*each) for each in ranges)
