"""Emits ``wire/layouts.py`` of the segment family: records, and a reader and a writer for each
control, command and struct.

A reader tests each presence flag once and reads the field on the spot; numbers that stand together
are one ``Struct`` if all of them are there. A ``bit`` is its flag and nothing else.
"""

from collections.abc import Iterator
from typing import NamedTuple

from specs.codegen import ir
from specs.codegen.emit_records import LIMIT, emit_class
from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.layouts import FORMATS, camel, snake

HEAD = '''\
"""Records and layouts of the segment family: 0-10.

{stamp}

A reader takes the octets and the offset of the presence flags and returns the record and the offset
where it stopped. It checks no bounds: a field past the end of the segment stops past the end of
the segment; struct.error and IndexError may escape. FieldError is raised for flags of unknown
fields. A field that is absent is None, a bit then False. Maps, arrays and structs of any
type are their octets without their size, sets the first and last number of each range, a uuid is
its octets. A writer raises FieldError and struct.error for values that do not fit.
"""

from struct import Struct

from gateway.adapters.record import Record
from gateway.adapters.segments import fields as t
from gateway.adapters.segments.types import FieldError, Ranges

{structs}
'''

OCTETS = ("octets", "map", "array", "list", "struct")
HELPERS = {1: "octets8", 2: "octets16", 4: "octets32"}


class Slot(NamedTuple):
    """A field: its place in the flags, the kind of its type, octets of its value or of the size
    before it, and the struct that it is."""

    place: int
    target: str
    kind: str
    width: int
    type: str
    struct: ir.Struct | None = None

    @property
    def bit(self) -> int:
        return 1 << self.place

    @property
    def number(self) -> bool:
        return self.kind in ("unsigned", "time")

    @property
    def annotation(self) -> str:
        if self.kind == "bit":
            return "bool"
        if self.struct is not None:
            return f"{camel(self.struct.name)} | None"
        kinds = {"unsigned": "int", "time": "int", "text": "str", "set": "Ranges"}
        return f"{kinds.get(self.kind, 'bytes')} | None"


class Packed(NamedTuple):
    """Something with a reader and a writer. ``pack``: octets of its presence flags."""

    title: str
    record: str
    stem: str
    pack: int
    slots: tuple[Slot, ...]


def emit_packed(protocol: ir.Protocol, stamp: str) -> str:
    """The whole module."""
    if protocol.family != "segments":
        raise NoEmitter(f"{protocol.name}: no emitter for the family {protocol.family!r} here")
    found = list(packed(protocol))
    for name in {each.record for each in found}:
        if [each.record for each in found].count(name) > 1:
            raise SpecError(f"{protocol.name}: two records are called {name}")
    lines: list[str] = []
    for each in found:
        parameters = [
            (s.target, s.annotation, "False" if s.kind == "bit" else "None") for s in each.slots
        ]
        lines += emit_class(f"{each.record}(Record)", [f'NAME = "{each.title}"'], parameters)
    for each in found:
        lines += emit_reader(each) + emit_writer(each)
    codes: list[str] = []
    for class_, struct in struct_names(protocol).values():
        name = f"CODE_{snake(struct.name).upper()}"
        if any(name in line for line in lines):
            code = struct_code(class_, struct)
            codes.append(f'{name} = b"\\x{code >> 8:02x}\\x{code & 255:02x}"')
    text = "\n".join(lines) + "\n"
    formats = ["B", "H", "I", "Q", *sorted(format_of(run) for each in found for run in runs(each))]
    structs = [f'_{name} = Struct(">{name}")' for name in dict.fromkeys(formats)]
    structs = [line for line in structs if f"{line.split()[0]}." in text]
    structs += [
        '_flags = Struct("<H")',
        '"""The first field is the lowest bit of the first octet."""',
    ]
    structs += codes
    return HEAD.format(stamp=stamp, structs="\n".join(structs)) + text


def struct_names(protocol: ir.Protocol) -> dict[str, tuple[ir.Class, ir.Struct]]:
    """The structs by their full names."""
    return {f"{c.name}.{s.name}": (c, s) for c in protocol.classes for s in c.structs}


def struct_code(class_: ir.Class, struct: ir.Struct) -> int:
    """Class and code of a struct in one number, 0 if it has no code."""
    return class_.number << 8 | struct.code if struct.code is not None else 0


def packed(protocol: ir.Protocol) -> Iterator[Packed]:
    """All structs, those in fields of others first, and all operations."""
    inner = {f.type for _, s in struct_names(protocol).values() for f in s.fields}
    structs = sorted(struct_names(protocol).items(), key=lambda item: item[0] not in inner)
    for _, (_, struct) in structs:
        name, fields = struct.name, struct.fields
        yield Packed(name, camel(name), snake(name), struct.pack, slots(protocol, fields))
    for class_ in protocol.classes:
        for operation in class_.operations:
            title = f"{class_.name}.{operation.name}"
            pack = operation.pack or protocol.framing.pack
            stem = snake(title.replace(".", "-"))
            yield Packed(title, camel(title), stem, pack, slots(protocol, operation.fields))


