"""The JSON forms of a message: ``full`` with all sections typed, ``simple`` for people.

``read_form`` takes either (``"view"`` says which; simple if it is absent) and ``write_full`` and
``write_simple`` make them. ``read_form(write_full(m))`` is ``m``, value for value. Unknown members
are refused, as unknown metadata fields are: a misspelt ``durable`` must not lose a message.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from gateway.adapters.methods.content import read_id
from gateway.http.typed import BadValue
from gateway.http.typed_json import (
    BadForm,
    read_base64,
    read_json,
    read_moment,
    strange,
)
from gateway.message import Properties, Table
from gateway.values import Symbol, ULong

FORM = "application/vnd.amqp-gateway.message+json"
KINDS = ("data", "value", "sequence", "none")


class Form(NamedTuple):
    """One message, read from its JSON form."""

    properties: Properties
    body: bytes
    exchange: str | None
    key: str | None


# --- kinds of members ---------------------------------------------------------------------------


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadForm("", "must be true or false")
    return value


def count(most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise BadForm("", f"must be an integer from 0 to {most}")
        return value

    return read


def text(value: Any) -> str:
    found = read_json(value)
    if type(found) is not str:
        raise BadForm("", "must be text")
    return found


def short(value: Any) -> str:
    found = text(value)
    if len(found.encode("utf-8", "surrogateescape")) > 255:
        raise BadForm("", "is longer than 255 octets")
    return found


def ascii_short(value: Any) -> str:
    found = short(value)
    if not found.isascii():
        raise BadForm("", "must be ASCII")
    return found


def time(value: Any) -> int:
    try:
        return read_moment(value)
    except BadValue as error:
        raise BadForm("", str(error)) from None


def identifier(value: Any) -> Any:
    found = read_json(value)
    if not isinstance(found, str | UUID | ULong | bytes):
        raise BadForm("", "must be text, or a typed uuid, ulong or binary")
    return found


def plain_identifier(value: Any) -> Any:
    found = identifier(value)
    return read_id(found) if type(found) is str else found


def user(value: Any) -> bytes:
    found = read_json(value)
    if type(found) is str:
        return found.encode()
    if not isinstance(found, bytes):
        raise BadForm("", "must be text or typed binary")
    return found


def table(value: Any) -> Table:
    found = read_json(value)
    if not isinstance(found, dict):
        raise BadForm("", "must be an object")
    return found


def section(value: Any) -> Table:
    """Annotations or a footer, whose keys are symbols or numbers (1.0 §3.2.10)."""
    found: dict[Any, Any] = table(value)
    keyed: dict[Any, Any] = {}
    for key, each in found.items():
        if type(key) is not ULong and not (isinstance(key, str) and key.isascii()):
            raise BadForm("", "a key is ASCII, or a typed ulong")
        keyed[key if type(key) is ULong else Symbol(key)] = each
    return keyed


def application(value: Any) -> Table:
    found = table(value)
    for key in found:
        if type(key) is not str or not 0 < len(key.encode("utf-8", "surrogateescape")) < 256:
            raise BadForm("", "a key has 1 to 255 octets")
    return found


Reader = Callable[[Any], Any]
UINT = count(2**32 - 1)

HEADER: dict[str, Reader] = {
    "durable": flag,
    "priority": count(255),
    "ttl": UINT,
    "first_acquirer": flag,
    "delivery_count": UINT,
}
PROPERTIES: dict[str, Reader] = {
    "message_id": identifier,
    "user_id": user,
    "to": text,
    "subject": text,
    "reply_to": text,
    "correlation_id": identifier,
    "content_type": ascii_short,
    "content_encoding": ascii_short,
    "absolute_expiry_time": time,
    "creation_time": time,
    "group_id": text,
    "group_sequence": UINT,
    "reply_to_group_id": text,
}
LEGACY: dict[str, Reader] = {
    "type": short,
    "app_id": short,
    "cluster_id": short,
    "exchange": short,
    "routing_key": short,
}
SECTIONS = {
    "delivery_annotations": "delivery_annotations",
    "message_annotations": "annotations",
    "footer": "footer",
}
FULL = frozenset({*SECTIONS, "view", "header", "properties", "legacy"}) | {
    "application_properties",
    "body",
}
SIMPLE: dict[str, tuple[str, Reader]] = {
    "id": ("message_id", plain_identifier),
    "correlation_id": ("correlation_id", plain_identifier),
    "durable": ("durable", flag),
    "priority": ("priority", count(255)),
    "ttl_ms": ("ttl", UINT),
    "user_id": ("user_id", user),
    "to": ("to", text),
    "subject": ("subject", text),
    "reply_to": ("reply_to", text),
    "content_type": ("content_type", ascii_short),
    "content_encoding": ("content_encoding", ascii_short),
    "expires_at": ("absolute_expiry_time", time),
    "time": ("creation_time", time),
    "properties": ("application", application),
    "annotations": ("annotations", section),
    "type": ("type", short),
    "app_id": ("app_id", short),
    "cluster_id": ("cluster_id", short),
}
GROUP: dict[str, tuple[str, Reader]] = {
    "id": ("group_id", text),
    "sequence": ("group_sequence", UINT),
    "reply_to": ("reply_to_group_id", text),
}
TOLD = frozenset(
    {"view", "body", "group", "exchange", "routing_key", "redelivered", "delivery_count"}
)
"""Members of the simple view besides ``SIMPLE``. Those that describe a delivery are accepted and
ignored."""


# --- reading ------------------------------------------------------------------------------------


def read_form(found: Any, view: str = "simple") -> Form:
    """Raises ``BadForm``."""
    if not isinstance(found, dict):
        raise BadForm("", "must be an object")
    view = found.get("view", view)
    if view == "full":
        return read_full(found)
    if view == "simple":
        return read_simple(found)
    raise BadForm("/view", "must be full or simple")


def members(name: str, found: Any, readers: dict[str, Reader]) -> dict[str, Any]:
    """The members of one section; null is absent."""
    if not isinstance(found, dict):
        raise BadForm(f"/{name}", "must be an object")
    read: dict[str, Any] = {}
    for member, value in found.items():
        reader = readers.get(member)
        if reader is None:
            raise strange(member).under(name)
        if value is not None:
            read[member] = read_member(reader, value, name, member)
    return read


def read_member(reader: Reader, value: Any, *path: str) -> Any:
    try:
        return reader(value)
    except BadForm as error:
        for name in reversed(path):
            error = error.under(name)
        raise error from None


def read_full(found: dict[str, Any]) -> Form:
    given: dict[str, Any] = {}
    legacy: dict[str, Any] = {}
    body, kind = b"", None
    for name, value in found.items():
        if name not in FULL:
            raise strange(name)
        if name == "view" or value is None:
            continue
        if name == "header":
            given |= members(name, value, HEADER)
        elif name == "properties":
            given |= members(name, value, PROPERTIES)
        elif name == "legacy":
            legacy = members(name, value, LEGACY)
        elif name == "application_properties":
            given["application"] = read_member(application, value, name)
        elif name in SECTIONS:
            given[SECTIONS[name]] = read_member(section, value, name)
        else:
            body, kind = read_body(value)
    exchange, key = legacy.pop("exchange", None), legacy.pop("routing_key", None)
    properties = Properties(**given, **legacy)
    if kind not in (None, "data"):
        properties.body_kind = kind
    if isinstance(found.get("body"), dict):
        default_type(properties, found["body"])
    return Form(properties, body, exchange, key)


def read_simple(found: dict[str, Any]) -> Form:
    given: dict[str, Any] = {}
    for name, value in found.items():
        known = SIMPLE.get(name)
        if known is None and name not in TOLD:
            raise strange(name)
        if known is not None and value is not None:
            given[known[0]] = read_member(known[1], value, name)
    group = found.get("group")
    if group is not None:
        readers = {member: reader for member, (_, reader) in GROUP.items()}
        for member, value in members("group", group, readers).items():
            given[GROUP[member][0]] = value
    properties = Properties(**given)
    body, kind = read_body(found.get("body"))
    if kind not in (None, "data"):
        properties.body_kind = kind
    default_type(properties, found.get("body"))
    exchange, key = found.get("exchange"), found.get("routing_key")
    return Form(
        properties,
        body,
        None if exchange is None else read_member(short, exchange, "exchange"),
        None if key is None else read_member(short, key, "routing_key"),
    )


def read_body(value: Any) -> tuple[bytes, str | None]:
    """Octets and kind. ``{"json"|"text"|"base64": ...}``, plain text, or nothing."""
    if value is None:
        return b"", None
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        raise BadForm("/body", 'must be text, {"json":..}, {"text":..} or {"base64":..}')
    kind = value.get("kind")
    ways = [name for name in value if name != "kind"]
    if kind is not None and kind not in KINDS:
        raise BadForm("/body/kind", "must be data, value, sequence or none")
    if kind == "none" and not ways:
        return b"", kind
    if len(ways) != 1 or ways[0] not in ("json", "text", "base64"):
        if kind in ("value", "sequence"):
            raise BadForm("/body", f"a {kind} is given as its encoded octets, in base64")
        raise BadForm("/body", "must have one of json, text and base64")
    way = ways[0]
    inner = value[way]
    if way == "json":
        return read_member(json_octets, inner, "body", way), kind
    if way == "base64":
        return read_member(read_base64, inner, "body", way), kind
    try:
        if isinstance(inner, str):
            return inner.encode(), kind
    except UnicodeEncodeError:
        pass
    raise BadForm("/body/text", "must be text")


def json_octets(value: Any) -> bytes:
    try:
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return written.encode()
    except ValueError as error:
        raise BadForm("", f"cannot be written again: {error}") from None


def default_type(properties: Properties, body: Any) -> None:
    """The content type of a body in JSON or text, unless the message has one."""
    if properties.content_type is None and isinstance(body, dict) and "json" in body:
        properties.content_type = "application/json"
    elif properties.content_type is None and (
        isinstance(body, str) or (isinstance(body, dict) and "text" in body)
    ):
        properties.content_type = "text/plain; charset=utf-8"
