"""The exchange type that RabbitMQ's federation plugin asks its upstream for.

A downstream broker binds its queue to such an exchange, and notes in the header
``x-received-from`` each broker that a message came from. The exchange passes every message on, but
not those that have come far enough, or from that downstream broker: they would go in a circle.
"""

from collections.abc import Iterable
from typing import Any

from gateway.broker.deadletters import peek_properties
from gateway.broker.exchanges import Fanout, Step
from gateway.broker.limits import invalid, type_name
from gateway.message import Message

MOST_HOPS = "x-max-hops"
DOWNSTREAM_NAME, DOWNSTREAM_VHOST = "x-downstream-name", "x-downstream-vhost"
"""Arguments of the exchange: the cluster that takes from it, and the virtual host there."""
HOPS = "x-received-from"
"""Header with a table for each broker that a message came from."""


class FederationExchange(Fanout):
    """A fanout exchange that breaks circles of federated brokers."""

    type = "x-federation-upstream"
    by_key = False

    def __init__(self, name: str, **given: Any) -> None:
        """Refuses (406) a missing number of hops."""
        super().__init__(name, **given)
        hops = self.arguments.get(MOST_HOPS)
        if isinstance(hops, bool) or not isinstance(hops, int):
            raise invalid(MOST_HOPS, "exchange", f'"expected number, got {type_name(hops)}"')
        self.most_hops = hops
        self.downstream = [self.arguments.get(each) for each in (DOWNSTREAM_NAME, DOWNSTREAM_VHOST)]

    def match(self, message: Message) -> Iterable[Step]:
        hops = (peek_properties(message).application or {}).get(HOPS)
        return () if isinstance(hops, list) and not self.passes(hops) else self.all

    def passes(self, hops: list[Any]) -> bool:
        """Whether a message that came by these brokers is passed on."""
        return len(hops) < self.most_hops and not any(
            isinstance(hop, dict)
            and None not in self.downstream
            and self.downstream == [hop.get("cluster-name"), hop.get("vhost")]
            for hop in hops
        )
