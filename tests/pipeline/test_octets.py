"""What is made of many values at once equals what is made of each."""

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("numpy", reason="needs the extra `spark`")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.crossing.notations import SINCE_0_8
from gateway.crossing.section_shapes import SECTIONS_NOTATION
from pyspark_amqp.header_groups import SURE
from pyspark_amqp.octets import octets_of
from pyspark_amqp.plan_columns import TRANSFERS, joined, narrowed
from pyspark_amqp.property_learning import FORMS
from tests.drawing import examples

pytestmark = pytest.mark.extras

BEGINNINGS = (b"", b"ID:", b"AMQP_", b"urn:uuid:", b"A", b"\xc3", b"\0\0\0\0\0\0\0", b"\xff" * 7)
UUIDS = (b"ID:01234567-89ab-cdef-0123-456789abcdef", b"ID:01234567-89ab-cdef-0123-456789abcdeg")


def values(draw: random.Random, size: int) -> list[bytes]:
    """Of this size, with beginnings that mean something, and at the limits of numbers."""
    found = [draw.randbytes(size) for _ in range(3)]
    for begin in BEGINNINGS:
        text = bytes(draw.choices(b"abc019-:", k=size))
        found += [(begin + text)[:size], (begin + draw.randbytes(size))[:size]]
    found += [one for one in UUIDS if len(one) == size]
    whole = 1 << 8 * size
    found += [
        (limit % whole).to_bytes(size) for limit in (0, 1, -1, -128, -129, 127, 128, 255, 256)
    ]
    return found


def matrix_of(given: list[bytes]) -> Any:
    return np.frombuffer(b"".join(given), np.uint8).reshape(len(given), -1)


SIZES = st.sampled_from([1, 2, 3, 4, 8, 9, 16, 20, 39])


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 1 << 32), size=SIZES)
def test_forms(seed: int, size: int) -> None:
    drawn = values(random.Random(seed), size)
    for form in FORMS:
        expected = {}
        for one in drawn:
            try:
                expected[one] = form.one(one)
            except ValueError:
                with pytest.raises(pa.ArrowInvalid):
                    form.array(matrix_of([one]), pa.string())
        kind = pa.string() if isinstance(next(iter(expected.values()), ""), str) else pa.int64()
        if None in expected.values() or not expected:  # not of the size of a real number
            continue
        found = form.array(matrix_of(list(expected)), kind)
        assert found.to_pylist() == list(expected.values())


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_transfers(seed: int) -> None:
    for write, (size, many) in TRANSFERS.items():
        drawn = values(random.Random(seed), size)
        assert octets_of(many(matrix_of(drawn))) == [write(one) for one in drawn]


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 1 << 32), part=st.sampled_from([slice(None), slice(9), slice(9, None)]))
def test_numbers_that_are_narrowed(seed: int, part: slice) -> None:
    """All of them, some, and none."""
    for token in SECTIONS_NOTATION.narrowed:
        write = SECTIONS_NOTATION.writers[token]
        size = len(SECTIONS_NOTATION.stand_in(token, 0, 0, False))
        drawn = values(random.Random(seed), size)
        drawn.sort(key=lambda one: len(write(one)))
        drawn = drawn[part]
        pieces = narrowed(write, matrix_of(drawn))
        assert joined(pieces).to_pylist() == [write(one) for one in drawn]


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 1 << 32), size=SIZES)
def test_what_passes_for_certain_passes(seed: int, size: int) -> None:
    drawn = values(random.Random(seed), size)
    for check, sure in SURE.items():
        for one, found in zip(drawn, sure(matrix_of(drawn)), strict=True):
            assert check(one) or not found


def test_checks_that_are_known() -> None:
    """Texts and usual ids of every version are not looked at one by one."""
    for notation in SINCE_0_8.values():
        known = [
            SURE[one](matrix_of([b"order-1"]))[0]
            for one in set(notation.checks.values()) & SURE.keys()
        ]
        assert any(known)
