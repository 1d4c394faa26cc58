"""How safe a published message is: the word that its receipt has for it.

``disk``: it is on disk in every queue that it was routed to, until a consumer settles it.
``memory``: on disk in none, so that it is gone if the gateway's process dies. ``mixed``: in some.
"""

from gateway.broker.posting import read_copies
from gateway.broker.vhost import VirtualHost
from gateway.message import Message

DISK, MIXED, MEMORY = "disk", "mixed", "memory"


def durability(vhost: VirtualHost, message: Message) -> str:
    """Within the turn in which the message was published. Hot."""
    essentials = message.essentials
    if not essentials.durable:
        return MEMORY
    exchange = vhost.exchanges.get(message.exchange)
    if exchange is None:
        return MEMORY
    queues = exchange.routes.get(message.key)
    if queues is None:
        queues = vhost.router.route(exchange, message)
    if essentials.has_headers and b"CC" in message.header:
        message, copies = read_copies(message)
        queues = vhost.router.route_copies(exchange, message, queues, copies)
    kept = [queue.keeps for queue in queues]
    if all(kept):
        return DISK if kept else MEMORY
    return MIXED if any(kept) else MEMORY
