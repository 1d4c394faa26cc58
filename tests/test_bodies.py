"""Large bodies and the spool they come from."""

import errno
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bodies import JOINED, SMALL, WRITE_FROM, IncomingBody, LargeBody, Pieces, Spool, cut


def spooled(spool: Spool, *pieces: bytes) -> LargeBody:
    filling = spool.start()
    assert filling is not None
    for piece in pieces:
        filling.add(piece)
    return filling.finish()


@given(st.lists(st.sampled_from([0, 1, 7, SMALL - 1, SMALL, JOINED + 1]), max_size=9))
def test_pieces_are_all_their_octets(sizes: list[int]) -> None:
    pieces = Pieces()
    given = [bytes([at]) * size for at, size in enumerate(sizes)]
    for octets in given:
        pieces.add(octets)
    assert pieces.joined() == b"".join(given) and pieces.size == sum(sizes)
    assert type(pieces.joined()) is bytes
    pieces.clear()
    assert pieces.joined() == b"" and pieces.size == 0


@pytest.mark.parametrize("large", [False, True])
def test_many_small_pieces_take_as_much_memory_as_their_octets(large: bool) -> None:
    """Three octets of their own are an object of 36, and a reference of 8."""
    body = IncomingBody(300_000, Spool().start() if large else None)
    tracemalloc.start()
    try:
        for number in range(100_000):
            body.add(b"%03d" % (number % 1000))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 2 * 300_000
    assert len(body.finish()) == 300_000


@given(
    st.lists(st.binary(max_size=200), max_size=20),
    st.tuples(st.integers(-300, 300), st.integers(-300, 300)),
)
def test_slices_are_those_of_the_octets(pieces: list[bytes], ends: tuple[int, int]) -> None:
    octets = b"".join(pieces)
    body = spooled(Spool(), *pieces)
    first, last = ends
    assert len(body) == len(octets)
    assert body[:] == octets
    assert body[first:last] == octets[first:last]
    part = cut(body, first, last)
    assert isinstance(part, LargeBody)
    assert part[:] == octets[first:last]
    assert part.part(3, 50)[1:] == octets[first:last][3:50][1:]
    assert b"".join(body.chunks(7)) == octets


def test_files_have_no_name_and_go_with_the_last_reference(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    octets = os.urandom(3 * WRITE_FROM + 5)
    body = spooled(spool, octets[:10], octets[10:])
    assert not list(tmp_path.iterdir())
    assert (spool.octets, spool.files) == (len(octets), 1)
    part = body.part(5, 20)
    descriptor = body.file.descriptor
    del body
    assert part[:] == octets[5:20]
    assert spool.files == 1
    del part
    assert (spool.octets, spool.files) == (0, 0)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


def test_abandoned_bodies_take_no_room() -> None:
    spool = Spool(most_octets=100)
    filling = spool.start(100)
    assert filling is not None
    filling.add(bytes(80))
    with pytest.raises(OSError) as refused:
        filling.add(bytes(21))
    assert refused.value.errno == errno.ENOSPC
    with pytest.raises(OSError):
        spool.start(21)
    filling.abandon()
    assert spool.octets == 0
    assert len(spooled(spool, bytes(100))) == 100


def test_without_files_to_spare_there_is_none() -> None:
    spool = Spool(most_files=1)
    body = spooled(spool, b"x")
    assert spool.start() is None
    del body
    assert spool.start() is not None


def test_a_file_that_became_shorter() -> None:
    body = spooled(Spool(), bytes(100))
    os.ftruncate(body.file.descriptor, 50)
    with pytest.raises(OSError, match="shorter"):
        body[:]
