"""Base of the generated records: methods, commands, composites and property lists.

A record's slots are its fields, in the order of its constructor, and every field has a default.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class Record:
    """Equal to a record of the same class with equal fields; not hashable, as it may change."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    NAME: ClassVar[str]
    """As the specification writes it: "queue.declare"."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({shown})"

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """The default of each field, by name."""
        if not cls.__slots__:
            return {}
        return dict(zip(cls.__slots__, cls.__init__.__defaults__ or (), strict=True))


def annotations(kind: type[Record]) -> Mapping[str, Any]:
    """The type of each field of a record, by name."""
    found = kind.__init__.__annotations__ if kind.__slots__ else {}
    return {name: found[name] for name in kind.__slots__}


def short(text: str, where: str) -> bytes:
    """The octets of a short string, whose length must fit one octet."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise ValueError(f"{where}: a short string holds 255 octets, not {len(raw)}")
    return raw
