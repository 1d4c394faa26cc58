"""The counts of the job ``report``, added up by client, user, address and version."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gateway.inventory.counts import clipped
from pyspark_amqp.readiness.sketch import quantile

UNKNOWN = "(unknown)"


class Counted(NamedTuple):
    """One row of the job ``report``: messages of a client to an address with something in common.

    ``kind`` is "messages" (``name``: the features that they use, with commas; ``hour``: seconds
    since 1970), "size" (``bucket`` of their bodies), "loss" (``name``: the property that 1.0 does
    not express; ``detail``: the severity that the column ``lossy`` has) or "hop" (``name`` of the
    hop; ``bucket`` of the microseconds there). Times are microseconds since 1970. ``looked``: for
    how many of these messages it is known what 1.0 loses.
    """

    vhost: str
    address: str
    protocol: str
    client: str
    product: str
    product_version: str
    user: str
    kind: str
    name: str
    detail: str
    bucket: int | None
    hour: int | None
    messages: int
    octets: int
    largest: int
    first: int
    last: int
    looked: int


class Client(NamedTuple):
    """A publisher: its name for itself (generated parts are ``*``) and its product."""

    name: str
    product: str
    version: str

    def __str__(self) -> str:
        product = " ".join(part for part in (self.product, self.version) if part)
        return ", ".join(part for part in (self.name, product) if part) or UNKNOWN


class Flow(NamedTuple):
    """Who sends where, in which version."""

    client: Client
    user: str
    protocol: str
    vhost: str
    address: str

    @property
    def place(self) -> str:
        """The address, with its virtual host unless that is the usual one."""
        where = f" in {self.vhost}" if self.vhost not in ("", "/") else ""
        return f"{self.address or UNKNOWN}{where}"


class Tally:
    """Counts of some messages. ``sets``: by the set of features that a message uses; ``losses``: by
    property and severity, of those that were looked at; ``hops``: buckets by hop."""

    def __init__(self) -> None:
        self.messages = self.octets = self.largest = self.first = self.last = self.looked = 0
        self.sets: Counter[frozenset[str]] = Counter()
        self.hours: Counter[int] = Counter()
        self.sizes: Counter[int] = Counter()
        self.losses: Counter[tuple[str, str]] = Counter()
        self.hops: dict[str, Counter[int]] = {}

    def add(self, row: Counted) -> None:
        if row.kind == "messages":
            self.first = min(self.first, row.first) if self.messages else row.first
            self.last = max(self.last, row.last)
            self.messages += row.messages
            self.octets += row.octets
            self.largest = max(self.largest, row.largest)
            self.looked += row.looked
            self.sets[frozenset(filter(None, row.name.split(",")))] += row.messages
            self.hours[row.hour or 0] += row.messages
        elif row.kind == "size":
            self.sizes[row.bucket or 0] += row.messages
        elif row.kind == "loss":
            self.losses[clipped(row.name), row.detail] += row.messages
        elif row.kind == "hop":
            self.hops.setdefault(clipped(row.name), Counter())[row.bucket or 0] += row.messages

    def merge(self, other: "Tally") -> None:
        if other.messages:
            self.first = min(self.first, other.first) if self.messages else other.first
            self.last = max(self.last, other.last)
        self.messages += other.messages
        self.octets += other.octets
        self.largest = max(self.largest, other.largest)
        self.looked += other.looked
        self.sets.update(other.sets)
        self.hours.update(other.hours)
        self.sizes.update(other.sizes)
        self.losses.update(other.losses)
        for name, counts in other.hops.items():
            self.hops.setdefault(name, Counter()).update(counts)

    @property
    def features(self) -> Counter[str]:
        """Messages by feature."""
        found: Counter[str] = Counter()
        for names, count in self.sets.items():
            for name in names:
                found[name] += count
        return found

    def size(self, share: float) -> int:
        """A quantile of the sizes of bodies, octets."""
        found = quantile(self.sizes, share)
        return min(round(found or 0), self.largest)


def flows_of(rows: Iterable[Counted]) -> dict[Flow, Tally]:
    """The counts by flow."""
    found: dict[Flow, Tally] = {}
    for row in rows:
        client = Client(*map(clipped, (row.client, row.product, row.product_version)))
        flow = Flow(client, *map(clipped, (row.user, row.protocol, row.vhost, row.address)))
        tally = found.get(flow)
        if tally is None:
            tally = found[flow] = Tally()
        tally.add(row)
    return found
