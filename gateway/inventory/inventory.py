"""The inventory: clients, nodes and the features that each used. Bounded everywhere; the rest is
counted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.errors import GatewayError
from gateway.inventory.counts import Room, Tally, Traffic, Usage, clipped

FORMAT = 1


class InventoryError(GatewayError):
    """A file that is no inventory."""


class Bounds(NamedTuple):
    """Largest numbers of entries that are told apart."""

    clients: int = 1_000
    nodes: int = 5_000
    values: int = 32
    """Values of one kind: bindings, arguments, names, content types of one entry."""
    parties: int = 64
    """Publishers and consumers of one node."""
    features: int = 200
    """Features of one client or node."""
    failures: int = 100
    """Connections that could not be decoded, which are kept with their reason; the last ones."""
    octets: int = 32 << 20
    """Octets of all names and values, about."""
    connection_octets: int = 64 << 20
    """Octets that are remembered of all connections while they last, about."""


BOUNDS = Bounds()
FEATURE_OCTETS, CLIENT_OCTETS, NODE_OCTETS = 300, 3_000, 3_000
"""About the octets of an entry besides its values."""


class Space(NamedTuple):
    """The bounds, and the room that is left in them."""

    bounds: Bounds
    room: Room

    def tally(self, most: int = 0) -> Tally:
        return Tally(most or self.bounds.values, self.room)

    def read_tally(self, data: Mapping[str, Any], most: int = 0) -> Tally:
        return Tally.read(data, most or self.bounds.values, self.room)


class Features:
    """The features that were used, with samples of their details."""

    __slots__ = ("used", "details", "cut", "_space")

    def __init__(self, space: Space) -> None:
        self._space = space
        self.used: dict[str, Usage] = {}
        self.details: dict[str, Tally] = {}
        self.cut = 0

    def add(self, name: str, now: float, detail: str = "") -> None:
        found = self.used.get(name)
        if found is None:
            full = len(self.used) >= self._space.bounds.features
            if full or not self._space.room.take(name, FEATURE_OCTETS):
                self.cut += 1
                return
            found = self.used[name] = Usage()
        found.add(now)
        if detail:
            tally = self.details.get(name)
            if tally is None:
                tally = self.details[name] = self._space.tally()
            tally.add(detail)

    def written(self) -> dict[str, Any]:
        return {
            name: usage.written()
            | ({"details": self.details[name].written()} if name in self.details else {})
            for name, usage in self.used.items()
        }

    @classmethod
    def read(cls, data: Mapping[str, Any], space: Space) -> "Features":
        made = cls(space)
        for name, found in list(data.items())[: space.bounds.features]:
            made.used[clipped(name)] = Usage.read(found)
            if "details" in found:
                made.details[clipped(name)] = space.read_tally(found["details"])
        return made


class Identity(NamedTuple):
    """The identity of a client. Names are without their generated parts."""

    version: str
    """Of the protocol; "tls", "http" or "unknown" if nothing of AMQP could be read."""
    name: str = ""
    """Client id, container id or name of the connection."""
    product: str = ""
    product_version: str = ""
    platform: str = ""
    user: str = ""
    vhost: str = ""
    host: str = ""
    """Where it connects from."""
    tls: bool = False


class ClientEntry:
    """A client: all connections of one identity."""

    __slots__ = (
        "id", "identity", "connections", "names", "mechanisms", "features", "published",
        "delivered", "octets_in", "octets_out", "open",
    )  # fmt: skip

    def __init__(self, number: str, identity: Identity, space: Space) -> None:
        self.id = number
        self.identity = identity
        self.connections = Usage()
        self.open = 0
        """Connections now. Not in the file."""
        self.names = space.tally()
        self.mechanisms = space.tally()
        self.features = Features(space)
        self.published = Traffic()
        self.delivered = Traffic()
        self.octets_in = 0
        """From the client."""
        self.octets_out = 0

    def written(self) -> dict[str, Any]:
        return {
            "id": self.id, **self.identity._asdict(), "connections": self.connections.written(),
            "names": self.names.written(), "mechanisms": self.mechanisms.written(),
            "features": self.features.written(), "published": self.published.written(),
            "delivered": self.delivered.written(), "octets_from_client": self.octets_in,
            "octets_to_client": self.octets_out,
        }  # fmt: skip

    @classmethod
    def read(cls, data: Mapping[str, Any], space: Space) -> "ClientEntry":
        kinds = Identity._field_defaults
        fields = {name: data.get(name, kinds.get(name, "")) for name in Identity._fields}
        made = cls(str(data["id"]), Identity(**fields), space)
        made.connections = Usage.read(data["connections"])
        made.names = space.read_tally(data["names"])
        made.mechanisms = space.read_tally(data["mechanisms"])
        made.features = Features.read(data["features"], space)
        made.published = Traffic.read(data["published"])
        made.delivered = Traffic.read(data["delivered"])
        made.octets_in = int(data["octets_from_client"])
        made.octets_out = int(data["octets_to_client"])
        return made


NodeKey = tuple[str, str, str]
"""Virtual host, kind ("exchange", "queue" or "address"), name."""


class NodeEntry:
    """An exchange, a queue, or an address of 1.0 or of a draft."""

    __slots__ = (
        "key", "declared", "arguments", "bindings", "publishers", "consumers", "published",
        "delivered", "durable", "header_types", "content_types", "features",
    )  # fmt: skip

    def __init__(self, key: NodeKey, space: Space) -> None:
        self.key = key
        self.declared = space.tally()
        """Types and flags with which clients declared it, such as "durable" or "type=topic"."""
        self.arguments = space.tally()
        self.bindings = space.tally()
        self.publishers = space.tally(space.bounds.parties)
        """Messages by client."""
        self.consumers = space.tally(space.bounds.parties)
        """Subscriptions and polls by client."""
        self.published = Traffic()
        self.delivered = Traffic()
        self.durable = 0
        """Published messages that are to survive a restart."""
        self.header_types = space.tally()
        self.content_types = space.tally()
        self.features = Features(space)

    TALLIES = (
        "declared", "arguments", "bindings", "publishers", "consumers", "header_types",
        "content_types",
    )  # fmt: skip

    def written(self) -> dict[str, Any]:
        vhost, kind, name = self.key
        return {
            "vhost": vhost, "kind": kind, "name": name,
            **{name: getattr(self, name).written() for name in self.TALLIES},
            "published": self.published.written(), "delivered": self.delivered.written(),
            "durable": self.durable, "features": self.features.written(),
        }  # fmt: skip

    @classmethod
    def read(cls, data: Mapping[str, Any], space: Space) -> "NodeEntry":
        made = cls((str(data["vhost"]), str(data["kind"]), str(data["name"])), space)
        for name in cls.TALLIES:
            most = space.bounds.parties if name in ("publishers", "consumers") else 0
            setattr(made, name, space.read_tally(data[name], most))
        made.published = Traffic.read(data["published"])
        made.delivered = Traffic.read(data["delivered"])
        made.durable = int(data["durable"])
        made.features = Features.read(data["features"], space)
        return made


class Failure(NamedTuple):
    """A connection whose octets were forwarded and, from some point on, not decoded."""

    client: str
    """Its address."""
    version: str
    at: float
    reason: str


class Inventory:
    """Everything that was seen in front of one broker."""

    def __init__(self, upstream: str = "", bounds: Bounds = BOUNDS) -> None:
        self.upstream = upstream
        self.bounds = bounds
        self.started = 0.0
        self.clients: dict[Identity, ClientEntry] = {}
        self.nodes: dict[NodeKey, NodeEntry] = {}
        self.failures: list[Failure] = []
        self.counts: dict[str, int] = dict.fromkeys(
            ("connections", "refused", "undecoded", "cut_clients", "cut_nodes"), 0
        )
        """Connections accepted; those for which the broker could not be reached; those that were
        not decoded to their end; and sightings of clients and nodes that did not fit."""
        self.space = Space(bounds, Room(bounds.octets))
        self.connection_room = Room(bounds.connection_octets)
        """For facts of all connections while they last. Not in the file."""
        self._others = ClientEntry("others", Identity("any", name="others"), self.space)
        self._other_nodes = NodeEntry(("", "node", "others"), self.space)

    def client(self, identity: Identity) -> ClientEntry:
        """The entry of a client; that of all others if there are too many."""
        found = self.clients.get(identity)
        if found is None:
            full = len(self.clients) >= self.bounds.clients
            if full or not self.space.room.take("".join(map(str, identity)), CLIENT_OCTETS):
                self.counts["cut_clients"] += 1
                return self._others
            found = ClientEntry(f"c{len(self.clients) + 1}", identity, self.space)
            self.clients[identity] = found
        return found

    def node(self, key: NodeKey) -> NodeEntry:
        """The same for a node."""
        found = self.nodes.get(key)
        if found is None:
            full = len(self.nodes) >= self.bounds.nodes
            if full or not self.space.room.take("".join(key), NODE_OCTETS):
                self.counts["cut_nodes"] += 1
                return self._other_nodes
            found = self.nodes[key] = NodeEntry(key, self.space)
        return found

    def fail(self, failure: Failure) -> None:
        """Note that a connection is not decoded any more."""
        self.counts["undecoded"] += 1
        self.failures.append(failure)
        del self.failures[: -self.bounds.failures]

    def pieces(self) -> Iterator[str]:
        """The text of the document, as it is saved, entry by entry."""
        head = {
            "format": FORMAT, "upstream": self.upstream, "started": self.started,
            "counts": dict(self.counts), "undecoded": [one._asdict() for one in self.failures],
        }  # fmt: skip
        yield json.dumps(head)[:-1]
        clients = [*self.clients.values()]
        if self._others.connections.count:
            clients.append(self._others)
        groups: tuple[tuple[str, Sequence[ClientEntry | NodeEntry]], ...]
        groups = (("clients", clients), ("nodes", [*self.nodes.values()]))
        for name, entries in groups:
            yield f',\n"{name}": ['
            for number, entry in enumerate(entries):
                yield (",\n" if number else "\n") + json.dumps(entry.written())
            yield "]"
        yield "}\n"

    def written(self) -> dict[str, Any]:
        """The document."""
        found: dict[str, Any] = json.loads("".join(self.pieces()))
        return found

    @classmethod
    def read(cls, data: Any, bounds: Bounds = BOUNDS) -> "Inventory":
        """An inventory from its document. Raises ``InventoryError``."""
        try:
            if data["format"] != FORMAT:
                raise InventoryError(f"format {data['format']!r} is not known, only {FORMAT}")
            made = cls(str(data["upstream"]), bounds)
            made.started = float(data["started"])
            for name in made.counts:
                made.counts[name] = int(data["counts"].get(name, 0))
            for one in data["clients"][: bounds.clients + 1]:
                client = ClientEntry.read(one, made.space)
                if client.id == "others":
                    made._others = client
                else:
                    made.clients[client.identity] = client
            for one in data["nodes"][: bounds.nodes]:
                node = NodeEntry.read(one, made.space)
                made.nodes[node.key] = node
            made.failures = [Failure(**one) for one in data["undecoded"][-bounds.failures :]]
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            text = f"no inventory: {type(error).__name__} {error}"
            raise InventoryError(text) from None
        return made
