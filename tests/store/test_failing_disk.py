"""Files beside the database, on a disk that fails and is well again."""

import errno
import os
import stat
from pathlib import Path

import pytest

from gateway.bodies import Spool
from gateway.errors import StoreError
from gateway.journal.consumers import Consumer, Consumers
from gateway.store import SqliteStore
from tests.journal.recording import Recording
from tests.store.samples import message
from tests.test_bodies import spooled


class FailingSyncs:
    """The disk fails at the sync of a directory with this name, the given number of times."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str, times: int) -> None:
        self.name, self.times = name, times
        self.synced = 0
        """Syncs of that directory that went well."""
        self._sync = os.fsync
        patch.setattr(os, "fsync", self.sync)

    def sync(self, descriptor: int) -> None:
        is_it = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name == self.name
        if is_it and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            if self.times:
                self.times -= 1
                raise OSError(errno.EIO, "a failing disk")
            self.synced += 1
        self._sync(descriptor)


def publish(recording: Recording, octet: bytes, count: int = 100) -> list[bytes]:
    given = [octet * 1000] * count
    for body in given:
        recording.channel.publish(message(body, b"", "", "orders"))
    recording.broker.end_turn()
    return given


def bodies(recording: Recording) -> list[bytes]:
    return [bytes(one.message.body[:]) for one in recording.entries()]


def test_a_batch_written_again_stands_where_it_stood(tmp_path: Path) -> None:
    """Its blocks are not appended once more with each attempt on a full disk."""
    recording = Recording(tmp_path)
    given = publish(recording, b"a")
    recording.commit()
    [file] = (tmp_path / "blocks").iterdir()
    connection = recording.store.writer.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}").fetchone()
    given += publish(recording, b"b", 20_000)
    batch = recording.store.take()
    assert batch is not None
    sizes = []
    for _ in range(4):
        with pytest.raises(StoreError, match="full"):
            recording.store.write(batch)
        sizes.append(file.stat().st_size)
    assert len(set(sizes)) == 1
    connection.execute("PRAGMA max_page_count=1000000").fetchone()
    recording.store.write(batch)
    recording.broker.committed(batch.mark)
    given += publish(recording, b"c")
    recording.commit()
    assert bodies(recording) == given
    assert file.stat().st_size < sum(map(len, given)) * 1.1
    recording = recording.again()
    assert bodies(recording) == given


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system lists no open files")
@pytest.mark.parametrize("folder", ["blocks", "data"])
def test_names_of_block_files_are_synced_in_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    recording = Recording(tmp_path / "data")
    given = publish(recording, b"a")
    batch = recording.store.take()
    assert batch is not None
    syncs = FailingSyncs(monkeypatch, folder, 2)
    for _ in range(2):
        with pytest.raises(StoreError, match="a failing disk"):
            recording.store.write(batch)
    recording.store.write(batch)
    assert syncs.synced == 1
    assert bodies(recording) == given


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system lists no open files")
def test_the_name_of_the_directory_of_large_bodies_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "data")
    store.append(1, 1, message(spooled(Spool(str(tmp_path)), b"large")), None, True)
    batch = store.take()
    assert batch is not None
    syncs = FailingSyncs(monkeypatch, "data", 1)
    with pytest.raises(StoreError, match="a failing disk"):
        store.write(batch)
    store.write(batch)
    assert syncs.synced == 1
    store.abandon()


def test_a_failing_disk_does_not_keep_the_directory_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path)
    publish(recording, b"a")
    batch = recording.store.take()
    assert batch is not None

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "a failing disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreError, match="a failing disk"):
            recording.store.write(batch)
        recording.store.abandon()
    SqliteStore(tmp_path).abandon()


def test_a_consumer_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Consumers(tmp_path)
    kept.begin(Consumer("report", "j", 3, 3, 1000))

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "a full disk")

    monkeypatch.setattr(os, "fsync", fail)
    for _ in range(3):
        with pytest.raises(OSError, match="a full disk"):
            kept.advance("report", 7)
    assert [file.name for file in (tmp_path / "consumers").iterdir()] == ["report.json"]
