"""Messages in JSON that differ in id, routing key and body: other properties are encoded once.

The lines of a batch mostly say the same about each message. What else they say is read in the
general way (``form_reader.py``), whose answer this is, too.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from gateway.http.identifiers import uuid7
from gateway.http.problems import Problem
from gateway.http.publish.form_reader import read_body, read_form
from gateway.http.publish.templates import DIALECT, STAND_IN, Prepared, Template, template_of
from gateway.http.typed_json import BadForm
from gateway.message import DIALECTS

SHARED = frozenset(
    {
        "durable", "priority", "ttl_ms", "content_type", "content_encoding", "type", "app_id",
        "cluster_id", "reply_to",
    }
)  # fmt: skip
"""Members that many messages have in common, value by value."""
SCALARS = (str, bool, int)
TYPED = ("urn:uuid:", "AMQP_")
"""How an id begins that may be of another type than text."""
STANDING: dict[str, Any] = {"text": "", "json": 0, "base64": ""}
"""A body of each kind; the kind has a say in the content type."""

Common = tuple[tuple[str, type, Any], ...]


class SharedForm(NamedTuple):
    """A message. ``name``: the id that was given."""

    prepared: Prepared
    body: bytes
    key: str | None
    name: str | None


def read_shared(found: Any, now: int) -> SharedForm | None:
    """``None`` for a message that says more, or anything wrong. Hot."""
    if type(found) is not dict:
        return None
    common: list[tuple[str, type, Any]] = []
    body: Any = None
    name: Any = None
    key: Any = None
    for member, value in found.items():
        if member == "body":
            body = value
        elif member == "id" and plain(value) and not value.startswith(TYPED):
            name = value
        elif member == "routing_key" and plain(value):
            key = value
        elif member in SHARED and type(value) in SCALARS:
            common.append((member, type(value), value))
        else:
            return None
    way = "text" if type(body) is str else one_way(body)
    try:
        if way is None:
            return None
        octets = body.encode() if type(body) is str else read_body(body)[0]
        template = make_template(tuple(common), way)
    except (BadForm, Problem, UnicodeEncodeError):
        return None
    if template is None:
        return None
    message_id = name or uuid7(now)
    header = template.before + b"%c%b" % (len(message_id), message_id.encode()) + template.after
    prepared = Prepared(message_id, header, template.essentials, template.dialect)
    return SharedForm(prepared, octets, key, name)


def plain(value: Any) -> bool:
    """Whether it is text that is encoded as a short string of the same octets."""
    return type(value) is str and value.isascii() and 0 < len(value) < 256


def one_way(body: Any) -> str | None:
    """How the octets of a body are given, if that is all that is said about it."""
    if type(body) is not dict or len(body) != 1:
        return None
    (way,) = body
    return way if way in STANDING else None


@lru_cache(256)
def make_template(common: Common, way: str) -> Template | None:
    """``before`` ends where the length of the id goes. Raises ``BadForm`` and ``Problem``."""
    members: dict[str, Any] = {name: value for name, _, value in common}
    form = read_form({**members, "body": {way: STANDING[way]}})
    found = template_of(form.properties)
    if found is None or found.dialect is not DIALECTS[DIALECT]:
        return None
    length = len(STAND_IN)
    return found._replace(before=found.before[:-1]) if found.before[-1] == length else None
