"""Headers like one that was read before: of its size, with other values at some places.

Every real message has ids and times of its own, so a cache by octets never helps. Facts found in
one header hold for all that differ from it only where it does not matter; these are compared and
not read. A peer chooses the sizes of headers: there is one template for each size, up to
``LONGEST``.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

LONGEST = 512
"""Most octets of a header that has a template."""
MANY = 16
"""After so many headers of this size that are not like it, a template gives way to another."""

Check = Callable[[bytes], bool]


class Place(NamedTuple):
    """Where a value begins and ends, and the condition for other octets in its place."""

    start: int
    stop: int
    check: Check | None = None


def is_text(octets: bytes) -> bool:
    """Whether octets are UTF-8. Hot."""
    if octets.isascii():
        return True
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


class Template(Generic[T]):
    """A header with places for values, in order. ``found``: the facts about all like it."""

    __slots__ = ("found", "misses", "_unpack", "_around", "_checks", "_texts")

    def __init__(self, header: bytes, places: Iterable[Place], found: T) -> None:
        self.found = found
        self.misses = 0
        widths: list[int] = []
        around: list[bytes] = []
        checks: list[tuple[int, Check]] = []
        texts: list[int] = []
        last = 0
        for start, stop, check in places:
            around.append(header[last:start])
            widths += start - last, stop - start
            last = stop
            if check is is_text:
                texts.append(len(widths) - 1)
            elif check is not None:
                checks.append((len(widths) - 1, check))
        around.append(header[last:])
        widths.append(len(header) - last)
        self._unpack = Struct("".join(f"{width}s" for width in widths)).unpack
        self._around = tuple(around)
        self._checks = tuple(checks)
        self._texts = tuple(texts)

    def values(self, header: bytes) -> tuple[bytes, ...] | None:
        """The octets at its places in a header of its size; ``None`` if that is not like it.
        Hot."""
        octets: tuple[bytes, ...] = self._unpack(header)
        if octets[::2] == self._around:
            for index in self._texts:
                if not octets[index].isascii() and not is_text(octets[index]):
                    break
            else:
                for index, check in self._checks:
                    if not check(octets[index]):
                        break
                else:
                    return octets[1::2]
        self.misses += 1
        return None


def template(header: bytes, places: list[Place], found: T) -> Template[T] | None:
    """The template of a header, if it has places for values."""
    return Template(header, places, found) if places else None


class Templates(dict[int, Template[T] | None]):
    """The templates of one kind of headers, by size. ``None``: a header of this size has come once,
    and was like none before."""

    __slots__ = ()

    def find(self, header: bytes) -> T | None:
        """The facts found in headers like this one. Hot."""
        template = self.get(len(header))
        if template is None or template.values(header) is None:
            return None
        return template.found

    def keep(self, header: bytes, make: Callable[[], Template[T] | None]) -> None:
        """A header was read that is like none before: the second of its size is a template."""
        size = len(header)
        if size > LONGEST:
            return
        if size not in self:
            self[size] = None
            return
        before = self[size]
        if before is None or before.misses >= MANY:
            self[size] = make() or before
