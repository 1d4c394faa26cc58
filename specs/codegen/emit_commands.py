"""Emits ``wire/tables.py`` of the command frames: a row for each command, reply codes, limits."""

from specs.codegen import ir
from specs.codegen.layouts import Family, camel

HEAD = '''\
"""The command frames of {name} as a table.

{stamp}
"""

from gateway.adapters.commands.command import Command
from gateway.adapters.commands.wire import layouts as w

VERSION = "{name}"
HEADER = bytes.fromhex("{header}")
END = {end}
ESCAPE = 0x{escape:x}
LEAST_FRAME_MAX = {least}
HANDSHAKE_MAX = {handshake}
SUCCESS = {success}

COMMANDS: tuple[Command, ...] = (
'''


def emit_commands(protocol: ir.Protocol, family: Family, stamp: str) -> str:
    """The whole module."""
    constants = protocol.constants
    head = HEAD.format(
        name=protocol.name,
        stamp=stamp,
        header=protocol.header.hex(),
        end=protocol.framing.end,
        escape=protocol.framing.head[0].escape,
        least=constants["frame-min-size"].value,
        handshake=constants["handshake-max-size"].value,
        success=constants["reply-success"].value,
    )
    lines: list[str] = []
    for class_ in protocol.classes:
        for operation in class_.operations:
            lines += emit_command(protocol, class_, operation, family)
    lines += [")", "", "REPLIES: dict[str, int] = {"]
    lines += [f'    "{c.name}": {c.value},' for c in constants.values() if c.kind == "reply"]
    lines += ["}", "", "CODES: dict[str, int] = {"]
    for row in protocol.conditions:
        note = "  # the nearest this version has" if row.nearest else ""
        lines.append(f'    "{row.name}": {constants[row.constant].value},{note}')
    lines += ["}", "", "SERVICES: dict[str, int] = {"]
    services = protocol.domains["service-type"].values
    lines += [f'    "{value.name}": {value.value},' for value in services]
    return head + "\n".join([*lines, "}"]) + "\n"


def emit_command(
    protocol: ir.Protocol, class_: ir.Class, operation: ir.Operation, family: Family
) -> list[str]:
    title = f"{class_.name}.{operation.name}"
    stem = family.stems[protocol.name, title]
    sides = f"{'client' in operation.senders}, {'server' in operation.senders}"
    return [
        "    Command(",
        f'        "{title}", {operation.number},',
        f"        w.{camel(title)}, w.read_{stem}, w.write_{stem},",
        f'        {sides}, {operation.content}, "{operation.section}",',
        "    ),",
    ]
