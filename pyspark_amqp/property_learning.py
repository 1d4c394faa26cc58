"""Where the columns of a header stand in it. This module needs numpy and pyarrow.

A header is decoded with other octets at the places of its values: each column is then always the
same, or follows the value at one place. So the columns of all headers that differ at these places
alone are made without decoding them.
"""

from collections.abc import Callable, Iterator
from random import Random
from struct import unpack
from typing import Any, NamedTuple

import pyarrow as pa

from gateway.adapters.core.templates import Place
from gateway.crossing.plans import in_hexadecimal
from gateway.journal.canonical import LEGACY, UNSIGNED, Rows
from gateway.journal.entries import NOBODY, Entry
from gateway.message import DIALECTS, NO_ESSENTIALS, Message
from pyspark_amqp.octets import (
    WIDTHS,
    Matrix,
    numbers,
    octets_of,
    reals,
    texts,
    uuids,
)

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
DIGITS = b"0123456789"


class NoTemplate(Exception):
    """The columns of a header are not explained by its values."""


class Form(NamedTuple):
    """How the octets of a value are written in a column: of one value, and of those of ``widths``
    for many and a type of Arrow's (all, if there are none)."""

    one: Callable[[bytes], Any]
    many: Callable[[Matrix, Any], Any]
    widths: tuple[int, ...] = ()

    def array(self, values: Matrix, kind: Any) -> Any:
        """Raises ``pyarrow.ArrowInvalid`` for a text that is none."""
        if self.widths and values.shape[1] not in self.widths:
            return pa.array(list(map(self.one, octets_of(values))), kind)
        return self.many(values, kind)


def as_text(raw: bytes) -> str:
    return raw.decode()


def as_uuid(raw: bytes) -> str:
    return in_hexadecimal(raw).decode()


def _numbers(signed: bool, scale: int) -> tuple[Form, Form]:
    """A number, within the range of the columns of numbers, and its digits."""

    def number(raw: bytes) -> int:
        return max(-UNSIGNED - 1, min(int.from_bytes(raw, signed=signed) * scale, UNSIGNED))

    def digits(raw: bytes) -> str:
        return str(int.from_bytes(raw, signed=signed) * scale)

    many = numbers(signed, scale)
    return Form(number, many, WIDTHS), Form(digits, many, WIDTHS)


def _real(code: str, size: int) -> Form:
    def text(raw: bytes) -> str | None:
        return str(unpack(code, raw)[0]) if len(raw) == size else None

    return Form(text, reals, (size,))


NUMBERS = (*_numbers(False, 1), *_numbers(True, 1), *_numbers(False, 1000))
FORMS = (
    Form(as_text, texts), *NUMBERS,
    Form(as_uuid, uuids, (16,)), _real(">d", 8), _real(">f", 4),
)  # fmt: skip


class Fixed(NamedTuple):
    """A value that all headers of a template have."""

    value: Any


class Drawn(NamedTuple):
    """A value at a place of the template, and its form."""

    place: int
    form: Form


Source = Fixed | Drawn
SIGN = 0x80
"""The bit of the first octet that makes a number negative, if it has a sign."""
MOST_DRAWS = 5
"""How often values are drawn until each place has its own."""


class Pairs(NamedTuple):
    """A map: its keys and the sources of their values."""

    keys: tuple[str, ...]
    items: tuple[Source, ...]


Learned = dict[str, Source | Pairs]
"""By column."""


