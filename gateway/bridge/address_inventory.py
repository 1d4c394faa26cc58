"""Address rules of the settings, and lists of addresses in files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.bridge.address_rules import AddressRules, Place, PlacePattern, Rule
from gateway.config.addresses import AddressRuleSettings, PlaceSettings
from gateway.errors import ConfigError

GENERATED = "(named by the broker)"
"""The entry of an inventory for all queues whose names the broker has made."""


def compiled(settings: AddressRuleSettings) -> AddressRules:
    """Raises ``ConfigError`` if a pattern is wrong."""
    rules = []
    for number, one in enumerate(settings.rules, 1):
        try:
            rules.append(Rule(pattern(one.match, one.encoded), pattern(one.to, one.encoded)))
        except ValueError as error:
            raise ConfigError(f"address rule {number}: {error}") from None
    try:
        return AddressRules(rules, settings.default == "keep")
    except ValueError as error:
        raise ConfigError(f"address {error}") from None


def pattern(given: str | PlaceSettings, encoded: bool) -> PlacePattern:
    if isinstance(given, str):
        return PlacePattern(None, given, encoded)
    return PlacePattern(given.exchange, given.key)


def read_inventory(path: Path, vhost: str | None = None) -> list[Place]:
    """The places in a JSON file: a list of addresses (text), of queues (``{"queue": …}``) and of
    exchanges (``{"exchange": …, "key": …}``), definitions of RabbitMQ, or an inventory of
    ``observe``; of these ``vhost`` may choose one virtual host. Raises ``ConfigError``."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        if isinstance(found, dict) and "addresses" in found:
            found = found["addresses"]
        if isinstance(found, list):
            return [listed(one) for one in found]
        if isinstance(found, dict) and "nodes" in found:
            return list(observed(found["nodes"], vhost))
        return list(defined(found, vhost))
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}: neither addresses nor definitions: {error!r}") from None


def listed(one: Any) -> Place:
    """Raises ``KeyError`` or ``TypeError``."""
    if isinstance(one, str):
        return Place(None, one)
    if "queue" in one:
        return Place("", text(one["queue"]))
    if "address" in one:
        return Place(None, text(one["address"]))
    return Place(text(one["exchange"]), text(one.get("key", "")))


def defined(definitions: Any, vhost: str | None) -> Iterator[Place]:
    """Queues and bindings, and exchanges without any. Raises ``KeyError`` or ``TypeError``."""

    def of(kind: str) -> Iterator[Any]:
        for one in definitions.get(kind, ()):
            if vhost is None or one.get("vhost", vhost) == vhost:
                yield one

    if not isinstance(definitions, dict) or not definitions.keys() & {"queues", "exchanges"}:
        raise TypeError("no queues and exchanges")
    bound = set()
    for queue in of("queues"):
        yield Place("", text(queue["name"]))
    for binding in of("bindings"):
        bound.add((binding.get("vhost"), binding["source"]))
        yield Place(text(binding["source"]), text(binding["routing_key"]))
    for exchange in of("exchanges"):
        if (exchange.get("vhost"), exchange["name"]) not in bound:
            yield Place(text(exchange["name"]), "")


def observed(nodes: Any, vhost: str | None) -> Iterator[Place]:
    """Nodes that clients were seen to use. Raises ``KeyError`` or ``TypeError``."""
    for node in nodes:
        name = text(node["name"])
        if (vhost is not None and node["vhost"] != vhost) or name == GENERATED:
            continue
        if node["kind"] == "queue":
            yield Place("", name)
        elif node["kind"] == "address":
            yield Place(None, name)
        elif node["kind"] == "exchange" and name:
            yield Place(name, "")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
