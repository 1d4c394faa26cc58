"""How brokers write the addresses of queues and exchanges; for the client role.

1.0 leaves addresses to the container (§3.5.3). Three ways are known here:

* "v2", RabbitMQ 4 and this gateway: ``/queues/q``, ``/exchanges/x/k``, names percent-encoded;
* "v1", RabbitMQ 3: ``/amq/queue/q``, ``/exchange/x/k``;
* "plain", all others: ``q``, ``x/k``.
"""

import re
from urllib.parse import quote

from gateway.operations import Peer

FORMS = ("v2", "v1", "plain")


def form_of(peer: Peer) -> str:
    """The form that this peer reads, judged by the product that its open names."""
    if peer.product == "RabbitMQ":
        major = re.match(r"[0-9]+", peer.product_version)
        return "v1" if major is None or int(major[0]) < 4 else "v2"
    return "v2" if peer.product == "amqp-gateway" else "plain"


def queue(form: str, name: str) -> str:
    """The address of a queue."""
    if form == "v2":
        return f"/queues/{quote(name, safe='')}"
    return f"/amq/queue/{name}" if form == "v1" else name


def exchange(form: str, name: str, key: str) -> str:
    """The address of an exchange with a routing key. The exchange "" is the one that has every
    queue bound by its name."""
    if not name:
        return queue(form, key)
    if form == "v2":
        head = f"/exchanges/{quote(name, safe='')}"
        return f"{head}/{quote(key, safe='')}" if key else head
    head = f"/exchange/{name}" if form == "v1" else name
    return f"{head}/{key}" if key else head
