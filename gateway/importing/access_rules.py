"""Files of access rules, as Broker-J and the C++ broker have them, as permissions.

Each line is a rule; the first that fits decides. A permission of RabbitMQ is three patterns of
names, so rules that allow become patterns up to the first rule that forbids everything, and a rule
that forbids something in particular cannot be said.
"""

import re
import shlex
from typing import NamedTuple

from gateway.importing.topology import Topology, any_of

RIGHTS = {
    "configure": ("create", "delete", "update", "declare"),
    "write": ("publish",),
    "read": ("consume", "purge", "browse"),
}
"""Operations by the permission that they need."""
KINDS = ("queue", "exchange", "topic", "all")
ALL = "all"


class Rule(NamedTuple):
    """``kind`` is the object's. ``name`` has ``*`` as a wildcard, "" is any."""

    place: str
    allows: bool
    who: str
    operation: str
    kind: str
    name: str


def read_rules(
    topology: Topology, text: str, source: str
) -> tuple[list[Rule], dict[str, set[str]]]:
    """Rules and groups of a file."""
    rules: list[Rule] = []
    default: list[Rule] = []
    groups: dict[str, set[str]] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        place, parts = f"{source} line {at + 1}", [lines[at].rstrip()]
        at += 1
        while parts[-1].endswith("\\") and at < len(lines):
            parts[-1] = parts[-1][:-1]
            parts.append(lines[at].rstrip())
            at += 1
        line = " ".join(parts)
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            topology.error(place, f"not a rule: {error}")
            continue
        if words and words[0].isdigit():
            words = words[1:]
        if not words:
            continue
        word = words[0].lower()
        if word == "group" and len(words) > 1:
            groups.setdefault(words[1], set()).update(words[2:])
        elif word == "acl" and len(words) > 3:
            rules.append(rule_of(place, words[1:]))
        elif word == "config" and re.search(r"default-?permit\s*=\s*true", line, re.IGNORECASE):
            default = [Rule(place, True, ALL, ALL, ALL, "")]
        elif word == "config":
            topology.info(place, f"'{line.strip()[:100]}' is not needed here")
        else:
            topology.error(place, f"not a rule: '{line.strip()[:100]}'")
    return rules + default, groups


def rule_of(place: str, words: list[str]) -> Rule:
    given = [word.partition("=") for word in words[4:]]
    named = {key.strip().lower(): value.strip() for key, _, value in given}
    kind = words[3].lower() if len(words) > 3 else ALL
    name = named.get("name") or (named.get("routingkey", "") if kind == "topic" else "")
    allows = words[0].lower().startswith("allow")
    return Rule(place, allows, words[1], words[2].lower(), kind, name)


def members(who: str, groups: dict[str, set[str]]) -> set[str]:
    """Users that a name in a rule stands for."""
    found: set[str] = set()
    left, seen = [who], set()
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in groups:
            left += groups[one]
        else:
            found.add(one.partition("@")[0])
    return found


def grant(
    topology: Topology,
    vhosts: list[str],
    users: list[str],
    rules: list[Rule],
    groups: dict[str, set[str]],
) -> None:
    """Give the users the permissions of the rules."""
    reach = {who: members(who, groups) for who in {one.who for one in rules}}
    for one in rules:
        if not one.allows and one.name:
            topology.warn(
                one.place,
                f"a rule that forbids '{one.name[:100]}' to {one.who} cannot be said here",
            )
        if one.allows and one.kind not in (*KINDS, "virtualhost"):
            topology.info(one.place, f"a rule about {one.kind} is not needed here")
    for user in users:
        found: dict[str, list[str]] = {right: [] for right in RIGHTS}
        for rule in rules:
            everybody = rule.who.lower() == ALL
            if not everybody and user not in reach[rule.who]:
                continue
            if not rule.allows:
                if rule.operation == ALL and rule.kind == ALL and not rule.name:
                    break
                continue
            if rule.kind in KINDS:
                for right, operations in RIGHTS.items():
                    if rule.operation == ALL or rule.operation in operations:
                        found[right].append(wildcard(rule.name))
                if rule.operation in ("bind", "unbind"):  # of an exchange, and then of any queue
                    found["read"].append(wildcard(rule.name))
                    topology.info(rule.place, f"{user} also needs to write to the queues it binds")
        rights = {right: any_of(patterns) for right, patterns in found.items()}
        if any(rights.values()):
            for vhost in vhosts:
                topology.permit(user, vhost, **rights)


def wildcard(name: str) -> str:
    """A name with ``*`` as a pattern."""
    if name in ("", "*", ALL):
        return ".*"
    return "^" + ".*".join(re.escape(part) for part in name.split("*")) + "$"
