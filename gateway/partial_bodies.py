"""Partly received bodies, kept so that their senders can resume on any connection.

0.8a2 has them (messages that are prepared, §3.3.2.2), and 0-9a6, 0-8 and 0-9 (files that are
staged). A ``PartialBodyStore`` keeps them within its limits: the body that has waited longest is
dropped first. A body in transfer is never dropped.

With a directory, a body is written to a file there while it is received, with a record of its owner
beside it, and so survives ``kill -9``. Small bodies get their file when the transfer is
interrupted. Nothing is synced, so after a reboot only bodies with a digest are trusted. Without a
directory they are in files of the spool, and without a spool in memory.
"""

import errno
import hashlib
import json
import os
import secrets
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.bodies import Body, IncomingBody, Spool, SpooledBody

Key = tuple[str, ...]
"""Owner and identity of a body; the first word is the version."""

SMALL = 1 << 16
"""A body announced to be smaller gets its file only when its transfer is interrupted."""
MOST_OCTETS = 4 << 30
"""Maximum octets of all partial bodies."""
MOST_ITEMS = 256
"""Maximum number of partial bodies; the oldest are dropped first."""
KEEP_SECONDS = 86_400
"""Seconds that a body waits for its sender to resume."""
MOST_IN_MEMORY = 128 << 20
"""Maximum octets of all partial bodies in memory."""
MOST_OPEN = 64
"""Maximum number of unnamed files that are held open for disconnected senders."""
CATCH_UP = 1 << 20
"""Octets of an earlier process that are hashed with each received piece."""

BODY, RECORD = ".part", ".json"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class PartialBody:
    """The received part of one body. ``size`` is the announced size. ``digest`` is its SHA-1 in
    hexadecimal, or "". ``lasting`` means that its key is valid after a restart."""

    __slots__ = (
        "key", "size", "digest", "lasting", "have", "touched", "path", "receiver", "_hash",
        "_hashed", "_bodies",
    )  # fmt: skip

    def __init__(
        self, partials: "PartialBodyStore", key: Key, size: int, digest: str, lasting: bool
    ) -> None:
        self.key = key
        self.size = size
        self.digest = digest.lower()
        self.lasting = lasting
        self.have = 0
        """Octets received."""
        self.touched = 0
        """Time of the interruption, in milliseconds."""
        self.path = ""
        """Path of its file, without the suffix."""
        self.receiver: IncomingBody | None = None
        """The receiver of octets; ``None`` before the first, and while its file is closed."""
        self._hash = hashlib.sha1() if digest else None
        self._hashed = 0
        self._bodies = partials

    @property
    def held(self) -> int:
        """Octets of the body in memory."""
        return self.have if self.receiver is not None and self.receiver.spooled is None else 0

    @property
    def left(self) -> int:
        """Octets not yet received."""
        return self.size - self.have

    def add(self, octets: bytes) -> None:
        """Append octets. Raises ``OSError``; then the body can only be dropped."""
        if not octets:
            return
        if self.receiver is None:
            self.receiver = self._bodies.receiver_for(self)
        self._bodies.take(self, len(octets))
        self.have += len(octets)
        self.receiver.add(octets)
        if self._hash is not None and not self._behind(CATCH_UP):
            self._hash.update(octets)
            self._hashed = self.have

    def _behind(self, most: int) -> bool:
        """Hash up to so many octets of an earlier process. Returns whether some are left."""
        spooled = None if self.receiver is None else self.receiver.spooled
        if self._hash is None or spooled is None or not self._bodies.inherited(self):
            return False
        body = spooled.received()
        for at in range(self._hashed, min(self.have, self._hashed + most), CATCH_UP):
            piece = body[at : min(at + CATCH_UP, self.have)]
            self._hash.update(piece)
            self._hashed += len(piece)
        return True

    def fault(self) -> str:
        """The reason why it is not the announced body, or "". Raises ``OSError``."""
        if self.have != self.size:
            return f"{self.have} octets of {self.size} have come"
        if self._hash is not None:
            self._behind(self.size)
            if self._hash.hexdigest() != self.digest:
                return "the contents do not match the announced hash"
        return ""


