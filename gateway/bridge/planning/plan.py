"""The plan of a move: each node of a topology as another broker would have it."""

from typing import NamedTuple

from gateway.bridge.address_rules import AddressRules, Place
from gateway.bridge.planning.nodes import (
    HIGH,
    Loss,
    Node,
    Planned,
    Table,
    read_nodes,
    wrong_argument,
)
from gateway.bridge.planning.targets import Target, target_of


class Plan(NamedTuple):
    """``collisions`` are addresses of several queues. ``document`` is what the target
    understands."""

    planned: list[Planned]
    collisions: dict[str, list[str]]
    document: str

    @property
    def unmatched(self) -> list[Planned]:
        return [one for one in self.planned if one.target is None]

    @property
    def good(self) -> bool:
        return not self.unmatched and not self.collisions


def make_plan(
    definitions: Table, target: str, rules: AddressRules | None, vhost: str | None = None
) -> Plan:
    """``target`` is one of ``targets.TARGETS``. Without rules each node keeps its name."""
    broker = target_of(target, definitions)
    nodes = read_nodes(definitions, vhost)
    planned = [plan_node(broker, node, rules, target) for node in nodes]
    held: dict[str, list[str]] = {}
    for one in planned:
        if one.node.kind == "queue" and one.target is not None:
            held.setdefault(one.target, []).append(f"{one.node.vhost} {one.node.name}")
    separate = target != "artemis"  # which has no virtual hosts
    collisions = {
        address: names
        for address, names in held.items()
        if len(names) > (len({name.split(" ")[0] for name in names}) if separate else 1)
    }
    return Plan(planned, collisions, broker.write(planned))


def plan_node(broker: Target, node: Node, rules: AddressRules | None, target: str) -> Planned:
    wrong = wrong_argument(node)
    if wrong is not None:
        return Planned(node, None, (wrong,))
    if rules is None:
        return broker.plan(node, own_address(node, target))
    found = rules.translate(node.place)
    if found is None:
        loss = Loss("", HIGH, f"no rule matches {node.place}")
        return Planned(node, None, (loss,))
    if target == "artemis":
        address = str(found.target.name if found.target.exchange in (None, "") else
                      joined(found.target))  # fmt: skip
        return broker.plan(node, address)
    exchange, name = found.target.routing
    if node.kind == "queue":
        return broker.plan(node, name)
    if not exchange:
        loss = Loss("", HIGH, f"{found.target} is a queue, and no {node.kind}")
        return Planned(node, None, (loss,))
    if node.kind == "exchange":
        return broker.plan(node, exchange)
    there = {"source": exchange, "routing_key": name}
    moved = node._replace(place=Place(exchange, name), definition=node.definition | there)
    return broker.plan(moved, f"{exchange} -> {node.definition['destination']}")


def own_address(node: Node, target: str) -> str:
    """Without rules."""
    if target != "artemis" or node.kind == "queue":
        return node.name
    return joined(node.place)


def joined(place: Place) -> str:
    """An exchange and a key as one address of topics."""
    return ".".join(part for part in (place.exchange, place.name) if part)
