"""``broker.xml`` of ActiveMQ Artemis.

An address with anycast queues is a queue here, one with multicast queues an exchange of its name:
every queue of the address is bound to it, and the exchange to ``amq.topic`` with the address as
key, so that clients that publish to a topic reach it as well as those that publish to an exchange.
"""

import re
from typing import Any, NamedTuple

from gateway.importing.artemis_access import read_access
from gateway.importing.artemis_settings import (
    Setting,
    Wildcards,
    arguments_of,
    effective,
    policy_of,
    read_settings,
)
from gateway.importing.documents import Element
from gateway.importing.findings import ImportFailed, Result
from gateway.importing.topology import Topology, flag_of, number_of

Table = dict[str, Any]
TOPICS = "amq.topic"
QUIET = frozenset(["name", "persistence-enabled", "journal-type", "wildcard-addresses"])
READ = frozenset([
    "addresses", "address-settings", "diverts", "security-settings", "queues",
    "wildcard-addresses",
])  # fmt: skip
CONNECTED = {
    "bridges": "shovels move messages to other brokers",
    "federations": "shovels move messages to other brokers",
    "broker-connections": "shovels move messages to other brokers",
    "cluster-connections": "there is one node",
    "ha-policy": "there is one node",
    "acceptors": "listeners are set in the gateway's configuration",
    "connectors": "upstreams are set in the gateway's configuration",
}
QUEUE_READ = frozenset([
    "name", "filter", "durable", "exclusive", "last-value", "last-value-key", "non-destructive",
    "ring-size", "max-consumers", "purge-on-no-consumers", "enabled", "user",
])  # fmt: skip


class Files(NamedTuple):
    """Texts of the files of users and roles."""

    users: str | None = None
    roles: str | None = None


def read(root: Element, vhost: str | None, files: Files) -> Result:
    """Raises ``ImportFailed``."""
    if root.name not in ("configuration", "core", "broker"):
        raise ImportFailed(f"<{root.name}> is not the configuration of a broker")
    topology = Topology()
    topology.vhost("", vhost or "/")
    core = root if root.name == "core" else root.child("core")
    jms = root.child("jms")
    if core is None and jms is None:
        raise ImportFailed("the configuration has no <core>")
    if core is not None:
        Core(topology, core, vhost or "/").read()
        read_access(topology, core, vhost or "/", files.users, files.roles, wildcards_of(core))
    if jms is not None:
        read_jms(topology, jms, vhost or "/")
    topology.check_bindings("")
    return topology.result("artemis")


def wildcards_of(core: Element) -> Wildcards:
    given = core.child("wildcard-addresses")
    if given is None:
        return Wildcards()
    return Wildcards(
        given.get("delimiter", ".")[:1] or ".",
        given.get("any-words", "#")[:1] or "#",
        given.get("single-word", "*")[:1] or "*",
    )


