"""RabbitMQ's own Python client of AMQP 1.0: management, publishers, consumers and their outcomes.

One JSON line per check. Arguments: host, port, checks (default: all). The client refuses a server
that does not call itself RabbitMQ 4.
"""

import contextlib
import json
import sys
import time
import traceback
import uuid

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AmqpMessageRejectedException,
    AMQPMessagingHandler,
    ArgumentOutOfRangeException,
    ClassicQueueSpecification,
    ConsumerOptions,
    ConsumerSettleStrategy,
    Converter,
    Environment,
    ExchangeSpecification,
    ExchangeToExchangeBindingSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    OutcomeState,
    RecoveryConfiguration,
    ValidationCodeException,
)
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

STATES = {
    OutcomeState.ACCEPTED: "accepted",
    OutcomeState.REJECTED: "rejected",
    OutcomeState.RELEASED: "released",
    OutcomeState.MODIFIED: "modified",
}
SECONDS = 10.0
THEIRS = (ArgumentOutOfRangeException, ValidationCodeException)
"""Which are no `Exception`s."""
queue_of, exchange_of = AddressHelper.queue_address, AddressHelper.exchange_address


class EnoughError(Exception):
    """How a handler leaves the client's endless loop."""


class Handler(AMQPMessagingHandler):
    """Does one thing after the other with what comes, and keeps what it saw."""

    def __init__(self, *actions):
        super().__init__()
        self.actions = list(actions)
        self.seen = []

    def on_amqp_message(self, event):
        message = event.message
        annotations = {str(key): value for key, value in (message.annotations or {}).items()}
        self.seen.append(
            {
                "body": Converter.bytes_to_string(message.body),
                "first": bool(message.first_acquirer),
                "annotations": {k: v for k, v in annotations.items() if k.startswith("x-opt-my")},
            }
        )
        self.actions.pop(0)(self.delivery_context, event)
        if not self.actions:
            raise EnoughError


def accept(context, event):
    context.accept(event)


def requeue(context, event):
    context.requeue(event)


def requeue_annotated(context, event):
    context.requeue_with_annotations(event, {"x-opt-my": "again"})


def discard(context, event):
    context.discard(event)


def discard_annotated(context, event):
    context.discard_with_annotations(event, {"x-opt-my": "gone"})


def nothing(context, event):
    pass


class Talk:
    """A connection, its management, and names that nobody else uses."""

    def __init__(self):
        host, port = sys.argv[1:3]
        recovery = RecoveryConfiguration(active_recovery=False)
        self.environment = Environment(
            f"amqp://guest:guest@{host}:{port}/", recovery_configuration=recovery
        )
        self.connection = self.environment.connection()
        self.connection.dial()
        self.management = self.connection.management()
        self.name = f"rabbit-{uuid.uuid4().hex[:12]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.environment.close()

    def queue(self, suffix="", **options):
        name = self.name + suffix
        self.management.declare_queue(ClassicQueueSpecification(name=name, **options))
        return name

    def exchange(self, suffix="", kind=ExchangeType.direct):
        name = self.name + suffix
        self.management.declare_exchange(ExchangeSpecification(name=name, exchange_type=kind))
        return name

    def publish(self, address, *bodies):
        publisher = self.connection.publisher(address)
        found = []
        for body in bodies:
            message = Message(body=Converter.string_to_bytes(body))
            try:
                found.append(STATES[publisher.publish(message).remote_state])
            except SendException as error:
                found.append(STATES[error.state])
            except AmqpMessageRejectedException:
                found.append("rejected")
        publisher.close()
        return found

    def count(self, queue, wanted):
        """Messages in it, once there are so many; deliveries are settled without an answer."""
        deadline = time.monotonic() + SECONDS
        while True:
            found = self.management.queue_info(queue).message_count
            if found == wanted or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


