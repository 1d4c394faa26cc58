"""Sizes and counts that claim more than the octets that came: no decoder believes them."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from gateway.adapters.commands import types as of_commands
from gateway.adapters.methods import types as of_methods
from gateway.adapters.methods.drafts import types as of_drafts
from gateway.adapters.methods.transitional import types as transitional
from gateway.adapters.performatives import decoding as of_performatives
from gateway.adapters.segments import decoding as of_segments

CLAIMS = (0xFFFFFFF0, 0x00FFFFFF, 0x7FFF)
COUNTS = (0xFFFFFFFF, 1 << 22, 9000)
WORTH = 200_000
"""Octets of memory, for input of a hundred."""


def sized(count: int, code: int, size: int, rest: bytes) -> bytes:
    return size.to_bytes(4) + count.to_bytes(4) + bytes((code,)) + rest


def arrays_of_1_0(code: int) -> Iterator[bytes]:
    for size in CLAIMS:
        for count in COUNTS:
            for rest in (b"", bytes(40), b"\xff" * 40):
                yield b"\xf0" + sized(count, code, size, rest)
                yield b"\xf0" + sized(count, 0, size, b"\x53\x01" + bytes((code,)) + rest)
                yield b"\xd0" + sized(count, code, size, rest)
                yield b"\xd1" + sized(count & ~1, code, size, rest)


def maps_of_0_10(code: int) -> Iterator[bytes]:
    for size in CLAIMS:
        for count in COUNTS:
            for rest in (b"", bytes(40), b"\xff" * 40):
                array = size.to_bytes(4) + bytes((code,)) + count.to_bytes(4) + rest
                yield b"\0\0\0\1\1a\xaa" + array
                yield b"\0\0\0\1\1a\xa9" + sized(count, code, size, rest)
                yield b"\0\0\0\1\1a\xa8" + sized(count, 1, size, b"b" + bytes((code,)) + rest)
                yield count.to_bytes(4) + b"\1a" + bytes((code,)) + rest


def tables(code: int) -> Iterator[bytes]:
    for size in CLAIMS:
        for rest in (b"", bytes(40), b"\xff" * 40, b"\1a" + bytes((code,)) * 40):
            yield b"\1a" + bytes((code,)) + size.to_bytes(4) + rest
            for nested in (b"F", b"A", b"\xa8", b"\xa9", b"\xaa"):
                yield b"\1a" + nested + size.to_bytes(4) + bytes((code,)) + size.to_bytes(4) + rest


READERS: dict[str, tuple[Callable[[bytes], Any], Callable[[int], Iterator[bytes]]]] = {
    "1.0": (of_performatives.decode, arrays_of_1_0),
    "0-10": (of_segments.read_map, maps_of_0_10),
    "0-9-1": (of_methods.read_table, tables),
    "0-9a6": (lambda octets: of_drafts.read_table(octets, False), tables),
    "0-9a0": (lambda octets: of_drafts.read_table(octets, True), tables),
    "transitional": (transitional.read_table, tables),
    "0.8a2": (of_commands.read_table, tables),
}


@pytest.mark.parametrize("version", READERS)
def test_claims_cost_nothing(version: str) -> None:
    read, inputs = READERS[version]
    worst = 0
    for code in range(256):
        for octets in inputs(code):
            tracemalloc.start()
            try:
                with suppress(ValueError):  # FieldError of every family
                    read(octets)
                worst = max(worst, tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            assert worst < WORTH, octets.hex()
