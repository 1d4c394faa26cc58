"""``python -m specs.message_model [--check]``: write the tables of docs/message-model.md.

Nothing is copied from a table in the code. A message with one field is converted to every other
form by the gateway's own conversion, and the tables say where the field then stands in the octets,
with which value, and whether the message needs a capsule to come back as it was.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import gateway.adapters  # noqa: F401 (registers the dialects)
from gateway import values
from gateway.adapters.commands import content as commands
from gateway.adapters.commands import types as command_fields
from gateway.adapters.methods import content as basic
from gateway.adapters.methods import types as basic_fields
from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.splicing import cut
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import read_header
from gateway.adapters.performatives.wire import tables
from gateway.adapters.segments.content import SEGMENTS, read_reply_to
from gateway.adapters.segments.decoding import map_entries, read_map
from gateway.adapters.segments.splicing import delivery_properties, message_properties
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.natural import ORIGIN, OUR_ORIGIN
from gateway.crossing.types import TYPES
from gateway.http.fields import write_headers
from gateway.http.publish.form_reader import read_form
from gateway.http.publish.form_writer import write_full, write_simple
from gateway.http.typed_json import write_json
from gateway.message import DIALECTS, Dialect, Essentials, Message, Properties
from specs.generated_tables import GeneratedTables

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "message-model.md"
KEY = bytes(32)
"""Any key: capsules are only measured here."""

CAPSULES = frozenset({ORIGIN, OUR_ORIGIN})
VERSIONS = {
    "0.8a2": "0.8a2",
    "0-9a0-jms": "0-9a0",
    "0-9a6-jms": "0-9a6",
    "0-9-1": "0-8, 0-9, 0-9-1",
    "0-10": "0-10",
}
"""Dialects that a message of 1.0 is converted to, and the versions that write them."""

CLASSES = {
    "0-9a0": ("jms", "file", "stream", "test"),
    "0-9a6": ("basic", "jms", "file", "stream", "test"),
    "0-9": ("file", "stream"),
    "0-10-07": ("file", "stream"),
}
"""Classes of content with a dialect of their own. Those of ``0-9`` are those of 0-8 too,
and ``0-10-07`` stands for both revisions of the transitional 0-10."""
ABSENT = "-"

Places = dict[str, Any]
"""Where something stands on the wire, and its value."""


class Sample(NamedTuple):
    """A canonical field, or a case of one, with an example value."""

    field: str
    value: Any
    case: str = ""

    @property
    def label(self) -> str:
        return f"`{self.field}`" + (f", {self.case}" if self.case else "")


MOMENT = 1_764_000_000_000
UUID_ = UUID("0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f")

SAMPLES = (
    Sample("durable", True),
    Sample("priority", 7),
    Sample("priority", 200, "above 9"),
    Sample("ttl", 60_000),
    Sample("first_acquirer", True),
    Sample("delivery_count", 2),
    Sample("message_id", "m-1"),
    Sample("message_id", UUID_, "uuid"),
    Sample("message_id", values.ULong(9), "ulong"),
    Sample("message_id", b"\x01\xff", "binary"),
    Sample("user_id", b"guest"),
    Sample("to", "orders"),
    Sample("subject", "created"),
    Sample("reply_to", "replies"),
    Sample("reply_to", "/queues/replies", "an address"),
    Sample("correlation_id", "c-1"),
    Sample("content_type", "text/plain"),
    Sample("content_encoding", "gzip"),
    Sample("absolute_expiry_time", MOMENT),
    Sample("creation_time", MOMENT),
    Sample("creation_time", MOMENT + 1, "no whole second"),
    Sample("group_id", "g-1"),
    Sample("group_sequence", 3),
    Sample("reply_to_group_id", "g-2"),
    Sample("type", "order"),
    Sample("app_id", "shop"),
    Sample("cluster_id", "c"),
    Sample("application", {"colour": "red"}),
    Sample("annotations", {values.Symbol("x-opt-kind"): "a"}, "`x-...`"),
    Sample("annotations", {values.Symbol("kind"): "a"}, "others"),
    Sample("delivery_annotations", {values.Symbol("hop"): 1}),
    Sample("footer", {values.Symbol("sum"): "a"}),
)

VALUES = (
    ("null", None),
    ("boolean", True),
    ("byte", values.Byte(-1)),
    ("ubyte", values.UByte(1)),
    ("short", values.Short(-1)),
    ("ushort", values.UShort(1)),
    ("int", values.Int(-1)),
    ("uint", values.UInt(1)),
    ("long", 1 << 40),
    ("ulong", values.ULong(1)),
    ("float", values.Float(0.5)),
    ("double", 0.25),
    ("decimal64", values.Decimal64(b"\x31\xc0" + bytes(5) + b"\x01")),
    ("string", "text"),
    ("symbol", values.Symbol("name")),
    ("char", values.Char("c")),
    ("binary", b"\x01\xff"),
    ("uuid", UUID_),
    ("timestamp, whole seconds", values.Timestamp(MOMENT)),
    ("timestamp, milliseconds", values.Timestamp(MOMENT + 1)),
    ("list", ["a", "b"]),
    ("map", {"a": "b"}),
    ("described", values.Described(values.Symbol("d"), "a")),
)

BODIES = (
    ("data", None, b"octets"),
    ("amqp-value, a string", "value", b"\x00\x53\x77" + write_value("text")),
    ("amqp-value, a binary", "value", b"\x00\x53\x77" + write_value(b"\x01\xff")),
    ("amqp-value, anything else", "value", b"\x00\x53\x77" + write_value({"a": 1})),
    ("amqp-sequence", "sequence", b"\x00\x53\x76" + write_value([1, 2])),
    ("none", "none", b""),
)


# --- where things stand on the wire -------------------------------------------------------------


def places(dialect: Dialect, header: bytes) -> Places:
    """Every field of an encoded header by the name that its version gives it."""
    if isinstance(dialect, ClassDialect):
        record, children = dialect.record(header)
        found = slots(record, "headers")
        found |= {f"header `{k}`": v for k, v in (dialect.headers_of(record) or {}).items()}
        return found | ({"child contents": children} if children else {})
    if dialect is commands.COMMAND:
        record = commands.read_header(header)
        found = slots(record, "headers", "body_size")
        for name, value in command_fields.read_table(record.headers).items():
            if name == commands.MORE:
                octets = (
                    value if isinstance(value, bytes) else value.encode(errors="surrogateescape")
                )
                within = places(basic.BASIC, octets)
                found |= {f"`{commands.MORE}`: {place}": each for place, each in within.items()}
            else:
                found[f"field `{name}`"] = value
        return found
    if dialect is SECTIONS:
        return dict(in_sections(header))
    if dialect is SEGMENTS:
        delivery, message = delivery_properties(header)[0], message_properties(header)[0]
        found = {name: each for name, each in slots(delivery).items() if each is not False}
        found |= slots(message, "application_headers", "reply_to")
        if message.reply_to is not None:
            found["`reply-to`"] = read_reply_to(message.reply_to)
        headers = read_map(message.application_headers or b"")
        return found | {f"header `{k}`": v for k, v in headers.items()}
    record = basic.read_header(header)
    table = basic_fields.read_table(record.headers or b"")
    return slots(record, "headers") | {f"header `{k}`": v for k, v in table.items()}


def slots(record: Any, *without: str) -> Places:
    names = (name for name in record.__slots__ if name not in without)
    pairs = ((f"`{name.replace('_', '-')}`", getattr(record, name)) for name in names)
    return {place: value for place, value in pairs if value is not None}


def in_sections(header: bytes) -> Iterator[tuple[str, Any]]:
    for code, value in read_header(header)[0].items():
        section = tables.SECTIONS[code][0]
        if isinstance(value, dict):
            yield from ((f"{section} `{key}`", each) for key, each in value.items())
            continue
        for name in value.__slots__:
            if getattr(value, name) is not None:
                yield f"{section}.`{name.replace('_', '-')}`", getattr(value, name)


def new_places(dialect: Dialect, header: bytes, without: Places) -> Places:
    """What stands here that does not stand in a message without the field, but for capsules and
    notes about types."""
    return {
        place: value
        for place, value in places(dialect, header).items()
        if (place not in without or without[place] != value)
        and not any(name in place for name in (*CAPSULES, TYPES))
    }


# --- probing ------------------------------------------------------------------------------------


def message(properties: Properties, body: bytes = b"") -> Message:
    """A message of 1.0, which has a place for every canonical field."""
    return Message(SECTIONS, SECTIONS.write(properties), body, "", "key", Essentials())


def usual(**given: Any) -> Properties:
    """A message without anything else of note: transient, and of normal priority. 0.8a2 has no way
    to leave these two out."""
    return Properties(**{"durable": False, "priority": 4, **given})


def converted(given: Properties, dialect: Dialect) -> tuple[Places, bool]:
    """Where these properties stand in the natural form, and whether the message has a capsule."""
    crossing = Crossing(KEY)
    crossed = crossing.cross(message(given), dialect)
    without = places(dialect, crossing.cross(message(usual()), dialect).header)
    return new_places(dialect, crossed.header, without), is_capsuled(crossed.fidelity)


def is_capsuled(fidelity: Fidelity) -> bool:
    """Whether the form alone does not give back the same message."""
    return fidelity in (Fidelity.CAPSULE, Fidelity.LOSSY)


def cell(found: Places, value: Any, capsule: bool = False) -> str:
    """Places, and values that are not the canonical one."""
    shown = (
        place if same(each, value) else f"{place} = `{short(each)}`"
        for place, each in found.items()
    )
    said = ", ".join(shown) or "no place"
    return f"{said}; capsule" if capsule else said


def same(found: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return found in value.values()
    if isinstance(value, bytes) and isinstance(found, str):
        return found.encode() == value
    return str(found) == str(value)


def short(value: Any) -> str:
    if isinstance(value, bytes):
        return "octets" if len(value) > 8 else f"0x{value.hex()}"
    return str(value)[:48]


def field_rows() -> Iterator[list[str]]:
    for sample in SAMPLES:
        given = usual(**{sample.field: sample.value})
        row = [sample.label]
        for name in VERSIONS:
            found, capsule = converted(given, DIALECTS[name])
            row.append(cell(found, sample.value, capsule))
        alone = Properties(**{sample.field: sample.value})
        yield [*row, cell(places(SECTIONS, SECTIONS.write(alone)), sample.value)]


def class_rows() -> Iterator[list[str]]:
    """For each property of a content of these classes, the classes that have it."""
    records: dict[str, dict[str, list[str]]] = {}
    for version, names in CLASSES.items():
        for name in names:
            dialect = DIALECTS[f"{version}-{name}"]
            assert isinstance(dialect, ClassDialect)
            record = dialect.record(dialect.write(Properties()))[0]
            for slot in record.__slots__:
                label = "file-name" if slot == "filename" else slot.replace("_", "-")
                records.setdefault(label, {}).setdefault(version, []).append(name)
    for label, found in records.items():
        yield [f"`{label}`", *(", ".join(found.get(version, [])) or ABSENT for version in CLASSES)]


def json_rows() -> Iterator[list[str]]:
    """Each form is read again as well: the JSON that readers get can be published."""
    for sample in SAMPLES:
        given = Properties(**{sample.field: sample.value})
        row = [sample.label]
        for view, write in (("full", write_full), ("simple", write_simple)):
            shown, empty = write(given, b""), write(Properties(), b"")
            row.append(members(shown, empty) or ABSENT)
            if shown != empty:
                back = read_form({**shown, "view": view}).properties
                assert back == given, f"{sample}: {view} gives back {back}"
        listed = ", ".join(f"`{title(name)}: {value}`" for name, value in write_headers(given))
        yield [*row, listed or ABSENT]


def title(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def members(shown: dict[str, Any], without: dict[str, Any]) -> str:
    """Member and value that one document has and another has not."""
    found = []
    for name, value in shown.items():
        if name in without:
            continue
        if isinstance(value, dict) and "$type" not in value and len(value) == 1:
            inner, each = next(iter(value.items()))
            found.append(f"`{name}.{inner}`: `{as_json(each)}`")
        else:
            found.append(f"`{name}`: `{as_json(value)}`")
    return ", ".join(found)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def value_rows() -> Iterator[list[str]]:
    for label, value in VALUES:
        given = usual(application={"h": value})
        row = [label]
        for name in VERSIONS:
            crossed = Crossing(KEY).cross(message(given), DIALECTS[name])
            tag, noted = tags(DIALECTS[name], crossed.header)
            said = [f"`{tag or commands.MORE}`"]
            said += ["note"] if noted else []
            said += ["capsule"] if is_capsuled(crossed.fidelity) else []
            row.append(", ".join(said))
        alone = SECTIONS.write(Properties(application={"h": value}))
        stands = next(iter(places(SECTIONS, alone)))
        row.append(stands.removesuffix(" `h`"))
        yield [*row, f"`{as_json(write_json(value))}`"]


def tags(dialect: Dialect, header: bytes) -> tuple[str, bool]:
    """The letter of the type of header ``h``, "" if it is no header of its own, and whether a note
    on types goes with it."""
    if isinstance(dialect, ClassDialect):
        entries = [(e.name, e.whole) for e in dialect.entries(dialect.record(header)[0])]
    elif dialect is commands.COMMAND:
        table = commands.read_header(header).headers
        found = {n: chr(letter) for n, letter, _, _ in command_fields.entries_of(table)}
        more = TYPES in str(list(places(dialect, header)))
        return found.get("h", ""), more or TYPES in found
    elif dialect is SEGMENTS:
        octets = message_properties(header)[0].application_headers or b""
        codes = {name.decode(): f"{raw[1 + len(name)]:02x}" for name, raw in map_entries(octets)}
        return codes.get("h", ""), TYPES in codes
    else:
        entries = list(cut(header).entries or [])
    found = {name.decode(): chr(raw[1 + len(name)]) for name, raw in entries}
    return found.get("h", ""), TYPES in found


def body_rows() -> Iterator[list[str]]:
    dialect = DIALECTS["0-9-1"]
    for label, kind, octets in BODIES:
        given = Properties(body_kind=kind)
        crossed = Crossing(KEY).cross(message(given, octets), dialect)
        found = places(dialect, crossed.header)
        changed = "the same octets" if crossed.body == octets else "the octets of the value"
        if not octets:
            changed = "empty"
        elif kind and crossed.body == octets:
            changed = "the encoded section"
        content_type = found.get("`content-type`")
        marked = found.get(f"header `{basic.BODY}`")
        shown = write_full(given, octets)["body"]
        shown = {name: "..." if name == "base64" else each for name, each in shown.items()}
        yield [
            label,
            changed,
            f"`{content_type}`" if content_type else ABSENT,
            f"`{marked}`" if marked else ABSENT,
            f"`{as_json(shown)}`",
        ]


# --- the document -------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "fields": lambda: table(["canonical field", *VERSIONS.values(), "1.0"], field_rows()),
    "classes": lambda: table(
        ["property", "0-9a0", "0-9a6", "0-8, 0-9", "0-10 of July 2007"], class_rows()
    ),
    "json": lambda: table(["canonical field", "`full`", "`simple`", "HTTP fields"], json_rows()),
    "values": lambda: table(["type", *VERSIONS.values(), "1.0 section", "JSON"], value_rows()),
    "bodies": lambda: table(
        ["1.0", "octets for other versions", "content-type if absent", f"`{basic.BODY}`", "JSON"],
        body_rows(),
    ),
}
TABLES = GeneratedTables(DOCUMENT, "specs.message_model", BLOCKS)

if __name__ == "__main__":
    sys.exit(TABLES.main())