def consume(queue, *actions, options=None):
    """What a consumer on a connection of its own saw, one action per message."""
    handler = Handler(*actions)
    with Talk() as talk:
        consumer = talk.connection.consumer(
            queue_of(queue), message_handler=handler, consumer_options=options, credit=1
        )
        with contextlib.suppress(EnoughError):
            consumer.run()
        consumer.close()
    return handler.seen


# --- checks ---------------------------------------------------------------------------------------


def opens():
    with Talk() as talk:
        properties = talk.connection._conn.conn.remote_properties
        return {"product": str(properties["product"])}


def queues():
    with Talk() as talk:
        name = talk.queue(max_priority=10)
        talk.publish(queue_of(name), "a", "b", "c")
        info = talk.management.queue_info(name)
        purged = talk.management.purge_queue(name)
        left = talk.count(name, 0)
        talk.management.delete_queue(name)
        return {
            "name": info.name == name,
            "durable": info.is_durable,
            "exclusive": info.is_exclusive,
            "auto_delete": info.is_auto_delete,
            "type": info.queue_type.value,
            "priority": int(info.arguments["x-max-priority"]),
            "messages": info.message_count,
            "consumers": info.consumer_count,
            "purged": purged,
            "left": left,
        }


def refused(act):
    try:
        act()
    except ValidationCodeException as error:
        return str(error)
    return None


def refusals():
    with Talk() as talk:
        name = talk.queue()
        again = refused(lambda: talk.queue())
        other = refused(lambda: talk.queue(max_len=5))
        missing = refused(lambda: talk.management.queue_info(f"{name}-none"))
        reserved = refused(
            lambda: talk.management.declare_queue(ClassicQueueSpecification(name="amq.mine"))
        )
        alive = talk.management.queue_info(name).name == name
        talk.management.delete_queue(name)
        return [again, other, missing, reserved, alive]


def names():
    """Names are percent-encoded in addresses and paths."""
    with Talk() as talk:
        found = []
        for odd in ("with/slash", "with space", "per%cent", "semi;colon=", "grün"):
            name = talk.queue(odd)
            sent = talk.publish(queue_of(name), odd)
            (seen,) = consume(name, accept)
            exchange = talk.exchange(odd)
            binding = ExchangeToQueueBindingSpecification(exchange, name, odd)
            path = talk.management.bind(binding)
            sent += talk.publish(exchange_of(exchange, odd), odd)
            talk.management.unbind(path)
            sent += talk.publish(exchange_of(exchange, odd), odd)
            found.append([seen["body"] == odd, sent, talk.management.purge_queue(name)])
            talk.management.delete_queue(name)
            talk.management.delete_exchange(exchange)
        return found


def bindings():
    with Talk() as talk:
        queue = talk.queue()
        counts = {}
        keys = {"direct": "a.b", "topic": "a.*", "fanout": None}
        for kind, key in keys.items():
            exchange = talk.exchange(kind, ExchangeType(kind))
            binding = ExchangeToQueueBindingSpecification(exchange, queue, key)
            talk.management.bind(binding)
            sent = talk.publish(exchange_of(exchange, "a.b"), kind)
            talk.management.unbind(binding)
            sent += talk.publish(exchange_of(exchange, "a.b"), kind)
            counts[kind] = [sent, talk.management.purge_queue(queue)]
            talk.management.delete_exchange(exchange)
        first, second = talk.exchange("-first"), talk.exchange("-second")
        talk.management.bind(ExchangeToExchangeBindingSpecification(first, second, "k"))
        talk.management.bind(ExchangeToQueueBindingSpecification(second, queue, "k"))
        counts["chain"] = [talk.publish(exchange_of(first, "k"), "x"), talk.count(queue, 1)]
        for name in (first, second):
            talk.management.delete_exchange(name)
        talk.management.delete_queue(queue)
        return counts


