"""A backup has one moment of a data directory, whatever happens to it meanwhile."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway.backup.files import BackupError
from gateway.backup.making import Backup, make_backup
from gateway.backup.manifest import read_manifest
from gateway.backup.moment import Moment
from gateway.backup.restoring import check_backup, restore_backup
from gateway.bridge.migration.journal import Journal
from gateway.errors import StoreError
from gateway.journal.consumers import Consumer, Consumers
from gateway.journal.segments import file_name
from gateway.store.schema import FORMAT
from tests.app.test_cli import refused, run
from tests.backup.filled import Filled, segments_of
from tests.crash.test_full_disk import OWN_DISKS, own_disks
from tests.net.preloaded import ROOT
from tests.net.running import environment


def restored(backup: Path, data: Path) -> Filled:
    restore_backup(backup, data, segments_of(data))
    return Filled(data)


def test_all_is_there_again(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "data")
    wanted = filled.fill()
    (filled.folder / "cursor.key").write_bytes(b"sealed")
    assert len(filled.files()) == 4
    made = make_backup(filled.folder, segments_of(filled.folder), tmp_path / "backup")
    assert check_backup(tmp_path / "backup") == read_manifest(tmp_path / "backup") == made
    assert made.journal == filled.broker.state.journal.id and made.position == 23
    assert filled.files() | {"gateway.db", "cursor.key"} == made.files.keys()
    copies = [tmp_path / "backup", *(tmp_path / "backup").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in copies} == {0}
    # What is done afterwards is not in it.
    filled.empty()
    filled.publish(b"later")
    again = restored(tmp_path / "backup", tmp_path / "again")
    assert again.bodies() == again.recorded() == wanted
    assert (again.folder / "cursor.key").read_bytes() == b"sealed"
    again.publish(b"next")
    assert again.bodies() == again.recorded() == [*wanted, b"next"]


def test_files_that_are_removed_while_they_are_copied(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "data")
    wanted = filled.fill()
    target = tmp_path / "backup"
    target.mkdir()
    with closing(Moment(filled.folder)) as moment:
        moment.begin()
        filled.empty()
        assert filled.files() == set()
        filled.fill(b"later")
        Backup(moment, segments_of(filled.folder), target).write({})
    again = restored(target, tmp_path / "again")
    assert again.bodies() == again.recorded() == wanted


class Disturbed(Moment):
    """Something happens between the two steps in which files are opened."""

    def __init__(self, directory: Path, *meanwhile: Callable[[], None]) -> None:
        self.meanwhile = list(meanwhile)
        super().__init__(directory)

    def _open_all(self) -> int:
        known = super()._open_all()
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return known


def disturbed(directory: Path, target: Path, *meanwhile: Callable[[], None]) -> None:
    target.mkdir()
    with closing(Disturbed(directory, *meanwhile)) as moment:
        moment.begin()
        assert moment.meanwhile == []
        Backup(moment, segments_of(directory), target).write({})


def test_files_that_come_while_others_are_opened(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "data")
    wanted = filled.fill()
    disturbed(filled.folder, tmp_path / "backup", lambda: wanted.extend(filled.fill(b"more")))
    again = restored(tmp_path / "backup", tmp_path / "again")
    assert again.bodies() == again.recorded() == wanted and len(wanted) == 46


def test_numbers_of_files_that_are_used_again(tmp_path: Path) -> None:
    """By a gateway that begins meanwhile, for another body."""
    lives = [Filled(tmp_path / "data")]
    lives[0].fill()
    wanted: list[bytes] = []
    before = lives[0].files()

    def begin() -> None:
        lives[0].empty()
        lives[0].store.close()
        lives.append(Filled(tmp_path / "data"))
        wanted.extend(lives[1].fill(b"other"))
        assert lives[1].files() & before >= {"large/1"}

    disturbed(tmp_path / "data", tmp_path / "backup", begin)
    assert restored(tmp_path / "backup", tmp_path / "again").bodies() == wanted
    lives[1].store.abandon()


def test_segments_and_consumers_of_this_moment(tmp_path: Path) -> None:
    """Positions from the end of the backup on will be given to other entries."""
    filled = Filled(tmp_path / "data")
    filled.publish(*(b"%d" % number for number in range(5)))
    segments = segments_of(filled.folder)
    names = [file_name(0, 3), file_name(3, 5), file_name(3, 5, 1), file_name(5, 9)]
    names += [f"bodies/{position:020d}" for position in (1, 4, 7)] + [f"{3:020d}.part"]
    (segments / "bodies").mkdir(parents=True)
    for name in names:
        (segments / name).write_text(name)
    reader = Consumer("report", filled.broker.state.journal.id, 0, 4)
    Consumers(segments).begin(reader)
    Consumers(segments).begin(reader._replace(vhost="a/b"))
    made = make_backup(filled.folder, segments, tmp_path / "backup")
    found = {name.removeprefix("journal/") for name in made.files if name.startswith("journal/")}
    wanted = {names[0], names[2], names[4], names[5]}
    assert found == {*wanted, "consumers/report.json", "consumers/@a%2Fb/report.json"}
    # Segments may stand elsewhere.
    elsewhere = tmp_path / "elsewhere"
    restore_backup(tmp_path / "backup", tmp_path / "again", elsewhere)
    assert not segments_of(tmp_path / "again").exists()
    assert all((elsewhere / name).read_text() == name for name in wanted)
    assert [one.position for one in Consumers(elsewhere).all()] == [4, 4]


def test_moves_are_in_it(tmp_path: Path) -> None:
    """The file in which a gateway keeps the moves between brokers, while it is open."""
    filled = Filled(tmp_path / "data")
    moves = Journal(filled.folder / "moves.db")
    assert make_backup(
        filled.folder, segments_of(filled.folder), tmp_path / "backup"
    ).files.keys() == {"gateway.db", "moves.db"}
    restored(tmp_path / "backup", tmp_path / "again").store.abandon()
    again = Journal(tmp_path / "again" / "moves.db")
    assert again.key == moves.key
    moves.close()
    again.close()


def test_it_is_made_of_a_stopped_gateway_too(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "data")
    wanted = filled.fill()
    filled.store.close()
    before = sorted(os.listdir(filled.folder))
    done = run("backup", tmp_path / "backup", "--data-dir", filled.folder)
    assert done.returncode == 0, done.stderr
    assert "5 files, " in done.stdout and "journal " in done.stdout
    assert sorted(os.listdir(filled.folder)) == before
    shown = run("restore", tmp_path / "backup", "--check", "--json").stdout
    told = json.loads(shown)
    assert (told["files"], told["position"], told["store_format"]) == (5, 23, FORMAT)
    assert restored(tmp_path / "backup", tmp_path / "again").bodies() == wanted


def test_refusals(tmp_path: Path) -> None:
    data = tmp_path / "data"
    filled = Filled(data)
    filled.publish(b"one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refusals = [
        (data, tmp_path / "full", "is not empty"),
        (data, tmp_path / "full" / "file", "is not empty"),
        (data, data / "backup", "must be elsewhere"),
        (tmp_path / "nothing", tmp_path / "backup", "no gateway.db"),
    ]
    for source, target, words in refusals:
        with pytest.raises(BackupError, match=words):
            make_backup(source, segments_of(source), target)
    filled.store.close()
    for version, words in ((FORMAT + 1, "the newer gateway"), (FORMAT - 1, "start it once")):
        with closing(sqlite3.connect(data / "gateway.db")) as database:
            database.execute(f"PRAGMA user_version={version}")
        with pytest.raises(BackupError, match=f"store format {version}.*{words}"):
            make_backup(data, segments_of(data), tmp_path / "backup")
    for octets, words in ((b"x" * 8192, "not a database"), (b"", "not the database of a gateway")):
        (data / "gateway.db").write_bytes(octets)
        with pytest.raises((BackupError, StoreError), match=words):
            make_backup(data, segments_of(data), tmp_path / "backup")
    assert os.listdir(tmp_path / "full") == ["file"] and not (tmp_path / "backup").exists()
    done = run("backup", tmp_path / "backup", "--data-dir", data)
    refused(done, "not the database of a gateway")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "data")
    filled.fill()
    (filled.folder / "large" / "2").unlink()
    for target in (tmp_path / "new", tmp_path / "empty"):
        if target.name == "empty":
            target.mkdir()
        with pytest.raises(BackupError, match="large/2 is missing"):
            make_backup(filled.folder, segments_of(filled.folder), target)
    assert not (tmp_path / "new").exists() and os.listdir(tmp_path / "empty") == []


def test_a_disk_that_is_short(tmp_path: Path) -> None:
    if not own_disks():
        pytest.skip("no small disk can be mounted here (unshare --user --mount)")
    filled = Filled(tmp_path / "data")
    filled.fill()
    filled.store.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=8m tmpfs {disk}"
    command = f"{sys.executable} -m gateway backup {disk}/backup --data-dir {filled.folder}"
    done = subprocess.run(
        [*OWN_DISKS, "sh", "-c", f"{mount} && {command}; echo $?; ls -A {disk}"],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert f"{disk}/backup has no room" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == "2\n"
