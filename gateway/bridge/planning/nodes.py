"""Nodes of a plan, and the arguments that are in force for each."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from gateway.bridge.address_rules import Place
from gateway.broker.limits import QUEUE_CHECKS, Invalid
from gateway.broker.policies import NUMBERS, Policy, make_policy, merge
from gateway.broker.policy_patterns import Pattern
from gateway.errors import Refusal

Table = dict[str, Any]
NONE, LOW, MEDIUM, HIGH = "none", "low", "medium", "high"
RISKS = (NONE, LOW, MEDIUM, HIGH)
"""Nothing is lost; limits or housekeeping differ; messages may go another way or in another order;
messages may be lost, or the node cannot be there."""


class Loss(NamedTuple):
    """An argument that the target does not have. ``shim``: its replacement, "" if nothing
    does."""

    argument: str
    risk: str
    text: str
    shim: str = ""


class Node(NamedTuple):
    """A queue, an exchange or a binding. ``place`` is its own address, ``arguments`` are those of
    its declaration, with those of policies."""

    kind: str
    vhost: str
    name: str
    place: Place
    definition: Table
    arguments: Table


class Planned(NamedTuple):
    """``target`` is the address there, ``None`` if there is none, and ``losses`` then say why."""

    node: Node
    target: str | None
    losses: tuple[Loss, ...]

    @property
    def risk(self) -> str:
        if self.target is None:
            return HIGH
        return max((one.risk for one in self.losses), key=RISKS.index, default=NONE)


def read_nodes(definitions: Table, vhost: str | None) -> list[Node]:
    """Queues, exchanges and bindings of definitions, whose entries were checked."""
    policies = policies_of(definitions)
    found = []
    for kind, entries in (("queue", "queues"), ("exchange", "exchanges")):
        for one in definitions.get(entries, ()):
            at, name = one.get("vhost") or "/", one["name"]
            if vhost is not None and at != vhost:
                continue
            if kind == "exchange" and (not name or name.startswith("amq.")):
                continue
            arguments = in_force(kind, one, policies.get(at, {}))
            place = Place("", name) if kind == "queue" else Place(name, "")
            found.append(Node(kind, at, name, place, one, arguments))
    for one in definitions.get("bindings", ()):
        at, key = one.get("vhost") or "/", one.get("routing_key") or ""
        if one["source"] and vhost in (None, at):
            name = f"{one['source']} -> {one['destination']}"
            place = Place(one["source"], key)
            found.append(Node("binding", at, name, place, one, dict(one.get("arguments") or {})))
    return found


def wrong_argument(node: Node) -> Loss | None:
    """An argument of a queue whose value no broker takes. The type of the queue is not looked at:
    the target may have others than this gateway."""
    if node.kind != "queue":
        return None
    for name, value in node.arguments.items():
        check = QUEUE_CHECKS.get(name)
        if name == "x-queue-type" or check is None:
            continue
        try:
            check[1](value)
        except Invalid as reason:
            return Loss(name, HIGH, f"not a value for it: {reason}")
    return None


def policies_of(definitions: Table) -> dict[str, dict[str, list[Policy]]]:
    """By virtual host and kind, the most important first. Wrong ones are left out: their import
    names them."""
    found: dict[str, dict[str, list[Policy]]] = {}
    entries = [(one, one.get("name"), False) for one in definitions.get("policies", ())]
    entries += [
        (one["value"] | {"vhost": one.get("vhost")}, one.get("name"), True)
        for one in definitions.get("parameters", ())
        if one.get("component") == "operator_policy" and isinstance(one.get("value"), dict)
    ]
    for one, name, operator in entries:
        try:
            policy = make_policy(
                str(name),
                one.get("pattern"),
                one.get("definition"),
                one.get("priority", 0),
                one.get("apply-to", "all"),
                operator,
            )
        except Refusal:
            continue
        kinds = found.setdefault(str(one.get("vhost") or "/"), {"policy": [], "operator": []})
        kinds["operator" if operator else "policy"].append(policy)
    for kinds in found.values():
        for each in kinds.values():
            each.sort(key=lambda policy: (-policy.priority, policy.name))
    return found


def in_force(kind: str, one: Table, policies: dict[str, list[Policy]]) -> Table:
    """The arguments of a declaration, with those of policies. Keys of exchanges have no prefix."""
    arguments = dict(one.get("arguments") or {})
    quorum = arguments.get("x-queue-type") == "quorum"
    reached = {"queue": {"queues", "quorum_queues" if quorum else "classic_queues"}}.get(
        kind, {"exchanges"}
    ) | {"all"}
    policy, operator = (
        first(policies.get(each, ()), one["name"], reached) for each in ("policy", "operator")
    )
    for key, value in merge(policy, operator).items():
        if (key == "alternate-exchange") != (kind == "exchange"):
            continue
        if key == "delivery-limit" and not quorum:
            continue
        name = key if kind == "exchange" else f"x-{key}"
        if name not in arguments:
            arguments[name] = value
        elif key in NUMBERS and isinstance(arguments[name], int):
            arguments[name] = min(arguments[name], value)
    return arguments


def first(policies: Iterable[Policy], name: str, reached: set[str]) -> Policy | None:
    for one in policies:
        pattern: Pattern = one.pattern
        if one.apply_to in reached and pattern.matches(name):
            return one
    return None
