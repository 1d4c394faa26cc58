"""Emits ``wire/transitional.py``: the parts that only the transitional 0-10 has."""

from specs.codegen import ir
from specs.codegen.emit_tables import struct

HEAD = '''\
"""Transitional 0-10: the heads of request and response frames, and the types of table entries.

{stamp}
"""

from struct import Struct

'''
PREFIX = "field-table-"
"""Types of entries in tables, among the types of fields."""


def emit_transitional(protocol: ir.Protocol, stamp: str) -> str:
    """The whole module."""
    lines: list[str] = []
    for carrier in protocol.framing.carriers:
        name = carrier.name.upper()
        parts = ", ".join(part.name for part in carrier.parts)
        lines += [
            f"{name} = {carrier.frame_type}",
            f"{name}_HEAD = {struct(carrier.parts)}",
            f'"""{parts}"""',
        ]
    lines += ["", "FIELD_TYPES: dict[int, tuple[str, str, int, int]] = {"]
    for type_ in protocol.types.values():
        if type_.code is not None:
            name = type_.name.removeprefix(PREFIX)
            row = f'"{name}", "{type_.kind}", {type_.width}, {type_.length}'
            lines.append(f"    0x{type_.code:02x}: ({row}),")
    lines += ["}", '"""Code of a type -> name, kind, octets of a value, octets of its length."""']
    return HEAD.format(stamp=stamp) + "\n".join(lines) + "\n"
