"""Emits ``wire/layouts.py`` of the performative family: records, readers from lists, writers.

A composite is read field by field through a tuple of field readers. Those that a busy
connection is made of are unrolled for the usual constructors (``emit_unrolled``).
"""

from specs.codegen import ir
from specs.codegen.emit_records import emit_class
from specs.codegen.emit_unrolled import emit_unrolled
from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.layouts import camel, snake

UNROLLED = ("flow", "transfer", "disposition", "header", "properties")

PYTHON = {  # primitive type -> annotation, and default where the field is required
    "boolean": ("bool", "False"),
    "ubyte": ("int", "0"),
    "ushort": ("int", "0"),
    "uint": ("int", "0"),
    "ulong": ("int", "0"),
    "timestamp": ("int", "0"),
    "binary": ("bytes", 'b""'),
    "string": ("str", '""'),
    "symbol": ("str", '""'),
    "map": ("dict[Any, Any]", ""),
}

HEAD = '''\
"""Records and layouts of the performative family: 1.0.

{stamp}

A reader takes the octets, the offset of the list that a descriptor announced and the depth, and
returns the record and the offset where it stopped. It checks no bounds: a field past the end of
the frame stops past the end of the frame, and struct.error, IndexError and UnicodeDecodeError may
escape. A field that was absent or null is None; ``composites.effective`` knows the defaults.
"""

from struct import Struct
from typing import Any, ClassVar
from uuid import UUID

from gateway.adapters.performatives import composite_fields as t
from gateway.adapters.performatives.decoding import DEPTH, READERS, FieldError, Reader
from gateway.adapters.performatives.encoding import WRITERS
from gateway.adapters.record import Record
from gateway.values import Described, Symbol, ULong

_I = Struct(">I")
_q = Struct(">q")
_symbol8 = READERS[0xA3]


class Composite(Record):
    """A record with the code of its descriptor and the archetypes it provides."""

    __slots__ = ()

    CODE: ClassVar[int]
    PROVIDES: ClassVar[frozenset[str]]


def any_(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    """A value of any type; a composite that has a record becomes one."""
    if buf[at] != 0:
        return READERS[buf[at]](buf, at + 1, depth)
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {{DEPTH}}")
    descriptor, start = READERS[buf[at + 1]](buf, at + 2, depth + 1)
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        reader: Reader | None = LISTS.get(descriptor)
        if reader is not None:
            return reader(buf, start, depth + 1)
    value, at = READERS[buf[start]](buf, start + 1, depth + 1)
    return Described(descriptor, value), at


def only(name: str) -> t.Field:
    """A field that holds this composite."""

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = any_(buf, at, depth)
        if value is not None and getattr(value, "NAME", "") != name:
            raise FieldError(f"expected {{name}}, found {{type(value).__name__}}")
        return value, at

    return read


def providing(archetype: str, *simple: type[Any]) -> t.Field:
    """A field of any type that provides an archetype. A described value without a record is an
    extension, and is accepted."""

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = any_(buf, at, depth)
        if value is None or isinstance(value, simple) or type(value) is Described:
            return value, at
        if isinstance(value, Composite) and archetype in value.PROVIDES:
            return value, at
        raise FieldError(f"{{type(value).__name__}} provides no {{archetype}}")

    return read
'''


def emit_composites(protocol: ir.Protocol, stamp: str) -> str:
    """The whole module."""
    if protocol.family != "performatives":
        raise NoEmitter(f"{protocol.name}: no emitter for the family {protocol.family!r} here")
    lists = composites(protocol)
    lines = archetypes(protocol, lists)
    named = {item.type for struct in lists for item in struct.fields}
    for struct in sorted(lists, key=lambda each: each.name not in named):  # those in fields first
        lines += emit_record(protocol, struct)
    lines += ["", "", "ACCEPTED = Accepted()", '"""Shared: it has no fields."""']
    for struct in lists:
        lines += emit_reader(protocol, struct) + emit_writer(protocol, struct)
    lines += ["", "", "LISTS: dict[int | str, Reader] = {"]
    for struct in lists:
        lines.append(f"    0x{struct.code:02x}: read_{snake(struct.name)},")
        lines.append(f'    "{struct.symbol}": read_{snake(struct.name)},')
    lines += ["}", '"""Readers of composites by either descriptor."""', ""]
    lines += ["WRITERS.update(", "    {"]
    for struct in lists:
        lines.append(f"        {camel(struct.name)}: t.fitting(write_{snake(struct.name)}),")
    return HEAD.format(stamp=stamp) + "\n".join([*lines, "    }", ")"]) + "\n"


def composites(protocol: ir.Protocol) -> list[ir.Struct]:
    """What is a list of fields: all described types but the sections that are not."""
    found = [
        struct
        for struct in protocol.structs
        if struct.source == "list" and (struct.fields or "section" not in struct.provides.split())
    ]
    for struct in found:
        if struct.code is None or not 0 <= struct.code < 256 or not struct.symbol:
            raise SpecError(
                f"{protocol.name} {struct.name}: needs a symbol and a code in one octet"
            )
    return found


