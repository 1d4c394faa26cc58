"""A message as JSON: the simple view of its properties, and its body.

The ``body`` member is ``{"json": ...}`` if the content type says JSON and the octets are valid JSON
(they are spliced in as they came, so big numbers and repeated keys survive), else ``{"text": ...}``
if the content type is textual and the octets are UTF-8, else ``{"base64": ...}``.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.bodies import Body
from gateway.http.observe.trace import trace_of
from gateway.http.octets import Chunks, Octets, octets_of, omitted
from gateway.http.typed import json_value, moment
from gateway.message import Message, Properties
from gateway.strict_json import refuse

LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
TEXTUAL = frozenset({"application/xml", "application/javascript", "application/yaml"})


def compact(value: Any) -> bytes:
    """JSON on one line, UTF-8; a lone surrogate becomes its escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


class BodyForm(NamedTuple):
    """Form in which a body is shown, and the identity of its octets: the ``body`` member, as JSON
    or text if it may be shown so, or the ``lines`` of the format "text"."""

    body: int
    json: bool = False
    text: bool = False
    lines: bool = False


PREPARED: dict[BodyForm, Chunks] = {}
"""Large bodies that ``prepared_bodies`` has made ready."""
NOT_TEXT: dict[BodyForm, str] = {}
"""The reasons why some of them have no ``lines``."""


def reading_of(content_type: str | None, coding: str | None) -> tuple[bool, bool]:
    """Whether a body may be shown as JSON, and as text."""
    if coding:
        return False, False
    media = (content_type or "").partition(";")[0].strip().lower()
    json = media == "application/json" or media.endswith("+json")
    return json, media.startswith("text/") or media in TEXTUAL or media.endswith(("+xml", "json"))


def body_json(content_type: str | None, coding: str | None, large: Body) -> Octets:
    """The ``body`` member by the binary rule."""
    return body_shown(*reading_of(content_type, coding), large)


def body_shown(json: bool, text: bool, large: Body) -> Octets:
    """The ``body`` member: as JSON or text, if it may be and is, else in base64."""
    if PREPARED and (shown := PREPARED.get(BodyForm(id(large), json, text))) is not None:
        return shown
    body = octets_of(large)
    if body is None:
        return compact(omitted(large))
    if json and is_json(body):
        # Outside strings a line end is white space; inside, valid JSON has none.
        return b'{"json":' + body.translate(LINE_ENDS) + b"}"
    if text:
        try:
            return b'{"text":' + compact(body.decode()) + b"}"
        except UnicodeDecodeError:
            pass
    return b'{"base64":"' + base64.b64encode(body) + b'"}'


def is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode(), parse_constant=refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def readable_properties(message: Message) -> Properties | None:
    """The decoded properties, which the message forgets; ``None`` if they cannot be decoded."""
    try:
        return message.properties
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None
    finally:
        message.forget_properties()


def metadata(properties: Properties) -> dict[str, Any]:
    """The simple view of the properties, without those that are absent."""
    shown: dict[str, Any] = {}
    for attribute, name, show in SHOWN:
        value = getattr(properties, attribute)
        if value is not None:
            shown[name] = show(value)
    if properties.user_id is not None:
        shown["user_id"] = properties.user_id.decode("utf-8", "replace")
    group = {
        name: getattr(properties, attribute)
        for attribute, name in GROUP
        if getattr(properties, attribute) is not None
    }
    if group:
        shown["group"] = group
    if properties.application:
        shown |= trace_of(properties.application)
        shown["properties"] = json_value(properties.application)
    return shown


SHOWN: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("message_id", "id", json_value),
    ("correlation_id", "correlation_id", json_value),
    ("subject", "subject", json_value),
    ("to", "to", json_value),
    ("reply_to", "reply_to", json_value),
    ("content_type", "content_type", json_value),
    ("content_encoding", "content_encoding", json_value),
    ("type", "type", json_value),
    ("app_id", "app_id", json_value),
    ("durable", "durable", json_value),
    ("priority", "priority", json_value),
    ("ttl", "ttl_ms", json_value),
    ("creation_time", "time", moment),
    ("absolute_expiry_time", "expires_at", moment),
)
GROUP = (("group_id", "id"), ("group_sequence", "sequence"), ("reply_to_group_id", "reply_to"))


def is_event(content_type: str | None) -> bool:
    """Whether this says that a body is an event in JSON."""
    media = (content_type or "").partition(";")[0].strip().lower()
    return media == "application/cloudevents+json"
