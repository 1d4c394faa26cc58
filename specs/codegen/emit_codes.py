"""Emits ``wire/tables.py`` of the segment family: controls, commands and structs by code, choices,
exceptions and error codes."""

from specs.codegen import ir
from specs.codegen.emit_packed import struct_code, struct_names
from specs.codegen.layouts import camel, snake
from specs.codegen.load import CONNECTION_ERRORS, SESSION_ERRORS, numbers

HEAD = '''\
"""The tables of the segment family: 0-10.

{stamp}
"""

from gateway.adapters.segments.operation_types import OperationType, StructType
from gateway.adapters.segments.wire import layouts as w
'''


def emit_codes(protocol: ir.Protocol, stamp: str) -> str:
    """The whole module."""
    header = "".join(f"\\x{octet:02x}" for octet in protocol.header)
    lines = ["", f'VERSION = "{protocol.name}"', f'HEADER = b"{header}"', ""]
    lines.append(f"PORT = {protocol.port}")
    lines += [f"{snake(c.name).upper()} = {c.value}" for c in protocol.constants.values()]
    for name, domain in protocol.domains.items():
        if domain.values:
            title = name.replace(".", "-") if name.split(".")[0] in SEVERAL else domain.name
            lines += ["", "", f"class {camel(title)}:", f'    """{name}."""', ""]
            lines += [f"    {snake(v.name).upper()} = {v.value}" for v in domain.values]
    lines += ["", "", "OPERATION_TYPES: tuple[OperationType, ...] = ("]
    for class_ in protocol.classes:
        for operation in class_.operations:
            lines += emit_operation(protocol, class_, operation)
    lines += [")", '"""Every control and command, in the order of the specification."""', ""]
    lines += [
        "OPERATIONS: dict[int, OperationType] = {each.code: each for each in OPERATION_TYPES}",
        '"""By class << 8 | code, which no control shares with a command."""',
        "BY_RECORD: dict[type, OperationType] = {each.record: each for each in OPERATION_TYPES}",
        "",
        "STRUCT_TYPES: tuple[StructType, ...] = (",
    ]
    for class_, struct in struct_names(protocol).values():
        if struct.code is not None:
            stem = snake(struct.name)
            lines += [
                "    StructType(",
                f'        "{struct.name}",',
                f"        0x{struct_code(class_, struct):04x},",
                f"        w.{camel(struct.name)},",
                f"        w.read_{stem},",
                f"        w.write_{stem},",
                "    ),",
            ]
    lines += [")", '"""Every struct that has a code."""', ""]
    lines += ["STRUCTS: dict[int, StructType] = {each.code: each for each in STRUCT_TYPES}"]
    lines += ["BY_STRUCT: dict[type, StructType] = {each.record: each for each in STRUCT_TYPES}"]
    lines += emit_exceptions(protocol) + emit_conditions(protocol)
    return HEAD.format(stamp=stamp) + "\n".join(lines) + "\n"


SEVERAL = ("file", "stream")
"""Classes whose enumerations have the same names."""


def emit_operation(protocol: ir.Protocol, class_: ir.Class, operation: ir.Operation) -> list[str]:
    known = struct_names(protocol)
    title = f"{class_.name}.{operation.name}"
    stem = snake(title.replace(".", "-"))
    replies = [f'"{class_.name}.{reply}"' for reply in operation.replies]
    headers = [f"0x{struct_code(*known[name]):04x}" for name in operation.header]
    result = struct_code(*known[operation.result]) if operation.result else 0
    return [
        "    OperationType(",
        f'        "{title}",',
        f"        0x{class_.number << 8 | operation.number:04x},",
        f"        {operation.kind == 'control'},",
        f"        w.{camel(title)},",
        f"        w.read_{stem},",
        f"        w.write_{stem},",
        f"        {'client' in operation.senders},",
        f"        {'server' in operation.senders},",
        f"        {several(replies)},",
        f"        {operation.content},",
        f"        {several(headers)},",
        f"        {f'0x{result:04x}' if result else 0},",
        "    ),",
    ]


def several(words: list[str]) -> str:
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"


def emit_exceptions(protocol: ir.Protocol) -> list[str]:
    lines = ["", "EXCEPTIONS: dict[str, dict[str, int]] = {"]
    for class_ in protocol.classes:
        for operation in class_.operations:
            rows = [(e.name, e.code) for e in operation.exceptions]
            rows += [
                (f"{item.name} {e.name}", e.code)
                for item in operation.fields
                for e in item.exceptions
            ]
            if rows:
                lines.append(f'    "{class_.name}.{operation.name}": {{')
                lines += [f'        "{name}": {code},' for name, code in rows]
                lines.append("    },")
    return [
        *lines,
        "}",
        '"""The exceptions of an operation by name; before those of a field, its name."""',
    ]


def emit_conditions(protocol: ir.Protocol) -> list[str]:
    lines = ["", "CODES: dict[str, tuple[int, bool]] = {"]
    for row in protocol.conditions:
        domain = CONNECTION_ERRORS if row.scope == "connection" else SESSION_ERRORS
        code = numbers(protocol.domains[domain])[row.constant]
        lines.append(f'    "{row.name}": ({code}, {row.scope == "connection"}),')
    return [
        *lines,
        "}",
        '"""The code of a condition, and whether it closes the connection or just the session."""',
    ]
