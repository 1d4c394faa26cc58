"""Finding out the type of a queue at RabbitMQ, over versions that have no question for it."""

import re

from gateway.adapters.contract import Capability
from gateway.errors import Refusal
from gateway.net.dialer import Remote
from gateway.operations import DeclareQueue, FindQueue, FoundQueue

NO_TYPE = "?"
"""A type that no queue has, and that no queue can be made with."""
ANSWER = re.compile(r"'x-queue-type'.* but current is (?:the value )?'(\w+)'")


async def find_queue(remote: Remote, channel: int, operation: FindQueue) -> FoundQueue:
    """The type of a queue among its arguments, if it has one that the upstream tells. RabbitMQ
    refuses to declare a queue with another type than it has, and its text names that one; nothing
    is made, and the channel is lost."""
    found = FoundQueue(operation.name, 0, 0)
    linked = remote.adapter.capabilities & (Capability.LINKS | Capability.HANDLES)
    if linked or not remote.peer.product.startswith("RabbitMQ"):
        return found
    arguments = {"x-queue-type": NO_TYPE}
    try:
        await remote.request(
            DeclareQueue(channel, None, operation.name, durable=True, arguments=arguments)
        )
    except Refusal as refusal:
        told = ANSWER.search(refusal.text)
        if told is not None:
            found.arguments["x-queue-type"] = told[1]
        elif remote.closed is not None:
            raise
    return found