class PartialBodyStore:
    """All partly received bodies.

    ``directory`` is where their files are; with ``None`` they do not survive the process.
    ``most_octets`` limits their total, 0 for no limit. ``most_items`` limits the number of those
    with any octets. ``keep_ms`` is the time that a body waits for its sender. Raises ``OSError`` if
    the directory cannot be read.
    """

    def __init__(
        self,
        spool: Spool | None = None,
        directory: Path | None = None,
        *,
        most_octets: int = MOST_OCTETS,
        most_items: int = MOST_ITEMS,
        keep_ms: int = KEEP_SECONDS * 1000,
        now: int = 0,
    ) -> None:
        self.spool = spool
        self.directory = directory if spool is not None else None
        self.most_octets = most_octets
        self.most_items = most_items
        self.keep_ms = keep_ms
        self.now = now
        self.kept: OrderedDict[Key, PartialBody] = OrderedDict()
        """Bodies without a connected sender, in the order of their interruption."""
        self.used: dict[Key, PartialBody] = {}
        self.octets = self.number = self.memory = 0
        self._inherited: set[str] = set()
        self._boot = BOOT.read_text().strip() if BOOT.is_file() else ""
        if self.directory is not None and self.directory.is_dir():
            self._find(self.directory)

    def limit(self, most_octets: int, most_items: int, keep_ms: int) -> None:
        """Change the limits; they count when a body is added or a second has passed."""
        self.most_octets = most_octets
        self.most_items = most_items
        self.keep_ms = keep_ms

    # --- an earlier process ---------------------------------------------------------------------

    def _find(self, directory: Path) -> None:
        """List the files of the directory and remove invalid ones."""
        found = []
        for file in list(directory.iterdir()):
            if file.suffix == RECORD:
                item = self._read(file)
                if item is not None:
                    found.append(item)
        paths = {item.path for item in found}
        for file in list(directory.iterdir()):
            if file.suffix in (BODY, RECORD) and str(file.with_suffix("")) not in paths:
                file.unlink()
        for item in sorted(found, key=lambda item: item.touched):
            older = self.kept.pop(item.key, None)
            if older is not None:
                self.drop(older)
            self.kept[item.key] = item
            self.octets += item.have
            self.number += 1
            self._inherited.add(item.path)
        while self._full(0) and self._drop_oldest():
            pass
        self.tick(self.now)

    def _read(self, file: Path) -> PartialBody | None:
        """The body described by a record, if the record is valid."""
        try:
            said: Any = json.loads(file.read_bytes())
            body = file.with_suffix(BODY).stat()
            key, size, digest = tuple(map(str, said["key"])), int(said["size"]), said["digest"]
            good = 0 < body.st_size <= size and (said["boot"] == self._boot or digest)
            item = PartialBody(self, key, size, str(digest), True)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        item.path = str(file.with_suffix(""))
        item.have = body.st_size
        item.touched = min(self.now, body.st_mtime_ns // 1_000_000)
        return item if good else None

    def inherited(self, item: PartialBody) -> bool:
        """Whether the body was begun by an earlier process."""
        return item.path in self._inherited

    # --- begin and end --------------------------------------------------------------------------

    def begin(self, key: Key, size: int, digest: str = "", lasting: bool = True) -> PartialBody:
        """Begin or resume a transfer. A different body under the same key is dropped, and a
        transfer of it in progress leaves nothing behind. Raises ``OSError``."""
        item = self.kept.get(key)
        if item is not None and (item.size, item.digest) != (size, digest.lower()):
            self.drop(item)
            item = None
        if item is not None and item.receiver is None:
            assert self.spool is not None
            spooled = self.spool.start(item.left, item.path + BODY)
            if spooled is None:
                raise OSError(errno.EMFILE, "too many files are open")
            if spooled.size == item.have:
                item.receiver = IncomingBody(size, spooled)
            else:
                spooled.abandon()
                self.drop(item)
                item = None
        if item is None:
            item = PartialBody(self, key, size, digest, lasting)
        self.kept.pop(key, None)
        self.used[key] = item
        return item

    def adopt(self, key: Key, size: int, received: IncomingBody) -> PartialBody:
        """Keep a body whose transfer goes on, from now on under this key, for this process. Another
        one that waits under the key is dropped, and one in transfer leaves nothing behind. Raises
        ``OSError``; then it is the caller's as before."""
        item = PartialBody(self, key, size, "", lasting=False)
        if received.have:
            item.receiver = received
            try:
                self.take(item, received.have)
            except OSError:
                item.receiver = None
                raise
            item.have = received.have
        self.rename(item, key)
        return item

    def rename(self, item: PartialBody, key: Key) -> None:
        """Keep a body that does not outlive this process under another key."""
        older = self.kept.get(key)
        if older is not None:
            self.drop(older)
        if self.used.get(item.key) is item:
            del self.used[item.key]
        item.key = key
        self.used[key] = item

    def of(self, owner: Key) -> list[PartialBody]:
        """All bodies whose key has this prefix; waiting ones come first, in order."""
        items = [*self.kept.values(), *self.used.values()]
        return [item for item in items if item.key[: len(owner)] == owner]

    def leave(self, item: PartialBody) -> None:
        """The sender is disconnected: keep the body until it resumes."""
        if self.used.get(item.key) is not item or not item.have:
            self.drop(item)
            return
        try:
            self._suspend(item)
        except OSError:
            self.drop(item)
            return
        del self.used[item.key]
        item.touched = self.now
        self.kept[item.key] = item
        opened = [
            kept for kept in self.kept.values() if kept.receiver is not None and not kept.held
        ]
        for kept in opened[: max(0, len(opened) - MOST_OPEN)]:
            self.drop(kept)

    def drop(self, item: PartialBody) -> None:
        """Discard a body that is damaged or no longer needed."""
        self._forget(item)
        if item.receiver is not None:
            item.receiver.abandon()
        elif item.path:
            with suppress(OSError):
                os.unlink(item.path + BODY)
        item.receiver, item.have = None, 0

    def finish(self, item: PartialBody) -> Body:
        """The body is complete and is handed to the receiver. Raises ``OSError``."""
        self._forget(item)
        receiver, item.receiver, item.have = item.receiver, None, 0
        if receiver is None:
            return b""
        try:
            body = receiver.finish()
            large = self.spool is not None and len(body) >= self.spool.threshold
            return body if large else body[:]
        except OSError:
            receiver.abandon()
            raise

    def _forget(self, item: PartialBody) -> None:
        for table in (self.kept, self.used):
            if table.get(item.key) is item:
                del table[item.key]
        if item.have:
            self.octets -= item.have
            self.memory -= item.held
            self.number -= 1
        if item.path:
            self._inherited.discard(item.path)
            with suppress(OSError):
                os.unlink(item.path + RECORD)

    def tick(self, now: int) -> None:
        """Drop bodies that have waited too long. ``now`` is milliseconds since 1970."""
        self.now = now
        for item in list(self.kept.values()):
            if now - item.touched <= self.keep_ms:
                break
            self.drop(item)

    # --- room -----------------------------------------------------------------------------------

    def take(self, item: PartialBody, octets: int) -> None:
        """Reserve octets for a body. Raises ``OSError`` if there is no room."""
        while self._full(octets, new=not item.have) and self._drop_oldest():
            pass
        if self._full(octets, new=not item.have):
            raise OSError(errno.ENOSPC, "partly received bodies have reached their limit")
        if item.receiver is not None and item.receiver.spooled is None:
            if self.memory + octets > MOST_IN_MEMORY:
                raise OSError(
                    errno.ENOSPC, "partly received bodies have reached their limit of memory"
                )
            self.memory += octets
        self.octets += octets
        self.number += not item.have

    def _full(self, octets: int, new: bool = False) -> bool:
        return self.number + new > self.most_items or bool(
            self.most_octets and self.octets + octets > self.most_octets
        )

    def _drop_oldest(self) -> bool:
        for item in self.kept.values():
            self.drop(item)
            return True
        return False

    def receiver_for(self, item: PartialBody) -> IncomingBody:
        """The receiver of its first octets. Raises ``OSError``."""
        if self.spool is None:
            return IncomingBody(item.size, None)
        if item.lasting and self.directory is not None and item.size >= SMALL:
            return IncomingBody(item.size, self._named(item))
        if item.size >= self.spool.threshold:
            return IncomingBody(item.size, self.spool.start(item.size))
        return IncomingBody(item.size, None)

    def _suspend(self, item: PartialBody) -> None:
        """Suspend a transfer: write the octets to the file and close it. Raises ``OSError``."""
        receiver = item.receiver
        if receiver is None:
            return
        spooled = receiver.spooled
        if spooled is None and item.lasting and self.directory is not None:
            spooled = self._named(item)
            if spooled is not None:
                self.memory -= item.held
                item.receiver = IncomingBody(item.size, spooled)
                spooled.add(bytes(receiver.finish()[:]))
        if spooled is not None and spooled.path:
            spooled.suspend()
            item.receiver = None

    def _named(self, item: PartialBody) -> SpooledBody | None:
        """Create its file and record. Raises ``OSError``."""
        assert self.spool is not None and self.directory is not None
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = str(self.directory / secrets.token_hex(16))
        spooled = self.spool.start(item.left, path + BODY)
        if spooled is None:
            return None
        item.path = path
        said = {"key": item.key, "size": item.size, "digest": item.digest, "boot": self._boot}
        try:
            Path(path + RECORD).write_text(json.dumps(said))
        except OSError:
            spooled.abandon()
            raise
        return spooled
