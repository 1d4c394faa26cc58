"""Values of many messages at once, as matrices of octets: a row for each message, a column for each
octet, so that all values have one width. This module needs numpy and pyarrow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gateway.journal.canonical import UNSIGNED

Matrix = Any
"""Of numpy's type ``uint8``, with two dimensions."""
BINARY = pa.binary()
EMPTY = pa.scalar(b"", BINARY)
DIGITS = np.frombuffer(b"".join(b"%02x" % octet for octet in range(256)), np.uint8).reshape(256, 2)
"""The two digits of each octet."""
WIDTHS = (1, 2, 4, 8)
"""Of numbers that numpy has."""


def one_chunk(column: Any) -> Any:
    """A column of a table as one array, without a copy if that is what it is."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def content(column: Any) -> tuple[Any, Any, Any]:
    """Where each value of a binary or text column without nulls begins and ends, and the octets of
    all."""
    _, offsets, octets = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return ends[:-1], ends[1:], np.frombuffer(octets or b"", np.uint8)


def in_order(rows: list[Any], parts: list[Any]) -> Any:
    """The arrays ``parts`` as one. ``rows`` of each has where its values belong, in order; of the
    same row the first comes first."""
    parts = [one for one in parts if len(one)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))


def rows_at(octets: Any, starts: Any, size: int) -> Matrix:
    """The matrix of the values of this size, which is not 0, that begin there."""
    return np.lib.stride_tricks.sliding_window_view(octets, size)[starts]


def binaries(matrix: Matrix) -> Any:
    """The Arrow array of the rows."""
    count, width = matrix.shape
    ends = np.arange(0, count * width + 1, width or 1, dtype=np.int32)
    ends = ends if width else np.zeros(count + 1, np.int32)
    matrix = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(matrix)])


def octets_of(matrix: Matrix) -> list[bytes]:
    """The rows one by one."""
    found: list[bytes] = binaries(matrix).to_pylist()
    return found


def unsigned(matrix: Matrix) -> Any:
    """Numbers of one of ``WIDTHS``, highest octet first."""
    kind = np.dtype(f">u{matrix.shape[1]}")
    return np.ascontiguousarray(matrix).view(kind)[:, 0].astype(np.uint64)


def signed(matrix: Matrix) -> Any:
    kind = np.dtype(f">i{matrix.shape[1]}")
    return np.ascontiguousarray(matrix).view(kind)[:, 0].astype(np.int64)


def written(numbers: Any) -> Matrix:
    """Numbers of eight octets each, as ``unsigned`` reads them."""
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def hexadecimal(matrix: Matrix) -> Matrix:
    """Rows of 16 octets as a UUID is written."""
    digits = DIGITS[matrix].reshape(-1, 32)
    found: Matrix = np.full((len(matrix), 36), ord("-"), np.uint8)
    for start, end, shift in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        found[:, start + shift : end + shift] = digits[:, start:end]
    return found


# --- forms of values in columns -------------------------------------------------------------------


def texts(matrix: Matrix, kind: Any) -> Any:
    """Raises ``pyarrow.ArrowInvalid`` for one that is no text."""
    return binaries(matrix).cast(kind)


def uuids(matrix: Matrix, kind: Any) -> Any:
    return texts(hexadecimal(matrix), kind)


def numbers(is_signed: bool, scale: int) -> Callable[[Matrix, Any], Any]:
    """Numbers within the range of the columns of numbers, or their digits in one of texts."""

    def made(matrix: Matrix, kind: Any) -> Any:
        found = signed(matrix) if is_signed else unsigned(matrix)
        if is_signed or (scale == 1 and pa.types.is_string(kind)):
            return pa.array(found).cast(kind)
        large = found > UNSIGNED // scale
        if not large.any():
            return pa.array((found * scale).astype(np.int64)).cast(kind)
        if pa.types.is_string(kind):
            return pa.array([str(one * scale) for one in found.tolist()], kind)
        return pa.array(np.where(large, UNSIGNED, found * scale).astype(np.int64)).cast(kind)

    return made


def reals(matrix: Matrix, kind: Any) -> Any:
    real = np.dtype(f">f{matrix.shape[1]}")
    found = np.ascontiguousarray(matrix).view(real)[:, 0].astype(np.float64)
    return pa.array(list(map(str, found.tolist())), kind)
