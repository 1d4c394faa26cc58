"""Findings of the decoders of all versions about one connection, on their way to the inventory."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from gateway.adapters.methods.types import read_table
from gateway.inventory.counts import Remembered, Share, clipped, identity_of, pattern_of
from gateway.inventory.inventory import ClientEntry, Failure, Identity, Inventory, NodeEntry

EXCHANGE, QUEUE, ADDRESS = "exchange", "queue", "address"
MOST_EARLY = 100
"""Features that are remembered until the client is known."""
MOST_ARGUMENTS = 16
"""Arguments of one declaration that are kept."""
CACHED_NODES = 64
LARGE = 16 << 20
"""Octets of a message above which brokers of today refuse it unless they are set to take it."""


class Content(NamedTuple):
    """Countable facts of a message's properties."""

    features: tuple[tuple[str, str], ...] = ()
    """Names and details."""
    header_types: tuple[str, ...] = ()
    content_type: str = ""
    durable: bool = False
    destination: str = ""
    """Where 0-9a6 writes the routing key."""


PLAIN = Content()


@dataclass
class Who:
    """Statements of a connection about its client, so far."""

    version: str = "unknown"
    name: str = ""
    product: str = ""
    product_version: str = ""
    platform: str = ""
    user: str = ""
    vhost: str = ""
    mechanism: str = ""
    names: list[str] = field(default_factory=list)


