"""Bodies that are too large for memory: octets in a file that has no name.

A ``Spool`` makes them. Incoming octets are added piece by piece to a ``SpooledBody``; ``finish``
returns the ``LargeBody``, and ``abandon`` (or dropping the reference) discards it. A file is
closed, and thereby deleted, when its last body is released. A partly received body that must
survive the process has a named file (``gateway/partial_bodies.py``), which is removed with it. All
methods raise ``OSError`` for disk errors, and ``ENOSPC`` also for the limits of the spool.

Reads and writes go through the page cache and are made directly, also on the loop: 128 KiB cost
about as much as copying them.
"""

import errno
import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

THRESHOLD = 1 << 20
"""Minimum octets of a large body."""
MOST_OCTETS = 16 << 30
"""Total octets of open files of large bodies."""

WRITE_FROM = 1 << 18
"""Small pieces are buffered up to this size before they are written."""
NAMED_FROM = 1 << 15
"""The same for files that must survive the process."""

SMALL, JOINED = 1024, 64 * 1024
"""Pieces below the first size, in octets, are joined to larger ones of up to the second."""

Freed = Callable[[int], None]


def _nobody(octets: int) -> None:
    """No-op in place of a counter."""


class File:
    """An open file that is closed when its last reference is dropped. ``freed`` is then called with
    its octets, on the thread that dropped it. ``name`` is the path of a named file, which is
    deleted too."""

    __slots__ = ("descriptor", "size", "name", "_freed")

    def __init__(self, descriptor: int, size: int = 0, freed: Freed = _nobody) -> None:
        self.descriptor = descriptor
        self.size = size
        self.name = ""
        self._freed = freed

    def __del__(self) -> None:
        os.close(self.descriptor)
        if self.name:
            # A file that cannot be removed now is removed at the next start.
            with suppress(OSError):
                os.unlink(self.name)
        self._freed(self.size)


