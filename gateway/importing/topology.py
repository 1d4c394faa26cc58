"""A topology as it is put together: RabbitMQ's definitions, our one model of it."""

import re
from typing import Any

from gateway.importing.findings import ERROR, INFO, MOST_FINDINGS, WARNING, Finding, Result

MOST_NAME = 255
"""Octets of a name or a routing key."""
LONGEST_TIMER = 4_294_967_295
Table = dict[str, Any]


class Topology:
    """Collects definitions and findings. Whatever names it is given are text; those that are too
    long or empty are left out and reported."""

    def __init__(self) -> None:
        self.vhosts: dict[str, None] = {}
        self.users: dict[str, Table] = {}
        self.permissions: dict[tuple[str, str], Table] = {}
        self.policies: dict[tuple[str, str], Table] = {}
        self.exchanges: dict[tuple[str, str], Table] = {}
        self.queues: dict[tuple[str, str], Table] = {}
        self.bindings: dict[tuple[str, str, str, str, str], Table] = {}
        self.findings: list[Finding] = []

    def info(self, place: str, text: str) -> None:
        self.find(INFO, place, text)

    def warn(self, place: str, text: str) -> None:
        self.find(WARNING, place, text)

    def error(self, place: str, text: str) -> None:
        self.find(ERROR, place, text)

    def find(self, severity: str, place: str, text: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(severity, place, text))
        elif len(self.findings) == MOST_FINDINGS:
            self.findings.append(Finding(ERROR, "", "there are more findings than can be listed"))

    def good(self, place: str, kind: str, name: object, empty: bool = False) -> bool:
        """Whether it is a name; otherwise a finding."""
        if not isinstance(name, str) or not (name or empty):
            self.error(place, f"a {kind} without a name is left out")
            return False
        if len(name.encode("utf-8", "surrogatepass")) > MOST_NAME:
            self.error(place, f"{kind} '{name[:40]}...': the name has more than {MOST_NAME} octets")
            return False
        return True

    def vhost(self, place: str, name: object) -> bool:
        if not self.good(place, "virtual host", name):
            return False
        self.vhosts[str(name)] = None
        return True

    def queue(self, place: str, vhost: str, name: object, **given: Any) -> Table | None:
        """The definition of a new queue; ``None`` if there is a finding instead."""
        if not self.good(place, "queue", name):
            return None
        assert isinstance(name, str)
        if (vhost, name) in self.queues:
            self.warn(place, f"queue '{name}' stands there twice; the first counts")
            return None
        made = {"name": name, "vhost": vhost, "durable": True, "auto_delete": False} | given
        made.setdefault("arguments", {})
        self.queues[vhost, name] = made
        return made

    def exchange(
        self, place: str, vhost: str, name: object, type: str, **given: Any
    ) -> Table | None:
        """The same of an exchange."""
        if not self.good(place, "exchange", name):
            return None
        assert isinstance(name, str)
        if name.startswith("amq."):
            return None  # every virtual host has them
        known = self.exchanges.get((vhost, name))
        if known is not None:
            if known["type"] != type:
                self.warn(place, f"exchange '{name}' stands there twice; the first counts")
            return None
        made = {"name": name, "vhost": vhost, "type": type, "durable": True}
        made |= {"auto_delete": False, "internal": False} | given
        made.setdefault("arguments", {})
        self.exchanges[vhost, name] = made
        return made

    def bind(
        self,
        place: str,
        vhost: str,
        source: object,
        destination: object,
        key: object = "",
        arguments: Table | None = None,
        to_exchange: bool = False,
    ) -> None:
        if not self.good(place, "source of a binding", source):
            return
        if not self.good(place, "destination of a binding", destination):
            return
        if not self.good(place, "key of a binding", key, empty=True):
            return
        kind = "exchange" if to_exchange else "queue"
        made: Table = {
            "source": source,
            "vhost": vhost,
            "destination": destination,
            "destination_type": kind,
            "routing_key": key,
            "arguments": arguments or {},
        }
        identity = vhost, f"{source}\0{kind}", str(destination), str(key), repr(arguments or {})
        self.bindings[identity] = made

    def policy(
        self, place: str, vhost: str, name: str, pattern: str, definition: Table, **given: Any
    ) -> None:
        name = unused(name[:200], {known for at, known in self.policies if at == vhost})
        self.policies[vhost, name] = {
            "vhost": vhost,
            "name": name,
            "pattern": pattern,
            "definition": definition,
            "priority": 0,
            "apply-to": "all",
        } | given

    def user(self, place: str, name: object, **given: Any) -> None:
        if self.good(place, "user", name):
            assert isinstance(name, str)
            self.users[name] = {"name": name, "tags": []} | given

    def permit(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.permissions[user, vhost] = {
            "user": user,
            "vhost": vhost,
            "configure": configure,
            "write": write,
            "read": read,
        }

    def check_bindings(self, place: str) -> None:
        """Leave out bindings whose ends are not there."""
        for identity, one in list(self.bindings.items()):
            vhost, to = one["vhost"], one["destination"]
            ends = self.exchanges if one["destination_type"] == "exchange" else self.queues
            there = (vhost, to) in ends or (ends is self.exchanges and to.startswith("amq."))
            source = one["source"]
            if not there or not ((vhost, source) in self.exchanges or source.startswith("amq.")):
                self.error(place, f"binding from '{source}' to '{to}': one of them is not there")
                del self.bindings[identity]

    def result(self, format: str) -> Result:
        definitions = {
            "rabbit_version": "3.10.8",
            "rabbitmq_version": "3.10.8",
            "users": list(self.users.values()),
            "vhosts": [{"name": name} for name in self.vhosts],
            "permissions": list(self.permissions.values()),
            "policies": list(self.policies.values()),
            "parameters": [],
            "queues": list(self.queues.values()),
            "exchanges": list(self.exchanges.values()),
            "bindings": list(self.bindings.values()),
        }
        return Result(format, definitions, self.findings)


def unused(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found


def number_of(value: object) -> int | None:
    """A whole number, also as text; ``None`` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return int(value)
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def flag_of(value: object, default: bool = False) -> bool:
    """A truth value, also as text."""
    if isinstance(value, bool):
        return value
    return value.strip().lower() == "true" if isinstance(value, str) else default


def timer_of(value: int) -> int:
    """Milliseconds as a queue may have them."""
    return min(value, LONGEST_TIMER)


def any_of(patterns: list[str]) -> str:
    """A permission for all names that have one of the patterns; "" is for none."""
    unique = list(dict.fromkeys(patterns))
    return ".*" if ".*" in unique else "|".join(unique)
