"""Filters of a source (§3.5.8): the registered ones of Apache, and RabbitMQ's for properties.

Each is a described value; its descriptor is a symbol or the number it stands for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.errors import Condition, Refusal
from gateway.message import Message, Table
from gateway.selector import Selector, SelectorError
from gateway.values import Described

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
    """What the filters of a source ask. ``granted``: those that are in force."""

    key: str | None
    """Binding key, from the direct or topic binding."""
    headers: Table | None
    """Arguments of a headers binding."""
    no_local: bool
    matches: Match | None
    granted: Granted


def read_filters(filters: Granted) -> Filters:
    """Unknown ones are left out, as §3.5.3 has it. Refuses what is wrong in a known one."""
    if len(filters) > MOST:
        raise Refusal(Condition.COMMAND_INVALID, f"more than {MOST} filters")
    key: str | None = None
    headers: Table | None = None
    no_local = False
    tests: list[Match] = []
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
        elif kind.startswith("apache.org:no-local"):
            no_local = True
        elif not isinstance(value, dict):
            raise wrong(name, "is not a map")
        elif kind.startswith("apache.org:legacy-amqp-headers"):
            headers = {str(k): v for k, v in value.items()}
        else:
            tests.append(equal(value, kind == "amqp:properties-filter", name))
        granted[name] = (descriptor, value)
    return Filters(key, headers, no_local, all_of(tests), granted)


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


FIELDS = frozenset(
    [
        "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
        "content-encoding", "absolute-expiry-time", "creation-time", "group-id",
        "group-sequence", "reply-to-group-id",
    ]
)  # fmt: skip


def equal(wanted: dict[Any, Any], standard: bool, name: str) -> Match:
    """Every one of these properties is there with this value; of text, "&p:x" asks for a prefix
    and "&s:x" for a suffix, as in RabbitMQ 4.1's filter expressions."""
    pairs: list[tuple[str, Callable[[Any], bool]]] = []
    for key, value in wanted.items():
        if standard and key not in FIELDS:
            raise wrong(name, f"names no property: {str(key)[:60]!r}")
        field = str(key).replace("-", "_") if standard else str(key)
        pairs.append((field, like(value)))

    def matches(message: Message) -> bool:
        try:
            properties = message.properties
        except ValueError:
            return False
        found = properties if standard else properties.application or {}
        if isinstance(found, dict):
            return all(key in found and test(found[key]) for key, test in pairs)
        return all(test(getattr(found, key)) for key, test in pairs)

    return matches


def like(value: Any) -> Callable[[Any], bool]:
    if isinstance(value, Described):
        value = value.value
    if isinstance(value, str):
        kind, rest = value[:3], value[3:]
        if kind == "&p:":
            return lambda found: isinstance(found, str) and found.startswith(rest)
        if kind == "&s:":
            return lambda found: isinstance(found, str) and found.endswith(rest)
        if value.startswith("&&"):
            value = value[1:]
    return lambda found: bool(found == value)
