"""The methods that are answered with not-implemented, with their arguments.

Only ``trace``, which describes frames, and ``support``, which tries methods, need them, and speed
does not matter there: arguments are read and written by rows of data
(``wire/unimplemented.py``), not by code of their own. A gateway that serves never loads this.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.adapters.methods.wire.unimplemented import LAYOUTS
from gateway.adapters.record import Record, short

EMPTY: dict[str, Any] = {
    "bit": False, "text": "", "octets": b"", "table": b"", "content": b"\0",
}  # fmt: skip
"""The default of a field; a number is 0."""

_I = Struct(">I")


class Field(NamedTuple):
    """A field of a row; reserved if it has no name."""

    name: str
    kind: str

    @property
    def empty(self) -> Any:
        return EMPTY.get(self.kind, 0)


class Sparse(Record):
    """A record that a row describes."""

    __slots__ = ()

    FIELDS: ClassVar[dict[str, Any]]

    def __init__(self, **fields: Any) -> None:
        for name, default in self.FIELDS.items():
            setattr(self, name, fields.pop(name, default))
        if fields:
            raise TypeError(f"{self.NAME} has no field {', '.join(fields)}")

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        return cls.FIELDS


@cache
def complete(name: str) -> Version:
    """The tables of a version with the arguments of all its methods."""
    version = VERSIONS[name]
    rows = {title: fields_of(text) for title, found, text in LAYOUTS if name in found}
    methods = {
        number: method if method.implemented else _method(method, rows[method.name])
        for number, method in version.methods.items()
    }
    return version._replace(
        methods=methods,
        by_name={method.name: method for method in methods.values()},
        by_record={method.record: method for method in methods.values()},
    )


def fields_of(text: str) -> tuple[Field, ...]:
    """The fields of a row."""
    return tuple(Field(*field.split(":")) for field in text.split())


def _method(method: Method, fields: Sequence[Field]) -> Method:
    record = _record(method.name, {field.name: field.empty for field in fields if field.name})
    return method._replace(
        record=record,
        read=partial(_read_arguments, record, fields),
        write=partial(_write_arguments, fields),
    )


def _record(title: str, fields: dict[str, Any]) -> type[Record]:
    name = "".join(word.capitalize() for word in title.replace(".", "-").split("-"))
    return type(name, (Sparse,), {"NAME": title, "FIELDS": fields, "__slots__": tuple(fields)})


# --- arguments -----------------------------------------------------------------------------------


def _read_arguments(
    record: type[Record], fields: Sequence[Field], buf: bytes, at: int
) -> tuple[Record, int]:
    """As the generated readers do: nothing checks bounds, and neighbouring bits share octets."""
    found: dict[str, Any] = {}
    bits = left = 0
    for name, kind in fields:
        if kind != "bit":
            left = 0
            value, at = _read(kind, buf, at)
        else:
            if not left:
                bits, left, at = buf[at], 8, at + 1
            value, bits, left = bits & 1 != 0, bits >> 1, left - 1
        if name:
            found[name] = value
    return record(**found), at


def _write_arguments(fields: Sequence[Field], record: Record) -> bytes:
    octets = bytearray()
    bits = 0  # how many of the last octet are taken
    for field in fields:
        value = getattr(record, field.name) if field.name else field.empty
        if field.kind != "bit":
            bits = 0
            octets += _written(field, value, record.NAME)
            continue
        if not bits % 8:
            octets.append(0)
        octets[-1] |= value << bits % 8
        bits += 1
    return bytes(octets)


# --- values --------------------------------------------------------------------------------------


def _read(kind: str, buf: bytes, at: int) -> tuple[Any, int]:
    if kind not in EMPTY:
        number = Struct(">" + kind)
        return number.unpack_from(buf, at)[0], at + number.size
    if kind == "text":
        end = at + 1 + buf[at]
        return buf[at + 1 : end].decode("utf-8", "surrogateescape"), end
    mode = buf[at : at + 1] if kind == "content" else b""
    at += len(mode)
    end = at + _I.size + _I.unpack_from(buf, at)[0]
    return mode + buf[at + _I.size : end], end


def _written(field: Field, value: Any, title: str) -> bytes:
    if field.kind not in EMPTY:
        return Struct(">" + field.kind).pack(value)
    if field.kind == "text":
        raw = short(value, f"{title} {field.name}")
        return bytes((len(raw),)) + raw
    mode = b""
    if field.kind == "content":
        mode, value = value[:1] or b"\0", value[1:]
    return mode + _I.pack(len(value)) + bytes(value)
