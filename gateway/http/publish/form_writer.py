"""Messages as JSON documents: the full and the simple form, as they are shown."""

import base64
import json
from typing import Any

from gateway.adapters.methods.content import write_id
from gateway.bodies import Body
from gateway.http.octets import Octets, concatenated, octets_of, omitted, trimmed
from gateway.http.portions import encoded
from gateway.http.publish.form_reader import (
    GROUP,
    HEADER,
    PROPERTIES,
    SECTIONS,
    SIMPLE,
    plain_identifier,
    time,
    user,
)
from gateway.http.typed import moment
from gateway.http.typed_json import (
    write_json,
)
from gateway.message import Properties, Table
from gateway.values import Symbol

TEXTUAL = frozenset({"application/xml", "application/javascript", "application/yaml"})


def write_full(
    properties: Properties, body: Body, exchange: str | None = None, key: str | None = None
) -> dict[str, Any]:
    """All sections that are present."""
    shown: dict[str, Any] = {"view": "full"}
    header = {name: getattr(properties, name) for name in HEADER}
    bare: dict[str, Any] = {}
    for name in PROPERTIES:
        value = getattr(properties, name)
        if name in ("absolute_expiry_time", "creation_time", "group_sequence"):
            bare[name] = None if value is None else int(value)
        else:
            bare[name] = write_json(unmarked(value))
    legacy = {name: write_json(getattr(properties, name)) for name in ("type", "app_id")}
    legacy["cluster_id"] = write_json(properties.cluster_id)
    legacy |= {"exchange": write_json(exchange), "routing_key": write_json(key)}
    for name, section in (("header", header), ("properties", bare), ("legacy", legacy)):
        present = {member: value for member, value in section.items() if value is not None}
        if present:
            shown[name] = present
    if properties.application is not None:
        shown["application_properties"] = write_json(properties.application)
    for name, attribute in SECTIONS.items():
        value = getattr(properties, attribute)
        if value is not None:
            shown[name] = write_json(plainly_keyed(value))
    kind = properties.body_kind or "data"
    shown["body"] = {"kind": kind}
    if kind != "none" or body:
        octets = octets_of(body)
        encoded = {"base64": base64.b64encode(octets or b"").decode()}
        shown["body"] |= omitted(body) if octets is None else encoded
    return shown


def full_octets(shown: dict[str, Any], body: Octets, size: int) -> Octets:
    """The full form as JSON. ``shown`` is what ``write_full`` makes without the body, which is
    ``{"base64": ..}``, of ``size`` octets; it is spliced in, since it may be large."""
    kind = shown.pop("body")["kind"]
    head = encoded(shown)[:-1] + b',"body":{"kind":"%b"' % kind.encode()
    if kind == "none" and not size:
        return head + b"}}"
    return concatenated(head + b",", trimmed(body, 1), b"}")


def write_simple(
    properties: Properties, body: bytes, exchange: str | None = None, key: str | None = None
) -> dict[str, Any]:
    """The simple view; types that JSON lacks keep their wrapper."""
    shown: dict[str, Any] = {}
    for name, (attribute, reader) in SIMPLE.items():
        value = getattr(properties, attribute)
        if value is None:
            continue
        if reader is plain_identifier:
            value = write_id(value)
        elif reader is time:
            value = moment(value)
        elif reader is user:
            value = octets_text(value)
        elif name == "annotations":
            value = plainly_keyed(value)
        shown[name] = write_json(unmarked(value))
    group = {
        member: write_json(getattr(properties, attribute))
        for member, (attribute, _) in GROUP.items()
        if getattr(properties, attribute) is not None
    }
    if group:
        shown["group"] = group
    if exchange is not None:
        shown["exchange"] = write_json(exchange)
    if key is not None:
        shown["routing_key"] = write_json(key)
    shown["body"] = body_by_type(properties, body)
    return shown


def plainly_keyed(section: Table) -> Table:
    """Annotations with keys as text, unless some keys are numbers."""
    if type(section) is dict and all(isinstance(key, str) for key in section):
        return {str(key): value for key, value in section.items()}
    return section


def unmarked(value: Any) -> Any:
    """A property whose type can only be symbol is shown as text."""
    return str(value) if type(value) is Symbol else value


def octets_text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def body_by_type(properties: Properties, body: bytes) -> dict[str, Any]:
    """JSON or text if the content type says so and the body is valid, else base64."""
    media = (properties.content_type or "").partition(";")[0].strip().lower()
    if not properties.content_encoding and properties.body_kind in (None, "data"):
        try:
            if media == "application/json" or media.endswith("+json"):
                return {"json": json.loads(body.decode())}
            if media.startswith("text/") or media in TEXTUAL or media.endswith("+xml"):
                return {"text": body.decode()}
        except (ValueError, RecursionError):
            pass
    shown = {"base64": base64.b64encode(body).decode()}
    return {"kind": properties.body_kind, **shown} if properties.body_kind else shown
