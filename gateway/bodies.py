"""Bodies that are too large for memory: octets in a file that has no name.

A ``Spool`` makes them. What comes in is added piece by piece to a ``Filling``; ``finish`` gives the
``LargeBody``, ``abandon`` (or forgetting it) leaves nothing. A file is closed, and with that gone,
when the last body that stands in it is. One that outlives the process while it comes in has a name
(``gateway/partial_bodies.py``), which goes with the file. Everything raises ``OSError`` for errors
of the disk, and ``ENOSPC`` also for the limits of the spool.

Writing and reading go through the page cache and are done where they are called for, the loop
included: 128 KiB cost about as much as copying them.
"""

import errno
import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

THRESHOLD = 1 << 20
"""Octets from which on a body is large."""
MOST_OCTETS = 16 << 30
"""Of all files of large bodies that are open."""

WRITE_FROM = 1 << 18
"""Small pieces are gathered up to this before they are written."""
NAMED_FROM = 1 << 15
"""The same where they are to outlive the process."""

Freed = Callable[[int], None]


def _nobody(octets: int) -> None:
    """Nobody counts."""


class File:
    """An open file that is closed when nobody has it any more. ``freed`` is told its octets then,
    on whatever thread that is. ``name``: it has one, which goes too."""

    __slots__ = ("descriptor", "size", "name", "_freed")

    def __init__(self, descriptor: int, size: int = 0, freed: Freed = _nobody) -> None:
        self.descriptor = descriptor
        self.size = size
        self.name = ""
        self._freed = freed

    def __del__(self) -> None:
        os.close(self.descriptor)
        if self.name:
            # What cannot be removed now is swept at the next start.
            with suppress(OSError):
                os.unlink(self.name)
        self._freed(self.size)


