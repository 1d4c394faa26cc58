"""Emits readers and writers of content properties: a word of presence flags, then the values.

Property *n* is announced by bit 15 - *n*; bit 0 would announce a second word of flags, which no
class of the family needs.
"""

from specs.codegen.ir import SpecError
from specs.codegen.layouts import SIZES, Layout, Slot

ROOM = 15


def flag_of(position: int) -> str:
    return f"0x{1 << (15 - position):04x}"


def emit_properties_reader(layout: Layout) -> list[str]:
    if len(layout.slots) > ROOM or any(slot.kind == "bit" for slot in layout.slots):
        raise SpecError(f"{layout.title}: more than {ROOM} properties, or one that is a bit")
    name = layout.title.replace(".", " ")
    unknown = (1 << (16 - len(layout.slots))) - 2
    lines = [
        "",
        "",
        f"def read_{layout.stem}(buf: bytes, at: int) -> tuple[{layout.record}, int]:",
        "    (flags,) = _H.unpack_from(buf, at)",
        "    if flags & 1:",
        f'        raise ValueError("{name}: a second word of flags is announced")',
        f"    if flags & 0x{unknown:04x}:",
        f'        raise ValueError(f"{name}: flags {{flags:04x}} name an unknown property")',
        "    at += 2",
        f"    p = {layout.record}()",
    ]
    for position, slot in enumerate(layout.slots):
        lines.append(f"    if flags & {flag_of(position)}:")
        lines += ["        " + line for line in read_value(slot)]
    return [*lines, "    return p, at"]


def read_value(slot: Slot) -> list[str]:
    size = SIZES[slot.format]
    if slot.kind == "unsigned":
        if size == 1:
            return [f"p.{slot.target} = buf[at]", "at += 1"]
        return [f"(p.{slot.target},) = _{slot.format}.unpack_from(buf, at)", f"at += {size}"]
    if slot.kind == "text":
        return [
            "end = at + 1 + buf[at]",
            f'p.{slot.target} = buf[at + 1 : end].decode("utf-8", "surrogateescape")',
            "at = end",
        ]
    return [
        f"(size,) = _{slot.format}.unpack_from(buf, at)",
        f"end = at + {size} + size",
        f"p.{slot.target} = buf[at + {size} : end]",
        "at = end",
    ]


def emit_properties_writer(layout: Layout) -> list[str]:
    lines = ["", "", f"def write_{layout.stem}(p: {layout.record}) -> bytes:"]
    if not layout.slots:
        return [*lines, '    return b"\\x00\\x00"']
    lines += ["    flags = 0", '    parts = [b""]']
    for position, slot in enumerate(layout.slots):
        lines += [
            f"    if p.{slot.target} is not None:",
            f"        flags |= {flag_of(position)}",
            *("        " + line for line in write_value(slot, layout.title)),
        ]
    return [*lines, "    parts[0] = _H.pack(flags)", '    return b"".join(parts)']


def write_value(slot: Slot, title: str) -> list[str]:
    if slot.kind == "unsigned":
        return [f"parts.append(_{slot.format}.pack(p.{slot.target}))"]
    if slot.kind == "text":
        where = f"{title.replace('.', ' ')} {slot.target.replace('_', '-')}"
        return [
            f'raw = short(p.{slot.target}, "{where}")',
            "parts.append(_B.pack(len(raw)) + raw)",
        ]
    return [f"parts.append(_{slot.format}.pack(len(p.{slot.target})) + p.{slot.target})"]
