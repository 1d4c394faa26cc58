"""Filters: the messages that a stream, or a receive, selects.

``selector=`` is a condition as in JMS, the same as over AMQP (``gateway.selector``). ``filter=``
may be repeated; all must hold, and the selector too. One is a field, an operator and a value::

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
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from gateway.message import Message, Properties
from gateway.selector import Selector, SelectorError
from gateway.selector.errors import LONGEST

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


class Filter(NamedTuple):
    """Conditions of a reader; all messages pass an empty one."""

    terms: tuple[Term, ...] = ()
    selector: Selector | None = None

    def __bool__(self) -> bool:
        return bool(self.terms) or self.selector is not None

    def passes(self, message: Message) -> bool:
        """Whether all terms hold and the selector is true. A message that cannot be
        decoded passes no condition on its properties; decoded properties are forgotten."""
        selector = self.selector
        try:
            return all_hold(self.terms, message) and (selector is None or selector.matches(message))
        except (ValueError, RecursionError):
            return False
        finally:
            message.forget_properties()


def read_selector(text: str) -> Selector:
    """Raises ``BadFilter``, which says where the mistake is."""
    try:
        return Selector(text)
    except SelectorError as error:
        raise BadFilter(str(error)) from None


def readable(read: Callable[[str], Any]) -> AfterValidator:
    """For models of pydantic: the text can be read. The validator raises ``ValueError``."""

    def check(text: str) -> str:
        try:
            read(text)
        except BadFilter as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


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


FilterText = Annotated[str, Field(min_length=1, max_length=MOST_OCTETS), readable(read_filter)]
SelectorText = Annotated[str, Field(min_length=1, max_length=LONGEST), readable(read_selector)]
"""A filter, and a selector, in a model of pydantic."""


def all_hold(terms: tuple[Term, ...], message: Message) -> bool:
    """Raises ``ValueError`` and ``RecursionError`` for properties that cannot be decoded, if a term
    looks at more than key and exchange."""
    for term in terms:
        if term.field == "key":
            value: Any = message.key
        elif term.field == "exchange":
            value = message.exchange
        else:
            value = look_up(term.field, message.properties, message)
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
