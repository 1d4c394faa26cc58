"""Changes to a stored header of 1.0 that leave all other octets as they are: the bare message is
never touched (§3.2), only the header section and the message annotations."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    DATA,
    HEADER,
    Sections,
    section_value,
    split_header,
)
from gateway.adapters.performatives.wire import layouts as w
from gateway.message import Message, Table
from gateway.values import Array, Seconds, Symbol, Timestamp, UInt, ULong

COUNT = "x-delivery-count"
"""The note with the number of deliveries that failed."""

DEATHS, OUR_DEATHS = "x-opt-deaths", "x-death"
UINT_MAX = 0xFFFFFFFF

EXCHANGE, ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")

_ANNOTATED: BoundedCache[tuple[bytes, str, str], bytes] = BoundedCache(2048)
"""Annotated headers by header, exchange and routing key. All connections share the cache."""
_NOTED: BoundedCache[tuple[bytes, tuple[tuple[str, Any], ...]], bytes] = BoundedCache(2048)
"""Sections of message annotations with notes, by the section and the notes."""
PLAIN = frozenset({int, str})
"""Types of notes that are equal only to those of the same type."""


def front(sections: Sections) -> int:
    """Where the sections begin that were there before the body."""
    ends = [span[2] for code, span in sections.single.items() if code > DATA]
    return max([0, *ends, *(span[2] for _, span in sections.body)])


def with_section(
    header: bytes, code: int, octets: bytes, sections: Sections | None = None
) -> bytes:
    """The stored header with this section, or without it if there are no octets. ``sections``:
    those of the header, if they are known."""
    sections = sections or split_header(header)
    span = sections.single.get(code)
    if span is not None:
        return header[: span[0]] + octets + header[span[2] :]
    before = [s[2] for c, s in sections.single.items() if c < code]
    at = max([front(sections), *before])
    return header[:at] + octets + header[at:]


def header_section(header: bytes, sections: Sections) -> w.Header:
    """The header section; an empty one if there is none."""
    span = sections.single.get(HEADER)
    return w.Header() if span is None else w.read_header(header, span[1])[0]


def annotations_of(header: bytes) -> dict[Any, Any]:
    """The message annotations. Raises ``FieldError``."""
    span = split_header(header).single.get(ANNOTATIONS)
    found = section_value(header, span) if span is not None else None
    return found if isinstance(found, dict) else {}


def with_annotations(header: bytes, annotations: Mapping[Any, Any]) -> bytes:
    """These annotations instead of those that are there."""
    octets = b"\x00\x53\x72" + write_value(annotations) if annotations else b""
    return with_section(header, ANNOTATIONS, octets)


def without_ttl(header: bytes) -> bytes:
    """Without a time to live."""
    sections = split_header(header)
    record = header_section(header, sections)
    if record.ttl is None:
        return header
    record.ttl = None
    return with_section(header, HEADER, write(record), sections)


def with_ttl(header: bytes, left: int) -> bytes:
    """With the time to live that is left (§3.2.1); a header without one stays without."""
    sections = split_header(header)
    record = header_section(header, sections)
    if record.ttl is None or record.ttl <= left:
        return header
    record.ttl = UInt(max(left, 0))
    return with_section(header, HEADER, write(record), sections)


def with_count(header: bytes, failed: int) -> bytes:
    """With so many deliveries that failed."""
    sections = split_header(header)
    record = header_section(header, sections)
    record.delivery_count = UInt(failed)
    return with_section(header, HEADER, write(record), sections)


def redelivery(header: bytes, failed: int | None) -> bytes:
    """With the header section of a redelivery (§3.2.1): not the first acquirer, and the number of
    failed deliveries."""
    sections = split_header(header)
    record = header_section(header, sections)
    record.first_acquirer = False  # the default, but explicit
    if failed is not None and 0 <= failed <= UINT_MAX:
        record.delivery_count = failed or None
    return with_section(header, HEADER, write(record), sections)


def annotated(header: bytes, message: Message) -> bytes:
    """The header of a first delivery as RabbitMQ 4 writes it, which its own client requires
    (``compat`` is for it): with the exchange and routing key of the message as annotations, and the
    first acquirer. Annotations that are there stay. Raises ``FieldError``."""
    key = header, message.exchange, message.key
    found = _ANNOTATED.get(key)
    if found is None:
        sections = split_header(header)
        record = header_section(header, sections)
        record.first_acquirer = True
        added = {EXCHANGE: message.exchange, ROUTING_KEY: message.key}
        found = with_section(header, HEADER, write(record), sections)
        found = with_annotations(found, {**added, **annotations_of(header)})
        _ANNOTATED.keep(key, found)
    return found


def with_notes(header: bytes, notes: Table) -> bytes:
    """What the broker adds as a reader of 1.0 expects it: failed deliveries in the header section,
    everything else as message annotations. Raises ``ValueError``."""
    failed = notes.get(COUNT)
    if isinstance(failed, int) and 0 <= failed <= UINT_MAX:
        header = with_count(header, failed)
        notes = {name: value for name, value in notes.items() if name != COUNT}
    if not notes:
        return header
    sections = split_header(header)
    span = sections.single.get(ANNOTATIONS)
    given = b"" if span is None else header[span[0] : span[2]]
    if not all(value.__class__ in PLAIN for value in notes.values()):
        return with_section(header, ANNOTATIONS, noted(given, notes), sections)
    key = given, tuple(notes.items())
    octets = _NOTED.get(key)
    if octets is None:
        octets = _NOTED.keep(key, noted(given, notes))
    return with_section(header, ANNOTATIONS, octets, sections)


def noted(given: bytes, notes: Table) -> bytes:
    """The section of message annotations with these notes among them."""
    annotations = dict(annotations_of(given))
    for name, value in notes.items():
        deaths = deaths_out(value) if name == OUR_DEATHS else None
        if deaths is not None:
            annotations[Symbol(DEATHS)] = deaths
        elif name.isascii():  # or no key of annotations could be its name
            annotations[Symbol(name if name.startswith("x-") else f"x-opt-{name}")] = value
    return b"\x00\x53\x72" + write_value(annotations) if annotations else b""


# --- dead letters ---------------------------------------------------------------------------------

MEMBERS = frozenset({"count", "reason", "queue", "time", "exchange", "routing-keys"})
EXPIRED = "original-expiration"


def deaths_out(deaths: Any) -> Array | None:
    """The history of a dead letter in the form that RabbitMQ 4 gives it, newest first; ``None`` if
    this is none that we know."""
    if not isinstance(deaths, list) or not deaths:
        return None
    found = [death_out(death) for death in deaths]
    return None if None in found else Array(found, 0xD1)


def death_out(death: Any) -> dict[Any, Any] | None:
    if not isinstance(death, dict) or not (MEMBERS <= death.keys() <= MEMBERS | {EXPIRED}):
        return None
    count, keys, time, ttl = (death.get(n) for n in ("count", "routing-keys", "time", EXPIRED))
    texts = [death[name] for name in ("queue", "reason", "exchange")]
    if (
        type(count) is not int
        or count < 0
        or type(time) is not Seconds
        or not isinstance(keys, list)
        or not all(type(text) is str for text in [*texts, *keys])
        or not texts[1].isascii()
        or (ttl is not None and not (isinstance(ttl, str) and ttl.isascii() and ttl.isdigit()))
        or (ttl is not None and (len(ttl) > 10 or int(ttl) > UINT_MAX or str(int(ttl)) != ttl))
    ):
        return None
    when = Timestamp(time * 1000)
    found: dict[Any, Any] = {
        Symbol("queue"): texts[0],
        Symbol("reason"): Symbol(texts[1]),
        Symbol("count"): ULong(count),
        Symbol("first-time"): when,
        Symbol("last-time"): when,
        Symbol("exchange"): texts[2],
        Symbol("routing-keys"): Array(keys, 0xB1),
    }
    if ttl is not None:
        found[Symbol("ttl")] = UInt(int(ttl))
    return found


def deaths_in(deaths: Any) -> list[Table] | None:
    """The inverse; the time is that of the first death, to the second."""
    if not isinstance(deaths, Array) or not deaths:
        return None
    found: list[Table] = []
    for death in deaths:
        if not isinstance(death, dict):
            return None
        count, keys, time = (death.get(n) for n in ("count", "routing-keys", "first-time"))
        texts = [death.get(name) for name in ("queue", "reason", "exchange")]
        if (
            not isinstance(count, int)
            or not -(1 << 63) <= count < 1 << 63
            or not isinstance(time, Timestamp)
            or time < 0
            or not isinstance(keys, Array)
            or not all(isinstance(text, str) for text in [*texts, *keys])
        ):
            return None
        table: Table = {
            "count": int(count),
            "reason": str(texts[1]),
            "queue": texts[0],
            "time": Seconds(time // 1000),
            "exchange": texts[2],
            "routing-keys": list(keys),
        }
        ttl = death.get("ttl")
        if isinstance(ttl, int):
            table[EXPIRED] = str(int(ttl))
        found.append(table)
    return found
