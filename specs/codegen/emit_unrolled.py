"""Emits readers of composites that look at the usual constructors themselves.

Every field is a short chain of tests on one octet that ends in the table's reader, so that all
allowed encodings are read and only the usual ones are fast.
"""

from collections.abc import Mapping

from specs.codegen import ir
from specs.codegen.ir import NoEmitter
from specs.codegen.layouts import camel, snake

ANNOTATIONS = {
    "boolean": "bool", "ubyte": "int", "uint": "int", "timestamp": "int", "binary": "bytes",
    "string": "str", "symbol": "str",
}  # fmt: skip
TEXTUAL = ("address", "message-id")  # archetypes that are mostly strings


def emit_unrolled(
    protocol: ir.Protocol, struct: ir.Struct, readers: Mapping[str, str], note: str
) -> list[str]:
    """One reader; ``readers`` are the expressions that read unusual encodings."""
    record, size = camel(struct.name), len(struct.fields)
    least = max((place + 1 for place, item in enumerate(struct.fields) if item.required), default=0)
    lines = [
        "",
        "",
        f"def read_{snake(struct.name)}(  # {note}",
        "    buf: bytes, at: int, depth: int = 0",
        f") -> tuple[{record}, int]:",
        "    if buf[at] == 0xC0:",
        "        end, count, at = at + 2 + buf[at + 1], buf[at + 2], at + 3",
        "    else:",
        "        count, at, end = t.head(buf, at, depth)",
        f"    if count > {size}:",
        f'        raise FieldError(f"{struct.name} has {size} fields, not {{count}}")',
    ]
    if least:
        lines += [f"    if count < {least}:", f'        raise t.missing("{struct.name}")']
    lines.append("    depth += 1")
    lines += [
        f"    {snake(item.name)}: {annotation(protocol, item)} = None"
        for item in struct.fields
        if not item.required
    ]
    for place, item in enumerate(struct.fields):
        body = emit_field(protocol, struct, item, readers[item.name])
        if place >= least:
            lines.append(f"    if count > {place}:")
            body = ["    " + line for line in body]
        lines += ["    " + line for line in body]
    lines += [
        "    if at != end:",
        f'        raise FieldError("the fields of {struct.name} do not end where it does")',
        f"    record = {record}(",
        *(f"        {snake(item.name)}," for item in struct.fields),
        "    )",
        "    return record, end",
    ]
    return lines


def annotation(protocol: ir.Protocol, item: ir.Field) -> str:
    if item.type == "*":
        return "Any"
    name = protocol.wire_type(item.type).name
    return f"{ANNOTATIONS.get(name, 'dict[Any, Any]')} | None"


def emit_field(protocol: ir.Protocol, struct: ir.Struct, item: ir.Field, reader: str) -> list[str]:
    """The chain of tests of one field."""
    target = snake(item.name)
    name = "*" if item.type == "*" else protocol.wire_type(item.type).name
    if item.requires in TEXTUAL:
        name = "string"
    tests = usual(target, name)
    if tests is None:
        raise NoEmitter(f"{protocol.name}: nothing is usual about a field of type {name!r}")
    if not item.required:
        tests.append(("code == 0x40", ["at += 1"]))
    lines = ["code = buf[at]"]
    word = "if"
    for test, statements in tests:
        lines += [f"{word} {test}:", *("    " + line for line in statements)]
        word = "elif"
    rest = [f"{target}, at = {reader}(buf, at, depth)"]
    if item.required:
        rest += [f"if {target} is None:", f'    raise t.missing("{struct.name}")']
    return [*lines, "else:", *("    " + line for line in rest)]


def usual(target: str, name: str) -> list[tuple[str, list[str]]] | None:
    """Tests on the constructor and their branches; they assign ``target`` and move ``at``."""
    if name == "uint":
        return [
            ("code == 0x52", [f"{target} = buf[at + 1]", "at += 2"]),
            ("code == 0x70", [f"({target},) = _I.unpack_from(buf, at + 1)", "at += 5"]),
            ("code == 0x43", [f"{target} = 0", "at += 1"]),
        ]
    if name == "boolean":
        return [
            ("code == 0x42", [f"{target} = False", "at += 1"]),
            ("code == 0x41", [f"{target} = True", "at += 1"]),
        ]
    if name == "ubyte":
        return [("code == 0x50", [f"{target} = buf[at + 1]", "at += 2"])]
    if name == "binary":
        return [
            (
                "code == 0xA0",
                ["stop = at + 2 + buf[at + 1]", f"{target} = buf[at + 2 : stop]", "at = stop"],
            )
        ]
    if name == "string":
        text = f"{target} = buf[at + 2 : stop].decode()"
        return [("code == 0xA1", ["stop = at + 2 + buf[at + 1]", text, "at = stop"])]
    if name == "timestamp":
        return [("code == 0x83", [f"({target},) = _q.unpack_from(buf, at + 1)", "at += 9"])]
    if name == "symbol":
        return [("code == 0xA3", [f"{target}, at = _symbol8(buf, at + 1, depth)"])]
    if name == "map":
        return []
    if name == "*":  # accepted, in its smallest form
        outcome = 'buf[at : at + 4] == b"\\x00\\x53\\x24\\x45"'
        return [(outcome, [f"{target} = ACCEPTED", "at += 4"])]
    return None