class Core:
    """Addresses, queues, settings and diverts."""

    def __init__(self, topology: Topology, core: Element, vhost: str) -> None:
        self.topology = topology
        self.core = core
        self.vhost = vhost
        self.wildcards = wildcards_of(core)
        self.multicast: dict[str, str] = {}
        """Addresses that are exchanges, and where they stand."""
        self.subscribed: list[tuple[str, str, Table, str]] = []
        """Queues over patterns of addresses: pattern, queue, arguments of the binding, place."""

    def read(self) -> None:
        core, topology = self.core, self.topology
        elements = self.under("address-settings", "address-setting")
        settings = read_settings(topology, elements, self.wildcards)
        addresses = self.under("addresses", "address")
        for one in addresses:
            if one.child("multicast") is not None:
                self.multicast[one.get("name")] = one.place
        self.policies(settings)
        for one in addresses:
            self.address(one, settings)
        for one in self.under("queues", "queue"):  # of an old version
            self.queue(one, one.get("address") or one.get("name"), False, settings)
        self.patterns()
        for one in self.under("diverts", "divert"):
            self.divert(one)
        self.others(core)

    def under(self, holder: str, name: str) -> list[Element]:
        return [one for each in self.core.each(holder) for one in each.each(name)]

    def others(self, core: Element) -> None:
        for child in core.children:
            if child.name in CONNECTED:
                self.topology.info(child.place, f"{child.name}: {CONNECTED[child.name]}")
            elif child.name not in READ | QUIET:
                self.topology.info(child.place, f"{child.name} has no equal here")

    def policies(self, settings: list[Setting]) -> None:
        multicast = frozenset(self.multicast)
        for priority, one in enumerate(settings):
            definition = policy_of(self.topology, one, multicast)
            if definition:
                pattern = self.wildcards.expression(one.match)
                self.topology.policy(
                    one.place, self.vhost, one.match or "all", pattern, definition,
                    priority=priority, **{"apply-to": "queues"},
                )  # fmt: skip

    def address(self, one: Element, settings: list[Setting]) -> None:
        name, topology = one.get("name"), self.topology
        if name.startswith("$") or not topology.good(one.place, "address", name):
            return
        anycast, multicast = one.child("anycast"), one.child("multicast")
        if multicast is not None:
            self.exchange(one.place, name)
            for queue in multicast.each("queue"):
                self.queue(queue, name, True, settings)
        if anycast is not None:
            queues = list(anycast.each("queue"))
            for queue in queues:
                self.queue(queue, name, multicast is not None, settings)
            if len(queues) > 1:
                topology.warn(
                    one.place,
                    f"address '{name}' has {len(queues)} anycast queues: there each message goes "
                    "to one of them, here to all that are bound",
                )
        if anycast is None and multicast is None:
            topology.info(one.place, f"address '{name}' has no queues")

    def exchange(self, place: str, name: str) -> None:
        """Of an address that is not a pattern."""
        if self.wildcards.is_pattern(name):
            return
        if self.topology.exchange(place, self.vhost, name, "fanout") is not None:
            key = self.wildcards.topic(name)
            self.topology.bind(place, self.vhost, TOPICS, name, key, to_exchange=True)

    def queue(self, one: Element, address: str, bound: bool, settings: list[Setting]) -> None:
        """``bound``: to the exchange of the address. A queue is so too if its name is another."""
        topology, name = self.topology, one.get("name") or address
        durable = flag_of(one.get("durable", "true"))
        if not topology.good(one.place, "address", address):
            return
        made = topology.queue(one.place, self.vhost, name, durable=durable)
        if made is None:
            return
        values = effective(settings, address, self.wildcards)
        arguments = made["arguments"]
        arguments |= arguments_of(values) | self.own(one, name)
        attempts = number_of(values.get("max-delivery-attempts"))
        if attempts is not None and attempts > 0 and durable and not arguments:
            arguments["x-queue-type"] = "quorum"
            topology.info(one.place, f"queue '{name}': a quorum queue, for its limit of deliveries")
        self.inherit(one, name, address, settings, arguments)
        selector = one.child("filter")
        text = "" if selector is None else selector.get("string") or selector.text
        condition = {"x-selector": text} if text else {}
        if self.wildcards.is_pattern(address):
            self.subscribed.append((address, name, condition, one.place))
        elif bound or name != address or condition:
            if not bound:
                told = f"queue '{name}' of address '{address}': publish to the exchange '{address}'"
                topology.info(one.place, told)
                self.exchange(one.place, address)
            topology.bind(one.place, self.vhost, address, name, "", condition)

    def inherit(
        self,
        one: Element,
        name: str,
        address: str,
        settings: list[Setting],
        arguments: Table,
    ) -> None:
        """A policy is found by the name of a queue, a setting by its address: where these lead to
        different settings the queue gets arguments."""
        wildcards = self.wildcards
        by_address = [s for s in settings if wildcards.covers(s.match, address)]
        by_name = [s for s in settings if wildcards.covers(s.match, name)]
        if by_address == by_name or not by_address:
            return
        quiet = Topology()
        last = by_address[-1]
        merged = last._replace(values=effective(settings, address, wildcards))
        definition = policy_of(quiet, merged, frozenset(self.multicast))
        if arguments.get("x-queue-type") != "quorum":
            definition.pop("delivery-limit", None)
        arguments |= {f"x-{key}": value for key, value in definition.items()}
        if definition:
            told = f"queue '{name}': what is set for '{address}' became its arguments"
            self.topology.info(one.place, told)

    def own(self, one: Element, name: str) -> Table:
        """Arguments of the queue's own attributes."""
        found: Table = {}
        topology = self.topology
        if flag_of(one.get("last-value")) or one.get("last-value-key"):
            found["x-last-value-key"] = one.get("last-value-key") or "_AMQ_LVQ_NAME"
        if flag_of(one.get("exclusive")):
            found["x-single-active-consumer"] = True
        if flag_of(one.get("non-destructive")):
            found["x-browse-only"] = True
        ring = number_of(one.get("ring-size"))
        if ring is not None and ring >= 0:
            found |= {"x-max-length": ring, "x-overflow": "drop-head"}
        most = number_of(one.get("max-consumers"))
        if most is not None and most >= 0:
            topology.warn(one.place, f"queue '{name}': max-consumers {most} has no equal")
        if flag_of(one.get("purge-on-no-consumers")):
            topology.warn(one.place, f"queue '{name}': its messages stay without consumers")
        for left in {*one.attributes, *(child.name for child in one.children)} - QUEUE_READ:
            topology.info(one.place, f"queue '{name}': {left[:100]} has no equal")
        return found

    def patterns(self) -> None:
        """Queues over patterns of addresses: bound to topics, and to all exchanges that fit."""
        for pattern, queue, condition, place in self.subscribed:
            topology, vhost = self.topology, self.vhost
            topology.bind(place, vhost, TOPICS, queue, self.wildcards.topic(pattern), condition)
            for address in self.multicast:
                if not self.wildcards.is_pattern(address) and self.wildcards.covers(
                    pattern, address
                ):
                    topology.bind(place, vhost, address, queue, "", condition)
            topology.warn(
                place,
                f"queue '{queue}' over '{pattern}': addresses that come later reach it by "
                f"{TOPICS} only",
            )

    def divert(self, one: Element) -> None:
        topology, vhost = self.topology, self.vhost
        source, to = one.get("address"), one.get("forwarding-address")
        title = f"divert '{one.get('name')[:100]}' from '{source[:100]}'"
        if not source or not to or self.wildcards.is_pattern(source):
            topology.error(one.place, f"{title}: left out")
            return
        selector = one.child("filter")
        text = "" if selector is None else selector.get("string") or selector.text
        condition = {"x-selector": text} if text else {}
        if (vhost, source) not in topology.exchanges:
            topology.exchange(one.place, vhost, source, "fanout")
            if (vhost, source) in topology.queues:
                topology.bind(one.place, vhost, source, source)
            told = f"{title}: publishers have to use the exchange '{source}'"
            topology.warn(one.place, told)
        to_exchange = (vhost, to) in topology.exchanges
        if not to_exchange and (vhost, to) not in topology.queues:
            topology.queue(one.place, vhost, to)
            topology.info(one.place, f"{title}: queue '{to}' is made for it")
        topology.bind(one.place, vhost, source, to, "", condition, to_exchange)
        if flag_of(one.get("exclusive")):
            topology.warn(
                one.place, f"{title} is exclusive: here messages also stay where they were going"
            )
        if one.child("transformer-class-name") is not None or one.child("transformer") is not None:
            topology.error(one.place, f"{title}: its transformer is left out")


def read_jms(topology: Topology, jms: Element, vhost: str) -> None:
    """Queues and topics of an old version."""
    for one in jms.each("queue"):
        topology.queue(one.place, vhost, one.get("name"))
    for one in jms.each("topic"):
        name = one.get("name")
        if topology.exchange(one.place, vhost, name, "fanout") is not None:
            topology.bind(one.place, vhost, TOPICS, name, re.sub(r"/", ".", name), to_exchange=True)
