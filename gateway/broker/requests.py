"""What a channel asks of the topology, in the name of its user and with its permissions.

RabbitMQ's rules say which permission each request needs. Answers to permission questions are
remembered until an administrator changes something.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.broker.consumers import Window
from gateway.broker.exchanges import Binding, Destination, Exchange
from gateway.broker.names import check_key
from gateway.broker.posting import check_user
from gateway.broker.queues import Queue
from gateway.broker.replies import REPLY_TO
from gateway.broker.vhost import RESERVED, VirtualHost, not_found, reserved
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueueState,
    Unbind,
)

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.client import Client

MOST_REMEMBERED = 4096


class Requests(Window):
    """The part of a channel that changes topology. ``declared`` is the last queue it declared,
    which an empty name stands for; ``writable`` the exchanges it may publish to, by name."""

    __slots__ = ("client", "broker", "vhost", "allowed", "declared", "writable")

    def __init__(self, client: "Client") -> None:
        super().__init__()
        self.client = client
        self.broker: Broker = client.broker
        self.vhost: VirtualHost = client.vhost
        self.allowed: set[tuple[str, str]] = set()
        self.declared = ""
        self.writable: dict[str, Exchange] = {}

    def need(self, right: str, kind: str, name: str) -> None:
        """Refuse (403) unless the user has this right: "configure", "write" or "read"."""
        allowed = self.allowed
        if (right, name) in allowed:
            return
        user, vhost = self.client.user, self.vhost.name
        shown = name or "amq.default"
        if not self.broker.access.allows(user, vhost, right, shown):
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"access to {self.vhost.title(kind, shown)} refused for user '{user}'",
            )
        if len(allowed) >= MOST_REMEMBERED:
            allowed.clear()
        allowed.add((right, name))

    def forget_rights(self) -> None:
        """Ask again: users or permissions have changed."""
        self.allowed.clear()
        self.writable.clear()

    def named(self, queue: str) -> str:
        """The queue meant: an empty name is the one declared last on this channel."""
        if queue:
            return queue
        if not self.declared:
            condition, lost = self.client.rules.no_queue
            raise Refusal(condition, "no previously declared queue", lost)
        return self.declared

    # --- exchanges ------------------------------------------------------------------------------

    def declare_exchange(self, op: DeclareExchange) -> None:
        vhost = self.vhost
        self.refuse_default(op.name)
        if op.passive:
            vhost.exchange(op.name)
            return
        self.need("configure", "exchange", op.name)
        alternate = op.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and op.name not in vhost.exchanges:
            self.need("read", "exchange", op.name)
            self.need("write", "exchange", alternate)
        vhost.declare_exchange(op, self.client.rules)

    def delete_exchange(self, op: DeleteExchange) -> None:
        """Deleting what is not there succeeds as in RabbitMQ, unless rules want it there."""
        self.refuse_default(op.name)
        self.need("configure", "exchange", op.name)
        if op.name.startswith(RESERVED):
            raise reserved("exchange", op.name)
        found = self.vhost.exchanges.get(op.name)
        if found is None:
            if self.client.rules.must_exist:
                self.vhost.exchange(op.name)
            return
        if op.if_unused and found.used:
            what = self.vhost.title("exchange", op.name)
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} in use")
        self.vhost.remove_exchange(found)

    def refuse_default(self, name: str) -> None:
        if not name:
            raise Refusal(
                Condition.ACCESS_REFUSED, "operation not permitted on the default exchange"
            )

    # --- queues ---------------------------------------------------------------------------------

    def declare_queue(self, op: DeclareQueue) -> QueueState:
        """Make sure the queue exists as described, or (passive) that it exists."""
        if op.name.startswith(REPLY_TO):
            return self.declare_replies(op.name)
        queue = self.passive_queue(op) if op.passive else self.active_queue(op)
        queue.touch()
        self.declared = queue.name
        return QueueState(queue.name, queue.depth, len(queue.consumers))

    def passive_queue(self, op: DeclareQueue) -> Queue:
        return self.vhost.queue(self.named(op.name), self.client)

    def declare_replies(self, name: str) -> QueueState:
        """Whether somebody waits for direct replies there: declaring makes no such place."""
        if name != REPLY_TO and name not in self.vhost.replies:
            raise not_found(self.vhost.title("queue", name))
        self.declared = name
        return QueueState(name, 0, 1)

    def active_queue(self, op: DeclareQueue) -> Queue:
        vhost = self.vhost
        name = op.name or vhost.new_name(op.hint)
        self.need("configure", "queue", name)
        found = vhost.queues.get(name)
        if found is not None:
            vhost.check_same_queue(found, op, self.client, self.client.rules)
            return found
        if op.name.startswith(RESERVED):
            raise reserved("queue", name)
        letters = op.arguments.get("x-dead-letter-exchange")
        if isinstance(letters, str):
            self.need("read", "queue", name)
            self.need("write", "exchange", letters)
        template = self.broker.templates.get(op.template)
        if template is not None:
            op = replace(op, arguments={**template, **op.arguments})
        return vhost.make_queue(name, op, self.client)

    def delete_queue(self, op: DeleteQueue) -> int:
        """How many messages went with it. Deleting what is not there succeeds, unless rules want it
        there."""
        name = self.named(op.name)
        self.need("configure", "queue", name)
        if name not in self.vhost.queues and not self.client.rules.must_exist:
            return 0
        queue = self.vhost.queue(name, self.client)
        what = self.vhost.title("queue", name)
        if op.if_unused and queue.consumers:
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} in use")
        if op.if_empty and queue.depth:
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} not empty")
        return self.vhost.remove_queue(queue)

    def purge_queue(self, op: PurgeQueue) -> int:
        name = self.named(op.name)
        self.need("read", "queue", name)
        return self.vhost.queue(name, self.client).purge()

    # --- publishing -----------------------------------------------------------------------------

    def checked(self, message: Message) -> Exchange:
        """The exchange of a message, if this user may publish it there. Refuses with 403, 404 or
        406."""
        exchange = self.writable.get(message.exchange)
        if exchange is None:
            exchange = self.find_writable(message.exchange)
        if message.essentials.user_id is not None:
            check_user(self.broker.access, self.client.user, message.essentials.user_id)
        most = self.broker.limits.max_message
        if most is not None and len(message.body) > most:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f"message size {len(message.body)} is larger than configured max size {most}",
            )
        return exchange

    def find_writable(self, name: str) -> Exchange:
        """Refuses with 403 or 404."""
        self.need("write", "exchange", name)
        exchange = self.vhost.exchange(name)
        if exchange.internal:
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"cannot publish to internal {self.vhost.title('exchange', name)}",
            )
        self.writable[name] = exchange
        return exchange

    def routed(self, exchange: Exchange, message: Message) -> tuple[Queue, ...]:
        """The queues of a message that is published. Refuses a routing key that is too long; one
        whose route is remembered has been looked at."""
        check_key(message.key)
        return self.vhost.route(exchange, message)

    # --- bindings -------------------------------------------------------------------------------

    def bind(self, op: Bind) -> None:
        binding = self.binding(op, *self.ends(op))
        if op.lasting and binding.destination.durable and not binding.source.durable:
            what = f"'{binding.destination.name}' to '{op.source}'"
            text = f"cannot bind {what}: what is durable may not depend on what is transient"
            raise Refusal(Condition.PRECONDITION_FAILED, text)
        self.vhost.add_binding(binding)

    def unbind(self, op: Unbind) -> None:
        """Undoing what is not there succeeds, as in RabbitMQ: the binding, or either end. Unless
        rules want them there."""
        name, key = self.ends(op)
        strict = self.client.rules.must_exist
        there = self.vhost.exchanges if op.to_exchange else self.vhost.queues
        if strict or (name in there and op.source in self.vhost.exchanges):
            binding = self.binding(op, name, key)
            if strict and binding not in binding.source.bindings:
                raise not_found(f"binding of '{name}' to '{op.source}' by '{key}'")
            self.vhost.remove_binding(binding)

    def ends(self, op: Bind | Unbind) -> tuple[str, str]:
        """The destination and key that are meant; the user may connect the two ends."""
        key = op.key
        if op.to_exchange:
            name, kind = op.destination, "exchange"
            self.refuse_default(name)
        else:
            name, kind = self.named(op.destination), "queue"
            # No queue and no key: both are those of the queue declared last.
            key = key or ("" if op.destination else name)
        if op.to_exchange or not self.client.rules.bind_default:
            self.refuse_default(op.source)
        self.need("write", kind, name)
        self.need("read", "exchange", op.source)
        return name, key

    def binding(self, op: Bind | Unbind, name: str, key: str) -> Binding:
        vhost = self.vhost
        destination: Destination = (
            vhost.exchange(name) if op.to_exchange else vhost.queue(name, self.client)
        )
        return Binding(vhost.exchange(op.source), destination, key, op.arguments)
