"""Emits ``wire/layouts.py``: records, and one reader and one writer for every distinct layout.

The readers run straight down without a test: one ``Struct`` for numbers that stand together, with
the length octets of the value behind them, then a slice. They return where they stopped.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from specs.codegen.emit_properties import emit_properties_reader, emit_properties_writer
from specs.codegen.emit_records import LIMIT, emit_class, filled
from specs.codegen.layouts import PYTHON, Family, Layout, Run, Slot, runs_of

HEAD = '''\
"""Records and layouts of {subject}.

{stamp}

A reader takes the octets and the offset where the arguments begin and returns the record and the
offset where it stopped. It checks no bounds: a field past the end of the frame stops past the end
of the frame, and struct.error, IndexError and UnicodeDecodeError may escape. Fields of a table are
the encoded entries without their length.
"""

from struct import Struct

from gateway.adapters.record import Record, short

{structs}
'''


def emit_layouts(family: Family, stamp: str, subject: str) -> str:
    """The whole module."""
    functions: list[str] = []
    for layout in family.layouts:
        if layout.flags:
            functions += emit_properties_reader(layout) + emit_properties_writer(layout)
        else:
            functions += emit_reader(layout, family.order(layout)) + emit_writer(layout)
    flagged = {layout.record for layout in family.layouts if layout.flags}
    lines: list[str] = []
    for record, fields in family.records.items():
        lines += emit_record(record, family.titles[record], fields, record in flagged)
    text = "\n".join([*lines, *functions]) + "\n"
    formats = {"H"} | {
        run.format
        for layout in family.layouts
        for run in ([] if layout.flags else runs_of(layout.slots))
    }
    formats |= {slot.format for layout in family.layouts if layout.flags for slot in layout.slots}
    used = sorted(name for name in formats if f"_{name}." in text)
    structs = "\n".join(f'_{name} = Struct(">{name}")' for name in used)
    return HEAD.format(stamp=stamp, structs=structs, subject=subject) + text


def emit_record(record: str, title: str, fields: dict[str, str], flags: bool) -> list[str]:
    parameters = []
    for name, kind in fields.items():
        annotation, default = PYTHON[kind]
        if flags:
            annotation, default = f"{annotation} | None", "None"
        parameters.append((name, annotation, default))
    return emit_class(f"{record}(Record)", [f'NAME = "{title}"'], parameters)


# Readers.


def emit_reader(layout: Layout, order: Sequence[str]) -> list[str]:
    body: list[str] = []
    values: dict[str, str] = {}
    offset = 0  # octets passed since ``at`` was last moved
    counter = count(1)
    for run in runs_of(layout.slots):
        names = [name_group(group, counter, values) for group in run.groups]
        if run.tail is not None:
            names += ["mode", "size"] if run.tail.kind == "content" else ["size"]
        body += unpack(run.format, names, plus("at", offset))
        offset += run.size
        if run.tail is not None:
            body += read_tail(run.tail, plus("at", offset), values)
            offset = 0
    words = arguments(order, values)
    stop = plus("at", offset)
    result = f"return {layout.record}({', '.join(words)}), {stop}"
    if len(result) + 4 <= LIMIT:
        body.append(result)
    else:
        body += call(f"record = {layout.record}(", words, ")") + [f"return record, {stop}"]
    head = f"def read_{layout.stem}(buf: bytes, at: int) -> tuple[{layout.record}, int]:"
    return function(head, layout.note, body)


def name_group(group: list[Slot], counter: Iterator[int], values: dict[str, str]) -> str:
    """The local name of a number, and the expressions of the fields that come from it."""
    if group[0].kind != "bit":
        target = group[0].target
        if target:
            values[target] = target
        return target or "_"
    wanted = [(number, slot.target) for number, slot in enumerate(group) if slot.target]
    name = f"bits{next(counter)}" if wanted else "_"
    for number, target in wanted:
        values[target] = f"{name} & {1 << number} != 0"
    return name


def unpack(format: str, names: list[str], start: str) -> list[str]:
    if all(name == "_" for name in names):
        return []
    if format == "B":
        return [f"{names[0]} = buf[{start}]"]
    left = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
    line = f"{left} = _{format}.unpack_from(buf, {start})"
    if len(line) > LIMIT - 4 and len(left) > LIMIT - 40:
        return [*call("(", names, ")")[:-1], f") = _{format}.unpack_from(buf, {start})"]
    return broken(line)


def read_tail(slot: Slot, start: str, values: dict[str, str]) -> list[str]:
    """Statements that take the ``size`` octets of a value and move ``at`` behind it."""
    size = "size" if slot.unit == 1 else f"size * {slot.unit}"
    if not slot.target:
        return [f"at {'+=' if start == 'at' else '+= ' + start[5:] + ' +'} {size}"]
    values[slot.target] = slot.target
    taken = f"buf[{start}:end]" if start == "at" else f"buf[{start} : end]"
    if slot.kind == "text":
        taken += '.decode("utf-8", "surrogateescape")'
    if slot.kind == "content":
        taken = f"bytes((mode,)) + {taken}"
    return [f"end = {start} + {size}", f"{slot.target} = {taken}", "at = end"]


def arguments(order: Sequence[str], values: dict[str, str]) -> list[str]:
    """Positional as long as the record's order allows, then by keyword."""
    words: list[str] = []
    positional = True
    for name in order:
        if name not in values:
            positional = False
        else:
            words.append(values[name] if positional else f"{name}={values[name]}")
    return words


