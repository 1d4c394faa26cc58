"""Bodies that are too large for memory: octets in a file that has no name.

A ``Spool`` makes them. What comes in is added piece by piece to a ``Filling``; ``finish`` gives the
``LargeBody``, ``abandon`` (or forgetting it) leaves nothing. A file is closed, and with that gone,
when the last body that stands in it is. Everything raises ``OSError`` for what the disk does, and
``ENOSPC`` also for the limits of the spool.

Writing and reading go through the page cache and are done where they are called for, the loop
included: 128 KiB cost about as much as copying them.
"""

import errno
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator

THRESHOLD = 1 << 20
"""Octets from which on a body is large."""

WRITE_FROM = 1 << 18
"""Small pieces are gathered up to this before they are written."""

Freed = Callable[[int], None]


def _nobody(octets: int) -> None:
    """Nobody counts."""


class File:
    """An open file that is closed when nobody has it any more. ``freed`` is told its octets then,
    on whatever thread that is."""

    __slots__ = ("descriptor", "size", "_freed")

    def __init__(self, descriptor: int, size: int = 0, freed: Freed = _nobody) -> None:
        self.descriptor = descriptor
        self.size = size
        self._freed = freed

    def __del__(self) -> None:
        os.close(self.descriptor)
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


class Filling:
    """A body that is coming in."""

    __slots__ = ("size", "_spool", "_file", "_pieces", "_gathered", "_written")

    def __init__(self, spool: "Spool", file: File) -> None:
        self.size = 0
        """Octets added."""
        self._spool = spool
        self._file: File | None = file
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._written = 0

    def add(self, octets: bytes) -> None:
        """The next octets. Raises ``OSError``; then it can only be abandoned."""
        assert self._file is not None
        size = len(octets)
        self._spool.take(size)
        self._file.size += size
        self.size += size
        self._pieces.append(octets)
        self._gathered += size
        if self._gathered >= WRITE_FROM:
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
        self._write()
        file, self._file = self._file, None
        assert file is not None
        return LargeBody(file, 0, self.size)

    def abandon(self) -> None:
        """It is not wanted any more."""
        self._file = None
        self._pieces.clear()


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
        most_octets: int = 0,
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

    def start(self, octets: int = 0) -> Filling | None:
        """A new body, of which so many octets are announced; ``None`` if it has to stay in memory,
        for want of open files. Raises ``OSError``."""
        self.check(octets)
        if self.most_files and self.files >= self.most_files:
            return None
        try:
            descriptor = unnamed(self.directory)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return None
            raise
        self._files += 1
        return Filling(self, File(descriptor, 0, self._freed.append))


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
