"""All messages of a batch or none of them: looked at first, then published in one turn.

A transaction of the broker holds them back while everything that could refuse one of them is
asked: permissions, routes, and whether a queue that rejects would be full. Nothing else happens in
between, so what was found good is good at commit, and one turn is one batch of the store.
"""

from itertools import count

from gateway.broker.channel import Channel
from gateway.broker.client import Client
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.observe.trace import stamp
from gateway.http.problems import Problem, of_refusal
from gateway.http.recipient import NoRecipient
from gateway.message import Message

NUMBERS = count(1 << 16)
"""Of channels that live for one turn, beyond those of any peer."""

MOST_ATOMIC = 1000
"""Messages of an atomic batch, however many other batches may have: the loop does nothing else from
the first look at a queue to the commit."""


def open_transaction(client: Client) -> Channel:
    channel = client.channel(next(NUMBERS), NoRecipient())
    channel.transactions.select()
    return channel


def check_all(channel: Channel, messages: list[Message]) -> dict[int, Problem]:
    """Publish all into the transaction; what is wrong with which, empty if it can be committed."""
    wrong: dict[int, Problem] = {}
    added: dict[Queue, tuple[int, int]] = {}
    for index, message in enumerate(messages):
        try:
            stamp(message)
            channel.publish(message, True)
            problem = check_route(channel, message, added)
        except Refusal as refusal:
            problem = of_refusal(refusal)
        if problem is not None:
            wrong[index] = problem
    if wrong:
        channel.transactions.rollback()
    return wrong


def check_route(
    channel: Channel, message: Message, added: dict[Queue, tuple[int, int]]
) -> Problem | None:
    vhost = channel.vhost
    exchange = channel.publish_path.writable[message.exchange]
    queues = exchange.routes.get(message.key)
    if queues is None:
        queues = vhost.router.route(exchange, message)
    if not queues:
        if not message.exchange:
            return Problem(problems.NOT_FOUND, f"no queue {message.key!r}")
        return of_refusal(Refusal(Condition.NO_ROUTE, "NO_ROUTE"))
    for queue in queues:
        if not queue.refuses_when_full:
            continue
        messages, octets = added.get(queue, (0, 0))
        messages, octets = messages + 1, octets + len(message.body)
        added[queue] = messages, octets
        if queue.overflows(octets, messages):
            return Problem(problems.FULL, "a queue would be full and rejects new messages")
    return None
