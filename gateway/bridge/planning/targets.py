"""Features of brokers, and how a topology is written for each."""

import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from gateway.bridge.planning.nodes import HIGH, LOW, MEDIUM, NONE, Loss, Node, Planned, Table

SIMPLE_TYPES = ("direct", "topic", "fanout", "headers")
QUORUM_NOTE = "one node or a cluster, as the target is set up"
ONLY_HERE = {
    "x-last-value-key": (MEDIUM, "older messages of a key are not replaced"),
    "x-group-key": (MEDIUM, "messages of a group may go to several consumers at a time"),
    "x-group-sticky": (LOW, "a group may move to another consumer"),
    "x-browse-only": (HIGH, "consumers take messages, and do not get copies"),
    "x-no-local": (MEDIUM, "consumers get messages of their own connection"),
    "x-dead-letter-on-delete": (MEDIUM, "messages of a deleted queue are gone"),
    "x-auto-delete-timeout": (LOW, "an auto-delete queue goes at once"),
    "x-selector": (MEDIUM, "messages are not selected"),
    "x-properties-filter": (MEDIUM, "messages are not selected"),
    "x-application-properties-filter": (MEDIUM, "messages are not selected"),
    "x-priority-levels": (MEDIUM, "messages stay in order of arrival"),
    "x-regexp": (HIGH, "the key is no regular expression there"),
}
"""Arguments of this gateway, with the risk where a broker does not have them."""
SHIMS = {
    "x-selector": "a shovel with the filter, from a queue of all messages",
    "x-properties-filter": "a shovel with a filter, from a queue of all messages",
    "x-last-value-key": "keep the queue here, and shovel from it",
    "x-browse-only": "keep the queue here",
    "x-priority-levels": "declare it with x-max-priority",
    "x-group-key": "x-single-active-consumer, or an ordered shovel",
}


def lost(name: str, text: str = "", risk: str = LOW) -> Loss:
    """An argument that is not there."""
    known = ONLY_HERE.get(name)
    if known is not None:
        risk, text = known
    return Loss(name, risk, text or "not there, and ignored", SHIMS.get(name, ""))


class Target(Protocol):
    """A kind of broker."""

    def plan(self, node: Node, address: str) -> Planned:
        """The plan of a node for this address."""

    def write(self, planned: list[Planned]) -> str:
        """A document that the broker, or its administrator, understands."""


# --- RabbitMQ -------------------------------------------------------------------------------------

RABBIT_QUEUE = frozenset([
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
    "x-max-priority", "x-single-active-consumer", "x-queue-mode", "x-queue-type",
    "x-delivery-limit", "x-queue-version", "x-queue-leader-locator", "x-max-in-memory-length",
    "x-max-in-memory-bytes", "x-quorum-initial-group-size", "x-queue-master-locator",
])  # fmt: skip


class RabbitMQ:
    """Definitions, without parts that RabbitMQ would refuse or ignore. Policies stay policies."""

    def __init__(self, definitions: Table) -> None:
        self.definitions = definitions

    def plan(self, node: Node, address: str) -> Planned:
        losses: list[Loss] = []
        given = node.definition.get("arguments") or {}
        if node.kind == "queue":
            losses += [lost(name) for name in given if name not in RABBIT_QUEUE]
            if given.get("x-overflow") == "self-destruct":
                losses.append(Loss("x-overflow", MEDIUM, "a full queue is not deleted"))
            if node.definition.get("priority_levels"):
                losses.append(Loss("priority_levels", MEDIUM, "declare it with x-max-priority"))
        elif node.kind == "exchange":
            if node.definition["type"] not in SIMPLE_TYPES:
                what = f"no exchanges of type {node.definition['type']}"
                return Planned(node, None, (Loss("type", HIGH, what),))
        else:
            losses += [lost(name) for name in given if name in ONLY_HERE]
        return Planned(node, address, tuple(losses))

    def write(self, planned: list[Planned]) -> str:
        lists: dict[str, list[Any]] = {"queue": [], "exchange": [], "binding": []}
        names = {
            (one.node.vhost, one.node.kind, one.node.name): one.target
            for one in planned
            if one.node.kind != "binding"
        }
        for one in planned:
            if one.target is None:
                continue
            node, gone = one.node, {loss.argument for loss in one.losses}
            made = {key: value for key, value in node.definition.items() if key not in gone}
            given = node.definition.get("arguments") or {}
            arguments = {key: value for key, value in given.items() if key not in gone}
            for name in ("alternate-exchange", "x-dead-letter-exchange"):
                if arguments.get(name):
                    there = names.get((node.vhost, "exchange", str(arguments[name])))
                    arguments[name] = there or arguments[name]
            if node.kind != "binding":
                made["name"] = one.target
            if node.kind == "queue":
                key = arguments.get("x-dead-letter-routing-key")
                if arguments.get("x-dead-letter-exchange") == "" and key is not None:
                    moved = names.get((node.vhost, "queue", key))
                    arguments["x-dead-letter-routing-key"] = moved or key
            elif node.kind == "binding":
                kind = node.definition.get("destination_type", "queue")
                to = names.get((node.vhost, kind, node.definition["destination"]))
                made["destination"] = to or node.definition["destination"]
            lists[node.kind].append(made | {"arguments": arguments})
        kept = ("rabbit_version", "rabbitmq_version", "vhosts", "permissions", "policies",
                "parameters", "topic_permissions", "global_parameters")  # fmt: skip
        document = {name: self.definitions[name] for name in kept if name in self.definitions}
        users = self.definitions.get("users", [])
        document["users"] = [
            {key: value for key, value in user.items() if key != "scram_sha_256"} for user in users
        ]
        document |= {
            "queues": lists["queue"], "exchanges": lists["exchange"], "bindings": lists["binding"],
        }  # fmt: skip
        return json.dumps(document, indent=1) + "\n"


