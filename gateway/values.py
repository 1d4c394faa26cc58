"""Typed values that survive conversion between versions.

Plain Python values stand for the default AMQP type (``int`` is a 64-bit signed integer, ``float`` a
double, ``str`` a UTF-8 string, ``bytes`` binary, ``datetime`` is not used). Where an encoding has a
more specific type, one of these subclasses represents it; elsewhere they behave like the plain
value.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, Self


class Byte(int):
    """Signed, 8 bits."""


class UByte(int):
    """Unsigned, 8 bits."""


class Short(int):
    """Signed, 16 bits."""


class UShort(int):
    """Unsigned, 16 bits."""


class Int(int):
    """Signed, 32 bits."""


class UInt(int):
    """Unsigned, 32 bits."""


class ULong(int):
    """Unsigned, 64 bits."""


class Float(float):
    """Single precision."""


class Timestamp(int):
    """Milliseconds since 1970 UTC. Adapters of versions that count seconds convert it."""


class Seconds(int):
    """Seconds since 1970 UTC, exactly as a legacy table carried them (tag ``T``)."""


class Symbol(str):
    """ASCII name of AMQP 1.0."""


class Char(str):
    """One Unicode character."""


class ShortString(str):
    """A string in a table whose length is one octet (tag ``s`` by the bare standard)."""


class Scaled(NamedTuple):
    """Legacy decimal (tag ``D``): value divided by ten to the power of ``places``."""

    places: int
    value: int

    def decimal(self) -> Decimal:
        return Decimal(self.value).scaleb(-self.places)


class Described(NamedTuple):
    """AMQP 1.0 value with a descriptor."""

    descriptor: Any
    value: Any


class IeeeDecimal:
    """A decimal of IEEE 754-2008 in binary integer coding, with its exact octets.

    Two values with equal numbers but different octets are not equal; compare ``decimal()``.
    """

    __slots__ = ("octets",)

    WIDTH: ClassVar[int]
    EXPONENT_BITS: ClassVar[int]
    DIGITS: ClassVar[int]

    def __init__(self, octets: bytes) -> None:
        if len(octets) != self.WIDTH:
            raise ValueError(f"{type(self).__name__} has {self.WIDTH} octets, not {len(octets)}")
        self.octets = bytes(octets)

    @classmethod
    def _shape(cls) -> tuple[int, int]:
        """Bits of the plain coefficient, and the bias of exponents."""
        return 8 * cls.WIDTH - 1 - cls.EXPONENT_BITS, (3 << cls.EXPONENT_BITS - 3) + cls.DIGITS - 2

    def decimal(self) -> Decimal:
        """The number. A coefficient with too many digits is zero, as the standard has it."""
        room, bias = self._shape()
        bits = int.from_bytes(self.octets, "big")
        sign = bits >> 8 * self.WIDTH - 1
        top = bits >> 8 * self.WIDTH - 6 & 31
        if top >= 30:
            name = "Infinity" if top == 30 else "sNaN" if bits >> 8 * self.WIDTH - 7 & 1 else "NaN"
            return Decimal(("-" if sign else "") + name)
        mask = (1 << self.EXPONENT_BITS) - 1
        if top >= 24:
            exponent = bits >> room - 2 & mask
            coefficient = bits & (1 << room - 2) - 1 | 4 << room - 2
        else:
            exponent, coefficient = bits >> room & mask, bits & (1 << room) - 1
        if coefficient >= 10**self.DIGITS:
            coefficient = 0
        digits = tuple(map(int, str(coefficient)))
        return Decimal((sign, digits, exponent - bias))

    @classmethod
    def of(cls, number: Decimal) -> Self:
        """The octets of this number. Raises ``ValueError`` if it has no exact form."""
        room, bias = cls._shape()
        sign, digits, power = number.as_tuple()
        bits = sign << 8 * cls.WIDTH - 1
        if not isinstance(power, int):
            top = {"F": 0b01111000, "n": 0b01111100, "N": 0b01111110}[power]
            return cls((bits | top << 8 * cls.WIDTH - 8).to_bytes(cls.WIDTH, "big"))
        exponent: int = power
        coefficient = int("".join(map(str, digits)))
        top = (3 << cls.EXPONENT_BITS - 2) - 1
        while coefficient and coefficient % 10 == 0 and exponent + bias < 0:
            coefficient, exponent = coefficient // 10, exponent + 1
        while exponent + bias > top and coefficient and 10 * coefficient < 10**cls.DIGITS:
            coefficient, exponent = coefficient * 10, exponent - 1
        while coefficient >= 10**cls.DIGITS and coefficient % 10 == 0:
            coefficient, exponent = coefficient // 10, exponent + 1
        if coefficient == 0:
            exponent = min(max(exponent, -bias), top - bias)
        if coefficient >= 10**cls.DIGITS or not 0 <= exponent + bias <= top:
            raise ValueError(f"{number} does not fit {cls.__name__}")
        if coefficient >> room:
            rest = coefficient & (1 << room - 2) - 1
            bits |= 3 << 8 * cls.WIDTH - 3 | exponent + bias << room - 2 | rest
        else:
            bits |= exponent + bias << room | coefficient
        return cls(bits.to_bytes(cls.WIDTH, "big"))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.octets == self.octets

    def __hash__(self) -> int:
        return hash((type(self), self.octets))

    def __str__(self) -> str:
        return str(self.decimal())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.decimal()}, {self.octets.hex()})"


class Decimal32(IeeeDecimal):
    """Seven digits."""

    __slots__ = ()
    WIDTH, EXPONENT_BITS, DIGITS = 4, 8, 7


class Decimal64(IeeeDecimal):
    """Sixteen digits."""

    __slots__ = ()
    WIDTH, EXPONENT_BITS, DIGITS = 8, 10, 16


class Decimal128(IeeeDecimal):
    """Thirty-four digits."""

    __slots__ = ()
    WIDTH, EXPONENT_BITS, DIGITS = 16, 14, 34


class Array(tuple[Any, ...]):
    """AMQP 1.0 array: values of one type, which is kept even if the array is empty.

    ``code`` is the constructor octet the elements have on the wire (1.0 §1.2); None lets the writer
    take the smallest. ``descriptors`` are those of described elements, outermost first; the
    elements here are without them.
    """

    code: int | None
    descriptors: tuple[Any, ...]

    def __new__(
        cls, items: Iterable[Any] = (), code: int | None = None, descriptors: Iterable[Any] = ()
    ) -> Self:
        made = super().__new__(cls, items)
        made.code = code
        made.descriptors = tuple(descriptors)
        return made

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and (self.code, self.descriptors) == (other.code, other.descriptors)
            and tuple.__eq__(self, other)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.code, tuple(self)))

    def __repr__(self) -> str:
        code = None if self.code is None else f"{self.code:#04x}"
        return f"Array({list(self)!r}, {code}, {self.descriptors!r})"


class CodedOctets(bytes):
    """Octets of a type of 0-10 without a Python value: bin8 to bin1024, vbin8, struct32, types that
    are not known. ``code`` is the type code; a plain vbin16 is ``bytes``."""

    code: int

    def __new__(cls, octets: bytes, code: int) -> Self:
        made = super().__new__(cls, octets)
        made.code = code
        return made

    def __repr__(self) -> str:
        return f"CodedOctets({bytes(self)!r}, {self.code:#04x})"


class CodedText(str):
    """Text of 0-10 in another encoding than UTF-8: Latin-9 or UTF-16, by its type code."""

    code: int

    def __new__(cls, text: str, code: int) -> Self:
        made = super().__new__(cls, text)
        made.code = code
        return made

    def __repr__(self) -> str:
        return f"CodedText({str(self)!r}, {self.code:#04x})"


class Milliseconds(Timestamp):
    """A datetime of 0-10, or a timestamp of 0-8 to 0-9-1, whose sender wrote milliseconds (Qpid's
    Java client); the specifications have seconds."""


class LongScaled(Scaled):
    """A dec64 of 0-10; a ``Scaled`` is a dec32 if its number fits."""

    __slots__ = ()


class TypedArray(Array):
    """An array with the type code of its elements in 0-10; ``None`` if it was written without one,
    as an empty array may be. ``code`` is that of 1.0, and always ``None`` here."""

    element: int | None

    def __new__(cls, items: Iterable[Any] = (), element: int | None = None) -> Self:
        made = super().__new__(cls, items)
        made.element = element
        return made

    def __eq__(self, other: object) -> bool:
        same = not isinstance(other, TypedArray) or self.element == other.element
        return same and super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        element = None if self.element is None else f"{self.element:#04x}"
        return f"TypedArray({list(self)!r}, {element})"


SALTED = (str, bytes)
"""Types with randomized hashes, so that a peer cannot choose colliding keys."""
FEW_UNSALTED = 8
"""Maximum keys of other types in one ``dict``. The hashes of numbers, of UUIDs and of values
composed of them are predictable: a peer can send thousands of colliding keys, each of which would
be compared with all before it."""


class Map(dict[Any, Any]):
    """A map that a ``dict`` cannot hold: with keys that are equal in Python, that are unhashable,
    or with more than a few whose hash a peer can choose.

    ``pairs`` has all entries in order. As a ``dict`` it has the hashable keys, the last of equal
    ones; but only texts and octets if there are more than a few others.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__()
        self.pairs = tuple((key, value) for key, value in pairs)
        few = few_unsalted(key for key, _ in self.pairs)
        for key, value in self.pairs:
            if not few and not isinstance(key, SALTED):
                continue
            try:
                self[key] = value
            except TypeError:
                continue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self.pairs == other.pairs

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return f"Map({list(self.pairs)!r})"


def few_unsalted(keys: Iterable[Any]) -> bool:
    """Whether a ``dict`` with these keys is safe against chosen hash collisions."""
    return sum(not isinstance(key, SALTED) for key in keys) <= FEW_UNSALTED


def mapped(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """These pairs as a ``dict``; as a ``Map`` if a ``dict`` cannot hold them."""
    if not few_unsalted(key for key, _ in pairs):
        return Map(pairs)
    try:
        found = dict(pairs)
    except TypeError:  # an unhashable key
        return Map(pairs)
    return found if len(found) == len(pairs) else Map(pairs)