def archetypes(protocol: ir.Protocol, lists: list[ir.Struct]) -> list[str]:
    """One reader for every archetype that a field of any type requires."""
    simple = {"ulong": "ULong", "uuid": "UUID", "binary": "bytes", "string": "str"}
    lines = ["", ""]
    wanted = {f.requires for struct in lists for f in struct.fields if f.type == "*"}
    provided = {word for s in protocol.structs for word in s.provides.split()}
    provided |= {word for domain in protocol.restricted for word in domain.provides.split()}
    for archetype in sorted(wanted):
        if archetype not in provided:  # left to other specifications
            lines.append(f"_{snake(archetype)} = any_")
            continue
        kinds = [
            simple[protocol.wire_type(domain.name).name]
            for domain in protocol.restricted
            if archetype in domain.provides.split()
        ]
        words = ", ".join([f'"{archetype}"', *kinds])
        lines.append(f"_{snake(archetype)} = providing({words})")
    return lines


def annotation(protocol: ir.Protocol, item: ir.Field) -> tuple[str, str]:
    """The type of a record's field, and its default."""
    kind, default = "Any", "None"
    if item.type in {struct.name for struct in protocol.structs}:
        kind = camel(item.type)
    elif item.type != "*":
        name = protocol.wire_type(item.type).name
        if name not in PYTHON:
            raise NoEmitter(f"{protocol.name}: no emitter for fields of type {name!r} yet")
        kind, default = PYTHON[name]
    if item.multiple:
        kind, default = f"tuple[{kind}, ...]", "()"
    if item.required:
        if not default:
            raise NoEmitter(f"{protocol.name}: no default for a required {kind}: {item.name}")
        return kind, default
    return (kind if kind == "Any" else f"{kind} | None"), "None"


def reader_of(protocol: ir.Protocol, item: ir.Field) -> str:
    """The expression of the reader of a field."""
    if item.type == "*":
        return f"_{snake(item.requires)}"
    if item.type in {struct.name for struct in protocol.structs}:
        return f'only("{item.type}")'
    name = protocol.wire_type(item.type).name
    if item.multiple:
        return "t.symbols" if name == "symbol" else f't.several("{name}")'
    return "t.map_" if name == "map" else f"t.{name}"


def writer_of(protocol: ir.Protocol, item: ir.Field) -> str:
    """The name of the writer of a field."""
    if item.type == "*" or item.type in {struct.name for struct in protocol.structs}:
        return "t.write_any"
    name = protocol.wire_type(item.type).name
    if item.multiple and name != "symbol":
        raise NoEmitter(f"{protocol.name}: no emitter for several values of type {name!r}")
    special = {"map": "map_", "symbol": "symbols" if item.multiple else "symbol_field"}
    return f"t.write_{special.get(name, name)}"


def emit_record(protocol: ir.Protocol, struct: ir.Struct) -> list[str]:
    provides = ", ".join(f'"{word}"' for word in struct.provides.split())
    provided = f"frozenset([{provides}])" if provides else "frozenset()"
    constants = [
        f'NAME = "{struct.name}"',
        f"CODE = 0x{struct.code:02x}",
        f"PROVIDES = {provided}",
    ]
    parameters = [(snake(item.name), *annotation(protocol, item)) for item in struct.fields]
    return emit_class(f"{camel(struct.name)}(Composite)", constants, parameters)


def emit_reader(protocol: ir.Protocol, struct: ir.Struct) -> list[str]:
    name, note = snake(struct.name), f"{protocol.name} §{struct.section}"
    if struct.name in UNROLLED:
        readers = {item.name: reader_of(protocol, item) for item in struct.fields}
        return emit_unrolled(protocol, struct, readers, note)
    required = [str(place) for place, item in enumerate(struct.fields) if item.required]
    needed = "(" + "".join(f"{place}, " for place in required).rstrip() + ")"
    if len(required) > 1:
        needed = needed.replace(",)", ")")
    words = [reader_of(protocol, item) for item in struct.fields]
    layout = f"_{name.upper()}: tuple[t.Field, ...] = (" + "".join(f"{w}, " for w in words)
    lines = ["", "", *folded(layout.rstrip() + ")"), ""]
    lines += [
        "",
        f"def read_{name}(  # {note}",
        "    buf: bytes, at: int, depth: int = 0",
        f") -> tuple[{camel(struct.name)}, int]:",
        "    values, at = t.read_fields(",
        f'        buf, at, depth, "{struct.name}", _{name.upper()}, {needed}',
        "    )",
        f"    return {camel(struct.name)}(*values), at",
    ]
    return lines


def folded(text: str) -> list[str]:
    """A tuple on one line, or an item on each."""
    if len(text) <= 100:
        return [text]
    start = text.index("= (") + 3
    items = text[start:-1].rstrip(",").split(", ")
    return [text[:start], *(f"    {item}," for item in items), ")"]


def emit_writer(protocol: ir.Protocol, struct: ir.Struct) -> list[str]:
    name = snake(struct.name)
    lines = ["", "", f"def write_{name}(m: {camel(struct.name)}) -> bytes:"]
    descriptor = f'b"\\x00\\x53\\x{struct.code:02x}"'
    if not struct.fields:
        return [*lines, f'    return b"\\x00\\x53\\x{struct.code:02x}\\x45"']
    lines += ["    return t.compose(", f"        {descriptor},", "        ["]
    for item in struct.fields:
        lines.append(f"            {writer_of(protocol, item)}(m.{snake(item.name)}),")
    return [*lines, "        ],", "    )"]