class Learner:
    """Finds the columns of ``rows`` in which the values at the places of a header stand."""

    def __init__(self, rows: Rows, dialect: str, header: bytes, places: list[Place]) -> None:
        self._rows = rows
        self._dialect = DIALECTS[dialect]
        self._header = header
        self._places = places
        self._given = [header[one.start : one.stop] for one in places]
        self._random = Random(header)

    def learn(self) -> Learned:
        """Raises ``NoTemplate``."""
        samples = self._samples()
        shown = [self._columns(number, one) for number, one in enumerate(samples)]
        learned = self._explained(samples, shown)
        signs = self._with_signs(samples, learned)
        if signs is None:
            return learned
        shown.append(self._columns(len(samples), signs))
        return self._explained([*samples, signs], shown)

    def _samples(self) -> list[list[bytes]]:
        """The values at the places of the header, and others. Two places never have the same in
        all samples, as a column could be drawn from the wrong one."""
        for _ in range(MOST_DRAWS):
            by_place = [
                (given, *self._stand_ins(place))
                for given, place in zip(self._given, self._places, strict=True)
            ]
            if len(set(by_place)) == len(by_place):
                return [list(one) for one in zip(*by_place, strict=True)]
        raise NoTemplate

    def _with_signs(self, samples: list[list[bytes]], learned: Learned) -> list[bytes] | None:
        """One more sample, if there are numbers of which no sample shows whether they have a sign:
        octets that all are letters are taken for a text at first."""
        found = list(self._given)
        for source in _sources(learned):
            if not isinstance(source, Drawn) or source.form not in NUMBERS:
                continue
            place = source.place
            if any(one[place][0] & SIGN for one in samples):
                continue
            given, check = self._given[place], self._places[place].check
            made = bytes((given[0] | SIGN,)) + given[1:]
            if check is None or check(made):
                found[place] = made
        return None if found == self._given else found

    def _explained(self, samples: list[list[bytes]], shown: list[list[Any]]) -> Learned:
        """``shown``: the columns of each sample."""
        learned: Learned = {}
        for column, values in zip(self._rows.columns, zip(*shown, strict=True), strict=True):
            if not isinstance(values[0], dict):
                learned[column.name] = self._source(samples, values)
                continue
            if column.name == "annotations":
                # The first two are of each message, unless it has its own of these names.
                pairs = [list(one.items()) for one in values]
                if any(one[: len(LEGACY)] != _hop(number) for number, one in enumerate(pairs)):
                    raise NoTemplate
                values = tuple(dict(one[len(LEGACY) :]) for one in pairs)
            keys = tuple(values[0])
            if any(tuple(one) != keys for one in values):
                raise NoTemplate
            items = [self._source(samples, tuple(one[key] for one in values)) for key in keys]
            learned[column.name] = Pairs(keys, tuple(items))
        return learned

    def _source(self, samples: list[list[bytes]], values: tuple[Any, ...]) -> Source:
        """Where the values of a column come from, in each sample."""
        if all(one.__class__ is values[0].__class__ and one == values[0] for one in values):
            return Fixed(values[0])
        for place in range(len(self._places)):
            for form in FORMS:
                if all(
                    _formed(form.one, given[place]) == value
                    for given, value in zip(samples, values, strict=True)
                ):
                    return Drawn(place, form)
        raise NoTemplate

    def _columns(self, number: int, values: list[bytes]) -> list[Any]:
        """What is shown of a header with these values. Exchange and routing key are others for each
        ``number``."""
        parts, last = [], 0
        for place, value in zip(self._places, values, strict=True):
            parts += [self._header[last : place.start], value]
            last = place.stop
        header = b"".join((*parts, self._header[last:]))
        (_, exchange), (_, key) = _hop(number)
        message = Message(self._dialect, header, b"", exchange, key, NO_ESSENTIALS)
        entry = Entry(0, 0, "", "", 0, NOBODY, message, 0, "", 0, 0)
        return self._rows.of([entry])[0]

    def _stand_ins(self, place: Place) -> tuple[bytes, ...]:
        """Three other values that the place may have. Raises ``NoTemplate``."""
        given = self._header[place.start : place.stop]
        size, draw = len(given), self._random
        text = given.isascii() and given.decode().isprintable()
        found: list[bytes] = []
        for turn in range(36):
            if text and turn < 6:
                made = bytes(draw.choices(LETTERS, k=size))
            elif not text and turn < 12:
                # With and without the sign of a number.
                made = bytes((draw.randrange(128) | 128 * (turn % 2),)) + draw.randbytes(size - 1)
            elif not text and turn < 24:
                # A time whose parts of a second stay.
                later = int.from_bytes(given) + 1000 * draw.randrange(1, 1_000_000)
                made = (later % (1 << 8 * size)).to_bytes(size)
            else:
                # Like it but for its last octets: digits, letters, or anything.
                tail = min(size, 1 + turn % 2)
                kind = DIGITS if given[-1:].isdigit() else LETTERS if text else bytes(range(256))
                made = given[: size - tail] + bytes(draw.choices(kind, k=tail))
            if made != given and made not in found and (place.check is None or place.check(made)):
                found.append(made)
                if len(found) == 3:
                    return tuple(found)
        raise NoTemplate


def _hop(number: int) -> list[tuple[str, str]]:
    """The annotations of exchange and routing key in this sample."""
    return [(name, f"{name} of sample {number}") for name in LEGACY]


def _sources(learned: Learned) -> Iterator[Source]:
    for one in learned.values():
        if isinstance(one, Pairs):
            yield from one.items
        else:
            yield one


def _formed(form: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return form(raw)
    except ValueError:
        return None
