"""Configuration of Qpid Broker-J: that of the broker (the initial configuration, or the file that
it keeps), and that of a virtual host, which its node keeps in a file of its own.

Both are objects with a name, a type, attributes, and lists of objects below them. A virtual host
may also stand within a node as a text of JSON.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any

from gateway.importing.access_rules import Rule, grant, read_rules
from gateway.importing.broker_j_queues import read_exchanges, read_queues
from gateway.importing.documents import read_json, read_text
from gateway.importing.findings import ImportFailed, Result
from gateway.importing.topology import Topology

Table = dict[str, Any]
QUIET_BROKER = frozenset([
    "id", "name", "type", "modelVersion", "description", "context", "brokerloggers", "createdBy",
    "createdTime", "lastUpdatedBy", "lastUpdatedTime", "preferenceStoreAttributes",
    "confidentialConfigurationEncryptionProvider", "storeVersion",
])  # fmt: skip
KNOWN_BROKER = frozenset([
    "virtualhostnodes", "authenticationproviders", "groupproviders", "accesscontrolproviders",
    "ports",
])  # fmt: skip
QUIET_HOST = QUIET_BROKER | frozenset([
    "storePath", "durable", "desiredState", "lifetimePolicy", "virtualhostloggers",
    "maximumMessageSize", "housekeepingCheckPeriod", "housekeepingThreadCount",
    "connectionThreadPoolSize", "numberOfSelectors", "statisticsReportingPeriod",
])  # fmt: skip
KNOWN_HOST = frozenset(["queues", "exchanges", "virtualhostaccesscontrolproviders"])
DATA_URL = re.compile(r"data:[^,]{0,200};base64,(.*)", re.DOTALL)


def objects(
    topology: Topology, holder: Table, name: str, place: str
) -> Iterator[tuple[str, Table]]:
    """The objects of a list below another, each with its place."""
    given = holder.get(name, [])
    if not isinstance(given, list):
        topology.error(f"{place}/{name}", "not a list")
        return
    for at, one in enumerate(given):
        if isinstance(one, dict):
            yield f"{place}/{name}/{at}", one
        else:
            topology.error(f"{place}/{name}/{at}", "not an object")


def is_broker(value: Any) -> bool:
    return isinstance(value, dict) and not KNOWN_BROKER.isdisjoint(value)


def is_host(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and ("queues" in value or "exchanges" in value or "nodeAutoCreationPolicies" in value)
        and ("modelVersion" in value or isinstance(value.get("type"), str))
    )


def read(value: Any, vhost: str | None, files: list[tuple[str, bytes]]) -> Result:
    """``vhost`` is the virtual host that the file's one stands for; ``files`` are names and octets
    of files that belong to it: of its virtual hosts (JSON), or of access rules. Raises
    ``ImportFailed``."""
    topology = Topology()
    if is_broker(value):
        rules: list[tuple[str, str]] = []
        hosts: list[Table] = []
        for name, octets in files:
            if octets.lstrip()[:1] != b"{":
                rules.append((name, read_text(octets)))
                continue
            host = read_json(octets)
            if not is_host(host):
                raise ImportFailed(f"{name}: not the configuration of a virtual host")
            hosts.append(host)
        Broker(topology, value, vhost, rules, hosts).read()
    elif is_host(value):
        name = vhost or str(value.get("name") or "/")
        read_host(topology, "", value, name)
    else:
        raise ImportFailed("neither the configuration of a broker nor of a virtual host")
    topology.check_bindings("")
    return topology.result("broker-j")


class Broker:
    """The configuration of a whole broker."""

    def __init__(
        self,
        topology: Topology,
        value: Table,
        vhost: str | None,
        files: list[tuple[str, str]],
        hosts: list[Table],
    ) -> None:
        self.topology = topology
        self.value = value
        self.vhost = vhost
        self.files = files
        self.hosts = hosts
        self.groups: dict[str, set[str]] = {}

    def read(self) -> None:
        topology, value = self.topology, self.value
        for place, one in objects(topology, value, "virtualhostnodes", ""):
            self.node(place, one)
        for place, one in objects(topology, value, "authenticationproviders", ""):
            self.provider(place, one)
        for place, one in objects(topology, value, "groupproviders", ""):
            self.group_provider(place, one)
        self.rights()
        for place, one in objects(topology, value, "ports", ""):
            what = f"port '{one.get('name')}' ({one.get('type')}, {one.get('port')})"
            topology.info(place, f"{what}: listeners are set in the gateway's configuration")
        for name in value.keys() - KNOWN_BROKER - QUIET_BROKER:
            topology.info(f"/{name}", f"{name[:100]} has no equal here")

    def node(self, place: str, node: Table) -> None:
        topology = self.topology
        name = self.vhost or node.get("name")
        if not topology.vhost(place, name):
            return
        hosts = list(objects(topology, node, "virtualhosts", place))
        blueprint = node.get("virtualHostInitialConfiguration")
        if isinstance(blueprint, str) and blueprint.strip() not in ("", "{}"):
            inner = f"{place}/virtualHostInitialConfiguration"
            try:
                found = read_json(blueprint.encode("utf-8", "surrogatepass"))
            except ImportFailed as error:
                topology.error(inner, str(error))
            else:
                if isinstance(found, dict):
                    hosts.append((inner, found))
                else:
                    topology.error(inner, "not an object")
        hosts += [("", one) for one in self.hosts if one.get("name") == node.get("name")]
        for at, host in hosts:
            read_host(topology, at, host, str(name))
        if not hosts:
            stored = f"{node.get('storePath')}/{node.get('name')}.json"
            topology.error(
                place,
                "the virtual host's queues are not in this file; they are in "
                + (
                    stored
                    if node.get("type") == "JSON"
                    else f"the store of type {node.get('type')}"
                ),
            )

    def provider(self, place: str, one: Table) -> None:
        topology, kind = self.topology, str(one.get("type"))
        users = list(objects(topology, one, "users", place))
        if kind == "Anonymous":
            topology.info(place, "anonymous clients: see the gateway's configuration")
        elif kind not in ("Plain", "SCRAM-SHA-256") and not users:
            what = f"users of the authentication provider '{one.get('name')}' ({kind})"
            topology.error(place, f"{what} are not in this file")
        for at, user in users:
            password, name = user.get("password"), user.get("name")
            verifier = scram_of(password) if kind == "SCRAM-SHA-256" else None
            if verifier is not None:
                topology.user(at, name, password_hash="", scram_sha_256=verifier)
            elif isinstance(password, str) and password and kind in ("Plain", "SCRAM-SHA-256"):
                topology.user(at, name, password=password)
            else:
                topology.user(at, name)
                topology.error(at, f"user '{name}' needs a new password: {kind} cannot be read")

    def group_provider(self, place: str, one: Table) -> None:
        topology = self.topology
        if "path" in one:
            topology.error(place, f"groups are in the file {one['path']}: they are left out")
        for at, group in objects(topology, one, "groups", place):
            names = {
                str(member.get("name"))
                for _, member in objects(topology, group, "groupmembers", at)
            }
            self.groups.setdefault(str(group.get("name")), set()).update(names)
            topology.info(at, f"group '{group.get('name')}': its members get permissions each")

    def rights(self) -> None:
        """Permissions of all users, in all virtual hosts."""
        topology = self.topology
        rules: list[Rule] = []
        providers = list(objects(topology, self.value, "accesscontrolproviders", ""))
        ruled = False
        for place, one in providers:
            if one.get("type") == "AllowAll":
                continue
            ruled = True
            found = self.rules_of(place, one)
            if found is None:
                topology.error(
                    place, f"access rules are in {one.get('path')}: give that file as well"
                )
            else:
                rules += found
        users, vhosts = list(topology.users), list(topology.vhosts)
        if ruled:
            grant(topology, vhosts, users, rules, self.groups)
            return
        for user in users:
            for vhost in vhosts:
                topology.permit(user, vhost, ".*", ".*", ".*")
        if users:
            topology.info("", "no access rules: every user may do everything, as in Broker-J")

    def rules_of(self, place: str, one: Table) -> list[Rule] | None:
        if "rules" in one:
            given = objects(self.topology, one, "rules", place)
            found = [object_rule(at, rule) for at, rule in given]
            if one.get("defaultResult") == "ALLOWED":
                found.append(Rule(place, True, "ALL", "all", "all", ""))
            return found
        inline = DATA_URL.match(str(one.get("path", "")))
        files = self.files
        if inline is not None:
            try:
                text = base64.b64decode(inline[1]).decode()
            except ValueError:
                return None
            files = [(place, text)]
        rules: list[Rule] = []
        for source, text in files:
            more, groups = read_rules(self.topology, text, source)
            rules += more
            for group, names in groups.items():
                self.groups.setdefault(group, set()).update(names)
        return rules if files else None


def object_rule(place: str, one: Table) -> Rule:
    attributes = one.get("attributes")
    named = attributes if isinstance(attributes, dict) else {}
    name = str(named.get("NAME", named.get("name", "")))
    allows = str(one.get("outcome", "")).upper().startswith("ALLOW")
    who = str(one.get("identity", ""))
    operation = str(one.get("operation", "")).lower()
    return Rule(place, allows, who, operation, str(one.get("objectType", "")).lower(), name)


def scram_of(password: object) -> Table | None:
    """A verifier: salt, nothing, stored key, server key and iterations, between commas."""
    parts = password.split(",") if isinstance(password, str) else []
    if len(parts) != 5 or not parts[4].isdigit() or not 0 < len(parts[4]) < 8:
        return None
    for part in (parts[0], parts[2], parts[3]):
        try:
            if not base64.b64decode(part, validate=True):
                return None
        except ValueError:
            return None
    return {
        "salt": parts[0],
        "stored_key": parts[2],
        "server_key": parts[3],
        "iterations": int(parts[4]),
    }


def read_host(topology: Topology, place: str, host: Table, vhost: str) -> None:
    if not topology.vhost(place, vhost):
        return
    read_queues(topology, objects(topology, host, "queues", place), vhost)
    read_exchanges(topology, list(objects(topology, host, "exchanges", place)), vhost)
    for at, _ in objects(topology, host, "nodeAutoCreationPolicies", place):
        topology.info(at, "queues are made on first use there; here clients declare them")
    if host.get("virtualhostaccesscontrolproviders"):
        topology.error(
            f"{place}/virtualhostaccesscontrolproviders",
            "access rules of a virtual host alone are left out",
        )
    for name in host.keys() - KNOWN_HOST - QUIET_HOST - {"nodeAutoCreationPolicies"}:
        topology.info(f"{place}/{name}", f"{name[:100]} has no equal here")
