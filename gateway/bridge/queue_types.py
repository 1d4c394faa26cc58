"""Finding out the type of a queue at RabbitMQ, over versions that have no question for it."""

import re

from gateway.adapters.contract import Capability
from gateway.errors import Refusal
from gateway.message import Table
from gateway.net.dialer import Remote
from gateway.operations import BeginSession, DeclareQueue, FindQueue, FoundQueue

TYPE = "x-queue-type"
NO_TYPE = "?"
"""A type that no queue has, and that no queue can be made with."""
TOLD = re.compile(r"inequivalent arg '([\w-]+)' .* but current is (?:the value )?'(.*?)'(.*)", re.S)
WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
MOST_ARGUMENTS = 20


async def find_queue(remote: Remote, channel: int, operation: FindQueue) -> FoundQueue:
    """The type of a queue among its arguments, if it has one that the upstream tells. RabbitMQ
    refuses to declare a queue with another type than it has, and its text names that one; nothing
    is made, and the channel is lost."""
    found = FoundQueue(operation.name, 0, 0)
    linked = remote.adapter.capabilities & (Capability.LINKS | Capability.HANDLES)
    if linked or not remote.peer.product.startswith("RabbitMQ"):
        return found
    arguments: Table = {TYPE: NO_TYPE}
    while len(arguments) < MOST_ARGUMENTS:
        if remote.lost(channel):
            await remote.request(BeginSession(channel, None))
        asking = DeclareQueue(channel, None, operation.name, durable=True, arguments=arguments)
        try:
            await remote.request(asking)
        except Refusal as refusal:
            if remote.closed is not None:
                raise
            told = read_argument(refusal.text)
        else:
            break
        if told is None or (told[0] in arguments and told[0] != TYPE):
            break
        if told[0] == TYPE:
            found.arguments[TYPE] = told[1]
            break
        # Another argument was compared first: it is as it should be in the next question.
        arguments = {**arguments, told[0]: told[1]}
    return found


def read_argument(text: str) -> tuple[str, str | int | bool] | None:
    """The first argument in which a declaration differs from the queue, and its value there."""
    told = TOLD.search(text)
    if told is None:
        return None
    name, value, rest = told.groups()
    if "longstr" in rest or name == TYPE:
        return name, value
    if value in ("true", "false"):
        return name, value == "true"
    return (name, int(value)) if WHOLE.fullmatch(value) else None
