"""Server-sent events as octets: one message as the lines of one event, in each format that a stream
may ask for, and control events.

``json`` is ``data_line``. ``full`` has every section typed. ``cloudevents`` is the JSON format of
CloudEvents 1.0: an event that came as one keeps its attributes, any other message gets them made.
``text`` is the bare body, and only for bodies that a line-based format can carry: UTF-8 without
carriage returns; anything else becomes a ``gateway.warn``.
"""

import random
import re
from typing import Any, Literal
from urllib.parse import quote

from gateway.bodies import Body
from gateway.http.events.control_events import ControlEvent, WarnEvent
from gateway.http.message_json import (
    LINE_ENDS,
    NOT_TEXT,
    PREPARED,
    BodyForm,
    body_json,
    compact,
    is_event,
    is_json,
    metadata,
    readable_properties,
)
from gateway.http.observe.trace import trace_of
from gateway.http.octets import LARGEST_SHOWN, Octets, chunks_of, concatenated, octets_of, trimmed
from gateway.http.publish.form_writer import full_octets, write_full
from gateway.http.typed import json_value, moment
from gateway.message import Message, Properties

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}

Format = Literal["json", "full", "cloudevents", "text"]

ATTRIBUTE = re.compile(r"[a-z0-9]{1,20}")
PREFIXES = ("cloudEvents_", "cloudEvents:")
REQUIRED = ("id", "source", "specversion", "type")
AS_JSON = b'{"json":'
RESERVED = frozenset({*REQUIRED, "data", "data_base64", "datacontenttype"})


def data_line(
    head: bytes, message: Message, redelivered: bool, opaque: bool = False, way: bool = True
) -> Octets:
    """``data: {...}`` and the blank line. ``head`` is the source's ``data: {"source":"..."``;
    ``opaque``: the body is always base64; ``way``: exchange and routing key are shown."""
    fields: dict[str, Any]
    try:
        properties = message.properties
        fields = metadata(properties)
        content_type, coding = properties.content_type, properties.content_encoding
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        # Another peer's broken properties must not end the stream of everybody else.
        fields = {"properties_unreadable": True}
        content_type = coding = None
    finally:
        message.forget_properties()
    if way:
        fields["exchange"] = message.exchange
    if way or message.key:
        fields["routing_key"] = message.key
    if redelivered:
        fields["redelivered"] = True
    body = body_json(None if opaque else content_type, coding, message.body)
    if fields:
        head = b"%b,%b" % (head, compact(fields)[1:-1])
    return concatenated(head + b',"body":', body, b"}\n\n")


def data_head(source: str) -> bytes:
    return b'data: {"source":' + compact(source)


def control(event: ControlEvent, cursor: bytes | None = None, retry_ms: int | None = None) -> bytes:
    """A control event. A cursor and a reconnect time always stand in an
    event: simple clients make an empty message of a block without data."""
    retry = b"retry: %d\n" % retry_ms if retry_ms is not None else b""
    line = b"id: " + cursor + b"\n" if cursor is not None else b""
    data = compact(event.model_dump(exclude_unset=True, by_alias=True))
    return b"%b%bevent: %b\ndata: %b\n\n" % (retry, line, event.kind.encode(), data)


def jittered(reconnect_ms: int) -> int:
    """Another reconnect time for each client, so that not all come back at once."""
    return int(reconnect_ms * random.uniform(0.5, 1.5))


def full_line(
    source: str, position: int, message: Message, redelivered: bool, way: bool = True
) -> Octets:
    properties = readable_properties(message)
    exchange = message.exchange if way else None
    key = message.key if way or message.key else None
    shown: dict[str, Any] = {"source": source, "position": position}
    if properties is None:
        shown |= {"properties_unreadable": True, "redelivered": redelivered}
        known = {"exchange": exchange, "routing_key": key}
        legacy = {name: value for name, value in known.items() if value is not None}
        shown |= {"view": "full", "legacy": legacy, "body": {"kind": "data"}}
    else:
        properties.first_acquirer = not redelivered
        shown |= write_full(properties, b"", exchange, key)
    whole = full_octets(shown, body_json(None, None, message.body), len(message.body))
    return concatenated(b"data: ", whole, b"\n\n")


def text_line(source: str, position: int, message: Message) -> Octets:
    whole = message.body
    key = BodyForm(id(whole), lines=True) if PREPARED or NOT_TEXT else None
    if key in NOT_TEXT:
        reason = NOT_TEXT[key]
    elif key in PREPARED:
        return PREPARED[key]
    elif (body := whole if isinstance(whole, bytes) else octets_of(whole)) is None:
        return too_large(source, position, message)
    else:
        try:
            body.decode()
        except UnicodeDecodeError:
            reason = "the body is not UTF-8"
        else:
            # A leading U+FEFF is safe: only one at the very beginning of the stream is dropped.
            if b"\r" not in body:
                return b"data: " + body.replace(b"\n", b"\ndata: ") + b"\n\n"
            reason = "the body has a carriage return"
    return control(WarnEvent(type="not-text", source=source, position=position, reason=reason))