# Writers.


def emit_writer(layout: Layout) -> list[str]:
    body: list[str] = []
    pieces: list[str] = []
    for run in runs_of(layout.slots):
        numbers = [number_of(group) for group in run.groups]
        value = ""
        if run.tail is not None:
            value = write_tail(layout, run, numbers, body)
        if all(number == "0" for number in numbers):
            pieces.append('b"' + "\\x00" * run.size + '"')
        else:
            pieces.append(f"_{run.format}.pack({', '.join(numbers)})")
        if value:
            pieces.append(value)
    if not pieces:
        pieces.append('b""')
    joined = "return " + " + ".join(pieces)
    if len(pieces) <= 3 and len(joined) + 4 <= LIMIT:
        body.append(joined)
    else:
        body += call('return b"".join((', pieces, "))")
    head = f"def write_{layout.stem}(m: {layout.record}) -> bytes:"
    return function(head, layout.note, body)


def write_tail(layout: Layout, run: Run, numbers: list[str], body: list[str]) -> str:
    """Add the length before a value to the numbers; the expression of the value itself."""
    slot = run.tail
    assert slot is not None
    if not slot.target:
        numbers += ["0"] * len(slot.format)
        return ""
    if slot.kind == "text":
        where = f"{layout.title} {slot.target.rstrip('_').replace('_', '-')}"
        body.append(f'{slot.target} = short(m.{slot.target}, "{where}")')
        numbers.append(f"len({slot.target})")
        return slot.target
    if slot.kind == "content":
        body.append(f'{slot.target} = m.{slot.target} or b"\\x00"')
        numbers += [f"{slot.target}[0]", f"len({slot.target}) - 1"]
        return f"{slot.target}[1:]"
    size = f"len(m.{slot.target})"
    numbers.append(size if slot.unit == 1 else f"{size} // {slot.unit}")
    return f"m.{slot.target}"


def number_of(group: list[Slot]) -> str:
    """The number that stands for a field or a group of bits."""
    if group[0].kind != "bit":
        return f"m.{group[0].target}" if group[0].target else "0"
    terms = [
        f"m.{slot.target} << {position}" if position else f"m.{slot.target}"
        for position, slot in enumerate(group)
        if slot.target
    ]
    return " | ".join(terms) or "0"


# Text.


def plus(base: str, offset: int) -> str:
    return f"{base} + {offset}" if offset else base


def call(opening: str, words: Sequence[str], closing: str) -> list[str]:
    """A call over several lines. A word that is too long for one is broken at its arguments, or
    else at its terms."""
    lines = [opening]
    short: list[str] = []
    for word in words:
        if len(word) <= LIMIT - 16:
            short.append(word)
            continue
        lines += filled(short, 4, 8)
        short.clear()
        if "pack(" in word:
            lines += ["    " + line for line in broken(word + ",", LIMIT - 12)]
        else:
            first, *terms = word.split(" | ")
            lines += [f"    {first}", *(f"    | {term}" for term in terms)]
            lines[-1] += ","
    return [*lines, *filled(short, 4, 8), closing]


def broken(text: str, limit: int = LIMIT - 4) -> list[str]:
    """The line, or the line broken at the arguments of its outermost call."""
    if len(text) <= limit:
        return [text]
    start = text.index("(", text.rfind("pack")) + 1
    stop = text.rindex(")")
    words = [""]
    depth = 0
    for letter in text[start:stop]:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return call(text[:start], [word.strip() for word in words], text[stop:])


def function(head: str, note: str, body: Sequence[str]) -> list[str]:
    if len(head) + len(note) + 4 <= LIMIT:
        head = f"{head}  # {note}"
    lines = ["    " + line for line in body]
    if len(head) <= LIMIT:
        return ["", "", head, *lines]
    opening, rest = head.split("(", 1)
    parameters, returned = rest.split(")", 1)
    return ["", "", f"{opening}(", f"    {parameters}", f"){returned}", *lines]
