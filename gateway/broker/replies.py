"""Direct reply-to, as RabbitMQ has it: answers without a declared queue.

A consumer of ``REPLY_TO`` gets a queue of its own that is not among the queues: only publishers to
the default exchange that know its name find it, and the name cannot be guessed. Requests published
over the same channel with that reply-to go out with the name instead.
"""

import secrets

from gateway.broker.answers import Answers
from gateway.broker.consumers import Consumer
from gateway.broker.deadletters import peek_properties, reencoded
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal
from gateway.message import Message

REPLY_TO = "amq.rabbitmq.reply-to"
OCTETS = REPLY_TO.encode()


class ReplyQueue(Queue):
    """A place for answers, which ends with its only consumer: also with that of a link
    which might be resumed."""

    __slots__ = ()

    def remove_consumer(self, consumer: Consumer, keep_queue: bool = False) -> None:
        super().remove_consumer(consumer)


def open_replies(
    vhost: VirtualHost, current: Queue | None, no_ack: bool, answers: Answers | None
) -> Queue:
    """A place for answers, which ends with its only consumer. Refuses (406) a second one. Raises
    ``AwaitsUpstream`` in a facade, whose upstream has a queue for them too."""
    if not no_ack:
        raise Refusal(Condition.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if current is not None and not current.gone:
        raise Refusal(Condition.PRECONDITION_FAILED, "reply consumer already set")
    name = vhost.reply_name(answers) or f"{REPLY_TO}.{secrets.token_urlsafe(24)}"
    queue = ReplyQueue(vhost, name, vhost.state.number(), auto_delete=True)
    vhost.replies[name] = queue
    return queue


def with_reply_to(message: Message, replies: Queue | None) -> Message:
    """The message with a reply-to that leads back, if it asks for one. Refuses (406) if no
    consumer waits for the answer."""
    properties = peek_properties(message)
    if properties.reply_to != REPLY_TO:
        return message
    if replies is None or replies.gone:
        raise Refusal(Condition.PRECONDITION_FAILED, "fast reply consumer does not exist")
    properties.reply_to = replies.name
    return reencoded(message, properties, message.exchange, message.key)
