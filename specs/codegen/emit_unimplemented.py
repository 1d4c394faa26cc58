"""Emits ``wire/unimplemented.py``: as data, the arguments of the methods that the gateway answers
with not-implemented. Only ``inspect`` and ``versions`` read such arguments, so there is no code for
them, and the gateway does not load the emitted file.
"""

from collections.abc import Sequence
from dataclasses import replace

from specs.codegen import ir
from specs.codegen.emit_records import LIMIT, filled
from specs.codegen.ir import NoEmitter
from specs.codegen.layouts import Slot, items_of, slots_of

UNIMPLEMENTED = frozenset(["message"] + ["channel.resume"])
"""Classes and single methods of 0-8, 0-9 and 0-9-1. A test puts every method to the engine and
compares."""

HEAD = '''\
"""Methods of 0-8, 0-9 and 0-9-1 that are answered with not-implemented: their arguments, as data.

{stamp}

A row is a method, the versions that have it so, and its fields in wire order.
After a colon stands the type of a field: a letter of ``struct``, "bit", "text" (a short string),
"octets" and "table" (long strings), "content" (an octet and a long string). A field without a name
is reserved. ``adapters/methods/unimplemented.py`` reads and writes by these rows.
"""

LAYOUTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
'''
LENGTHS = {"text": 1, "octets": 4, "table": 4, "content": 4}
"""Octets of the length that stands before a value."""


def is_unimplemented(class_: ir.Class, operation: ir.Operation | None = None) -> bool:
    name = f"{class_.name}.{operation.name}" if operation else class_.name
    return class_.name in UNIMPLEMENTED or name in UNIMPLEMENTED


def implemented(protocol: ir.Protocol) -> ir.Protocol:
    """The version without methods that are not implemented."""
    classes = tuple(
        replace(
            class_,
            operations=tuple(o for o in class_.operations if not is_unimplemented(class_, o)),
        )
        for class_ in protocol.classes
        if not is_unimplemented(class_)
    )
    return replace(protocol, classes=classes)


def emit_unimplemented(protocols: Sequence[ir.Protocol], stamp: str) -> str:
    """The whole module."""
    versions: dict[tuple[str, str], list[str]] = {}
    for protocol in protocols:
        names = {item for item, *_ in items_of(implemented(protocol))}
        for title, fields, _, _ in items_of(protocol):
            if title not in names:
                text = " ".join(described(protocol, slot) for slot in slots_of(protocol, fields))
                versions.setdefault((title, text), []).append(protocol.name)
    lines: list[str] = []
    for (title, text), found in versions.items():
        listed = ", ".join(f'"{name}"' for name in found) + ("," if len(found) == 1 else "")
        lines += row(f'"{title}", ({listed})', text)
    return HEAD.format(stamp=stamp) + "\n".join([*lines, ")"]) + "\n"


def described(protocol: ir.Protocol, slot: Slot) -> str:
    """A field and its type."""
    if slot.kind in LENGTHS and slot.width != LENGTHS[slot.kind]:
        raise NoEmitter(f"{protocol.name}: no {slot.kind} with a length of {slot.width} octets")
    return f"{slot.target}:{slot.format if slot.kind == 'unsigned' else slot.kind}"


def row(head: str, text: str) -> list[str]:
    """One row, on one line if it fits."""
    line = f'    ({head}, "{text}"),'
    if len(line) <= LIMIT:
        return [line]
    pieces = [piece.replace(",", "") for piece in filled(text.split(" "), 0, 12)]
    strings = [f'        "{piece} "' for piece in pieces[:-1]] + [f'        "{pieces[-1]}",']
    return [f"    ({head},", *strings, "    ),"]
