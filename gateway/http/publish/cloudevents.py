"""CloudEvents 1.0 over HTTP: binary mode into application properties, structured mode as it is.

Binary: ``ce-NAME`` fields become application properties ``cloudEvents_NAME`` (strings), as the AMQP
binding has them; the body stays the data. Structured: the JSON is the body, unchanged.
"""

import json
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from gateway.http.fields import BadField
from gateway.http.typed_json import BadForm
from gateway.strict_json import once, refuse

PREFIX = "cloudEvents_"
ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
REQUIRED = ("id", "source", "specversion", "type")
NAME = re.compile(r"[a-z0-9]{1,200}")
DECODER = json.JSONDecoder(object_pairs_hook=once, parse_constant=refuse)
SPACE = " \t\r\n"


def read_attributes(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Application properties from ``ce-`` fields, empty if there is no event. Raises
    ``BadField``."""
    given = [(name, value) for name, value in headers if name.startswith(b"ce-")]
    if not any(name == b"ce-specversion" for name, _ in given):
        return {}
    found: dict[str, str] = {}
    for raw, value in given:
        field = raw.decode("latin-1")
        name = field[3:]
        if not NAME.fullmatch(name) or name in ("data", "datacontenttype"):
            raise BadField(field, "is no attribute in binary mode")
        if name in found:
            raise BadField(field, "given twice")
        found[name] = read_value(field, value)
    for name in REQUIRED:
        if not found.get(name):
            raise BadField(f"ce-{name}", "is required")
    if found["specversion"] != "1.0":
        raise BadField("ce-specversion", "must be 1.0")
    return {PREFIX + name: value for name, value in found.items()}


def read_value(field: str, raw: bytes) -> str:
    """Unquoted, then percent-decoded (HTTP binding 1.0.2, 3.1.3.2)."""
    text = raw.strip()
    if len(text) > 1 and text[:1] == text[-1:] == b'"':
        text = re.sub(rb"\\(.)", rb"\1", text[1:-1])
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise BadField(field, "is not percent-encoded UTF-8") from None


def check_event(event: Any) -> None:
    """Raises ``BadForm``."""
    if not isinstance(event, dict):
        raise BadForm("", "must be an object")
    for name in REQUIRED:
        value = event.get(name)
        if not isinstance(value, str) or not value:
            raise BadForm(f"/{name}", "must be text, and not empty")
    if event["specversion"] != "1.0":
        raise BadForm("/specversion", "must be 1.0")
    if "data" in event and "data_base64" in event:
        raise BadForm("/data_base64", "cannot stand beside data")


def split_batch(body: bytes) -> list[tuple[Any, bytes]]:
    """Each event of a JSON array, and its own octets as they came. Raises ``BadForm``."""
    found: list[tuple[Any, bytes]] = []
    try:
        text = body.decode()
        at = skip(text, 0)
        if text[at : at + 1] != "[":
            raise BadForm("", "must be an array of events")
        at = skip(text, at + 1)
        if text[at : at + 1] == "]":
            at += 1
        else:
            while True:
                event, end = DECODER.raw_decode(text, at)
                found.append((event, text[at:end].encode()))
                at = skip(text, end)
                mark = text[at : at + 1]
                at = skip(text, at + 1)
                if mark == "]":
                    break
                if mark != ",":
                    raise BadForm("", "is not JSON: a comma or the end of the array is missing")
        if skip(text, at) != len(text):
            raise BadForm("", "is not JSON: something follows the array")
    except UnicodeDecodeError:
        raise BadForm("", "is not UTF-8") from None
    except RecursionError:
        raise BadForm("", "nests too deeply") from None
    except ValueError as error:
        raise BadForm("", f"is not JSON: {error}") from None
    return found


def skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at