class Observer:
    """One connection. Decoders call it; ``known`` is called when the client has introduced itself,
    and before any message."""

    def __init__(
        self, inventory: Inventory, clock: Callable[[], float], host: str, port: int, tls: bool
    ) -> None:
        self._inventory = inventory
        self._clock = clock
        self._host, self._port, self._tls = host, port, tls
        self.who = Who()
        self._client: ClientEntry | None = None
        self._early: list[tuple[str, str]] = []
        self.share = Share(inventory.connection_room)
        self._generated: Remembered[str, None] = Remembered(self.share)
        self._nodes: dict[tuple[str, str], NodeEntry] = {}
        self._octets = [0, 0]

    # --- the client -------------------------------------------------------------------------------

    def properties(self, found: Mapping[Any, Any]) -> None:
        """Properties of the client, by the names that the libraries use."""
        who = self.who
        who.product = first_text(found, "product") or who.product
        who.product_version = first_text(found, "version", "version_number") or who.product_version
        who.platform = first_text(found, "platform") or who.platform
        for key in ("connection_name", "instance", "clientid", "qpid.client_process"):
            text = first_text(found, key)
            if text:
                self.name(text)

    def name(self, text: str) -> None:
        """A name of the client or its connection; the first one counts."""
        if text and len(self.who.names) < 4:
            self.who.names.append(clipped(text))
        self.who.name = self.who.name or identity_of(text)

    def mechanism(self, mechanism: str, response: bytes | None) -> None:
        """A SASL mechanism and its first response, of which the user's name alone is kept."""
        self.who.mechanism = clipped(mechanism)
        self.user(user_of(mechanism, response or b""))
        if mechanism in ("PLAIN", "AMQPLAIN") and not self._tls:
            self.feature("password-without-tls", detail=mechanism)
        known = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL", "CRAM-MD5", "GSSAPI")
        if mechanism in known:
            if mechanism != "PLAIN":
                self.feature(f"sasl-{mechanism.lower()}")
        elif not mechanism.startswith("SCRAM-"):
            self.feature("sasl-other", detail=mechanism)

    def response(self, response: bytes) -> None:
        """A later response, of which again the user's name alone is kept."""
        mechanism = self.who.mechanism
        if mechanism == "CRAM-MD5":
            self.user(response.rpartition(b" ")[0].decode(errors="replace"))
        else:
            self.user(user_of(mechanism, response))

    def user(self, name: str) -> None:
        self.who.user = self.who.user or clipped(name)

    @property
    def client(self) -> ClientEntry:
        """The client's entry; made now, from the known facts, if it has none."""
        if self._client is None:
            self.known()
        assert self._client is not None
        return self._client

    def known(self) -> None:
        """The client has introduced itself."""
        if self._client is not None:
            return
        who, now = self.who, self._clock()
        identity = Identity(
            who.version, who.name, clipped(who.product), clipped(who.product_version),
            clipped(who.platform), who.user, clipped(who.vhost), self._host, self._tls,
        )  # fmt: skip
        client = self._client = self._inventory.client(identity)
        client.connections.add(now)
        client.open += 1
        client.names.add_all(who.names)
        if who.mechanism:
            client.mechanisms.add(who.mechanism)
        client.octets_in += self._octets[0]
        client.octets_out += self._octets[1]
        self.feature(f"version-{who.version}")
        early, self._early = self._early, []
        for name, detail in early:
            self.feature(name, detail=detail)

    def octets(self, from_client: bool, count: int) -> None:
        """Octets that were forwarded."""
        if self._client is None:
            self._octets[0 if from_client else 1] += count
        elif from_client:
            self._client.octets_in += count
        else:
            self._client.octets_out += count

    def undecoded(self, reason: str) -> None:
        """The rest of the connection is not decoded."""
        at = self._clock()
        where = f"{self._host}:{self._port}"
        self._inventory.fail(Failure(where, self.who.version, at, clipped(reason)))
        self.client.features.add("undecoded", at, clipped(reason))

    def closed(self) -> None:
        self.client.open -= 1
        self.share.close()

    # --- activity ---------------------------------------------------------------------------------

    def feature(self, name: str, node: NodeEntry | None = None, detail: str = "") -> None:
        """A feature was used, on a node or in general."""
        now = self._clock()
        if self._client is None:
            if len(self._early) < MOST_EARLY:
                self._early.append((name, detail))
        else:
            self._client.features.add(name, now, detail)
        if node is not None:
            node.features.add(name, now, detail)

    def generated(self, name: str) -> None:
        """A name that the broker chose."""
        self._generated.put(name[:256], None)

    def node(self, kind: str, name: str) -> NodeEntry:
        """The entry of a node. Those whose names are generated share one."""
        key = kind, name
        found = self._nodes.get(key)
        if found is None:
            if len(self._nodes) >= CACHED_NODES:
                self._nodes.clear()
            shown = "(named by the broker)" if name in self._generated else pattern_of(name)
            if shown.startswith("amq.gen"):
                shown = "(named by the broker)"
            found = self._inventory.node((clipped(self.who.vhost), kind, shown))
            self._nodes[key] = found
        return found

    def declared(self, node: NodeEntry, flags: Iterable[str], arguments: Mapping[Any, Any]) -> None:
        """A node was declared with these flags and arguments."""
        node.declared.add_all(flags)
        for name, value in islice(arguments.items(), MOST_ARGUMENTS):
            node.arguments.add(f"{clipped(name)}={clipped(value)}")

    def bound(self, node: NodeEntry, text: str) -> None:
        node.bindings.add(pattern_of(text))

    def published(self, node: NodeEntry, size: int, content: Content) -> None:
        """The client sent a message to a node."""
        now, client = self._clock(), self.client
        client.published.add(now, size)
        node.published.add(now, size)
        node.publishers.add(client.id)
        if size > LARGE:
            self.feature("large-message", node)
        self._content(node, content)

    def delivered(self, node: NodeEntry | None, size: int, content: Content) -> None:
        """The broker sent it one."""
        now = self._clock()
        self.client.delivered.add(now, size)
        if node is not None:
            node.delivered.add(now, size)
            if content.header_types:
                node.header_types.add_all(content.header_types)

    def consumes(self, node: NodeEntry) -> None:
        """The client subscribed to a node, or polled it."""
        node.consumers.add(self.client.id)

    def _content(self, node: NodeEntry, content: Content) -> None:
        node.durable += content.durable
        node.header_types.add_all(content.header_types)
        if content.content_type:
            node.content_types.add(content.content_type)
        for name, detail in content.features:
            self.feature(name, node, detail)


def first_text(found: Mapping[Any, Any], *keys: str) -> str:
    """The first of these entries that is there, as text."""
    for key in keys:
        value = found.get(key)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if value is not None and value != "":
            return clipped(value)
    return ""


def user_of(mechanism: str, response: bytes) -> str:
    """The user in a SASL response; nothing else of it."""
    if mechanism == "PLAIN":
        parts = response.split(b"\0")
        return parts[1].decode(errors="replace") if len(parts) == 3 else ""
    if mechanism == "AMQPLAIN":
        try:
            return first_text(read_table(response), "LOGIN")
        except ValueError:
            return ""
    if mechanism.startswith("SCRAM-"):
        for part in response.split(b","):
            if part.startswith(b"n="):
                return part[2:].decode(errors="replace")
    return "anonymous" if mechanism == "ANONYMOUS" else ""
