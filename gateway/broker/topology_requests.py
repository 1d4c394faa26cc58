"""Requests of a channel to declare, bind and delete, performed with the permissions of its user."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from gateway.broker.answers import Answers
from gateway.broker.exchanges import Binding, Destination, Topic
from gateway.broker.limits import check_same_flags
from gateway.broker.permissions import PermissionCache
from gateway.broker.queues import Queue, QueueOwner
from gateway.broker.replies import REPLY_TO
from gateway.broker.vhost import RESERVED, VirtualHost, not_found, reserved
from gateway.errors import Condition, Refusal
from gateway.message import Table
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    FindBindings,
    FindExchange,
    FoundBindings,
    FoundExchange,
    PurgeQueue,
    QueueState,
    Unbind,
)
from gateway.operations.rules import VersionRules


class TopologyRequests:
    """``owner`` is the connection or session to which exclusive queues belong. ``declared`` is the
    last queue declared, which an empty name stands for; ``templates`` are arguments of queues by
    the name that a declaration may give for them."""

    __slots__ = ("owner", "vhost", "permissions", "rules", "templates", "declared", "answers")

    def __init__(
        self,
        owner: QueueOwner,
        vhost: VirtualHost,
        permissions: PermissionCache,
        rules: VersionRules,
        templates: Mapping[str, Table],
    ) -> None:
        self.owner = owner
        self.vhost = vhost
        self.permissions = permissions
        self.rules = rules
        self.templates = templates
        self.declared = ""
        self.answers: Answers | None = None
        """Those of an upstream to the operation at hand."""

    def named(self, queue: str) -> str:
        """The queue meant: an empty name is the one declared last on this channel."""
        if queue:
            return queue
        if not self.declared:
            condition, lost = self.rules.no_queue
            raise Refusal(condition, "no previously declared queue", lost)
        return self.declared

    # --- exchanges ------------------------------------------------------------------------------

    def declare_exchange(self, op: DeclareExchange) -> None:
        vhost = self.vhost
        self.refuse_default(op.name)
        if op.passive:
            there = vhost.exchange(op.name)
            if self.rules.passive_type and op.type:
                what = vhost.title("exchange", op.name)
                check_same_flags(what, (("type", op.type, there.type),), *self.rules.other_type)
            return
        self.permissions.need("configure", "exchange", op.name)
        alternate = op.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and op.name not in vhost.exchanges:
            self.permissions.need("read", "exchange", op.name)
            self.permissions.need("write", "exchange", alternate)
        vhost.declare_exchange(op, self.rules)

    def delete_exchange(self, op: DeleteExchange) -> None:
        """Deleting an unknown exchange succeeds as in RabbitMQ, unless the version's rules require
        it to exist."""
        self.refuse_default(op.name)
        self.permissions.need("configure", "exchange", op.name)
        if op.name.startswith(RESERVED):
            raise reserved("exchange", op.name)
        found = self.vhost.exchanges.get(op.name)
        if found is None:
            if self.rules.must_exist:
                self.vhost.exchange(op.name)
            return
        if op.if_unused and found.used:
            what = self.vhost.title("exchange", op.name)
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} in use")
        self.vhost.hurry(op.name)
        if self.rules.alternates_exist and self.vhost.is_alternate(op.name):
            what = self.vhost.title("exchange", op.name)
            raise Refusal(Condition.NOT_ALLOWED, f"{what} in use as an alternate exchange")
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
        queue.lifetime.touch()
        self.declared = queue.name
        return QueueState(queue.name, queue.depth, len(queue.consumers))

    def passive_queue(self, op: DeclareQueue) -> Queue:
        if not self.rules.session_exclusive:
            return self.vhost.queue(self.named(op.name), self.owner)
        found = self.vhost.queue(self.named(op.name))
        if op.exclusive and found.owner is not self.owner and not found.durable:
            raise self.vhost.locked(found.name)
        return found

    def declare_replies(self, name: str) -> QueueState:
        """Declare a queue for direct replies passively: only consuming from it makes one."""
        if name != REPLY_TO and name not in self.vhost.replies:
            raise not_found(self.vhost.title("queue", name))
        self.declared = name
        return QueueState(name, 0, 1)

    def active_queue(self, op: DeclareQueue) -> Queue:
        vhost = self.vhost
        lasts = op.durable and not (op.auto_delete and "x-auto-delete-timeout" not in op.arguments)
        if op.exclusive and lasts and self.rules.lasting_exclusive:
            op = replace(op, exclusive=False)
        name = op.name or vhost.new_name(op.hint)
        self.permissions.need("configure", "queue", name)
        found = vhost.queues.get(name)
        if found is not None:
            # Only a durable one is kept in the store, and belongs to nobody.
            free = found.owner is None and not found.consumers and not found.durable
            taken = op.exclusive and free and self.rules.session_exclusive
            if taken:
                op = replace(op, exclusive=False)
            vhost.check_same_queue(found, op, self.owner, self.rules)
            if taken:
                vhost.own(found, self.owner)
            return found
        if op.name.startswith(RESERVED):
            raise reserved("queue", name)
        letters = op.arguments.get("x-dead-letter-exchange")
        if isinstance(letters, str):
            self.permissions.need("read", "queue", name)
            self.permissions.need("write", "exchange", letters)
        template = self.templates.get(op.template)
        if template is not None:
            op = replace(op, arguments={**template, **op.arguments})
        return vhost.make_queue(name, op, self.owner, self.rules)

    def delete_queue(self, op: DeleteQueue) -> int:
        """The number of messages deleted with the queue. Deleting an unknown queue succeeds, unless
        the version's rules require it to exist."""
        name = self.named(op.name)
        self.permissions.need("configure", "queue", name)
        if name not in self.vhost.queues and not self.rules.must_exist:
            return 0
        queue = self.vhost.queue(name, self.owner)
        what = self.vhost.title("queue", name)
        if op.if_unused and queue.consumers:
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} in use")
        if op.if_empty and queue.depth:
            raise Refusal(Condition.PRECONDITION_FAILED, f"{what} not empty")
        return self.vhost.remove_queue(queue)

    def purge_queue(self, op: PurgeQueue) -> int:
        name = self.named(op.name)
        self.permissions.need("read", "queue", name)
        return self.vhost.queue(name, self.owner).purge()

    # --- bindings -------------------------------------------------------------------------------

    def bind(self, op: Bind) -> None:
        binding = self.binding(op, *self.ends(op))
        if op.lasting and binding.destination.durable and not binding.source.durable:
            what = f"'{binding.destination.name}' to '{op.source}'"
            text = f"cannot bind {what}: what is durable may not depend on what is transient"
            raise Refusal(Condition.PRECONDITION_FAILED, text)
        if not (self.rules.bound_by_key and self.same_key(binding)):
            self.vhost.add_binding(binding)

    def unbind(self, op: Unbind) -> None:
        """Succeeds, as in RabbitMQ, if the binding or either of its ends does not exist, unless the
        version's rules require them to."""
        name, key = self.ends(op)
        strict = self.rules.must_exist
        there = self.vhost.exchanges if op.to_exchange else self.vhost.queues
        if strict or (name in there and op.source in self.vhost.exchanges):
            binding = self.binding(op, name, key)
            found = self.same_key(binding) if self.rules.bound_by_key else [binding]
            if strict and not any(each in binding.source.bindings for each in found):
                raise not_found(f"binding of '{name}' to '{op.source}' by '{key}'")
            for each in found:
                self.vhost.remove_binding(each)

    def same_key(self, binding: Binding) -> list[Binding]:
        """The bindings between the same ends with the same key."""
        return self.vhost.bindings_by(binding.source, binding.destination, binding.key)

    def find_exchange(self, op: FindExchange) -> FoundExchange | None:
        """An exchange by its name; it needs no permission, as a passive declaration does not."""
        found = self.vhost.exchanges.get(op.name)
        if found is None:
            return None
        return FoundExchange(found.name, found.type, found.durable, found.arguments)

    def find_bindings(self, op: FindBindings) -> FoundBindings:
        """Answer a question about names and bindings; it needs no permission, as a passive
        declaration does not."""
        vhost = self.vhost
        exchange = vhost.exchanges.get(op.exchange)
        queue = None if op.queue is None else vhost.queues.get(op.queue)
        if not op.exchange:
            return self.find_default_bindings(op, queue)
        found = FoundBindings(
            op.queue,
            key=op.key,
            exchange_not_found=exchange is None,
            queue_not_found=op.queue is not None and queue is None,
        )
        if exchange is None or found.queue_not_found:
            return found
        found.bindings = bool(exchange.bindings)
        ways: Collection[Binding] = exchange.bindings
        if queue is not None:
            own = [way for way in vhost.bindings_to(queue) if way.source is exchange]
            found.queue_not_matched = not own
            ways = own or ways  # key and arguments are found apart from a queue that is not bound
        if op.key is not None:
            found.key_not_matched = all(way.key != op.key for way in ways)
        if op.arguments is not None:
            found.arguments_not_matched = all(way.arguments != op.arguments for way in ways)
        if op.key is not None and op.arguments is not None:
            # Both have to be those of one binding.
            both = any(way.key == op.key and way.arguments == op.arguments for way in ways)
            found.arguments_not_matched = not both
        return found

    def find_default_bindings(self, op: FindBindings, queue: Queue | None) -> FoundBindings:
        """Each queue is bound to the default exchange, by its name and without arguments."""
        queues = self.vhost.queues
        key_found = op.key is None or (op.key in queues if op.queue is None else op.key == op.queue)
        return FoundBindings(
            op.queue,
            queue_not_found=op.queue is not None and queue is None,
            key_not_matched=not key_found,
            arguments_not_matched=bool(op.arguments),
            bindings=bool(queues),
        )

    def ends(self, op: Bind | Unbind) -> tuple[str, str]:
        """The names of destination and key, defaults filled in. Refuses (403) unless the user may
        connect the two ends."""
        key = op.key
        if op.to_exchange:
            name, kind = op.destination, "exchange"
            self.refuse_default(name)
        else:
            name, kind = self.named(op.destination), "queue"
            # No queue and no key: both are those of the queue declared last.
            key = key or ("" if op.destination else name)
        if op.to_exchange or not self.rules.bind_default:
            self.refuse_default(op.source)
        self.permissions.need("write", kind, name)
        self.permissions.need("read", "exchange", op.source)
        source = self.vhost.exchanges.get(op.source)
        if source is not None and source.type == Topic.type:
            self.permissions.need_topic("read", op.source, key)
        return name, key

    def binding(self, op: Bind | Unbind, name: str, key: str) -> Binding:
        vhost = self.vhost
        destination: Destination = (
            vhost.exchange(name) if op.to_exchange else vhost.queue(name, self.owner)
        )
        return Binding(vhost.exchange(op.source), destination, key, op.arguments)
