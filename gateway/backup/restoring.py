"""Restores a backup into a data directory that is not used.

The file ``restoring`` is there from the first octet to the last, and a gateway does not start
beside it. So a restore that was interrupted is done again, and never taken for a whole one.
"""

import os
import shutil
import sys
from pathlib import Path

from gateway.backup.files import BackupError, checksum, pieces_of, sync_folders, write_file
from gateway.backup.making import SPARE, clear
from gateway.backup.manifest import Manifest, read_manifest
from gateway.journal.reader import SEGMENTS
from gateway.journal.segments import sync
from gateway.store.schema import FORMAT, LOCK, RESTORING, disk_errors, take_lock


def check_backup(source: Path) -> Manifest:
    """Compare all files of a backup with their checksums. Raises ``BackupError`` and
    ``StoreError``."""
    manifest = read_manifest(source)
    with disk_errors(f"cannot check {source}"):
        for name, wanted in manifest.files.items():
            if checksum(source / name) != wanted:
                raise damaged(source / name)
    return manifest


def damaged(file: Path) -> BackupError:
    return BackupError(f"{file} is damaged: it is not what the manifest says")


def restore_backup(source: Path, data_dir: Path, journal_dir: Path) -> Manifest:
    """Copy a backup into a new or empty data directory; sealed segments into ``journal_dir``.
    Raises ``BackupError`` and ``StoreError``; then nothing was restored."""
    manifest = read_manifest(source)
    if manifest.store_format > FORMAT:
        raise BackupError(
            f"{source} has store format {manifest.store_format}; this gateway knows formats up to"
            f" {FORMAT}: use the newer gateway that wrote it"
        )
    with disk_errors(f"cannot restore {source}"):
        for name, wanted in manifest.files.items():
            if (source / name).stat().st_size != wanted.octets:
                raise damaged(source / name)
        found = set(os.listdir(data_dir)) if data_dir.exists() else set()
        if found and LOCK not in found:
            raise not_empty(data_dir)
        lock = take_lock(data_dir)
        try:
            found = set(os.listdir(data_dir)) - {LOCK}
            if found and RESTORING not in found:
                raise not_empty(data_dir)
            Restoring(source, data_dir, journal_dir, manifest).run(again=bool(found))
        finally:
            os.close(lock)
    return manifest


def not_empty(data_dir: Path) -> BackupError:
    return BackupError(
        f"{data_dir} is not empty: move its files away, or name another directory with --data-dir"
    )


class Restoring:
    """Copies files while ``data_dir`` is locked. All methods raise ``OSError`` and
    ``BackupError``."""

    def __init__(self, source: Path, data_dir: Path, journal_dir: Path, manifest: Manifest) -> None:
        self.source = source
        self.data_dir = data_dir
        self.manifest = manifest
        self.targets = {name: data_dir / name for name in manifest.files}
        self.journal_dir = journal_dir
        """Of sealed segments; in the data directory, or elsewhere."""
        for name in manifest.files:
            folder, _, rest = name.partition("/")
            if folder == SEGMENTS:
                self.targets[name] = journal_dir / rest

    def run(self, again: bool) -> None:
        """``again``: an earlier one was interrupted."""
        elsewhere = not self.journal_dir.resolve().is_relative_to(self.data_dir.resolve())
        there = self.journal_dir
        if elsewhere and not again and there.is_dir() and any(there.iterdir()):
            raise BackupError(f"{there} is not empty: it gets the segments of the journal")
        marker = self.data_dir / RESTORING
        marker.touch(0o600)
        sync(self.data_dir)
        self._clear(elsewhere)
        try:
            self._check_room()
            for name, target in self.targets.items():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if write_file(target, pieces_of(self.source / name)) != self.manifest.files[name]:
                    raise damaged(self.source / name)
            self._hand_over(elsewhere)
            sync_folders(self.data_dir)
            if elsewhere and self.journal_dir.is_dir():
                sync_folders(self.journal_dir)
        except BaseException:
            self._clear(elsewhere)
            marker.unlink()
            raise
        marker.unlink()
        sync(self.data_dir)

    def _clear(self, elsewhere: bool) -> None:
        """Remove the restored files."""
        clear(self.data_dir, LOCK, RESTORING)
        if elsewhere:
            for name, target in self.targets.items():
                if name.startswith(f"{SEGMENTS}/"):
                    target.unlink(missing_ok=True)

    def _check_room(self) -> None:
        free = shutil.disk_usage(self.data_dir).free
        if free < self.manifest.octets + SPARE:
            raise BackupError(
                f"{self.data_dir} has no room: the backup has {self.manifest.octets:,} octets,"
                f" and {free:,} are free there"
            )

    def _hand_over(self, elsewhere: bool) -> None:
        """Files that root restores belong to the owner of the data directory."""
        if sys.platform == "win32" or os.geteuid() != 0:
            return
        owner = self.data_dir.stat()
        for top in (self.data_dir, self.journal_dir) if elsewhere else (self.data_dir,):
            for folder, _, names in os.walk(top):
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.chown(path, owner.st_uid, owner.st_gid)