# --- Artemis --------------------------------------------------------------------------------------

ARTEMIS_QUEUE = frozenset([
    "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-overflow", "x-dead-letter-exchange",
    "x-dead-letter-routing-key", "x-last-value-key", "x-single-active-consumer", "x-browse-only",
    "x-delivery-limit", "x-max-priority", "x-priority-levels", "x-queue-type", "x-queue-mode",
    "x-queue-version",
])  # fmt: skip


class Artemis:
    """An anycast queue for each queue, a multicast address for an exchange with each of its keys,
    and a divert for each binding."""

    def plan(self, node: Node, address: str) -> Planned:
        if node.kind == "queue":
            return Planned(node, address, tuple(self.queue_losses(node)))
        if node.kind == "exchange":
            kind = node.definition["type"]
            if kind not in ("direct", "topic", "fanout"):
                what = f"an address has no equal of a {kind} exchange"
                loss = Loss(
                    "type", HIGH, what, "keep the exchange here, and shovel from its queues"
                )
                return Planned(node, None, (loss,))
            losses = []
            if "alternate-exchange" in node.arguments:
                losses.append(Loss("alternate-exchange", MEDIUM, "unrouted messages are gone",
                                   "send-to-dla-on-no-route"))  # fmt: skip
            return Planned(node, address, tuple(losses))
        losses = [lost(name) for name in node.arguments if name not in ("x-selector", "x-match")]
        key = node.place.name.split(".")
        if "*" in key or "#" in key:
            losses.append(Loss("routing_key", MEDIUM, "a divert over a pattern of addresses",
                               "a consumer of the pattern, or a shovel"))  # fmt: skip
        return Planned(node, address, tuple(losses))

    def queue_losses(self, node: Node) -> list[Loss]:
        arguments = node.arguments
        found = [
            lost(name)
            for name in arguments
            if name not in ARTEMIS_QUEUE and name not in ("x-group-key", "x-group-sticky")
        ]
        if arguments.get("x-group-key", "JMSXGroupID") != "JMSXGroupID":
            found.append(lost("x-group-key"))
        if "x-max-length-bytes" in arguments and not self.refuses(arguments):
            found.append(Loss("x-max-length-bytes", MEDIUM, "only a number of messages can ring"))
        if arguments.get("x-dead-letter-exchange"):
            what = "dead letters keep no routing key there"
            found.append(Loss("x-dead-letter-exchange", LOW, what))
        if node.definition.get("auto_delete"):
            found.append(Loss("auto_delete", LOW, "it stays", "auto-delete-queues, on first use"))
        if arguments.get("x-queue-type") == "quorum":
            found.append(Loss("x-queue-type", NONE, QUORUM_NOTE))
        return found

    @staticmethod
    def refuses(arguments: Table) -> bool:
        return str(arguments.get("x-overflow", "")).startswith("reject")

    def write(self, planned: list[Planned]) -> str:
        names = {
            (one.node.vhost, one.node.name): one.target
            for one in planned
            if one.node.kind == "queue" and one.target is not None
        }
        queues = [one for one in planned if one.node.kind == "queue" and one.target is not None]
        ways = [one for one in planned if one.node.kind == "binding" and one.target is not None]
        multicast = dict.fromkeys(
            str(one.target) for one in planned if one.node.kind != "queue" and one.target
        )
        lines = ['<configuration xmlns="urn:activemq">', '<core xmlns="urn:activemq:core">']
        lines.append("<address-settings>")
        for one in queues:
            settings = self.settings(one.node, names)
            if settings:
                lines.append(f"<address-setting match={quoteattr(str(one.target))}>")
                lines += [f"<{key}>{escape(str(value))}</{key}>" for key, value in settings]
                lines.append("</address-setting>")
        lines += ["</address-settings>", "<addresses>"]
        for one in queues:
            name = quoteattr(str(one.target))
            lines.append(f"<address name={name}><anycast>{self.queue(one.node, name)}</anycast>")
            if str(one.target) in multicast:
                lines.append("<multicast/>")
                del multicast[str(one.target)]
            lines.append("</address>")
        lines += [f"<address name={quoteattr(name)}><multicast/></address>" for name in multicast]
        lines += ["</addresses>", "<diverts>"]
        for number, one in enumerate(ways, 1):
            lines.append(self.divert(number, one, names))
        lines += ["</diverts>", "</core>", "</configuration>"]
        return "\n".join(lines) + "\n"

    def queue(self, node: Node, name: str) -> str:
        given = node.arguments
        attributes = f"name={name}"
        if "x-last-value-key" in given:
            attributes += f" last-value-key={quoteattr(str(given['x-last-value-key']))}"
        if given.get("x-single-active-consumer"):
            attributes += ' exclusive="true"'
        if given.get("x-browse-only"):
            attributes += ' non-destructive="true"'
        if "x-max-length" in given and not self.refuses(given):
            attributes += f' ring-size="{given["x-max-length"]}"'
        durable = "true" if node.definition.get("durable", True) else "false"
        return f"<queue {attributes}><durable>{durable}</durable></queue>"

    def settings(self, node: Node, names: dict[tuple[str, str], str]) -> list[tuple[str, Any]]:
        given = node.arguments
        found: list[tuple[str, Any]] = []
        exchange = given.get("x-dead-letter-exchange")
        if exchange is not None:
            key = str(given.get("x-dead-letter-routing-key", node.name))
            to = names.get((node.vhost, key), key) if not exchange else str(exchange)
            found += [("dead-letter-address", to), ("expiry-address", to)]
        if "x-delivery-limit" in given:
            found.append(("max-delivery-attempts", given["x-delivery-limit"] + 1))
        if "x-message-ttl" in given:
            found.append(("max-expiry-delay", given["x-message-ttl"]))
        if self.refuses(given):
            if "x-max-length" in given:
                found.append(("max-size-messages", given["x-max-length"]))
            if "x-max-length-bytes" in given:
                found.append(("max-size-bytes", given["x-max-length-bytes"]))
            found.append(("address-full-policy", "FAIL"))
        return found

    def divert(self, number: int, one: Planned, names: dict[tuple[str, str], str]) -> str:
        node = one.node
        to = str(node.definition["destination"])
        if node.definition.get("destination_type", "queue") == "queue":
            to = names.get((node.vhost, to), to)
        selector = node.arguments.get("x-selector")
        chosen = f"<filter string={quoteattr(selector)}/>" if isinstance(selector, str) else ""
        return (
            f'<divert name="binding-{number}"><address>{escape(str(one.target))}</address>'
            f"<forwarding-address>{escape(to)}</forwarding-address>{chosen}"
            "<exclusive>false</exclusive></divert>"
        )


