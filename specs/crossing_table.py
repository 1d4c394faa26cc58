"""``python -m specs.crossing_table [--check]``: write the tables of pairs of docs/crossing.md.

A message of each version with one property, header or kind of body is converted for each of the ten
versions by the gateway's own conversion, and back. The tables say how it arrived. Nothing is copied
from a table in the code.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gateway.adapters  # noqa: F401 (registers the dialects)
from gateway import values
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.transitional.content import header_of, transfer_of
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.segments.content import SEGMENTS
from gateway.adapters.segments.encoding import write_list, write_map
from gateway.crossing.conversion import natural_form
from gateway.crossing.crossing import Crossing
from gateway.crossing.forms import Form
from gateway.crossing.legacy_forms import form_of
from gateway.crossing.sameness import same_body
from gateway.message import DIALECTS, Dialect, Essentials, Message
from specs.generated_tables import GeneratedTables
from specs.message_model import BODIES, SAMPLES, VALUES, table, usual

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "crossing.md"
KEY = bytes(32)
"""Any key: capsules are only measured here."""


class Version(NamedTuple):
    """A version, the dialect of its messages, and what its programs get of a message in that
    dialect; ``None`` if they get all octets."""

    name: str
    dialect: Dialect
    received: Callable[[Message], bytes] | None = None


def transferred(message: Message) -> bytes:
    """The properties that a program of July 2007 reads in a transfer, and would send again."""
    return header_of(transfer_of(message, "d", redelivered=False)[0])[0]


VERSIONS = (
    Version("0.8a2", DIALECTS["0.8a2"]),
    Version("0-9a0", DIALECTS["0-9a0-jms"]),
    Version("0-9a6", DIALECTS["0-9a6-jms"]),
    Version("0-8", BASIC),
    Version("0-9", BASIC),
    Version("0-9-1", BASIC),
    Version("07-24", BASIC, transferred),
    Version("07-27", BASIC, transferred),
    Version("0-10", SEGMENTS),
    Version("1.0", SECTIONS),
)
"""The ten versions; 07-24 and 07-27 are those of the transitional 0-10."""

LEGACY_VALUES = (
    ("decimal", values.Scaled(2, 12345)),
    ("time in seconds", values.Seconds(1_764_000_000)),
    ("table of tables", {"a": {"b": values.Int(1)}}),
)
JMS = values.Symbol("x-opt-jms-msg-type")
MAP, LIST = {"a": values.Int(1), "b": "text"}, [values.Int(1), "text"]


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


STREAM = b"\x06\0\0\0\x01\x0atext\0"
Body = tuple[str, dict[str, Any], bytes]
LEGACY_BODIES: tuple[Body, ...] = (
    ("body: octets", {}, b"octets"),
    ("body: empty", {}, b""),
    ("body: text", {"content_type": "text/plain"}, b"text"),
    ("body: `amqp/map`", {"content_type": "amqp/map"}, sized(write_map(MAP))),
    ("body: `amqp/list`", {"content_type": "amqp/list"}, sized(write_list(LIST))),
    ("body: `jms/stream-message`", {"content_type": "jms/stream-message"}, STREAM),
)
BODIES_OF: dict[str, tuple[Body, ...]] = {
    "0-10": (*LEGACY_BODIES, ("body: absent", {"body_kind": "none"}, b"")),
    "1.0": (
        *((f"body: {label}", {"body_kind": kind}, octets) for label, kind, octets in BODIES),
        ("body: map of JMS", {"body_kind": "value", "annotations": {JMS: values.Byte(2)}},
         b"\0\x53\x77" + write_value(MAP)),
        ("body: stream of JMS", {"body_kind": "sequence", "annotations": {JMS: values.Byte(4)}},
         b"\0\x53\x76" + write_value(LIST)),
    ),
}  # fmt: skip
OF_ONE_HOP = ("delivery_annotations", "first_acquirer")
HEADER = "header: "


class Item(NamedTuple):
    """A message of a version with one thing of note."""

    label: str
    message: Message


HOWS = ("natively", "own headers", "changed, capsule", "capsule", "changed", "lost")
"""How an item may arrive."""


def of(dialect: Dialect, body: bytes = b"", **given: Any) -> Message:
    """A message in a dialect, transient and of priority 4."""
    return Message(dialect, dialect.write(usual(**given)), body, "", "key", Essentials())


@cache
def items(version: Version) -> tuple[Item, ...]:
    """What programs of this version can write in places of its own."""
    dialect, form = version.dialect, form_of(version.dialect)
    found: list[tuple[str, str, Any]] = [
        (each.label, each.field, each.value) for each in SAMPLES if each.field not in OF_ONE_HOP
    ]
    for label, value in (*VALUES, *(LEGACY_VALUES if dialect is not SECTIONS else ())):
        found.append((f"{HEADER}{label}", "application", {"h": value}))
    kept = []
    for label, field, value in found:
        message = of(dialect, **{field: value})
        if version.received is not None:
            message.header = version.received(message)
        if same(getattr(dialect.read(form.native(message.header)), field), value):
            kept.append(Item(label, message))
    for label, given, octets in BODIES_OF.get(version.name, LEGACY_BODIES):
        kept.append(Item(label, of(dialect, octets, **given)))
    return tuple(kept)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, those of tables of the same types too."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            type(one[key]) is type(other[key]) and same(one[key], other[key]) for key in one
        )
    return bool(one == other)


# --- how a message arrives ------------------------------------------------------------------------


def how(item: Item, source: Version, reader: Version) -> str:
    """One of ``HOWS``."""
    crossing = Crossing(KEY)
    message, home = item.message, form_of(source.dialect)
    there = received(crossing, message, reader)
    form = form_of(reader.dialect)
    if restored(form.native(there.header), there.body, message, home, form):
        return "natively"
    if restored(form.without_capsule(there.header), there.body, message, home, form):
        return "own headers"
    bare = received(crossing, of(source.dialect), reader)
    seen = form.native(there.header) != form.native(bare.header) or there.body != bare.body
    if is_same(*came_back(crossing, there, message), message, home):
        return "changed, capsule" if seen else "capsule"
    return "changed" if seen else "lost"


def received(crossing: Crossing, message: Message, reader: Version) -> Message:
    """The message as programs of a version read it, and would publish it again."""
    header, body = message.header, message.body
    if message.dialect is not reader.dialect:
        header, body, *_ = crossing.cross(message, reader.dialect)
    found = Message(reader.dialect, header, body, "", "key", Essentials())
    if reader.received is not None:
        found.header = reader.received(found)
    return found


def came_back(crossing: Crossing, there: Message, message: Message) -> tuple[bytes, bytes]:
    if there.dialect is message.dialect:
        return there.header, there.body[:]
    header, body, *_ = crossing.cross(there, message.dialect)
    return header, body[:]


def restored(header: bytes, body: Any, message: Message, home: Form, form: Form) -> bool:
    """Whether this header, without a capsule, is the same message again in its own form."""
    if home is not form:
        header, body, *_ = natural_form(form, home, header, body)
    return is_same(header, body[:], message, home)


def is_same(header: bytes, body: bytes, message: Message, home: Form) -> bool:
    original, back = home.without_capsule(message.header), home.without_capsule(header)
    encoded = message.dialect is SECTIONS and SECTIONS.read(original).body_kind in SECTIONS_KINDS
    return (back == original or home.same(back, original)) and same_body(
        body, message.body, encoded
    )


SECTIONS_KINDS = ("value", "sequence")


@cache
def found(source: Version, reader: Version) -> dict[str, list[str]]:
    """Labels of the items of a version by how they arrive at another."""
    by_how: dict[str, list[str]] = {each: [] for each in HOWS}
    for item in items(source):
        by_how[how(item, source, reader)].append(item.label)
    return by_how


# --- the document ---------------------------------------------------------------------------------


def counts() -> str:
    """Sources down, readers across: the counts of ``HOWS``."""
    rows = []
    for source in VERSIONS:
        row = [f"**{source.name}** ({len(items(source))})"]
        for reader in VERSIONS:
            by_how = found(source, reader)
            native, headers, both, capsule, changed, lost = (len(by_how[each]) for each in HOWS)
            cell = [f"{native}"]
            cell += [f"{headers} h"] if headers else []
            cell += [f"{both + capsule} c"] if both + capsule else []
            cell += [f"{changed + lost} l"] if changed + lost else []
            row.append(" ".join(cell))
        rows.append(row)
    return table(["from / to", *(each.name for each in VERSIONS)], rows)


GROUPS = {"0-8": "0-8, 0-9, 0-9-1", "07-24": "07-24, 07-27"}
"""Versions whose rows are equal, which ``details`` checks, by the first of them."""


def details() -> str:
    """For each pair, what does not arrive natively."""
    firsts = [each for each in VERSIONS if each.name not in ("0-9", "0-9-1", "07-27")]
    rows = []
    for source in firsts:
        for reader in firsts:
            by_how = found(source, reader)
            if any(by_how[each] for each in HOWS[1:]):
                names = (GROUPS.get(each.name, each.name) for each in (source, reader))
                cells = [listed(by_how[each]) or "-" for each in HOWS[1:]]
                rows.append([*names, *cells])
    return table(["from", "to", *HOWS[1:]], rows)


def listed(labels: list[str]) -> str:
    """The labels, and the types of headers behind one word."""
    types = [each.removeprefix(HEADER) for each in labels if each.startswith(HEADER)]
    rest = [each for each in labels if not each.startswith(HEADER)]
    return "; ".join([*rest, *([f"headers: {', '.join(types)}"] if types else [])])


BLOCKS: dict[str, Callable[[], str]] = {"pairs": counts, "details": details}
TABLES = GeneratedTables(DOCUMENT, "specs.crossing_table", BLOCKS)

if __name__ == "__main__":
    sys.exit(TABLES.main())
