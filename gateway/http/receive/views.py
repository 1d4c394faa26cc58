"""A message as a reader over HTTP sees it: JSON in two views, or its raw body with fields."""

import re
from typing import Any

import http_sf

from gateway.bodies import Body
from gateway.http.fields import sf_string, write_headers
from gateway.http.message_json import body_json, compact, readable_properties
from gateway.http.octets import Octets, concatenated, trimmed
from gateway.http.publish.form_writer import full_octets, write_full, write_simple
from gateway.http.typed import moment
from gateway.message import Message, Properties, Table

HEADER_OCTETS = 8192
"""A raw answer whose fields take more than this is given in JSON instead."""
MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+"
                        r"(?:[ \t]*;[ -~\t]*)?")  # fmt: skip
GUARD = [
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "sandbox; default-src 'none'"),
]
"""A browser must not run the body of a message as a page."""

ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of properties that cannot be shown."""

Pairs = list[tuple[str, str]]


def dead_letter(properties: Properties | None) -> list[dict[str, Any]]:
    """The ``x-death`` header in plain words, newest first."""
    deaths = (properties.application or {}).get("x-death") if properties is not None else None
    found = []
    for death in deaths if isinstance(deaths, list) else ():
        if not isinstance(death, dict):
            continue
        keys = death.get("routing-keys")
        shown: dict[str, Any] = {
            "queue": plain(death.get("queue")),
            "reason": plain(death.get("reason")),
            "count": death["count"] if isinstance(death.get("count"), int) else 1,
            "exchange": plain(death.get("exchange")),
            "routing_keys": [plain(key) for key in keys] if isinstance(keys, list) else [],
        }
        if isinstance(death.get("time"), int):
            shown["first"] = moment(int(death["time"]) * 1000)
        if "original-expiration" in death:
            shown["original_expiration"] = plain(death["original-expiration"])
        found.append(shown)
    return found


def plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def with_message(
    known: dict[str, Any], message: Message, view: str, payload: str, deliveries: int
) -> list[Octets]:
    """An object of these members and the ``message``."""
    shown = message_json(message, view, payload, deliveries)
    return [compact(known)[:-1] + b',"message":', shown, b"}"]


def message_json(message: Message, view: str, payload: str, deliveries: int) -> Octets:
    """``deliveries``: which delivery this is, from 1."""
    properties = readable_properties(message)
    if properties is not None:
        try:
            return readable_json(message, properties, view, payload, deliveries)
        except ODD:
            pass  # an unforeseen value costs the view of one message
    fields: Table = {
        "properties_unreadable": True,
        "exchange": message.exchange,
        "routing_key": message.key,
    }
    return spliced(fields, body_json(None, None, message.body))


def readable_json(
    message: Message, properties: Properties, view: str, payload: str, deliveries: int
) -> Octets:
    shown: Any
    if view == "full":
        properties.first_acquirer = deliveries == 1
        properties.delivery_count = deliveries - 1
        shown = write_full(properties, b"", message.exchange, message.key)
        return full_octets(shown, body_json(None, None, message.body), len(message.body))
    fields = write_simple(properties, b"", message.exchange, message.key)
    body = fields.pop("body")
    fields["redelivered"] = deliveries > 1
    deaths = dead_letter(properties)
    if deaths:
        fields["dead_letter"] = deaths
    if payload == "base64":
        shown = body_json(None, None, message.body)
    elif properties.body_kind in (None, "data"):
        shown = body_json(properties.content_type, properties.content_encoding, message.body)
    else:
        kind = compact({"kind": body.get("kind")})[:-1] + b","
        shown = concatenated(kind, trimmed(body_json(None, None, message.body), 1))
    return spliced(fields, shown)


def spliced(fields: Table, body: Octets) -> Octets:
    """The body's own octets are kept: big numbers and repeated keys survive."""
    return concatenated(compact(fields)[:-1] + b',"body":', body, b"}")


def raw_fields(message: Message, deliveries: int) -> Pairs | None:
    """The fields of a raw answer, ``None`` if they take too much room or cannot be read.
    ``deliveries`` as for ``message_json``."""
    properties = readable_properties(message)
    if properties is None:
        return None
    content_type = properties.content_type
    if content_type is not None and not MEDIA_TYPE.fullmatch(content_type):
        properties.content_type = None
    try:
        pairs = write_headers(properties)
        if properties.content_type is None:
            pairs.append(("content-type", "application/octet-stream"))
        pairs += [
            ("amqp-exchange", http_sf.ser(sf_string(message.exchange))),
            ("amqp-routing-key", http_sf.ser(sf_string(message.key))),
            ("amqp-first-acquirer", "?0" if deliveries > 1 else "?1"),
            ("amqp-delivery-count", str(deliveries - 1)),
            *GUARD,
        ]
    except ODD:
        return None  # JSON has an escape for anything
    if sum(len(name) + len(value) + 4 for name, value in pairs) > HEADER_OCTETS:
        return None
    return pairs


def encoded_fields(pairs: Pairs, body: Body | Octets | None) -> list[tuple[bytes, bytes]]:
    """The fields of an answer that is not kept, with the length of its body if it has one."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    headers.append((b"cache-control", b"no-store"))
    if body is not None:
        headers.append((b"content-length", b"%d" % len(body)))
    return headers
