"""Filters: which messages a stream, or a receive, wants.

``filter=`` may be repeated; all must hold. One is a field, an operator and a value::

    subject^=eur.            the subject (or, without one, the routing key) begins so
    key=orders.created       the routing key is this
    property.kind=invoice    an application property (header) is this, written as text
    property.n!=3            ... is not this; also true when there is none
    property.kind            there is such a property

Fields: ``subject``, ``key``, ``exchange``, ``id``, ``correlation_id``, ``type``, ``app_id``,
``content_type``, ``to``, ``reply_to``, ``group``, ``priority`` and ``property.NAME``. Operators:
``=`` equals, ``!=`` does not equal, ``^=`` begins with. Numbers compare by value, booleans as
``true`` and ``false``, everything else as text; nothing equals a binary value or a list.
"""

import math
import re
from typing import Any, NamedTuple

from gateway.message import Message, Properties

MOST_TERMS = 16
MOST_OCTETS = 1024
PROPERTY = "property."
FIELDS = {
    "subject": "subject",
    "id": "message_id",
    "correlation_id": "correlation_id",
    "type": "type",
    "app_id": "app_id",
    "content_type": "content_type",
    "to": "to",
    "reply_to": "reply_to",
    "group": "group_id",
    "priority": "priority",
}
PLACES = ("key", "exchange")
"""Fields that are read without decoding the properties."""
TERM = re.compile(r"(property\.[^=!^]+|[a-z_]+)(?:(=|!=|\^=)(.*))?", re.DOTALL)


class BadFilter(Exception):
    """It cannot be read. The text says why."""


class Term(NamedTuple):
    """``operator`` is "" when presence is enough."""

    field: str
    operator: str = ""
    value: str = ""


def read_filter(text: str) -> Term:
    """Raises ``BadFilter``."""
    if len(text.encode("utf-8", "replace")) > MOST_OCTETS:
        raise BadFilter(f"a filter has at most {MOST_OCTETS} octets")
    found = TERM.fullmatch(text)
    if found is None:
        raise BadFilter("a filter is FIELD=VALUE, FIELD!=VALUE, FIELD^=PREFIX or property.NAME")
    field, operator, value = found[1], found[2] or "", found[3] or ""
    if not field.startswith(PROPERTY) and field not in FIELDS and field not in PLACES:
        raise BadFilter(f"no field {field!r} to filter by")
    return Term(field, operator, value)


def passes(terms: tuple[Term, ...], message: Message) -> bool:
    """Whether all hold. What cannot be decoded passes no filter but those on key and exchange."""
    properties: Properties | None = None
    for term in terms:
        if term.field == "key":
            value: Any = message.key
        elif term.field == "exchange":
            value = message.exchange
        else:
            if properties is None:
                try:
                    properties = message.properties
                except (ValueError, RecursionError):
                    return False
                finally:
                    message.forget_properties()
            value = look_up(term.field, properties, message)
        if not holds(term, value):
            return False
    return True


def look_up(field: str, properties: Properties, message: Message) -> Any:
    if field.startswith(PROPERTY):
        return (properties.application or {}).get(field.removeprefix(PROPERTY))
    value = getattr(properties, FIELDS[field])
    return message.key if field == "subject" and value is None else value


def holds(term: Term, value: Any) -> bool:
    if term.operator == "":
        return value is not None
    if term.operator == "^=":
        text = as_text(value)
        return text is not None and text.startswith(term.value)
    return equals(value, term.value) == (term.operator == "=")


def equals(value: Any, text: str) -> bool:
    if as_text(value) == text:
        return True
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            wanted = float(text)
            # Exact for large integers too: both must be the same number, not the same double.
            return not math.isnan(wanted) and (
                value == int(text) if re.fullmatch(r"[+-]?[0-9]{1,40}", text) else value == wanted
            )
        except ValueError:
            return False
    return False


def as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, bytes | list | tuple | dict):
        return None
    return str(value)
