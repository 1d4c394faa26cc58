"""Emits ``wire/tables.py`` of the performative family: descriptors, choices, errors, defaults."""

from specs.codegen import ir
from specs.codegen.emit_composites import composites
from specs.codegen.ir import SpecError
from specs.codegen.layouts import camel, snake
from specs.codegen.symbols import error_symbols

HEAD = '''\
"""The tables of the performative family: 1.0.

{stamp}
"""

from typing import Any

from gateway.adapters.performatives.composite_fields import CompositeType
from gateway.adapters.performatives.wire import layouts as w
'''


def emit_symbols(protocol: ir.Protocol, stamp: str) -> str:
    """The whole module."""
    lines = ["", f'VERSION = "{protocol.name}"', f"HEADER = {octets(protocol.header)}"]
    for name, header in protocol.other_headers.items():
        lines.append(f"{snake(name).upper()}_HEADER = {octets(header)}")
    lines += ["", f"PORT = {protocol.port}"]
    for constant in protocol.constants.values():
        lines.append(f"{snake(constant.name).upper()} = {constant.value}")
    for domain in protocol.restricted:
        if domain.values:
            lines += emit_choices(protocol, domain)
    lines += ["", "", "CHOICES: dict[str, frozenset[Any]] = {"]
    for domain in protocol.restricted:
        if domain.values:
            lines += [f'    "{domain.name}": frozenset(', "        ["]
            lines += [f"            {literal(protocol, domain, v.value)}," for v in domain.values]
            lines += ["        ]", "    ),"]
    lines += ["}", '"""The values of a restricted type. Others may exist where it is a symbol."""']
    lines += emit_kinds(protocol) + emit_sections(protocol)
    lines += emit_errors(protocol) + emit_defaults(protocol)
    return HEAD.format(stamp=stamp) + "\n".join(lines) + "\n"


def octets(raw: bytes) -> str:
    return 'b"' + "".join(f"\\x{octet:02x}" for octet in raw) + '"'


def literal(protocol: ir.Protocol, domain: ir.Domain, value: str) -> str:
    """A choice as Python writes it."""
    name = protocol.wire_type(domain.name).name
    if name == "boolean":
        return {"false": "False", "true": "True"}[value]
    return str(int(value)) if name in ("ubyte", "uint") else f'"{value}"'


def emit_choices(protocol: ir.Protocol, domain: ir.Domain) -> list[str]:
    sentence = f"{protocol.name} §{domain.section}."
    if domain.scope:
        sentence += f" What they end: the {domain.scope}."
    lines = ["", "", f"class {camel(domain.name)}:", f'    """{sentence}"""', ""]
    return lines + [
        f"    {snake(value.name).upper()} = {literal(protocol, domain, value.value)}"
        for value in domain.values
    ]


def emit_kinds(protocol: ir.Protocol) -> list[str]:
    lines = ["", "COMPOSITE_TYPES: tuple[CompositeType, ...] = ("]
    for struct in composites(protocol):
        name = snake(struct.name)
        provides = ", ".join(f'"{word}"' for word in struct.provides.split())
        lines += [
            "    CompositeType(",
            f'        "{struct.name}", 0x{struct.code:02x}, "{struct.symbol}",',
            f"        w.{camel(struct.name)},",
            f"        w.read_{name},",
            f"        w.write_{name},",
            f'        frozenset([{provides}]), "{struct.section}",',
            "    ),",
        ]
    lines += [")", '"""Every composite, in the order of the specification."""', ""]
    lines += ["BY_CODE: dict[int, CompositeType] = {kind.code: kind for kind in COMPOSITE_TYPES}"]
    for archetype in ("frame", "sasl-frame"):
        constant = f"{snake(archetype).upper()}S"
        lines += [
            f"{constant}: dict[int, CompositeType] = {{",
            f'    kind.code: kind for kind in COMPOSITE_TYPES if "{archetype}" in kind.provides',
            "}",
        ]
    return lines


def emit_sections(protocol: ir.Protocol) -> list[str]:
    lines = ["", "SECTIONS: dict[int, tuple[str, str]] = {"]
    lines += [
        f'    0x{struct.code:02x}: ("{struct.name}", "{struct.symbol}"),'
        for struct in protocol.structs
        if "section" in struct.provides.split()
    ]
    return [*lines, "}", '"""Sections of a message: descriptor -> name and symbol (§3.2)."""']


def emit_errors(protocol: ir.Protocol) -> list[str]:
    lines = ["", "ERRORS: dict[str, str] = {"]
    for symbol, scope in error_symbols(protocol.restricted).items():
        lines.append(f'    "{symbol}": "{scope}",')
    lines += [
        "}",
        '"""Error conditions and the scope they end; empty: that of the frame they are sent in."""',
    ]
    lines += ["", "CONDITIONS: dict[tuple[str, str], str] = {"]
    for row in protocol.conditions:
        note = "  # the nearest this version has" if row.nearest else ""
        lines.append(f'    ("{row.name}", "{row.scope}"): "{row.symbol}",{note}')
    lines += ["}", '"""Neutral condition and scope ("": any) -> error condition."""']
    return lines


def emit_defaults(protocol: ir.Protocol) -> list[str]:
    lines = ["", "DEFAULTS: dict[type[Any], dict[str, Any]] = {"]
    for struct in composites(protocol):
        found = {f.name: default_of(protocol, struct, f) for f in struct.fields if f.default}
        if found:
            lines.append(f"    w.{camel(struct.name)}: {{")
            lines += [f'        "{snake(name)}": {value},' for name, value in found.items()]
            lines.append("    },")
    return [*lines, "}", '"""What an absent field means, where the specification says it."""']


def default_of(protocol: ir.Protocol, struct: ir.Struct, item: ir.Field) -> str:
    """The default as Python writes it; a choice is named."""
    domain = protocol.domains.get(item.type)
    for value in domain.values if domain else ():
        if value.name == item.default:
            assert domain is not None
            return literal(protocol, domain, value.value)
    name = protocol.wire_type(item.type).name
    if name == "boolean" and item.default in ("true", "false"):
        return item.default.capitalize()
    if item.default.isdecimal() and name in ("ubyte", "ushort", "uint", "ulong"):
        return item.default
    raise SpecError(f"{protocol.name} {struct.name}.{item.name}: no such default {item.default!r}")
