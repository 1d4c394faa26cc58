"""A virtual host: its exchanges, queues and bindings, and the way of a message through them.

Nothing here asks for permissions; ``channel`` does, in the name of its user.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from gateway.broker.answers import Answers
from gateway.broker.counters import Totals
from gateway.broker.exchange_types import exchange_type
from gateway.broker.exchanges import (
    Binding,
    Destination,
    Direct,
    Exchange,
    Fanout,
    HeadersExchange,
    Topic,
)
from gateway.broker.handover import KIND, Handover
from gateway.broker.keyed import queue_kind
from gateway.broker.limits import (
    EXCHANGE_ARGUMENTS,
    QUEUE_ARGUMENTS,
    check_names,
    check_same_alternate,
    check_same_arguments,
    check_same_flags,
    read_queue_arguments,
)
from gateway.broker.long_operations import unanswered
from gateway.broker.names import check_name, title
from gateway.broker.outbound import Outbound
from gateway.broker.plain import write_plain
from gateway.broker.policies import KINDS as POLICY_KINDS
from gateway.broker.policies import Policies
from gateway.broker.queues import Queue, QueueOwner
from gateway.broker.recorder import recorder_of
from gateway.broker.routing import DeadLetterRouter, DiscardQueue, Router
from gateway.broker.state import BrokerState
from gateway.broker.unsupported import check_type, without_effect
from gateway.errors import Condition, Refusal
from gateway.operations import DeclareExchange, DeclareQueue
from gateway.operations.rules import RABBITMQ, VersionRules

PREDECLARED: tuple[tuple[str, type[Exchange]], ...] = (
    ("", Direct),
    ("amq.direct", Direct),
    ("amq.fanout", Fanout),
    ("amq.topic", Topic),
    ("amq.headers", HeadersExchange),
    ("amq.match", HeadersExchange),
)
RESERVED = "amq."
PORTION = 256
"""Queues or bindings taken apart in one turn of the loop, some 10 microseconds each."""


def not_found(what: str) -> Refusal:
    return Refusal(Condition.NOT_FOUND, f"no {what}")


def reserved(kind: str, name: str) -> Refusal:
    return Refusal(
        Condition.ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'"
    )


class Attached(Protocol):
    """A connection that uses the virtual host."""

    channels: Any
    """Those that are open, by number."""

    def close(self) -> None: ...

    def forget_rights(self) -> None: ...

    def forget_exchange(self, name: str) -> None: ...


Way = tuple[Exchange, Destination, str]
"""Source, destination and key of bindings."""


class VirtualHost:
    """One name space. ``clients`` are those attached to it; ``replies`` are the queues for
    direct replies. ``routers`` counts bindings between exchanges and alternates, which make the
    routes of one exchange depend on another."""

    outbound: Outbound | None = None
    """Where messages go that are published in a facade; otherwise they are routed here."""
    blocked: str | None = None
    """Why the upstream of a facade holds its publishers back."""

    def __init__(self, name: str, state: BrokerState) -> None:
        self.name = name
        self.state = state
        self.store = state.store
        self.recorder = recorder_of(state.journal, name)
        self.queues: dict[str, Queue] = {}
        self.replies: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {name: kind(name) for name, kind in PREDECLARED}
        self.router = Router(state, self.queues, self.replies, self.exchanges, DiscardQueue(self))
        self.dead_letters = DeadLetterRouter(name, self.router, state)
        self.policies = Policies(self)
        self.clients: dict[Attached, None] = {}
        self.routers = 0
        self.bindings = 0
        self.incoming: dict[Destination, dict[Binding, None]] = {}
        self.qualified: dict[Way, dict[Binding, None]] = {}
        """The bindings that have arguments, by source, destination and key."""
        self.forgotten = False
        """It is deleted, and the store has forgotten its topology."""
        self.handovers: dict[Handover, str] = {}
        """Deleted queues whose messages go to a dead letter exchange, and its name."""
        self.unrouted = 0
        self.past = Totals()

    def title(self, kind: str, name: str) -> str:
        """How RabbitMQ names a thing in its texts."""
        return title(kind, name, self.name)

    # --- exchanges ------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """Refuses with 404."""
        found = self.exchanges.get(name)
        if found is None:
            raise not_found(self.title("exchange", name))
        return found

    def declare_exchange(self, op: DeclareExchange, rules: VersionRules = RABBITMQ) -> Exchange:
        """Make sure that it exists as described (not for passive declarations)."""
        kind = exchange_type(op.type, rules)
        what = self.title("exchange", op.name)
        found = self.exchanges.get(op.name)
        if found is not None:
            check_same_flags(what, (("type", op.type, found.type),), *rules.other_type)
            flags = (
                ("durable", op.durable, found.durable),
                ("auto_delete", op.auto_delete, found.auto_delete),
                ("internal", op.internal, found.internal),
            )
            check_same_flags(what, flags if rules.same_flags else ())
            if rules.same_arguments:
                check_same_arguments(EXCHANGE_ARGUMENTS, op.arguments, found.arguments, what)
            else:
                check_same_alternate("alternate-exchange", op.arguments, found.arguments, what)
            return found
        if op.name.startswith(RESERVED) or not op.name:
            raise reserved("exchange", op.name)
        check_name("name of the exchange", op.name)
        alternate = op.arguments.get("alternate-exchange", "")
        if not isinstance(alternate, str):
            raise Refusal(
                Condition.PRECONDITION_FAILED, f"invalid arg 'alternate-exchange' for {what}"
            )
        check_name("name of the alternate exchange", alternate)
        if rules.alternates_exist and alternate:
            self.exchange(alternate)
        self.check_room("exchanges", len(self.exchanges), self.state.limits.max_exchanges)
        made = kind(
            op.name,
            durable=op.durable,
            auto_delete=op.auto_delete,
            internal=op.internal,
            arguments=op.arguments,
        )
        self.enter_exchange(made)
        if made.durable:
            self.store.save("exchange", (self.name, made.name), exchange_record(made))
        return made

    def is_alternate(self, name: str) -> bool:
        """Whether this is the alternate or dead-letter exchange of another node."""
        return (
            any(each.alternate == name for each in self.exchanges.values())
            or any(queue.limits.dead_letter_exchange == name for queue in self.queues.values())
            or any(to == name and each.ready for each, to in self.handovers.items())
        )

    def hurry(self, name: str) -> None:
        """Hand over messages of deleted queues to this exchange, as many as fit a turn."""
        for handover, to in list(self.handovers.items()):
            if to == name:
                handover.work(self.dead_letters.busy)

    def enter_exchange(self, exchange: Exchange) -> None:
        if self.policies:
            self.policies.apply_to_exchange(exchange)
        self.exchanges[exchange.name] = exchange
        self.routers += exchange.alternate is not None
        if self.routers:
            # It may be the alternate that others have named before it existed.
            self.forget_all_routes()

    def remove_exchange(self, exchange: Exchange) -> None:
        """Delete, with its bindings in both directions."""
        if exchange.gone:
            return
        exchange.gone = True
        del self.exchanges[exchange.name]
        if exchange.durable and not self.forgotten:
            self.store.forget("exchange", (self.name, exchange.name))
        self.unbind_all(exchange.bindings)
        self.unbind_all(self.bindings_to(exchange))
        if self.routers:
            self.forget_all_routes()
        self.routers -= exchange.alternate is not None
        for client in self.clients:
            client.forget_exchange(exchange.name)

    # --- queues ---------------------------------------------------------------------------------

    def queue(self, name: str, client: object = None) -> Queue:
        """Refuses with 404, or 405 if it is another's (checked if ``client`` is given)."""
        found = self.queues.get(name)
        if found is None:
            raise not_found(self.title("queue", name))
        if client is not None and found.owner is not None and found.owner is not client:
            raise self.locked(name)
        return found

    def locked(self, name: str) -> Refusal:
        return Refusal(
            Condition.RESOURCE_LOCKED,
            f"cannot obtain exclusive access to locked {self.title('queue', name)}. It could be "
            "originally declared on another connection or the exclusive property value does not "
            "match that of the original declaration.",
        )

    def new_name(self, hint: str = "") -> str:
        """An unused name: amq.gen- and 22 characters, and the hint."""
        while True:
            token = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
            name = f"amq.gen-{token}{hint}"
            if name not in self.queues:
                return name

    def check_same_queue(
        self, found: Queue, op: DeclareQueue, client: object, rules: VersionRules = RABBITMQ
    ) -> None:
        """Refuse a declaration that differs from the queue there is."""
        if found.owner is not None and found.owner is not client:
            raise self.locked(found.name)
        what = self.title("queue", found.name)
        flags = (
            ("durable", op.durable, found.durable),
            ("auto_delete", op.auto_delete, found.auto_delete),
        )
        check_same_flags(what, flags if rules.same_flags else ())
        if op.exclusive != (found.owner is not None) and (op.exclusive or rules.same_arguments):
            raise self.locked(found.name)
        if rules.same_arguments:
            check_same_arguments(QUEUE_ARGUMENTS, op.arguments, found.arguments, what)
        else:
            check_same_alternate("x-dead-letter-exchange", op.arguments, found.arguments, what)

    def make_queue(
        self, name: str, op: DeclareQueue, owner: QueueOwner, rules: VersionRules = RABBITMQ
    ) -> Queue:
        check_name("name of the queue", name)
        limits = read_queue_arguments(op.arguments, self.title("queue", name))
        check_names(limits, self.title("queue", name))
        if rules.alternates_exist and limits.dead_letter_exchange:
            self.exchange(limits.dead_letter_exchange)
        check_type(op, self.title("queue", name))
        self.check_room("queues", len(self.queues), self.state.limits.max_queues)
        queue = queue_kind(limits)(
            self,
            name,
            self.state.number(),
            durable=op.durable,
            owner=owner if op.exclusive else None,
            auto_delete=op.auto_delete,
            arguments=op.arguments,
            limits=limits,
            levels=op.levels,
        )
        if op.exclusive:
            self.own(queue, owner)
        self.policies.begin_with(queue)
        self.enter_queue(queue)
        self.save_queue(queue)
        for text in without_effect(op.arguments):
            self.state.warn(f"{self.title('queue', name)}: {text}")
        return queue

    def own(self, queue: Queue, owner: QueueOwner) -> None:
        """An exclusive queue has an owner."""
        queue.owner, queue.lifetime.abandoned = owner, False
        owner.exclusive[queue] = None

    def enter_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self.router.default.routes.pop(queue.name, None)

    def save_queue(self, queue: Queue) -> None:
        if queue.durable and queue.owner is None:
            self.store.save("queue", (self.name, queue.name), queue_record(queue))

    def remove_queue(self, queue: Queue) -> int:
        """Delete with its bindings, tell its consumers; how many messages went with it."""
        if queue.gone:
            return 0
        self.leave_out(queue)
        return self.take_apart(queue)

    def remove_queues(self, queues: list[Queue]) -> None:
        """Delete queues without an answer to a client. They cannot be found any more, and many are
        taken apart in portions."""
        if len(queues) <= PORTION:
            for queue in queues:
                self.remove_queue(queue)
            return
        for queue in queues:
            self.leave_out(queue)
            for binding in self.bindings_to(queue):
                if not binding.severed and not binding.durable:
                    self.sever(binding)
        self.forget_all_routes()
        self.state.long_operations.begin(self.taking_apart(queues), unanswered, atomic=False)

    def leave_out(self, queue: Queue) -> None:
        """It cannot be found any more, and there may be another of its name."""
        queue.gone = True
        if queue.owner is not None:
            queue.owner.exclusive.pop(queue, None)
        if self.queues.pop(queue.name, None) is None:
            del self.replies[queue.name]
        self.router.default.routes.pop(queue.name, None)
        if queue.durable and queue.owner is None and not self.forgotten:
            self.store.forget("queue", (self.name, queue.name))
        limits = queue.limits
        if limits.dead_letter_on_delete and not self.forgotten and (queue.depth or queue.unsettled):
            self.hand_over(queue)
            if queue.keeps:
                key = self.name, str(queue.backlog.lanes[0].number)
                self.store.save(KIND, key, {**queue_record(queue), "name": queue.name})

    def hand_over(self, queue: Queue) -> None:
        """The rest of a deleted queue goes to its dead letter exchange, from ``on_due`` on."""
        key = self.name, str(queue.backlog.lanes[0].number)
        Handover(queue, key, self.handovers, queue.limits.dead_letter_exchange or "")

    @property
    def leaving(self) -> list[Queue]:
        """Deleted queues that still have messages for their dead letter exchanges."""
        return [each.queue for each in self.handovers if isinstance(each.queue, Queue)]

    def taking_apart(self, queues: list[Queue]) -> Iterator[None]:
        """A long operation."""
        while queues:
            for _ in range(min(PORTION, len(queues))):
                self.take_apart(queues.pop())
            yield

    def take_apart(self, queue: Queue) -> int:
        """Remove the messages, bindings and consumers of a queue that was left out; the number of
        messages."""
        count = queue.depth
        if queue.handover is None:
            queue.purge()
        else:
            queue.acked += count  # they count from now on, as all else that it did
        self.unbind_all(self.bindings_to(queue))
        for consumer in list(queue.consumers):
            consumer.stop()
            consumer.window.consumers.pop(consumer.tag, None)
            consumer.cancelled(consumer.tag)
        queue.consumers.clear()
        for watcher in list(queue.watchers):
            watcher.queue_gone()
        queue.watchers.clear()
        for sender in list(queue.senders):
            sender.queue_gone()
        queue.senders.clear()
        self.past = self.past.plus(queue_totals(queue))
        if queue.handover is not None:
            if queue.unsettled:
                self.state.schedule(queue, self.state.now)  # in this turn some may come back before
            else:
                queue.on_due()
        return count

    def check_room(self, what: str, have: int, most: int | None) -> None:
        if most is not None and have >= most:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f"cannot have more than {most} {what} in vhost '{self.name}'",
            )

    # --- bindings -------------------------------------------------------------------------------

    def bindings_to(self, destination: Destination) -> Mapping[Binding, None]:
        """Those that lead to a queue or an exchange."""
        return self.incoming.get(destination, {})

    def bindings_by(self, source: Exchange, destination: Destination, key: str) -> list[Binding]:
        """Those between two ends with this key, whatever their arguments."""
        found = list(self.qualified.get((source, destination, key), ()))
        plain = Binding(source, destination, key, {})
        return [plain, *found] if plain in source.bindings else found

    def add_binding(self, binding: Binding, save: bool = True) -> None:
        """Bind; nothing happens if it is bound so already."""
        if binding in binding.source.bindings:
            return
        if save:
            check_name("key of the binding", binding.key)
        self.check_room("bindings", self.bindings, self.state.limits.max_bindings)
        binding.source.add(binding)
        self.bindings += 1
        self.incoming.setdefault(binding.destination, {})[binding] = None
        if binding.arguments:
            way = binding.source, binding.destination, binding.key
            self.qualified.setdefault(way, {})[binding] = None
        self.routers += binding.to_exchange
        self.forget_routes(binding.source, binding.key)
        if save and binding.durable:
            arguments = write_plain(binding.arguments)
            self.store.save("binding", binding.record_key(self.name), {"arguments": arguments})

    def remove_binding(self, binding: Binding) -> None:
        """Unbind; nothing happens if it is not bound so. An exchange that was made to live as
        long as its bindings goes with the last."""
        if binding not in binding.source.bindings:
            return
        if not binding.severed:
            self.bindings -= 1
            if binding.durable and not self.forgotten:
                self.store.forget("binding", binding.record_key(self.name))
        self.unlink(binding)
        if binding.to_exchange:
            self.forget_all_routes()
        else:
            self.forget_routes(binding.source, binding.key)

    def unlink(self, binding: Binding) -> None:
        """Take it out of both of its ends, if it is there."""
        source = binding.source
        if binding not in source.bindings:
            return
        source.remove(binding)
        self.routers -= binding.to_exchange
        incoming = self.incoming[binding.destination]
        incoming.pop(binding, None)
        if not incoming:
            del self.incoming[binding.destination]
        if binding.arguments:
            way = source, binding.destination, binding.key
            others = self.qualified[way]
            del others[binding]
            if not others:
                del self.qualified[way]
        if source.auto_delete and not source.bindings:
            self.remove_exchange(source)

    def unbind_all(self, bindings: Iterable[Binding]) -> None:
        """Remove the bindings of an end that is gone. Nobody goes by them any more; if there are
        many, their records are forgotten together, and they are taken apart in portions."""
        left = list(bindings)
        if len(left) <= PORTION:
            for binding in left:
                self.remove_binding(binding)
            return
        sources: dict[Exchange, Binding] = {}
        for binding in left:
            if not binding.severed:
                self.sever(binding)
                sources.setdefault(binding.source, binding)
        for source, one in sources.items():
            source.routes.clear()
            # Those of one source have one destination, unless it is the source that is gone.
            key = one.record_key(self.name)
            durable = source.durable if source.gone else one.durable
            if durable and not self.forgotten:
                self.store.forget_under("binding", key[:2] if source.gone else key[:4])
        if self.routers:
            self.forget_all_routes()
        self.state.long_operations.begin(self.unlinking(left), unanswered, atomic=False)

    def sever(self, binding: Binding) -> None:
        """One of its ends is gone, and it will be taken apart."""
        binding.severed = True
        self.bindings -= 1

    def unlinking(self, bindings: list[Binding]) -> Iterator[None]:
        """A long operation."""
        while bindings:
            for _ in range(min(PORTION, len(bindings))):
                self.unlink(bindings.pop())
            yield

    # --- the end --------------------------------------------------------------------------------

    def forget(self) -> None:
        """It is deleted: the store forgets its topology. Its messages belong to no queue then,
        whenever they are removed."""
        self.forgotten = True
        self.store.forget("vhost", (self.name,))
        for kind in ("queue", "exchange", "binding", KIND, *POLICY_KINDS):
            self.store.forget_under(kind, (self.name,))
        for handover in list(self.handovers):
            handover.end()

    def emptying(self) -> Iterator[None]:
        """A long operation: take out the contents of a deleted virtual host."""
        for count, queue in enumerate(list(self.queues.values()), 1):
            self.remove_queue(queue)
            if count % PORTION == 0:
                yield
        for count, exchange in enumerate(list(self.exchanges.values()), 1):
            if exchange.name and not exchange.name.startswith("amq."):
                self.remove_exchange(exchange)
            if count % PORTION == 0:
                yield

    # --- routes ---------------------------------------------------------------------------------

    def forget_routes(self, exchange: Exchange, key: str) -> None:
        """The bindings of an exchange have changed."""
        if self.routers:
            self.forget_all_routes()
        elif isinstance(exchange, Direct):
            exchange.routes.pop(key, None)
        else:
            exchange.routes.clear()

    def forget_all_routes(self) -> None:
        for exchange in self.exchanges.values():
            exchange.routes.clear()

    def reply_name(self, answers: Answers | None) -> str:
        """The name for a new place for direct replies; "" for any."""
        return ""

    def is_reply(self, name: str) -> bool:
        """Whether a name of a queue is that of a place for direct replies."""
        return name in self.replies

    def totals(self) -> Totals:
        totals = self.past.plus(Totals(unrouted=self.unrouted))
        for queue in (*self.queues.values(), *self.replies.values()):
            totals = totals.plus(queue_totals(queue))
        return totals


def queue_totals(queue: Queue) -> Totals:
    passed = queue.passed
    return Totals(
        queue.published + passed, queue.delivered + passed, queue.acked + passed, queue.redelivered
    )


def exchange_record(exchange: Exchange) -> dict[str, Any]:
    return {
        "type": exchange.type,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": write_plain(exchange.arguments),
    }


def queue_record(queue: Queue) -> dict[str, Any]:
    record = {
        "lanes": {str(lane.priority): lane.number for lane in queue.backlog.lanes},
        "auto_delete": queue.auto_delete,
        "arguments": write_plain(queue.arguments),
    }
    return record | {"levels": queue.backlog.levels} if queue.backlog.levels else record
