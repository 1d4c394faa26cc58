"""What is kept of bodies that are half here: in memory, in files, and from an earlier process."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from gateway import partial_bodies as staged
from gateway.bodies import LargeBody, Spool
from gateway.partial_bodies import MOST_OPEN, SMALL, PartialBodyStore

KEY = ("0.8a2", "/", "guest", "sender", "film")
HALF = os.urandom(SMALL)
WHOLE = HALF + os.urandom(2 * SMALL)


def bodies_in(folder: Path, **limits: int) -> PartialBodyStore:
    return PartialBodyStore(Spool(str(folder), threshold=3 * SMALL), folder / "staged", **limits)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "staged").glob("*"))


def half(partials: PartialBodyStore, key: staged.Key = KEY, digest: str = "") -> None:
    """Begun, and left."""
    item = partials.begin(key, len(WHOLE), digest)
    item.add(HALF)
    partials.leave(item)


@pytest.mark.parametrize("place", ["memory", "spool", "directory"])
@pytest.mark.parametrize("digest", ["", hashlib.sha1(WHOLE).hexdigest().upper()], ids=["", "sha1"])
def test_it_goes_on_where_it_was_left(tmp_path: Path, place: str, digest: str) -> None:
    spool = Spool(str(tmp_path), threshold=SMALL)
    partials = {
        "memory": PartialBodyStore(),
        "spool": PartialBodyStore(spool),
        "directory": bodies_in(tmp_path),
    }[place]
    half(partials, digest=digest)
    assert (partials.octets, partials.number, spool.files) == (
        SMALL,
        1,
        place == "spool",
    )
    item = partials.begin(KEY, len(WHOLE), digest)
    assert item.have == SMALL
    assert item.fault() == f"{SMALL} octets of {3 * SMALL} have come"
    item.add(WHOLE[SMALL:])
    assert not item.fault()
    body = partials.finish(item)
    assert isinstance(body, bytes if place == "memory" else LargeBody)
    assert body[:] == WHOLE
    assert (partials.octets, partials.number, partials.memory) == (0, 0, 0)
    assert not partials.kept and not partials.used
    del body
    assert spool.files == 0 and not files(tmp_path)


@pytest.mark.parametrize("digest", ["", hashlib.sha1(WHOLE).hexdigest()], ids=["", "sha1"])
def test_it_is_there_for_another_process(tmp_path: Path, digest: str) -> None:
    """Whether it was left or not, and again after that."""
    first = bodies_in(tmp_path)
    half(first, digest=digest)
    second = bodies_in(tmp_path)
    item = second.begin(KEY, len(WHOLE), digest)
    assert item.have == SMALL
    item.add(WHOLE[SMALL : 2 * SMALL])
    third = bodies_in(tmp_path)
    assert (third.octets, third.number) == (2 * SMALL, 1)
    item = third.begin(KEY, len(WHOLE), digest)
    item.add(WHOLE[2 * SMALL :])
    assert not item.fault() and third.finish(item)[:] == WHOLE
    assert not files(tmp_path) and third.octets == 0


def test_contents_that_are_not_those_of_the_digest(tmp_path: Path) -> None:
    digest = hashlib.sha1(WHOLE).hexdigest()
    half(bodies_in(tmp_path), digest=digest)
    (octets,) = (tmp_path / "staged").glob("*.part")
    octets.write_bytes(bytes(SMALL))
    partials = bodies_in(tmp_path)
    item = partials.begin(KEY, len(WHOLE), digest)
    item.add(WHOLE[SMALL:])
    assert "hash" in item.fault()
    partials.drop(item)
    assert not files(tmp_path)


def test_another_body_under_the_same_key_begins_anew(tmp_path: Path) -> None:
    partials = bodies_in(tmp_path)
    half(partials)
    item = partials.begin(KEY, len(WHOLE) + 1)
    assert item.have == 0 and partials.octets == 0 and not files(tmp_path)
    again = partials.begin(KEY, len(WHOLE) + 1)
    item.add(HALF)
    again.add(HALF[:-1])
    partials.leave(item)
    assert partials.kept == {}, "who began first leaves nothing"
    partials.leave(again)
    assert [kept.have for kept in partials.kept.values()] == [SMALL - 1] and len(
        files(tmp_path)
    ) == 2


def test_small_ones_get_their_file_when_they_are_cut_off(tmp_path: Path) -> None:
    partials = bodies_in(tmp_path)
    item = partials.begin(KEY, 100)
    item.add(b"0123")
    assert not files(tmp_path) and partials.memory == 4
    partials.leave(item)
    assert len(files(tmp_path)) == 2 and partials.memory == 0
    item = bodies_in(tmp_path).begin(KEY, 100)
    assert item.have == 4


def test_nothing_lasts_without_a_lasting_name(tmp_path: Path) -> None:
    partials = bodies_in(tmp_path)
    item = partials.begin(KEY, len(WHOLE), lasting=False)
    item.add(HALF)
    partials.leave(item)
    assert not files(tmp_path) and partials.begin(KEY, len(WHOLE), lasting=False).have == SMALL


def test_limits(tmp_path: Path) -> None:
    """The oldest without a sender make room; those with a sender do not."""
    partials = bodies_in(tmp_path, most_octets=4 * SMALL, most_items=3, keep_ms=1000)
    for name in "abcd":
        half(partials, (name,))
    assert [key for (key,) in partials.kept] == ["b", "c", "d"]
    item = partials.begin(("e",), 10 * SMALL)
    for _ in range(4):
        item.add(HALF)
    assert not partials.kept and len(files(tmp_path)) == 2
    with pytest.raises(OSError) as refused:
        item.add(b"x")
    assert refused.value.errno == errno.ENOSPC
    partials.drop(item)
    assert partials.octets == 0 and not files(tmp_path)
    working = [partials.begin((name,), len(WHOLE)) for name in "fghi"]
    for one in working[:3]:
        one.add(b"x" * 1000)
    with pytest.raises(OSError):
        working[3].add(b"x")
    for one in working:
        partials.leave(one)
    partials.tick(1001)
    assert not partials.kept and not files(tmp_path) and partials.octets == partials.number == 0


def test_limits_hold_for_files_found_at_start(tmp_path: Path) -> None:
    for name in "abc":
        half(bodies_in(tmp_path), (name,))
    now = 10**15
    assert bodies_in(tmp_path, most_items=2).number == 2
    assert bodies_in(tmp_path, most_octets=SMALL).octets == SMALL
    assert bodies_in(tmp_path, now=now).number == 0, "too old"
    assert not files(tmp_path)


def test_files_without_a_name_are_few() -> None:
    spool = Spool(threshold=100)
    partials = PartialBodyStore(spool)
    for number in range(MOST_OPEN + 3):
        item = partials.begin((str(number),), 200)
        item.add(b"x")
        partials.leave(item)
    assert spool.files == MOST_OPEN and len(partials.kept) == MOST_OPEN


def test_invalid_files_are_swept(tmp_path: Path) -> None:
    """Records that lie, octets of nobody, and all that was there when the machine stopped, unless a
    digest can tell."""
    digest = hashlib.sha1(WHOLE).hexdigest()
    half(bodies_in(tmp_path), ("hashed",), digest)
    half(bodies_in(tmp_path), ("plain",))
    for name in ("too short", "no size", "no octets", "no record"):
        half(bodies_in(tmp_path), (name,))
    for record in (tmp_path / "staged").glob("*.json"):
        said = json.loads(record.read_text())
        said["boot"] = "another"
        (name,) = said["key"]
        if name == "too short":
            said["size"] = SMALL - 1
        if name == "no size":
            del said["size"]
        record.write_text(json.dumps(said))
        if name == "no octets":
            record.with_suffix(".part").unlink()
        if name == "no record":
            record.unlink()
    (tmp_path / "staged" / "notes.txt").write_text("not ours")
    assert list(bodies_in(tmp_path).kept) == [("hashed",)]
    assert len(files(tmp_path)) == 3


def test_one_that_cannot_be_written_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "staged").write_text("this is no directory")
    partials = bodies_in(tmp_path)
    item = partials.begin(KEY, 100)
    item.add(b"x")
    partials.leave(item)
    assert not partials.kept and partials.octets == partials.memory == 0
    with pytest.raises(OSError):
        partials.begin(KEY, len(WHOLE)).add(b"x")