def slots(protocol: ir.Protocol, fields: tuple[ir.Field, ...]) -> tuple[Slot, ...]:
    known = struct_names(protocol)
    found = []
    for place, item in enumerate(fields):
        if item.type in known:
            class_, struct = known[item.type]
            if struct_code(class_, struct) and struct.size != 4:
                raise NoEmitter(f"{protocol.name}: a struct with a code has a size of 4 octets")
            found.append(Slot(place, snake(item.name), "struct", struct.size, item.type, struct))
            continue
        wire = protocol.wire_type(item.type)
        width = wire.width or wire.length
        if wire.kind not in ("bit", "unsigned", "time", "text", "uuid", "set", *OCTETS):
            raise NoEmitter(f"{protocol.name}: no layout for fields of kind {wire.kind!r} yet")
        found.append(Slot(place, snake(item.name), wire.kind, width, wire.name))
    return tuple(found)


def runs(item: Packed) -> list[list[Slot]]:
    """Numbers that stand together. Bits between them take no octets."""
    found: list[list[Slot]] = [[]]
    for slot in item.slots:
        if slot.number:
            found[-1].append(slot)
        elif slot.kind != "bit":
            found.append([])
    return [run for run in found if len(run) > 1]


def format_of(run: list[Slot]) -> str:
    return "".join(FORMATS[slot.width] for slot in run)


# Readers.


def emit_reader(item: Packed) -> list[str]:
    head = f"def read_{item.stem}(buf: bytes, at: int) -> tuple[{item.record}, int]:"
    if len(head) > LIMIT:
        head = f"def read_{item.stem}(\n    buf: bytes, at: int\n) -> tuple[{item.record}, int]:"
    lines = ["", "", *head.split("\n")]
    if item.pack == 2:
        lines.append("    (flags,) = _flags.unpack_from(buf, at)")
    elif item.pack == 1:
        lines.append("    flags = buf[at]")
    elif item.pack:
        raise NoEmitter(f"{item.title}: no layout for {item.pack} octets of flags")
    if item.pack:
        if len(item.slots) < 8 * item.pack:
            least = 1 << len(item.slots)
            lines.append(f"    if flags{' >= ' + str(least) if least > 1 else ''}:")
            lines.append(f'        raise FieldError("{item.title} has no such fields")')
        lines.append(f"    at += {item.pack}")
    together = {run[0].place: run for run in runs(item)} if item.pack else {}
    done: set[int] = set()
    for slot in item.slots:
        if slot.kind == "bit" or slot.place in done:
            continue
        run = together.get(slot.place)
        if run is not None:
            lines += read_run(run)
            done |= {each.place for each in run}
            continue
        if not item.pack:
            lines += ["    " + line for line in read_field(slot)]
            continue
        lines += read_absent(slot)
    words = [f"flags & {s.bit} != 0" if s.kind == "bit" else s.target for s in item.slots]
    return [*lines, *returned(item.record, words)]


def returned(record: str, words: list[str]) -> list[str]:
    line = f"    return {record}({', '.join(words)}), at"
    if len(line) <= LIMIT:
        return [line]
    return [
        f"    record = {record}(",
        *(f"        {word}," for word in words),
        "    )",
        "    return record, at",
    ]


def read_absent(slot: Slot) -> list[str]:
    """A field that may be absent."""
    return [
        f"    {slot.target}: {slot.annotation} = None",
        f"    if flags & {slot.bit}:",
        *("        " + line for line in read_field(slot)),
    ]


def read_run(run: list[Slot]) -> list[str]:
    """Numbers under one ``Struct`` if all are there."""
    mask = sum(slot.bit for slot in run)
    lines = [f"    {slot.target}: {slot.annotation} = None" for slot in run]
    names = ", ".join(slot.target for slot in run)
    layout = format_of(run)
    lines.append(f"    if flags & {mask} == {mask}:")
    if set(layout) == {"B"}:
        lines += [
            f"        {slot.target} = buf[at{f' + {i}' if i else ''}]" for i, slot in enumerate(run)
        ]
    else:
        lines.append(f"        {names} = _{layout}.unpack_from(buf, at)")
    lines.append(f"        at += {sum(slot.width for slot in run)}")
    lines.append(f"    elif flags & {mask}:")
    for slot in run:
        lines.append(f"        if flags & {slot.bit}:")
        lines += ["            " + line for line in read_field(slot)]
    return lines


def size_of(width: int) -> str:
    if width == 1:
        return "buf[at]"
    return "(buf[at] << 8 | buf[at + 1])" if width == 2 else "_I.unpack_from(buf, at)[0]"