class LargeBody:
    """Octets in a file, from ``start`` on. A slice of it is ``bytes``, read from the file; ``part``
    is another body in the same file."""

    __slots__ = ("file", "start", "_size")

    def __init__(self, file: File, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        """Read a slice. Raises ``OSError``, also if the file has become shorter."""
        first, last, step = wanted.indices(self._size)
        if step != 1:
            raise ValueError("a large body is read in one direction, octet by octet")
        pieces: list[bytes] = []
        at, left = self.start + first, last - first
        while left > 0:
            piece = os.pread(self.file.descriptor, left, at)
            if not piece:
                raise OSError(errno.EIO, "a body's file is shorter than the body")
            pieces.append(piece)
            at, left = at + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def part(self, first: int, last: int) -> "LargeBody":
        """The octets from ``first`` up to ``last``."""
        first, last, _ = slice(first, last).indices(self._size)
        return LargeBody(self.file, self.start + first, max(0, last - first))

    def chunks(self, octets: int = WRITE_FROM) -> Iterator[bytes]:
        """The whole body in pieces. Raises ``OSError``."""
        for at in range(0, self._size, octets):
            yield self[at : at + octets]

    def __repr__(self) -> str:
        return f"LargeBody({self._size} octets)"


Body = bytes | LargeBody


def cut(body: Body, first: int, last: int) -> Body:
    """A part of a body, without reading it if it is large."""
    return body[first:last] if isinstance(body, bytes) else body.part(first, last)


def fingerprint(body: Body) -> bytes:
    """A fingerprint of the octets. For a large body it identifies the file, also across restarts,
    so that the body need not be read. Raises ``OSError``."""
    if isinstance(body, bytes):
        return hashlib.sha256(body).digest()
    found = os.fstat(body.file.descriptor)
    marks = (found.st_dev, found.st_ino, found.st_mtime_ns, body.start, len(body))
    return hashlib.sha256(repr(marks).encode()).digest()


class Pieces:
    """Octets that come in pieces. Small ones are joined, so that many take no more memory than
    their octets."""

    __slots__ = ("size", "_pieces")

    def __init__(self) -> None:
        self.size = 0
        """Octets of all pieces."""
        self._pieces: list[bytes | bytearray] = []

    def add(self, octets: bytes) -> None:
        size = len(octets)
        self.size += size
        if size >= SMALL:
            self._pieces.append(octets)
        elif size:
            last = self._pieces[-1] if self._pieces else None
            if isinstance(last, bytearray) and len(last) < JOINED:
                last += octets
            else:
                self._pieces.append(bytearray(octets))

    def joined(self) -> bytes:
        """All octets."""
        pieces = self._pieces
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def clear(self) -> None:
        self._pieces.clear()
        self.size = 0


class SpooledBody:
    """A body that is being received. With ``path`` its file has a name and survives a kill of the
    process."""

    __slots__ = ("size", "path", "_spool", "_file", "_pieces", "_written")

    def __init__(self, spool: "Spool", file: File, path: str = "") -> None:
        self.size = file.size
        """Octets added."""
        self.path = path
        self._spool = spool
        self._file: File | None = file
        self._pieces = Pieces()
        self._written = file.size

    def add(self, octets: bytes) -> None:
        """Append octets. Raises ``OSError``; then the body can only be abandoned."""
        assert self._file is not None
        size = len(octets)
        self._spool.take(size)
        self._file.size += size
        self.size += size
        self._pieces.add(octets)
        if self._pieces.size >= (NAMED_FROM if self.path else WRITE_FROM):
            self._write()

    def _write(self) -> None:
        assert self._file is not None
        octets = memoryview(self._pieces.joined())
        self._pieces.clear()
        while octets:
            written = os.pwrite(self._file.descriptor, octets, self._written)
            self._written += written
            octets = octets[written:]

    def finish(self) -> LargeBody:
        """The body is complete. Raises ``OSError``."""
        body = self.received()
        body.file.name, self._file = self.path, None
        return body

    def received(self) -> LargeBody:
        """The octets received so far. Raises ``OSError``."""
        self._write()
        assert self._file is not None
        return LargeBody(self._file, 0, self.size)

    def suspend(self) -> None:
        """Suspend the transfer: a named file is closed and kept. Raises ``OSError``."""
        self._write()
        self._file = None

    def abandon(self) -> None:
        """It is not wanted any more."""
        if self._file is not None:
            self._file.name = self.path
        self._file = None
        self._pieces.clear()


class IncomingBody:
    """A body of known size that is being received, in ``spooled``, or in memory without one."""

    __slots__ = ("size", "have", "spooled", "_pieces")

    def __init__(self, size: int, spooled: SpooledBody | None) -> None:
        self.size = size
        self.have = 0 if spooled is None else spooled.size
        self.spooled = spooled
        self._pieces = Pieces()

    @property
    def held(self) -> int:
        """Octets of the body that will be held in memory."""
        return self.size if self.spooled is None else 0

    def add(self, octets: bytes) -> None:
        """Raises ``OSError``; then it can only be abandoned."""
        self.have += len(octets)
        if self.spooled is None:
            self._pieces.add(octets)
        else:
            self.spooled.add(octets)

    def finish(self) -> Body:
        """The complete body. Raises ``OSError``."""
        if self.spooled is not None:
            return self.spooled.finish()
        return self._pieces.joined()

    def abandon(self) -> None:
        """Discard the body. Dropping the reference does the same."""
        if self.spooled is not None:
            self.spooled.abandon()
        self._pieces.clear()


class GrowingBody:
    """A body of unknown size that is being received: in memory until it is large, then in a file if
    there is a spool."""

    __slots__ = ("receiver", "_spool")

    def __init__(self, spool: "Spool | None") -> None:
        self.receiver = IncomingBody(0, None)
        self._spool = spool

    @property
    def have(self) -> int:
        """Octets received."""
        return self.receiver.have

    @property
    def held(self) -> int:
        """Octets of the body in memory."""
        return self.receiver.have if self.receiver.spooled is None else 0

    def add(self, octets: bytes) -> None:
        """Raises ``OSError``; then it can only be abandoned."""
        spool = self._spool
        if spool is not None and self.held + len(octets) >= spool.threshold:
            self.spill()
        self.receiver.add(octets)

    def spill(self) -> None:
        """Move it into a file, if that is possible. Raises ``OSError``."""
        if self._spool is None or self.receiver.spooled is not None:
            return
        spooled = self._spool.start(self.have)
        if spooled is not None:
            spooled.add(bytes(self.receiver.finish()[:]))
            self.receiver = IncomingBody(0, spooled)

    def finish(self) -> Body:
        """The complete body. Raises ``OSError``."""
        return self.receiver.finish()

    def abandon(self) -> None:
        """Discard the body. Dropping the reference does the same."""
        self.receiver.abandon()


def incoming_body(spool: "Spool | None", size: int) -> IncomingBody:
    """A receiver for a body: in a file if the body is large and there is a spool. Raises
    ``OSError``."""
    if spool is None or size < spool.threshold:
        return IncomingBody(size, None)
    return IncomingBody(size, spool.start(size))


class Spool:
    """The storage of large bodies, with its limits.

    ``directory`` is where files are created; ``None`` means the system's directory for temporary
    files. ``most_octets`` limits the total of open files; 0 is no limit. ``most_files`` limits the
    number of open files; further bodies stay in memory."""

    def __init__(
        self,
        directory: str | None = None,
        *,
        threshold: int = THRESHOLD,
        most_octets: int = MOST_OCTETS,
        most_files: int = 0,
    ) -> None:
        self.directory = directory
        self.threshold = threshold
        self.most_octets = most_octets
        self.most_files = most_files
        self._octets = 0
        self._files = 0
        self._freed: deque[int] = deque()  # filled by the thread that releases a file

    def limit(self, threshold: int, most_octets: int) -> None:
        """Change the limits; bodies that are there stay."""
        self.threshold = threshold
        self.most_octets = most_octets

    @property
    def octets(self) -> int:
        """Octets in open files, of complete and incomplete bodies."""
        self._count()
        return self._octets

    @property
    def files(self) -> int:
        """Number of open files."""
        self._count()
        return self._files

    def _count(self) -> None:
        freed = self._freed
        while freed:
            self._octets -= freed.popleft()
            self._files -= 1

    def take(self, octets: int) -> None:
        """Reserve octets. Raises ``OSError`` if they exceed the limit."""
        self.check(octets)
        self._octets += octets

    def check(self, octets: int) -> None:
        """Check that so many octets fit. Raises ``OSError`` if not."""
        if self._freed:
            self._count()
        if self.most_octets and self._octets + octets > self.most_octets:
            raise OSError(errno.ENOSPC, "large messages have reached their limit of disk space")

    def start(self, octets: int = 0, path: str = "") -> SpooledBody | None:
        """A new body with so many announced octets; ``None`` if it has to stay in memory because
        too many files are open. ``path`` is the name of its file; an existing file is appended to.
        Raises ``OSError``."""
        self.check(octets)
        if self.most_files and self.files >= self.most_files:
            return None
        try:
            descriptor = named(path) if path else unnamed(self.directory)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return None
            raise
        self._files += 1
        file = File(descriptor, 0, self._freed.append)
        if path:
            have = os.fstat(descriptor).st_size
            self.take(have)
            file.size = have
        return SpooledBody(self, file, path)


def named(path: str) -> int:
    """The descriptor of a named file, which is created if missing. Raises ``OSError``."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def unnamed(directory: str | None) -> int:
    """The descriptor of a new file without a name. Raises ``OSError``."""
    where = directory or tempfile.gettempdir()
    if hasattr(os, "O_TMPFILE"):
        try:
            # Without O_EXCL the store can link it under a name later.
            return os.open(where, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
    descriptor, name = tempfile.mkstemp(dir=where)
    os.unlink(name)
    return descriptor