def too_large(source: str, position: int, message: Message) -> bytes:
    octets = len(message.body)
    return control(WarnEvent(type="too-large", source=source, position=position, octets=octets))


# --- CloudEvents --------------------------------------------------------------------------------


def as_it_is(message: Message) -> Octets | None:
    """The body, if it is a JSON object."""
    shown = PREPARED.get(BodyForm(id(message.body), True, True)) if PREPARED else None
    if shown is not None:
        inner = trimmed(shown, len(AS_JSON), 1) if shown.parts[0].startswith(AS_JSON) else b""
    else:
        body = octets_of(message.body) or b""
        inner = body.translate(LINE_ENDS) if is_json(body) else b""
    start = next((part.lstrip() for part in chunks_of(inner) if part.strip()), b"")
    return inner if start[:1] == b"{" else None


def cloudevents_line(
    base: str, instance: str, position: int, message: Message, opaque: bool = False
) -> Octets:
    """``base``: the URI of the source; ``instance``: the epoch of its journal. An event that
    came as one in JSON is passed on as it is, ``opaque`` or not."""
    properties = readable_properties(message) or Properties()
    content_type = properties.content_type
    if len(message.body) > LARGEST_SHOWN:
        return too_large(base, position, message)
    if is_event(content_type) and (event := as_it_is(message)) is not None:
        return concatenated(b"data: ", event, b"\n\n")
    shown = attributes_of(properties)
    if shown is None:
        shown = made_attributes(base, instance, position, message, properties)
    for name, value in trace_of(properties.application).items():
        shown.setdefault(name, value)
    if content_type is not None:
        shown["datacontenttype"] = content_type
    data = data_member(properties, message.body, opaque)
    return concatenated(b"data: %b," % compact(shown)[:-1], data, b"}\n\n")


def attributes_of(properties: Properties) -> dict[str, Any] | None:
    """The attributes of an event in the binary mode of the AMQP binding, if it is one."""
    given = properties.application or {}
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = next((key[len(p) :] for p in PREFIXES if isinstance(key, str) and key[:12] == p), "")
        if ATTRIBUTE.fullmatch(name) and name not in ("data", "datacontenttype"):
            shown = scalar(value)
            if shown is not None:
                found[name] = shown if name != "specversion" else str(shown)
    if all(isinstance(found.get(name), str) and found[name] for name in REQUIRED):
        return found
    return None


def scalar(value: Any) -> str | int | bool | None:
    if isinstance(value, bool | str):
        return value
    shown = json_value(value)
    if isinstance(shown, int) and -(2**31) <= shown < 2**31:
        return shown
    if isinstance(shown, dict):
        shown = shown.get("value")
    return str(shown) if isinstance(shown, str | int | float) else None


def made_attributes(
    base: str, instance: str, position: int, message: Message, properties: Properties
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{instance}-{position}",
        "source": base,
        "type": properties.type or "amqp.message",
    }
    identity = properties.message_id
    if identity is not None and not isinstance(identity, bytes) and str(identity):
        made["id"] = str(identity)
    subject = properties.subject or message.key
    if subject:
        made["subject"] = subject
    if properties.creation_time is not None:
        shown = moment(properties.creation_time)
        if "T" in shown:
            made["time"] = shown
    for key, value in (properties.application or {}).items():
        if isinstance(key, str) and ATTRIBUTE.fullmatch(key) and key not in RESERVED | made.keys():
            extension = scalar(value)
            if extension is not None:
                made[key] = extension
    return made


def data_member(properties: Properties, body: Body, opaque: bool) -> Octets:
    media = None if opaque else properties.content_type
    shown = body_json(media, properties.content_encoding, body)
    start = chunks_of(shown)[0]
    for kind, name in ((AS_JSON, b'"data":'), (b'{"text":', b'"data":')):
        if start.startswith(kind):
            return concatenated(name, trimmed(shown, len(kind), 1))
    return concatenated(b'"data_base64":', trimmed(shown, len(b'{"base64":'), 1))


# --- any of them --------------------------------------------------------------------------------


class Renderer:
    """Renders the messages of one source, or of the route by which it is read (``kind``)."""

    __slots__ = ("source", "head", "base", "instance", "way")

    def __init__(self, vhost: str, kind: str, name: str, shown: str, head: bytes, epoch: bytes):
        self.source = shown
        self.way = kind != "route"
        self.head = head
        self.base = f"/v1/{quote(vhost, safe='')}/{kind}s/{quote(name, safe='')}"
        self.instance = epoch.hex()

    def lines(
        self, how: str, position: int, message: Message, redelivered: bool, opaque: bool
    ) -> Octets:
        if how == "full":
            return full_line(self.source, position, message, redelivered, self.way)
        if how == "cloudevents":
            return cloudevents_line(self.base, self.instance, position, message, opaque)
        if how == "text":
            return text_line(self.source, position, message)
        return data_line(self.head, message, redelivered, opaque, self.way)
