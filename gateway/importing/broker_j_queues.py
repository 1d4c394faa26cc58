"""Queues, exchanges and bindings of a virtual host of Broker-J."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from gateway.importing.topology import Topology, flag_of, number_of, timer_of

Table = dict[str, Any]
Objects = Iterable[tuple[str, Table]]
Warn = Callable[[str], None]
LAST_VALUE_KEY = "qpid.LVQ_key"
DEFAULT_PRIORITIES = 10
GROUP_OF_JMS = "JMSXGroupID"
FULL = {"RING": "drop-head", "REJECT": "reject-publish"}
QUIET = frozenset([
    "id", "name", "type", "durable", "description", "context", "createdBy", "createdTime",
    "lastUpdatedBy", "lastUpdatedTime", "desiredState", "alertRepeatGap",
    "alertThresholdMessageAge", "alertThresholdMessageSize", "alertThresholdQueueDepthBytes",
    "alertThresholdQueueDepthMessages", "alternateBinding", "queueFlowResumeLimit",
])  # fmt: skip
READ = frozenset([
    "maximumQueueDepthMessages", "maximumQueueDepthBytes", "overflowPolicy", "maximumMessageTtl",
    "minimumMessageTtl", "maximumDeliveryAttempts", "expiryPolicy", "exclusive", "lifetimePolicy",
    "messageGroupKeyOverride", "messageGroupKey", "messageGroupType", "messageGroupSharedGroups",
    "messageDurability", "noLocal", "ensureNondestructiveConsumers", "maximumLiveConsumers",
    "lvqKey", "priorities", "sortKey",
])  # fmt: skip
EXCHANGE_READ = frozenset([
    "durableBindings", "bindings", "alternateBinding", "lifetimePolicy", "autoDelete",
    "unroutableMessageBehaviour",
])  # fmt: skip


def read_queues(topology: Topology, given: Objects, vhost: str) -> None:
    for place, one in given:
        made = topology.queue(
            place, vhost, one.get("name"), durable=flag_of(one.get("durable"), True)
        )
        if made is not None:
            QueueReader(topology, place, one, made).read()


class QueueReader:
    """Turns the attributes of one queue into arguments."""

    def __init__(self, topology: Topology, place: str, given: Table, made: Table) -> None:
        self.topology = topology
        self.place = place
        self.given = given
        self.made = made
        self.arguments: Table = made["arguments"]
        self.title = f"queue '{made['name']}'"

    def warn(self, text: str) -> None:
        self.topology.warn(self.place, f"{self.title}: {text}")

    def info(self, text: str) -> None:
        self.topology.info(self.place, f"{self.title}: {text}")

    def read(self) -> None:
        self.kind()
        self.lengths()
        self.alternate()
        self.times()
        self.life()
        self.groups()
        given, arguments = self.given, self.arguments
        if flag_of(given.get("noLocal")):
            arguments["x-no-local"] = True
        if flag_of(given.get("ensureNondestructiveConsumers")):
            arguments["x-browse-only"] = True
        if number_of(given.get("maximumLiveConsumers")) == 1:
            arguments["x-single-active-consumer"] = True
        elif number_of(given.get("maximumLiveConsumers")):
            self.warn("more than one live consumer at a time, but not all, cannot be said")
        if given.get("messageDurability") in ("ALWAYS", "NEVER"):
            self.warn(f"messageDurability {given['messageDurability']}: each message decides here")
        for name in given.keys() - QUIET - READ:
            self.info(f"{name[:100]} has no equal")

    def kind(self) -> None:
        kind, given = self.given.get("type", "standard"), self.given
        if kind == "lvq":
            self.arguments["x-last-value-key"] = str(given.get("lvqKey") or LAST_VALUE_KEY)
        elif kind == "priority":
            levels = number_of(given.get("priorities", DEFAULT_PRIORITIES))
            good = levels is not None and 1 <= levels <= DEFAULT_PRIORITIES
            self.arguments["x-priority-levels"] = levels if good else DEFAULT_PRIORITIES
            if not good:
                self.info("there are ten priorities here")
        elif kind == "sorted":
            self.warn(f"sorted by the header '{given.get('sortKey')}' there; by arrival here")
        elif kind != "standard":
            self.warn(f"type '{str(kind)[:100]}' is not known; a standard queue is made")

    def lengths(self) -> None:
        policy = str(self.given.get("overflowPolicy", "NONE"))
        found = {}
        for name, ours in (
            ("maximumQueueDepthMessages", "x-max-length"),
            ("maximumQueueDepthBytes", "x-max-length-bytes"),
        ):
            most = number_of(self.given.get(name))
            if most is not None and most >= 0:
                found[ours] = most
        if not found:
            return
        if policy in FULL:
            self.arguments |= found | {"x-overflow": FULL[policy]}
        elif policy == "FLOW_TO_DISK":
            self.info("FLOW_TO_DISK: long queues are paged to the disk in any case")
        elif policy == "PRODUCER_FLOW_CONTROL":
            self.warn("PRODUCER_FLOW_CONTROL has no equal: the queue has no limit here")

    def alternate(self) -> None:
        to = destination_of(self.given.get("alternateBinding"))
        if to is None:
            return
        # Whether it is an exchange or a queue is known when all are read.
        self.arguments["x-dead-letter-exchange"] = to
        self.arguments["x-dead-letter-on-delete"] = True

    def times(self) -> None:
        given, arguments = self.given, self.arguments
        most = number_of(given.get("maximumMessageTtl"))
        if most is not None and most > 0:
            arguments["x-message-ttl"] = timer_of(most)
        if number_of(given.get("minimumMessageTtl")):
            self.warn("minimumMessageTtl has no equal: messages expire when they say")
        policy = given.get("expiryPolicy", "DELETE")
        if "x-dead-letter-exchange" in arguments and policy != "ROUTE_TO_ALTERNATE":
            self.info("expired messages are dead-lettered too")
        attempts = number_of(given.get("maximumDeliveryAttempts"))
        if attempts is None or attempts <= 0:
            return
        plain = arguments.keys() <= {
            "x-max-length", "x-max-length-bytes", "x-overflow", "x-message-ttl",
            "x-dead-letter-exchange", "x-dead-letter-on-delete",
        }  # fmt: skip
        permanent = given.get("lifetimePolicy", "PERMANENT") == "PERMANENT"
        if plain and permanent and self.made["durable"]:
            arguments["x-queue-type"] = "quorum"
            arguments["x-delivery-limit"] = attempts - 1
            self.info("a quorum queue, for its limit of deliveries")
        else:
            self.warn("maximumDeliveryAttempts needs a durable queue without a special order")

    def life(self) -> None:
        exclusive = str(self.given.get("exclusive", "NONE"))
        if exclusive != "NONE":
            self.warn(f"exclusive {exclusive[:40]} is left out: other clients may use it too")
        policy = str(self.given.get("lifetimePolicy", "PERMANENT"))
        if policy in ("DELETE_ON_NO_LINKS", "DELETE_ON_NO_OUTBOUND_LINKS"):
            self.made["auto_delete"] = True
        elif policy != "PERMANENT":
            self.made["auto_delete"] = True
            self.warn(f"{policy[:40]}: here it goes with its last consumer")

    def groups(self) -> None:
        given = self.given
        kind = str(given.get("messageGroupType", "NONE"))
        key = given.get("messageGroupKeyOverride") or given.get("messageGroupKey")
        if kind == "NONE" and not given.get("messageGroupKey"):
            return
        self.arguments["x-group-key"] = str(key or GROUP_OF_JMS)
        shared = kind == "SHARED_GROUPS" or flag_of(given.get("messageGroupSharedGroups"))
        if not shared:
            self.arguments["x-group-sticky"] = True


def destination_of(binding: object) -> str | None:
    """Of an alternate binding."""
    found = binding.get("destination") if isinstance(binding, dict) else None
    return found if isinstance(found, str) and found else None


def read_exchanges(topology: Topology, given: list[tuple[str, Table]], vhost: str) -> None:
    """Exchanges and bindings, after the queues."""
    for place, one in given:
        name, kind = one.get("name"), one.get("type")
        if kind not in ("direct", "topic", "fanout", "headers"):
            topology.error(place, f"exchange '{name}': no type '{kind}' here")
            continue
        made = topology.exchange(
            place, vhost, name, str(kind), durable=flag_of(one.get("durable"), True)
        )
        if made is not None:
            life = one.get("lifetimePolicy", "PERMANENT")
            made["auto_delete"] = flag_of(one.get("autoDelete")) or life != "PERMANENT"
        for left in one.keys() - EXCHANGE_READ - QUIET:
            topology.info(place, f"exchange '{name}': {left[:100]} has no equal")
        if one.get("unroutableMessageBehaviour") == "REJECT":
            topology.info(place, f"exchange '{name}': the publisher decides (mandatory)")
    exchanges = {str(one.get("name")) for _, one in given} | {"amq.direct", "amq.fanout"}
    alternates(topology, given, vhost, exchanges)
    for place, one in given:
        read_bindings(topology, place, one, vhost, exchanges)


def alternates(
    topology: Topology, given: list[tuple[str, Table]], vhost: str, exchanges: set[str]
) -> None:
    """An alternate is a queue or an exchange there, and an exchange here."""
    for (host, owner), queue in list(topology.queues.items()):
        arguments = queue["arguments"]
        dead = arguments.get("x-dead-letter-exchange")
        if host != vhost or dead is None or dead in exchanges:
            continue
        arguments["x-dead-letter-exchange"] = ""
        arguments["x-dead-letter-routing-key"] = dead
        if (vhost, dead) not in topology.queues:
            topology.error("", f"queue '{owner}': its alternate '{dead[:100]}' is not there")
    for place, one in given:
        to, name = destination_of(one.get("alternateBinding")), one.get("name")
        if to is None or not isinstance(name, str):
            continue
        if to not in exchanges:
            between = f"{name}.alternate"
            if topology.exchange(place, vhost, between, "fanout"):
                topology.info(
                    place, f"exchange '{between}' leads from '{name}' to its alternate queue"
                )
            topology.bind(place, vhost, between, to)
            to = between
        made = topology.exchanges.get((vhost, name))
        if made is not None:
            made["arguments"]["alternate-exchange"] = to
        else:
            definition = {"alternate-exchange": to}
            pattern = f"^{re.escape(name)}$"
            title = f"alternate of {name}"
            topology.policy(place, vhost, title, pattern, definition, **{"apply-to": "exchanges"})


def read_bindings(
    topology: Topology, place: str, one: Table, vhost: str, exchanges: set[str]
) -> None:
    given = one.get("durableBindings", [])
    if one.get("bindings"):
        topology.error(
            f"{place}/bindings", "bindings of an old version: start it once with a newer Broker-J"
        )
    if not isinstance(given, list):
        topology.error(f"{place}/durableBindings", "not a list")
        return
    for at, binding in enumerate(given):
        here = f"{place}/durableBindings/{at}"
        if not isinstance(binding, dict):
            topology.error(here, "not an object")
            continue
        to, key = binding.get("destination"), binding.get("bindingKey") or ""
        arguments = binding.get("arguments") or {}
        if not isinstance(arguments, dict):
            topology.error(here, "arguments are not an object")
            continue
        arguments = dict(arguments)
        selector = arguments.pop("x-filter-jms-selector", None)
        if isinstance(selector, str) and selector:
            arguments["x-selector"] = selector
        replacement = arguments.pop("x-replacement-routing-key", None)
        if replacement is not None:
            topology.warn(here, "x-replacement-routing-key has no equal: the key stays")
        is_exchange = (vhost, to) not in topology.queues and to in exchanges
        topology.bind(here, vhost, one.get("name"), to, key, arguments, is_exchange)
