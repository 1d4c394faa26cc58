"""Rules that change the properties of messages on their way."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from gateway.config.shovel_steps import PropertyRuleSettings
from gateway.message import Message, Properties
from gateway.selector import Selector

Values = Mapping[str, str]
"""Parts of the address, by name."""

HEADERS, ANNOTATIONS = "headers.", "annotations."
PART = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
TEXTS = (
    "app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "group_id",
    "message_id", "reply_to", "subject", "to", "type",
)  # fmt: skip
NUMBERS = {"priority": (0, 255, "priority"), "expiration": (0, (1 << 32) - 1, "ttl")}
"""Smallest and largest value, and the canonical property."""
IDS = ("message_id", "correlation_id")
"""Values of several types."""
MODES = {"persistent": True, "transient": False, "2": True, "1": False}


class Draft:
    """A message whose properties are changed. The original stays as it is."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._properties: Properties | None = None
        self._added = message.added_headers
        self._changed = False

    @property
    def properties(self) -> Properties:
        """Not to be changed but by ``put`` and ``take``. Raises ``ValueError`` if the message
        cannot be read."""
        if self._properties is None:
            self._properties = self._message.dialect.read(self._message.header)
        return self._properties

    def message(self) -> Message:
        """With the changes made so far. Raises ``ValueError`` if the version of the message cannot
        express them."""
        if self._changed:
            old = self._message
            header = old.dialect.rewrite(old.header, self.properties)
            self._message = Message(
                old.dialect,
                header,
                old.body,
                old.exchange,
                old.key,
                old.dialect.essentials(header),
                self._added,
                old.user,
            )
            self._properties, self._changed = None, False
        return self._message

    def take(self, name: str) -> Any:
        """Remove a property; its value, or ``None``."""
        table, key = self._table(name)
        if table is None:
            attribute = attribute_of(name)
            value = getattr(self.properties, attribute)
            setattr(self.properties, attribute, None)
        else:
            value = table.pop(key, None)
            if name.startswith(HEADERS) and self._added and key in self._added:
                value = self._added[key]
                self._added = {each: one for each, one in self._added.items() if each != key}
        self._changed |= value is not None
        return value

    def put(self, name: str, value: Any) -> None:
        table, key = self._table(name)
        self._changed = True
        if table is None:
            setattr(self.properties, attribute_of(name), value)
        else:
            table[key] = value

    def _table(self, name: str) -> tuple[dict[str, Any] | None, str]:
        found = self.properties
        if name.startswith(HEADERS):
            if found.application is None:
                found.application = {}
            return found.application, name.removeprefix(HEADERS)
        if name.startswith(ANNOTATIONS):
            if found.annotations is None:
                found.annotations = {}
            return found.annotations, name.removeprefix(ANNOTATIONS)
        return None, name


class PropertyRule:
    """One rule. Raises ``ValueError`` if it names a property or part of an address that does not
    exist, or a value that a property cannot have."""

    def __init__(self, settings: PropertyRuleSettings, parts: Iterable[str]) -> None:
        self.when = Selector(settings.when).matches if settings.when else None
        self._rename = list(settings.rename.items())
        self._remove = list(settings.remove)
        for name in [*self._remove, *(one for pair in self._rename for one in pair)]:
            attribute_of(name)
        known = set(parts)
        self._set = [
            (name, written(name, value, known)) for name, value in settings.set.items()
        ]  # fmt: skip

    def apply(self, draft: Draft, values: Values) -> None:
        """Rename, then remove, then set."""
        for old, new in self._rename:
            value = draft.take(old)
            if value is not None:
                draft.put(new, renamed(old, new, value))
        for name in self._remove:
            draft.take(name)
        for name, value in self._set:
            draft.put(name, value(values))


class PropertyRules:
    """All rules of a shovel, in order."""

    def __init__(self, settings: Iterable[PropertyRuleSettings], parts: Iterable[str]) -> None:
        """``parts``: names that values may refer to. Raises ``ValueError``."""
        known = list(parts)
        self._rules = []
        for number, one in enumerate(settings, 1):
            try:
                self._rules.append(PropertyRule(one, known))
            except ValueError as error:
                raise ValueError(f"property rule {number}: {error}") from None

    def apply(self, draft: Draft, values: Values) -> None:
        """Raises ``ValueError`` if a value or message cannot be read or written."""
        for rule in self._rules:
            if rule.when is None or rule.when(draft.message()):
                rule.apply(draft, values)


def attribute_of(name: str) -> str:
    """The canonical property. Raises ``ValueError`` for an unknown name."""
    if name.startswith((HEADERS, ANNOTATIONS)) and not name.endswith("."):
        return ""
    if name in NUMBERS:
        return NUMBERS[name][2]
    if name == "delivery_mode":
        return "durable"
    if name in TEXTS or name == "user_id":
        return name
    known = ", ".join(sorted((*TEXTS, *NUMBERS, "delivery_mode", "user_id")))
    raise ValueError(f"{name!r} is neither headers.NAME nor annotations.NAME nor one of {known}")


def renamed(old: str, new: str, value: Any) -> Any:
    """The value of a property for another. Raises ``ValueError``."""
    if old in IDS and new in IDS or not attribute_of(old) and not attribute_of(new):
        return value
    if old == "delivery_mode":
        value = 2 if value else 1
    elif isinstance(value, bytes):
        value = value.decode()
    elif isinstance(value, UUID):
        value = str(value)
    return converter(new)(value)


def written(name: str, value: Any, parts: set[str]) -> Callable[[Values], Any]:
    """The value of a property for the parts of an address. Raises ``ValueError``, also when called:
    for a value that the property cannot have."""
    convert = converter(name)
    if not isinstance(value, str):
        fixed = convert(value)
        return lambda values: fixed
    used = {found[1] for found in PART.finditer(value) if found[1]}
    if used - parts:
        known = ", ".join(sorted(parts))
        raise ValueError(
            f"{name}: no part is called {sorted(used - parts)[0]!r}; there are {known}"
        )
    if not used:
        fixed = convert(filled(value, {}))
        return lambda values: fixed
    return lambda values: convert(filled(value, values))


def filled(text: str, values: Values) -> str:
    """The text with these parts; one that the address has not is empty."""
    return PART.sub(lambda found: values.get(found[1], "") if found[1] else found[0][0], text)


def converter(name: str) -> Callable[[Any], Any]:
    """To the type of a canonical property. Raises ``ValueError``."""
    attribute = attribute_of(name)
    if not attribute:
        return lambda value: value
    if name in NUMBERS:
        low, high, _ = NUMBERS[name]

        def number(value: Any) -> int:
            found = int(value)
            if not low <= found <= high:
                raise ValueError(f"{name} {found} is not between {low} and {high}")
            return found

        return number
    if name == "delivery_mode":

        def mode(value: Any) -> bool:
            if str(value) not in MODES:
                raise ValueError(f"delivery_mode {value!r} is not 1, 2, persistent or transient")
            return MODES[str(value)]

        return mode
    if name == "user_id":
        return lambda value: str(value).encode()
    return str
