"""A backup is restored whole or not at all, and only where nothing is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.backup.files import BackupError
from gateway.backup.making import make_backup
from gateway.backup.manifest import NAME
from gateway.backup.restoring import check_backup, restore_backup
from gateway.errors import StoreError
from gateway.store import SqliteStore
from gateway.store.schema import FORMAT, RESTORING
from tests.app.test_cli import refused, run, serve
from tests.backup.filled import Filled, segments_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[bytes]]]:
    """A backup, and the bodies in it."""
    folder = tmp_path_factory.mktemp("whole")
    filled = Filled(folder / "data")
    bodies = filled.fill()
    make_backup(filled.folder, segments_of(filled.folder), folder / "backup")
    filled.store.abandon()
    yield folder / "backup", bodies


def restore(backup: Path, data: Path) -> None:
    restore_backup(backup, data, segments_of(data))


def bodies(data: Path) -> list[bytes]:
    filled = Filled(data)
    try:
        return filled.bodies()
    finally:
        filled.store.abandon()


def test_a_directory_in_use(whole: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, synchronous="off")
    with pytest.raises(StoreError, match="another gateway uses this data directory"):
        restore(whole[0], tmp_path)
    store.close()
    with pytest.raises(BackupError, match="is not empty: move its files away"):
        restore(whole[0], tmp_path)
    # As `mv data/* elsewhere` leaves it, or without the lock.
    for left in ({"gateway.lock"}, set()):
        for name in set(os.listdir(tmp_path)) - left:
            os.remove(tmp_path / name)
        restore(whole[0], tmp_path)
        assert bodies(tmp_path) == whole[1]
        for folder in ("large", "blocks"):
            for file in (tmp_path / folder).iterdir():
                file.unlink()
            (tmp_path / folder).rmdir()


def test_a_directory_of_something_else(whole: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    refused(run("restore", whole[0], "--data-dir", tmp_path), "is not empty")
    with pytest.raises(StoreError, match="Not a directory"):
        restore(whole[0], tmp_path / "thesis.tex")
    assert os.listdir(tmp_path) == ["thesis.tex"]
    segments = tmp_path / "segments"
    segments.mkdir()
    (segments / "one").touch()
    with pytest.raises(BackupError, match="segments is not empty"):
        restore_backup(whole[0], tmp_path / "data", segments)
    assert os.listdir(tmp_path / "data") == ["gateway.lock"]


def test_an_interrupted_restore_is_done_again(
    whole: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    """Until then nothing else uses the directory."""
    data = tmp_path / "data"
    data.mkdir()
    for name in (RESTORING, "gateway.lock", "gateway.db"):
        (data / name).touch()
    (data / "large").mkdir()
    (data / "large" / "1").write_bytes(b"half of")
    refused(run(*serve(tmp_path)), "restoring of a backup has not ended", "amqp-gateway restore")
    refused(run("user", "list", "--data-dir", data), "restoring of a backup has not ended")
    restore(whole[0], data)
    assert RESTORING not in os.listdir(data) and bodies(data) == whole[1]


def copy_of(backup: Path, folder: Path) -> Path:
    """To be damaged."""
    for file in backup.rglob("*"):
        if file.is_file():
            copy = folder / file.relative_to(backup)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize("name", ["gateway.db", "large/1", "blocks/1"])
@pytest.mark.parametrize("change", ["turned", "cut", "gone"])
def test_damaged_files(
    whole: tuple[Path, list[bytes]], tmp_path: Path, name: str, change: str
) -> None:
    copy = copy_of(whole[0], tmp_path / "copy")
    octets = bytearray((copy / name).read_bytes())
    if change == "gone":
        (copy / name).unlink()
    else:
        octets[len(octets) // 2] ^= 1
        (copy / name).write_bytes(octets[:-1] if change == "cut" else octets)
    for step in (check_backup, lambda it: restore(it, tmp_path / "data")):
        with pytest.raises((BackupError, StoreError), match=f"{name}.* is damaged|No such file"):
            step(copy)
    if (tmp_path / "data").exists():
        assert os.listdir(tmp_path / "data") == ["gateway.lock"]


def changed(backup: Path, **values: Any) -> None:
    given = json.loads((backup / NAME).read_text())
    (backup / NAME).write_text(json.dumps(given | values))


def test_damaged_manifests(whole: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    copy = copy_of(whole[0], tmp_path / "copy")
    size = {"octets": 1, "sha256": ""}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"form": 2}, "the newer gateway"),
        ({"form": "x"}, "is damaged"),
        ({"files": []}, "is damaged"),
        ({"rows": {"messages": "many"}}, "is damaged"),
        ({"store_format": FORMAT + 1}, f"store format {FORMAT + 1}; .* the newer gateway"),
        *(
            ({"files": {name: size}}, "is not the name of a file of a backup")
            for name in ("/etc/passwd", "../data", "large/../../x", "", ".", "a//b")
        ),
    ]
    whole_text = (copy / NAME).read_text()
    for values, words in wrong:
        (copy / NAME).write_text(whole_text)
        changed(copy, **values)
        with pytest.raises(BackupError, match=words):
            restore(copy, tmp_path / "data")
    for text in ("", "[]", "null", "{", "[" * 100_000):
        (copy / NAME).write_text(text)
        with pytest.raises(BackupError, match="is damaged"):
            restore(copy, tmp_path / "data")
    (copy / NAME).unlink()
    refused(run("restore", copy, "--data-dir", tmp_path / "data"), "is not a whole backup")
    refused(run("restore", copy, "--check"), "is not a whole backup")
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others"
)
def test_what_root_restores_belongs_to_the_gateway(
    whole: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 12345, 12346)
    restore(whole[0], data)
    found = {(path.stat().st_uid, path.stat().st_gid) for path in data.rglob("*")}
    assert found == {(12345, 12346)}