# --- Broker-J -------------------------------------------------------------------------------------

FULL = {"drop-head": "RING", "reject-publish": "REJECT"}
ATTRIBUTES: dict[str, Callable[[Any], Table]] = {
    "x-message-ttl": lambda value: {"maximumMessageTtl": value},
    "x-max-length": lambda value: {"maximumQueueDepthMessages": value},
    "x-max-length-bytes": lambda value: {"maximumQueueDepthBytes": value},
    "x-overflow": lambda value: {},
    "x-dead-letter-exchange": lambda value: {},
    "x-dead-letter-routing-key": lambda value: {},
    "x-dead-letter-on-delete": lambda value: {},
    "x-max-priority": lambda value: {"type": "priority", "priorities": value + 1},
    "x-priority-levels": lambda value: {"type": "priority", "priorities": value},
    "x-last-value-key": lambda value: {"type": "lvq", "lvqKey": value},
    "x-single-active-consumer": lambda value: {"maximumLiveConsumers": 1} if value else {},
    "x-browse-only": lambda value: {"ensureNondestructiveConsumers": value},
    "x-no-local": lambda value: {"noLocal": value},
    "x-group-key": lambda value: {"messageGroupKeyOverride": value},
    "x-group-sticky": lambda value: {},
    "x-delivery-limit": lambda value: {"maximumDeliveryAttempts": value + 1},
    "x-queue-type": lambda value: {},
    "x-queue-mode": lambda value: {},
    "x-queue-version": lambda value: {},
}


Names = dict[tuple[str, str, str], str]
"""Names at the target by virtual host, kind and name."""


