"""What the versions of the class-and-method family have in common, ready to be written down.

A record has the fields of all versions, so a layout that two versions share exists once and carries
the suffix of the first version that has it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword

from specs.codegen import ir
from specs.codegen.ir import NoEmitter, SpecError

FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}
PYTHON = {  # kind -> annotation and default in a record
    "bit": ("bool", "False"),
    "unsigned": ("int", "0"),
    "text": ("str", '""'),
    "octets": ("bytes", 'b""'),
    "table": ("bytes", 'b""'),
    "content": ("bytes", 'b"\\x00"'),
    "set": ("bytes", 'b""'),
}


def snake(name: str) -> str:
    """A field's name in Python."""
    word = name.replace("-", "_")
    return word + "_" if iskeyword(word) else word


def camel(name: str) -> str:
    """A record's name in Python."""
    return "".join(part.capitalize() for part in name.replace(".", "-").split("-"))


@dataclass(frozen=True, slots=True)
class Slot:
    """A field as a layout sees it: where its value goes ("" if reserved) and how it is written.
    ``unit``: octets that one step of its length counts."""

    target: str
    kind: str
    width: int
    unit: int = 1

    @property
    def format(self) -> str:
        """Its numbers in a ``Struct``: itself, or the length before its octets."""
        # Content has an octet for its carrier, then the length of a long string.
        return "BI" if self.kind == "content" else FORMATS[self.width]


@dataclass(frozen=True, slots=True)
class Layout:
    """A reader and a writer to be emitted; ``flags`` marks a property list."""

    stem: str
    title: str
    record: str
    slots: tuple[Slot, ...]
    note: str
    flags: bool


@dataclass(frozen=True, slots=True)
class Family:
    """Records (field -> kind), their titles, the layouts, and which version uses which.
    ``extended``: the layouts of methods with a trailing field, for frames that have it."""

    records: dict[str, dict[str, str]]
    titles: dict[str, str]
    layouts: tuple[Layout, ...]
    stems: dict[tuple[str, str], str]
    extended: dict[tuple[str, str], str] = field(default_factory=dict)

    def order(self, layout: Layout) -> list[str]:
        """The fields of a layout's record, in the order of its constructor."""
        return list(self.records[layout.record])


@dataclass(slots=True)
class Run:
    """Numbers under one ``Struct``: fields, groups of bits, and the length before ``tail``."""

    format: str = ""
    groups: list[list[Slot]] = field(default_factory=list)
    tail: Slot | None = None

    @property
    def size(self) -> int:
        return sum(SIZES[letter] for letter in self.format)


def runs_of(slots: Sequence[Slot]) -> list[Run]:
    """Neighbouring numbers together, each run ending with a value of variable length or the end."""
    runs = [Run()]
    for slot in slots:
        run = runs[-1]
        if slot.kind == "bit":
            last = run.groups[-1] if run.groups else []
            if last and last[0].kind == "bit" and len(last) < 8:
                last.append(slot)
            else:
                run.format += "B"
                run.groups.append([slot])
        elif slot.kind == "unsigned":
            run.format += slot.format
            run.groups.append([slot])
        else:
            run.format += slot.format
            run.tail = slot
            runs.append(Run())
    return runs if runs[-1].format else runs[:-1]


def slots_of(protocol: ir.Protocol, fields: Iterable[ir.Field]) -> tuple[Slot, ...]:
    slots = []
    for item in fields:
        wire = protocol.wire_type(item.type)
        if wire.kind not in PYTHON or (wire.kind == "set" and wire.length):
            raise NoEmitter(f"{protocol.name}: no layout for fields of kind {wire.kind!r} yet")
        target, kind, unit = "" if item.reserved else snake(item.name), wire.kind, 1
        width = wire.width or wire.length
        if kind == "set" and wire.count:
            width, unit = wire.count, wire.width
        elif kind == "set":
            target, kind = "", "unsigned"  # a placeholder, which is zero
        if kind != "bit" and width not in FORMATS:
            raise SpecError(f"{protocol.name}: type {wire.name!r} has no usable width")
        slots.append(Slot(target, kind, width, unit))
    return tuple(slots)


def merge(fields: dict[str, str], slots: Sequence[Slot], where: str) -> None:
    """Add a version's fields to a record, later ones at the end."""
    for slot in slots:
        if slot.target and fields.setdefault(slot.target, slot.kind) != slot.kind:
            raise SpecError(f"{where}: field {slot.target!r} has another kind in an older version")


def items_of(protocol: ir.Protocol) -> Iterable[tuple[str, tuple[ir.Field, ...], str, bool]]:
    """Everything with a layout: title, fields, section, whether it is a property list."""
    for class_ in protocol.classes:
        if class_.properties is not None:
            title = f"{class_.name}.properties"
            yield title, class_.properties, class_.section, class_.presence == "flags"
        for operation in class_.operations:
            yield f"{class_.name}.{operation.name}", operation.fields, operation.section, False


def gather(protocols: Sequence[ir.Protocol], family: ir.Family = "methods") -> Family:
    """Merge the versions of a family, oldest first."""
    records: dict[str, dict[str, str]] = {}
    titles: dict[str, str] = {}
    layouts: dict[tuple[str, tuple[Slot, ...]], Layout] = {}
    stems: dict[tuple[str, str], str] = {}
    extended: dict[tuple[str, str], str] = {}
    for protocol in protocols:
        if protocol.family != family:
            raise NoEmitter(f"{protocol.name}: no emitter for the family {protocol.family!r} yet")
        flagged = family != "methods" or all(c.presence == "flags" for c in protocol.classes)
        if not flagged:
            raise NoEmitter(f"{protocol.name}: no emitter for properties without flags yet")
        for title, fields, section, flags in items_of(protocol):
            record = camel(title)
            note = f"{protocol.name} §{section}" if section else protocol.name
            slots = slots_of(protocol, [field for field in fields if not field.trailing])
            merge(records.setdefault(record, {}), slots, f"{protocol.name} {title}")
            if (title, slots) not in layouts:
                stem = snake(title.replace(".", "-"))
                if record in titles:
                    stem += "_" + snake(protocol.name)
                layouts[title, slots] = Layout(stem, title, record, slots, note, flags)
            titles[record] = title
            stems[protocol.name, title] = layouts[title, slots].stem
            if not fields or not fields[-1].trailing:
                continue
            slots = slots_of(protocol, fields)
            merge(records[record], slots, f"{protocol.name} {title}")
            if (title, slots) not in layouts:
                stem = snake(f"{title}-with-{fields[-1].name}".replace(".", "-"))
                layouts[title, slots] = Layout(stem, title, record, slots, note, flags)
            extended[protocol.name, title] = layouts[title, slots].stem
    return Family(records, titles, tuple(layouts.values()), stems, extended)