class LargeBody:
    """Octets in a file, from ``start`` on. A slice of it is ``bytes``, read from the file; ``part``
    is a body of its own in the same file."""

    __slots__ = ("file", "start", "_size")

    def __init__(self, file: File, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        """Raises ``OSError``, also if the file has become shorter."""
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
        """All of it, a piece at a time. Raises ``OSError``."""
        for at in range(0, self._size, octets):
            yield self[at : at + octets]

    def __repr__(self) -> str:
        return f"LargeBody({self._size} octets)"


Body = bytes | LargeBody


def cut(body: Body, first: int, last: int) -> Body:
    """A part of a body, without reading it if it is large."""
    return body[first:last] if isinstance(body, bytes) else body.part(first, last)


def fingerprint(body: Body) -> bytes:
    """The same for the same octets; of a large body, for those of the same file, restarts included,
    so that it need not be read. Raises ``OSError``."""
    if isinstance(body, bytes):
        return hashlib.sha256(body).digest()
    found = os.fstat(body.file.descriptor)
    marks = (found.st_dev, found.st_ino, found.st_mtime_ns, body.start, len(body))
    return hashlib.sha256(repr(marks).encode()).digest()


class Filling:
    """A body that is coming in. ``path``: its file has a name, and is there when the process is
    killed."""

    __slots__ = ("size", "path", "_spool", "_file", "_pieces", "_gathered", "_written")

    def __init__(self, spool: "Spool", file: File, path: str = "") -> None:
        self.size = file.size
        """Octets added."""
        self.path = path
        self._spool = spool
        self._file: File | None = file
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._written = file.size

    def add(self, octets: bytes) -> None:
        """The next octets. Raises ``OSError``; then it can only be abandoned."""
        assert self._file is not None
        size = len(octets)
        self._spool.take(size)
        self._file.size += size
        self.size += size
        self._pieces.append(octets)
        self._gathered += size
        if self._gathered >= (NAMED_FROM if self.path else WRITE_FROM):
            self._write()

    def _write(self) -> None:
        assert self._file is not None
        pieces, self._pieces, self._gathered = self._pieces, [], 0
        octets = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        while octets:
            written = os.pwrite(self._file.descriptor, octets, self._written)
            self._written += written
            octets = octets[written:]

    def finish(self) -> LargeBody:
        """All of it has come. Raises ``OSError``."""
        body = self.begun()
        body.file.name, self._file = self.path, None
        return body

    def begun(self) -> LargeBody:
        """What there is of it by now. Raises ``OSError``."""
        self._write()
        assert self._file is not None
        return LargeBody(self._file, 0, self.size)

    def leave(self) -> None:
        """No more comes for now: a file with a name stays there, closed. Raises ``OSError``."""
        self._write()
        self._file = None

    def abandon(self) -> None:
        """It is not wanted any more."""
        if self._file is not None:
            self._file.name = self.path
        self._file = None
        self._pieces.clear()


class Gathering:
    """A body of a known size as it comes in, in ``filling``, or in memory without one."""

    __slots__ = ("size", "have", "filling", "_pieces")

    def __init__(self, size: int, filling: Filling | None) -> None:
        self.size = size
        self.have = 0 if filling is None else filling.size
        self.filling = filling
        self._pieces: list[bytes] = []

    @property
    def held(self) -> int:
        """Octets that will be in memory."""
        return self.size if self.filling is None else 0

    def add(self, octets: bytes) -> None:
        """Raises ``OSError``; then it can only be abandoned."""
        self.have += len(octets)
        if self.filling is None:
            self._pieces.append(octets)
        else:
            self.filling.add(octets)

    def finish(self) -> Body:
        """All of it. Raises ``OSError``."""
        if self.filling is not None:
            return self.filling.finish()
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def abandon(self) -> None:
        """It is not wanted any more. The other way is to forget it."""
        if self.filling is not None:
            self.filling.abandon()
        self._pieces.clear()


def gathering(spool: "Spool | None", size: int) -> Gathering:
    """A place for a body: in a file if it is large, and there is a spool. Raises ``OSError``."""
    if spool is None or size < spool.threshold:
        return Gathering(size, None)
    return Gathering(size, spool.start(size))


class Spool:
    """The place where large bodies stand, and how much there may be of them.

    ``directory``: ``None`` is the system's place for temporary files. ``most_octets``: of all files
    that are open, 0 for no limit. ``most_files``: each is an open file of the process; where there
    are more, bodies stay in memory."""

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
        self._freed: deque[int] = deque()  # filled by whichever thread lets go of a file

    @property
    def octets(self) -> int:
        """Octets in files that are open, whether they are still coming in or not."""
        self._count()
        return self._octets

    @property
    def files(self) -> int:
        """How many such files there are."""
        self._count()
        return self._files

    def _count(self) -> None:
        freed = self._freed
        while freed:
            self._octets -= freed.popleft()
            self._files -= 1

    def take(self, octets: int) -> None:
        """More octets are about to be kept. Raises ``OSError`` if these are too many."""
        self.check(octets)
        self._octets += octets

    def check(self, octets: int) -> None:
        """Whether there is room for so many. Raises ``OSError``."""
        if self._freed:
            self._count()
        if self.most_octets and self._octets + octets > self.most_octets:
            raise OSError(errno.ENOSPC, "large messages take all the room they may")

    def start(self, octets: int = 0, path: str = "") -> Filling | None:
        """A new body, of which so many octets are announced; ``None`` if it has to stay in memory,
        for want of open files. ``path``: the name of its file, which may be there, and then goes
        on where it ends. Raises ``OSError``."""
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
        return Filling(self, file, path)


def named(path: str) -> int:
    """The descriptor of the file of that name, made if need be. Raises ``OSError``."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def unnamed(directory: str | None) -> int:
    """The descriptor of a new file without a name. Raises ``OSError``."""
    where = directory or tempfile.gettempdir()
    if hasattr(os, "O_TMPFILE"):
        try:
            # Without O_EXCL it may be given a name later: the store does that.
            return os.open(where, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
    descriptor, name = tempfile.mkstemp(dir=where)
    os.unlink(name)
    return descriptor