class BrokerJ:
    """Requests to its REST interface; queues before exchanges before bindings."""

    def plan(self, node: Node, address: str) -> Planned:
        losses: list[Loss] = []
        if node.kind == "queue":
            given = node.arguments
            losses += [lost(name) for name in given if name not in ATTRIBUTES]
            if "x-max-priority" in given and "x-last-value-key" in given:
                losses.append(lost("x-last-value-key"))
            if given.get("x-overflow", "drop-head") not in FULL:
                losses.append(Loss("x-overflow", MEDIUM, "a full queue rejects there"))
            if given.get("x-dead-letter-exchange") and "x-dead-letter-routing-key" in given:
                what = "dead letters keep their routing key there"
                losses.append(Loss("x-dead-letter-routing-key", MEDIUM, what))
            if given.get("x-queue-type") == "quorum":
                losses.append(Loss("x-queue-type", NONE, QUORUM_NOTE))
        elif node.kind == "exchange":
            if node.definition["type"] not in SIMPLE_TYPES:
                what = f"no exchanges of type {node.definition['type']}"
                return Planned(node, None, (Loss("type", HIGH, what),))
            if node.definition.get("internal"):
                losses.append(Loss("internal", LOW, "clients may publish to it"))
        else:
            losses += [lost(n) for n in node.arguments if n in ONLY_HERE and n != "x-selector"]
        return Planned(node, address, tuple(losses))

    def write(self, planned: list[Planned]) -> str:
        names = {
            (one.node.vhost, one.node.kind, one.node.name): one.target
            for one in planned
            if one.node.kind != "binding" and one.target is not None
        }
        calls = [
            getattr(self, one.node.kind)(one, names) for one in planned if one.target is not None
        ]
        return json.dumps(calls, indent=1) + "\n"

    @staticmethod
    def path(kind: str, vhost: str, name: str, *more: str) -> str:
        node = quote("default" if vhost == "/" else vhost, safe="")
        return "/".join((f"/api/latest/{kind}", node, node, quote(name, safe=""), *more))

    def queue(self, one: Planned, names: Names) -> Table:
        node, given = one.node, one.node.arguments
        body: Table = {"name": one.target, "durable": node.definition.get("durable", True)}
        for name, value in given.items():
            if name in ATTRIBUTES:
                body |= ATTRIBUTES[name](value)
        if "x-max-length" in given or "x-max-length-bytes" in given:
            body["overflowPolicy"] = FULL.get(given.get("x-overflow", "drop-head"), "REJECT")
        if "x-group-key" in given:
            kind = "STANDARD" if given.get("x-group-sticky") else "SHARED_GROUPS"
            body["messageGroupType"] = kind
        exchange = given.get("x-dead-letter-exchange")
        if exchange is not None:
            key = str(given.get("x-dead-letter-routing-key", node.name))
            to = node.vhost, *(("exchange", str(exchange)) if exchange else ("queue", key))
            body["alternateBinding"] = {"destination": names.get(to, to[2])}
            body["expiryPolicy"] = "ROUTE_TO_ALTERNATE"
        if node.definition.get("auto_delete"):
            body["lifetimePolicy"] = "DELETE_ON_NO_OUTBOUND_LINKS"
        path = self.path("queue", node.vhost, str(one.target))
        return {"method": "PUT", "path": path, "body": body}

    def exchange(self, one: Planned, names: Names) -> Table:
        node = one.node
        body: Table = {
            "name": one.target,
            "type": node.definition["type"],
            "durable": node.definition.get("durable", True),
        }
        if node.definition.get("auto_delete"):
            body["lifetimePolicy"] = "DELETE_ON_NO_LINKS"
        alternate = node.arguments.get("alternate-exchange")
        if alternate:
            to = node.vhost, "exchange", str(alternate)
            body["alternateBinding"] = {"destination": names.get(to, alternate)}
        path = self.path("exchange", node.vhost, str(one.target))
        return {"method": "PUT", "path": path, "body": body}

    def binding(self, one: Planned, names: Names) -> Table:
        node = one.node
        arguments = dict(node.arguments)
        if "x-selector" in arguments:
            arguments["x-filter-jms-selector"] = arguments.pop("x-selector")
        kind, to = node.definition.get("destination_type", "queue"), node.definition["destination"]
        body = {
            "destination": names.get((node.vhost, kind, to), to),
            "bindingKey": node.place.name,
            "arguments": arguments,
        }
        path = self.path("exchange", node.vhost, node.definition["source"], "bind")
        return {"method": "POST", "path": path, "body": body}


TARGETS = ("rabbitmq", "artemis", "broker-j")


def target_of(name: str, definitions: Table) -> Target:
    """Raises ``KeyError``."""
    made: dict[str, Callable[[], Target]] = {
        "rabbitmq": lambda: RabbitMQ(definitions),
        "artemis": Artemis,
        "broker-j": BrokerJ,
    }
    return made[name]()
