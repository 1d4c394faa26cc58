"""Filters of a source (§3.5.8): the registered ones of Apache, and RabbitMQ's for properties.

Each is a described value; its descriptor is a symbol or the number it stands for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.broker.exchanges import APPLICATION, PROPERTIES, SELECTOR
from gateway.errors import Condition, Refusal
from gateway.message import Message, Table
from gateway.selector import PropertiesFilter, Selector, SelectorError

DESCRIPTORS = {
    0x0000468C_00000000: "apache.org:legacy-amqp-direct-binding:string",
    0x0000468C_00000001: "apache.org:legacy-amqp-topic-binding:string",
    0x0000468C_00000002: "apache.org:legacy-amqp-headers-binding:map",
    0x0000468C_00000003: "apache.org:no-local-filter:list",
    0x0000468C_00000004: "apache.org:selector-filter:string",
    0x120: "amqp:sql-filter",
    0x173: "amqp:properties-filter",
    0x174: "amqp:application-properties-filter",
}

MOST = 16
"""Filters of one source."""

Match = Callable[[Message], bool]
Granted = dict[str, tuple[Any, Any]]


class Filters(NamedTuple):
    """Filters of a source, read. ``granted``: the filters that are in force."""

    key: str | None
    """Binding key, from the direct or topic binding."""
    headers: Table | None
    """Arguments of a headers binding."""
    no_local: bool
    matches: Match | None
    granted: Granted
    conditions: Table
    """The same as ``matches``, as arguments of a binding: other messages never enter the queue of a
    subscription."""


def read_filters(filters: Granted) -> Filters:
    """Leave out unknown filters (§3.5.3). Refuses invalid values of known ones."""
    if len(filters) > MOST:
        raise Refusal(Condition.COMMAND_INVALID, f"more than {MOST} filters")
    key: str | None = None
    headers: Table | None = None
    no_local = False
    tests: list[Match] = []
    texts: list[str] = []
    conditions: Table = {}
    granted: Granted = {}
    for name, (descriptor, value) in filters.items():
        kind = DESCRIPTORS.get(descriptor) or str(descriptor)
        if kind not in DESCRIPTORS.values():
            continue
        if kind.endswith(":string") or kind == "amqp:sql-filter":
            if not isinstance(value, str):
                raise wrong(name, "is not text")
            if "binding" in kind:
                key = str(value)
            else:
                tests.append(selector(name, str(value)))
                texts.append(str(value))
        elif kind.startswith("apache.org:no-local"):
            no_local = True
        elif not isinstance(value, dict):
            raise wrong(name, "is not a map")
        elif kind.startswith("apache.org:legacy-amqp-headers"):
            headers = {str(k): v for k, v in value.items()}
        else:
            standard = kind == "amqp:properties-filter"
            tests.append(equal(value, standard, name))
            argument = PROPERTIES if standard else APPLICATION
            conditions[argument] = {**conditions.get(argument, {}), **value}
        granted[name] = (descriptor, value)
    if texts:
        conditions[SELECTOR] = (
            texts[0] if len(texts) == 1 else " AND ".join(map("({})".format, texts))
        )
    return Filters(key, headers, no_local, all_of(tests), granted, conditions)


def wrong(name: str, why: str) -> Refusal:
    return Refusal(Condition.COMMAND_INVALID, f"filter '{name[:100]}' {why}")


def selector(name: str, text: str) -> Match:
    try:
        return Selector(text).matches
    except SelectorError as error:
        raise wrong(name, f"is no selector: {error}") from None


def all_of(tests: list[Match]) -> Match | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda message: all(test(message) for test in tests)


def equal(wanted: dict[Any, Any], standard: bool, name: str) -> Match:
    try:
        return PropertiesFilter(wanted, standard).matches
    except ValueError as error:
        raise wrong(name, str(error)) from None