def outcomes():
    """What publishers are told."""
    with Talk() as talk:
        queue = talk.queue(max_len=1, overflow_behaviour="reject-publish")
        exchange = talk.exchange()
        found = talk.publish(queue_of(queue), "fits", "one too many")
        found += talk.publish(exchange_of(exchange, "nowhere"), "lost")
        talk.management.delete_queue(queue)
        talk.management.delete_exchange(exchange)
        return found


def per_message():
    """The anonymous terminus: each message has its own address."""
    with Talk() as talk:
        queue = talk.queue()
        publisher = talk.connection.publisher()
        message = AddressHelper.message_to_address_helper(
            Message(body=Converter.string_to_bytes("to whom")), queue_of(queue)
        )
        state = STATES[publisher.publish(message).remote_state]
        publisher.close()
        (seen,) = consume(queue, accept)
        talk.management.delete_queue(queue)
        return [state, seen["body"]]


def consumers():
    with Talk() as talk:
        dead = talk.queue("-dead")
        queue = talk.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
        talk.publish(queue_of(queue), "a")
        seen = consume(queue, requeue, accept)
        left = talk.count(queue, 0)
        talk.publish(queue_of(queue), "b", "c")
        consume(queue, discard, accept)
        buried = [one["body"] for one in consume(dead, accept)]
        for name in (queue, dead):
            talk.management.delete_queue(name)
        return {
            "seen": [[one["body"], one["first"]] for one in seen],
            "left": left,
            "buried": buried,
        }


def annotated():
    """Outcome modified, with annotations."""
    with Talk() as talk:
        dead = talk.queue("-dead")
        queue = talk.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
        talk.publish(queue_of(queue), "a")
        again = consume(queue, requeue_annotated, discard_annotated)
        (buried,) = consume(dead, accept)
        for name in (queue, dead):
            talk.management.delete_queue(name)
        return [again[1]["annotations"], buried["annotations"]]


def settled():
    with Talk() as talk:
        queue = talk.queue()
        talk.publish(queue_of(queue), "a", "b")
        options = ConsumerOptions(settle_strategy=ConsumerSettleStrategy.PreSettled)
        seen = consume(queue, nothing, nothing, options=options)
        left = talk.count(queue, 0)
        talk.management.delete_queue(queue)
        return [[one["body"] for one in seen], left]


def direct_reply_to():
    """A volatile queue that the server names; replies go to its address."""
    with Talk() as asking, Talk() as answering:
        queue = asking.queue()
        handler = Handler(nothing)
        options = ConsumerOptions(settle_strategy=ConsumerSettleStrategy.DirectReplyTo)
        consumer = asking.connection.consumer(message_handler=handler, consumer_options=options)
        publisher = asking.connection.publisher(queue_of(queue))
        publisher.publish(Message(body=b"ask", reply_to=consumer.address, id="q-1"))
        replies = answering.connection.publisher()
        reply = Message(body=b"answer", address=consumer.address, correlation_id="q-1")
        state = STATES[replies.publish(reply).remote_state]
        with contextlib.suppress(EnoughError):
            consumer.run()
        publisher.close()
        asking.management.delete_queue(queue)
        prefix = consumer.address.startswith("/queues/amq.rabbitmq.reply-to.")
        return [state, [one["body"] for one in handler.seen], prefix]


CHECKS = {
    "opens": opens,
    "queues": queues,
    "refusals": refusals,
    "names": names,
    "bindings": bindings,
    "outcomes": outcomes,
    "per_message": per_message,
    "consumers": consumers,
    "annotated": annotated,
    "settled": settled,
    "direct_reply_to": direct_reply_to,
}


def main():
    for name in sys.argv[3:] or CHECKS:
        try:
            line = {"check": name, "got": CHECKS[name]()}
        except (Exception, *THEIRS) as error:
            where = traceback.format_exc()[-1500:]
            line = {"check": name, "error": repr(error), "where": where}
        print(json.dumps(line, default=str), flush=True)


if __name__ == "__main__":
    main()
