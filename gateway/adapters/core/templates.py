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


class Range:
    """The check of a number without sign: not below ``least``, nor above ``most``, which have as
    many octets."""

    def __init__(self, least: bytes, most: bytes) -> None:
        self.least, self.most = least, most

    def __call__(self, octets: bytes) -> bool:
        return self.least <= octets <= self.most


class Unlike:
    """The check of a value that begins with none of these."""

    def __init__(self, beginnings: tuple[bytes, ...]) -> None:
        self.beginnings = beginnings

    def __call__(self, octets: bytes) -> bool:
        return not octets.startswith(self.beginnings)


class Both:
    """The check of a value that is within two others."""

    def __init__(self, one: Check, other: Check) -> None:
        self.one, self.other = one, other

    def __call__(self, octets: bytes) -> bool:
        return self.one(octets) and self.other(octets)


class Template(Generic[T]):
    """A header with places for values, in order. ``found``: the facts about all like it. ``around``
    has the octets around the values, ``widths`` the sizes of these and of the values in turns."""

    __slots__ = (
        "around", "found", "misses", "widths", "_unpack", "_checks", "_ranges", "_texts", "_unlike",
    )  # fmt: skip

    def __init__(self, header: bytes, places: Iterable[Place], found: T) -> None:
        self.found = found
        self.misses = 0
        """Headers of its size that were read because they are not like it."""
        widths: list[int] = []
        around: list[bytes] = []
        checks: list[tuple[int, Check]] = []
        last = 0
        for start, stop, check in places:
            around.append(header[last:start])
            widths += start - last, stop - start
            last = stop
            checks += ((len(widths) - 1, each) for each in simple(check))
        around.append(header[last:])
        widths.append(len(header) - last)
        self._unpack = Struct("".join(f"{width}s" for width in widths)).unpack
        self.around, self.widths = tuple(around), tuple(widths)
        # The usual checks are made without a call.
        self._texts = tuple(index for index, check in checks if check is is_text)
        self._unlike = tuple(
            (index, check.beginnings) for index, check in checks if isinstance(check, Unlike)
        )
        self._ranges = tuple(
            (index, check.least, check.most) for index, check in checks if isinstance(check, Range)
        )
        self._checks = tuple(
            (index, check)
            for index, check in checks
            if check is not is_text and not isinstance(check, Unlike | Range)
        )

    @property
    def unconditional(self) -> bool:
        """Whether any octets may stand in its places."""
        return not (self._texts or self._unlike or self._ranges or self._checks)

    def values(self, header: bytes) -> tuple[bytes, ...] | None:
        """The octets at its places in a header of its size; ``None`` if that is not like it.
        Hot."""
        octets = self.split(header)
        return None if octets is None else octets[1::2]

    def split(self, header: bytes) -> tuple[bytes, ...] | None:
        """The same, with the octets around them in turns: those of a place have odd indices.
        Hot."""
        octets: tuple[bytes, ...] = self._unpack(header)
        if octets[::2] != self.around:
            return None
        for index in self._texts:
            if not octets[index].isascii() and not is_text(octets[index]):
                return None
        for index, beginnings in self._unlike:
            if octets[index].startswith(beginnings):
                return None
        for index, least, most in self._ranges:
            if not least <= octets[index] <= most:
                return None
        for index, check in self._checks:
            if not check(octets[index]):
                return None
        return octets


def simple(check: Check | None) -> list[Check]:
    """The checks that a check is made of."""
    if check is None:
        return []
    if isinstance(check, Both):
        return simple(check.one) + simple(check.other)
    return [check]


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
        if template is None or template.split(header) is None:
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
        if before is not None and before.misses < MANY:
            before.misses += 1
        else:
            self[size] = make() or before
