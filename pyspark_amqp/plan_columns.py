"""Headers in another dialect, written by a plan (``gateway.crossing.plans``) for all rows of a
group at once. This module needs numpy and pyarrow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from gateway.crossing.plans import (
    Plan,
    Slot,
    Write,
    as_it_is,
    as_jms,
    as_urn,
    both,
    in_hexadecimal,
    in_milliseconds,
    in_seconds,
)
from pyspark_amqp.octets import (
    BINARY,
    EMPTY,
    WIDTHS,
    Matrix,
    binaries,
    hexadecimal,
    octets_of,
    signed,
    unsigned,
    written,
)

Piece = Any
"""Octets that are the same in all rows, or an Arrow array with those of each."""


def _behind(begin: bytes, matrix: Matrix) -> Matrix:
    head = np.frombuffer(begin, np.uint8)
    return np.concatenate((np.broadcast_to(head, (len(matrix), len(head))), matrix), axis=1)


TRANSFERS: dict[Write, tuple[int, Callable[[Matrix], Matrix]]] = {
    in_milliseconds: (8, lambda values: written(unsigned(values) * 1000)),
    in_seconds: (8, lambda values: written(unsigned(values) // 1000)),
    in_hexadecimal: (16, hexadecimal),
    as_urn: (16, lambda values: _behind(b"urn:uuid:", hexadecimal(values))),
    as_jms: (16, lambda values: _behind(b"ID:", hexadecimal(values))),
}
"""What they make of all rows, and the octets of a value. Others are called for each row."""


def headers(plan: Plan, values: list[Matrix], hop: tuple[Any, Any]) -> list[Piece]:
    """The pieces of which the header of each row consists. ``hop``: exchange and routing key, as
    Arrow arrays. Raises one of ``UNREAD``."""
    parts: list[list[Piece]] = [[part] for part in plan.parts]
    for slot in plan.slots:
        if slot.value >= len(values):
            parts[slot.at] = [_each(slot, hop[slot.value - len(values)])]
        else:
            parts[slot.at] = _pieces(slot, values[slot.value])
    for at, begin, end, size in plan.groups:
        sizes = sum(_size(piece) for part in parts[begin:end] for piece in part)
        if isinstance(sizes, int):
            parts[at] = [size(sizes)]
            continue
        known, which = np.unique(sizes, return_inverse=True)
        parts[at] = [_taken([size(one) for one in known.tolist()], which)]
    return merged([piece for part in parts for piece in part])


def merged(pieces: list[Piece]) -> list[Piece]:
    """With octets that follow one another joined."""
    found: list[Piece] = []
    for piece in pieces:
        if found and isinstance(piece, bytes) and isinstance(found[-1], bytes):
            found[-1] += piece
        elif piece != b"":
            found.append(piece)
    return found


def joined(pieces: list[Piece]) -> Any:
    """The octets of each row, of which one piece is an array at least."""
    given = [pa.scalar(one, BINARY) if isinstance(one, bytes) else one for one in pieces]
    return compute.binary_join_element_wise(*given, EMPTY)


def _size(piece: Piece) -> Any:
    """A number, or that of each row."""
    return len(piece) if isinstance(piece, bytes) else compute.binary_length(piece).to_numpy()


def _taken(known: list[bytes], which: Any) -> Any:
    return pa.array(known, BINARY).take(pa.array(which))


def _each(slot: Slot, texts: Any) -> Any:
    """Texts of which many are equal."""
    found = texts.dictionary_encode()
    write = both(slot.transfer, slot.write)
    known = [write(one) for one in found.dictionary.to_pylist()]
    return pa.array(known, BINARY).take(found.indices)


def _pieces(slot: Slot, values: Matrix) -> list[Piece]:
    size = values.shape[1]
    width, transfer = TRANSFERS.get(slot.transfer, (0, None))
    write, unchanged = both(slot.transfer, slot.write), slot.transfer is as_it_is
    if slot.sized and (unchanged or size == width):
        made = values if transfer is None else transfer(values)
        # They stand behind octets that depend on their size alone.
        first = write(values[0].tobytes())
        return [first[: len(first) - made.shape[1]], binaries(made)]
    if unchanged and size in WIDTHS:
        return narrowed(write, values)
    return [pa.array([write(one) for one in octets_of(values)], BINARY)]


def narrowed(write: Write, values: Matrix) -> list[Piece]:
    """Numbers of one of ``WIDTHS`` octets: small ones are perhaps written with fewer octets, all
    others stand unchanged behind the same ones."""
    numbers = signed(values)
    small = (numbers >= -128) & (numbers < 256)
    large = np.flatnonzero(~small)
    if len(large):
        first = write(values[large[0]].tobytes())
        begin = first[: len(first) - values.shape[1]]
        if len(large) == len(values):
            return [begin, binaries(values)]
    known, at = np.unique(numbers[small], return_index=True)
    octets = [write(one) for one in octets_of(values[small][at])]
    which: Any = np.empty(len(values), np.int64)
    which[small] = np.searchsorted(known, numbers[small])
    if not len(large):
        return [_taken(octets, which)]
    which[large] = len(octets) + np.arange(len(large))
    found = pa.concat_arrays([pa.array(octets, BINARY), binaries(_behind(begin, values[large]))])
    return [found.take(pa.array(which))]