def read_field(slot: Slot) -> list[str]:
    """Statements that assign ``target`` and move ``at``."""
    target, width = slot.target, slot.width
    if slot.number:
        value = "buf[at]" if width == 1 else f"_{FORMATS[width]}.unpack_from(buf, at)[0]"
        return [f"{target} = {value}", f"at += {width}"]
    if slot.kind == "set":
        reader = "read_set" if slot.type == "sequence-set" else "read_byte_ranges"
        return [f"{target}, at = t.{reader}(buf, at)"]
    if slot.kind == "uuid":
        return [f"{target} = t.exactly(buf, at, 16)", "at += 16"]
    if slot.struct is not None:
        return read_struct(slot, slot.struct)
    taken = f"buf[at + {width} : end]"
    if slot.kind == "text":
        taken += '.decode("utf-8", "surrogateescape")'
    return [f"end = at + {width} + {size_of(width)}", f"{target} = {taken}", "at = end"]


def read_struct(slot: Slot, struct: ir.Struct) -> list[str]:
    start = f"at + {slot.width}"
    lines = [f"end = {start} + {size_of(slot.width)}"]
    if struct.code is not None:
        code = f"CODE_{snake(struct.name).upper()}"
        start = f"at + {slot.width + 2}"
        lines += [
            f"if buf[at + {slot.width} : at + {slot.width + 2}] != {code}:",
            f'    raise FieldError("{slot.target} is no {struct.name}")',
        ]
    return [
        *lines,
        f"{slot.target}, at = read_{snake(struct.name)}(buf, {start})",
        "if at != end:",
        f'    raise FieldError("the fields of {slot.target} do not end where it does")',
    ]


# Writers.


def emit_writer(item: Packed) -> list[str]:
    lines = ["", "", f"def write_{item.stem}(m: {item.record}) -> bytes:"]
    bits = [s for s in item.slots if s.kind == "bit"]
    values = [s for s in item.slots if s.kind != "bit"]
    if not item.slots:
        return [*lines, '    return b"' + "\\x00" * item.pack + '"']
    flags = " | ".join(f"m.{s.target} << {s.place}" if s.place else f"m.{s.target}" for s in bits)
    lines += assigned("flags", flags or "0")
    if not values:
        return [*lines, f"    return {packed_flags(item.pack)}"]
    lines.append('    body = b""')
    together = {run[0].place: run for run in runs(item)}
    done: set[int] = set()
    for slot in values:
        if slot.place in done:
            continue
        run = together.get(slot.place, [slot])
        done |= {each.place for each in run}
        if not item.pack:
            lines += [f"    body += {write_value(item, each, f'm.{each.target}')}" for each in run]
            continue
        if len(run) > 1:
            names = ", ".join(f"m.{each.target}" for each in run)
            there = " and ".join(f"m.{each.target} is not None" for each in run)
            lines += broken_if(there)
            lines.append(f"        flags |= {sum(each.bit for each in run)}")
            lines.append(f"        body += _{format_of(run)}.pack({names})")
            lines.append("    else:")
            for each in run:
                lines += ["    " + line for line in write_one(item, each)]
        else:
            lines += write_one(item, slot)
    if not item.pack:
        return [*(line for line in lines if line.strip() != "flags = 0"), "    return body"]
    return [*lines, f"    return {packed_flags(item.pack)} + body"]


def packed_flags(pack: int) -> str:
    return "_flags.pack(flags)" if pack == 2 else "_B.pack(flags)"


def assigned(target: str, value: str) -> list[str]:
    line = f"    {target} = {value}"
    if len(line) <= LIMIT:
        return [line]
    first, *rest = value.split(" | ")
    return [f"    {target} = (", f"        {first}", *(f"        | {r}" for r in rest), "    )"]


def broken_if(condition: str) -> list[str]:
    line = f"    if {condition}:"
    if len(line) <= LIMIT:
        return [line]
    first, *rest = condition.split(" and ")
    return ["    if (", f"        {first}", *(f"        and {r}" for r in rest), "    ):"]


def write_one(item: Packed, slot: Slot) -> list[str]:
    return [
        f"    {slot.target} = m.{slot.target}",
        f"    if {slot.target} is not None:",
        f"        flags |= {slot.bit}",
        f"        body += {write_value(item, slot, slot.target)}",
    ]


def write_value(item: Packed, slot: Slot, value: str) -> str:
    """The expression of the octets of a field."""
    where = f'"{item.title} {slot.target.rstrip("_").replace("_", "-")}"'
    if slot.number:
        return f"_{FORMATS[slot.width]}.pack({value})"
    if slot.kind == "set":
        given = value if item.pack else f"{value} or ()"
        return f"t.{'write_set' if slot.type == 'sequence-set' else 'write_byte_ranges'}({given})"
    if slot.kind == "uuid":
        return f"t.uuid({value}, {where})"
    if slot.kind == "text":
        return f"t.text{8 * slot.width}({value}, {where})"
    if slot.struct is not None:
        written = f"write_{snake(slot.struct.name)}({value})"
        if slot.struct.code is not None:
            written = f"CODE_{snake(slot.struct.name).upper()} + {written}"
        value = written
    return f"t.{HELPERS[slot.width]}({value}, {where})"
