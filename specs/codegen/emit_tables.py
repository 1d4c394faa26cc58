"""Emits ``wire/tables.py``: for every version the rows that join numbers, records and layouts.

What differs between the versions can be read in the output; equal rows are repeated on purpose.
A method that the family has no layout for is a short row: it is answered with not-implemented.
"""

from collections.abc import Sequence

from specs.codegen import ir
from specs.codegen.emit_records import filled, wrapped
from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.layouts import FORMATS, Family, camel, snake

HEAD = '''\
"""The versions of the class-and-method family as tables: {versions}.

{stamp}
"""

from struct import Struct

from gateway.adapters.methods.geometry import {names}
from gateway.adapters.methods.wire import {layouts} as w
'''


def emit_tables(
    protocols: Sequence[ir.Protocol],
    family: Family,
    stamp: str,
    versions: str = "0-8, 0-9, 0-9-1",
    layouts: str = "layouts",
) -> str:
    """The whole module."""
    lines: list[str] = []
    geometries: dict[tuple[str, ...], str] = {}
    for protocol in protocols:
        rows = tuple(emit_geometry(protocol))
        if rows not in geometries:
            geometries[rows] = f"GEOMETRY_{snake(protocol.name)}"
            lines += ["", f"{geometries[rows]} = Geometry(", *rows, ")"]
        lines += ["", *emit_version(protocol, family, geometries[rows])]
    lines += ["", "VERSIONS: dict[str, Version] = {"]
    lines += [f'    "{protocol.name}": {constant(protocol)},' for protocol in protocols]
    text = "\n".join([*lines, "}"]) + "\n"
    names = "Content, Geometry, Method, Version, version"
    if "unimplemented(" in text:
        words = ["Content", "Extended", "Geometry", "Method", "Version", "unimplemented", "version"]
        names = "".join(["(\n", *(f"    {word},\n" for word in words), ")"])
    return HEAD.format(versions=versions, stamp=stamp, layouts=layouts, names=names) + text


def constant(protocol: ir.Protocol) -> str:
    return f"V{snake(protocol.name)}"


def struct(parts: Sequence[ir.Part]) -> str:
    return f'Struct(">{"".join(FORMATS[part.width] for part in parts)}")'


def octets(raw: bytes) -> str:
    return 'b"' + "".join(f"\\x{octet:02x}" for octet in raw) + '"'


def emit_geometry(protocol: ir.Protocol) -> list[str]:
    framing = protocol.framing
    names = [part.name for part in framing.head]
    if framing.size_counts not in ("body", "body-and-end"):
        raise NoEmitter(f"{protocol.name}: no emitter for size-counts={framing.size_counts!r}")
    missing = {"type", "channel", "size"} - set(names)
    if missing:
        raise SpecError(f"{protocol.name}: the frame header has no {', '.join(sorted(missing))}")
    header = [part.name for part in framing.content_header]
    if header != ["class", "weight", "body-size", "property-flags"]:
        raise SpecError(f"{protocol.name}: the content header is not that of the loop")
    order = tuple(names.index(name) for name in ("type", "channel", "size"))
    tail = b"" if framing.end is None else bytes([framing.end])
    counts = framing.size_counts == "body-and-end"
    beat = b""
    for part in framing.head:
        value = part.value or 0
        if part.name == "type":
            value = protocol.constants["frame-heartbeat"].value
        elif part.name == "size":
            value = len(tail) if counts else 0
        beat += value.to_bytes(part.width, "big")
    values = {
        "head": struct(framing.head),
        "order": str(order),
        "tail": octets(tail) if tail else 'b""',
        "size_counts_tail": str(counts),
        "method": struct(framing.identity),
        "content": struct(framing.content_header[:3]),
        "longstr": str(protocol.wire_type("longstr").length),
        "heartbeat": octets(beat + tail),
        "meta": str(any(carrier.nested for carrier in framing.carriers)),
    }
    return [f"    {name}={value}," for name, value in values.items()]


def emit_version(protocol: ir.Protocol, family: Family, geometry: str) -> list[str]:
    lines = [
        f"{constant(protocol)} = version(",
        f'    name="{protocol.name}",',
        f"    header={octets(protocol.header)},",
        f"    numbers=({protocol.major}, {protocol.minor}, {protocol.revision}),",
        f"    geometry={geometry},",
        "    methods=(",
    ]
    for class_ in protocol.classes:
        for operation in class_.operations:
            lines += emit_method(protocol, class_, operation, family)
    lines += ["    ),", "    contents=("]
    for class_ in protocol.classes:
        title = f"{class_.name}.properties"
        stem = family.stems.get((protocol.name, title), "")
        if stem:
            lines += [
                "        Content(",
                f'            "{class_.name}", {class_.number}, w.{camel(title)},',
                f"            w.read_{stem}, w.write_{stem},",
                "        ),",
            ]
    lines += ["    ),", "    constants={"]
    lines += [f'        "{item.name}": {item.value},' for item in protocol.constants.values()]
    lines += ["    },", "    codes={"]
    for row in protocol.conditions:
        item = protocol.constants[row.constant]
        text = item.name.replace("-", "_").upper()
        note = "  # the nearest this version has" if row.nearest else ""
        hard = item.scope == "connection"
        lines.append(f'        "{row.name}": ({item.value}, "{text}", {hard}),{note}')
    return [*lines, "    },", ")"]


def emit_method(
    protocol: ir.Protocol, class_: ir.Class, operation: ir.Operation, family: Family
) -> list[str]:
    title = f"{class_.name}.{operation.name}"
    stem = family.stems.get((protocol.name, title), "")
    widths = [part.width for part in protocol.framing.identity[:2]]
    prefix = class_.number.to_bytes(widths[0], "big") + operation.number.to_bytes(widths[1], "big")
    replies = [reply if "." in reply else f"{class_.name}.{reply}" for reply in operation.replies]
    listed = "(" + "".join(f'"{reply}", ' for reply in replies).rstrip()
    listed = listed.removesuffix(",") + (",)" if len(replies) == 1 else ")")
    sides = f"{'client' in operation.senders}, {'server' in operation.senders}"
    extension = operation.extension or class_.extension
    number = f"0x{class_.number << 16 | operation.number:08x}"
    if not stem:
        words = [f'"{title}"', number, sides]
        words += [f"replies={listed}"] if replies else []
        words += ["content=True"] if operation.content else []
        words += [f'extension="{extension}"'] if extension else []
        return wrapped("        unimplemented(", words, "", "),")
    functions = [f"            w.{camel(title)}, w.read_{stem}, w.write_{stem},"]
    if len(functions[0]) > 100:
        functions = [f"            w.{camel(title)},", f"            w.read_{stem},"]
        functions.append(f"            w.write_{stem},")
    words = [f'"{extension}"', f'"{operation.section}"']
    extended = family.extended.get((protocol.name, title))
    if extended:
        last = snake(operation.fields[-1].name)
        layout = [f'"{last}"', f"w.read_{extended}", f"w.write_{extended}"]
        tail = wrapped("            Extended(", layout, "", "),")
    else:
        tail = []
    return [
        "        Method(",
        f'            "{title}", {number}, {octets(prefix)},',
        *functions,
        *filled([sides, listed, str(operation.content), *words], 12),
        *tail,
        "        ),",
    ]
