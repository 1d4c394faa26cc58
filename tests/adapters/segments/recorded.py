"""Recorded conversations of Qpid's programs (``recordings/``), frame by frame."""

from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.decoding import read_array, read_map
from gateway.adapters.segments.encoding import write_array, write_map
from gateway.adapters.segments.wire.tables import BY_RECORD, BY_STRUCT
from gateway.values import CodedOctets, Seconds, TypedArray, UShort
from specs.codegen.layouts import snake
from tests.adapters.segments import records

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
CYCLE = b"0123456789abcdef"


class Frame(NamedTuple):
    """``octets`` are empty for the end of TCP."""

    connection: str
    from_client: bool
    octets: bytes
    meaning: str


def frames(name: str) -> list[Frame]:
    found = []
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            side, octets, meaning = line.split(" ", 2)
            found.append(Frame(side[:-1], side[-1] == ">", decoded(octets), meaning))
    return found


def decoded(text: str) -> bytes:
    """The octets of a frame; a long body is a cycle of digits."""
    if text == "-":
        return b""
    head, _, start = text.partition("*")
    octets = bytes.fromhex(head)
    if start:
        size = int.from_bytes(octets[2:4], "big") - 12
        octets += (CYCLE * (size // 16 + 2))[int(start) :][:size]
    return octets


# --- the notation of the recordings ---------------------------------------------------------------

FIELDS = {
    **{f"{c.name}.{o.name}": o.fields for c in records.PROTOCOL.classes for o in c.operations},
    **{s.name: s.fields for c in records.PROTOCOL.classes for s in c.structs},
}
TYPES = {
    str: "str16", bool: "boolean", int: "int64", float: "double", bytes: "vbin16", list: "list",
    dict: "map", UUID: "uuid", type(None): "void", Seconds: "datetime", UShort: "uint16",
}  # fmt: skip
ELEMENTS = {0x95: "str16", 0xF0: "void", 0xAB: "struct32"}


def described(record: Any) -> str:
    """A record as the recordings describe it."""
    said = []
    for item in FIELDS[record.NAME]:
        value = getattr(record, snake(item.name))
        if value is not None and value is not False:
            said.append(f"{item.name}: {field(item.type, value)}")
    return f"{{{', '.join(said)}}}"


def field(name: str, value: Any) -> str:
    if name in records.STRUCTS:
        return described(value)
    kind = records.PROTOCOL.wire_type(name).kind
    if kind == "map":
        return mapped(read_map(value))
    if kind == "array":
        return listed(read_array(value))
    if kind == "struct":
        return struct(value)
    if kind == "uuid":
        return f"uuid:{value.hex()}"
    if kind == "set":
        return str([list(each) for each in value])
    return plain(value)


def struct(octets: bytes) -> str:
    record = ops.read_struct(octets)
    return f"{{{record.NAME}: {described(record)}}}"


def mapped(table: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {typed(value)}' for key, value in table.items())}}}"


def listed(array: TypedArray) -> str:
    if array.element is None:
        return "[]"
    values = ", ".join(
        struct(item) if isinstance(item, CodedOctets) else plain(item) for item in array
    )
    return f"{{of: {ELEMENTS[array.element]}, values: [{values}]}}"


def typed(value: Any) -> str:
    if isinstance(value, TypedArray):
        return f"array {listed(value)}"
    name = TYPES[type(value)]
    if isinstance(value, dict):
        return f"{name} {mapped(value)}"
    if isinstance(value, list):
        return f"{name} [{', '.join(map(typed, value))}]"
    return f"{name} {plain(value)}"


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return f"'{text}'" if text.isascii() and text.isprintable() else f"0x{value.hex()}"
    if isinstance(value, UUID):
        return f"uuid:{value.hex}"
    return "null" if value is None else str(value)


def rewritten(record: Any) -> bytes:
    """Presence flags and fields, with every map and array written anew."""
    for item in FIELDS[record.NAME]:
        value = getattr(record, snake(item.name))
        kind = "" if item.type in records.STRUCTS else records.PROTOCOL.wire_type(item.type).kind
        if value is not None and kind == "map":
            setattr(record, snake(item.name), write_map(read_map(value)))
        elif value is not None and kind == "array":
            setattr(record, snake(item.name), write_array(read_array(value)))
        elif value is not None and kind == "struct":
            inner = ops.read_struct(value)
            code = BY_STRUCT[type(inner)].code
            setattr(record, snake(item.name), code.to_bytes(2) + rewritten(inner))
    return ops.write_fields({**BY_RECORD, **BY_STRUCT}[type(record)], record)
