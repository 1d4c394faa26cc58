"""Routes of messages through exchanges into queues, and from queues to dead letter exchanges."""

from collections import deque
from collections.abc import Iterable, Mapping

from gateway.broker.deadletters import (
    dead_message,
    deaths_of,
    header_keys,
    is_cycle,
    peek_properties,
)
from gateway.broker.exchanges import Exchange, Step
from gateway.broker.handover import DELETED
from gateway.broker.limits import DEAD_LETTER_COST
from gateway.broker.names import title
from gateway.broker.queues import TAKEN, Queue, QueueHost
from gateway.broker.state import BrokerState
from gateway.message import Message
from gateway.selector import EFFORT


class DiscardQueue(Queue):
    """The queue in which an exchange loses messages: like any other to its publishers; it has no
    name and keeps nothing."""

    __slots__ = ()

    def __init__(self, vhost: QueueHost) -> None:
        super().__init__(vhost, "", 0)

    def put(self, message: Message, origin: object = None) -> int:
        return TAKEN

    def could_deliver(self, message: Message, origin: object) -> bool:
        return True


class Router:
    """Leads messages through exchanges into queues. ``default`` is the exchange without a name,
    which leads to every queue by the queue's name, and to ``replies``: the queues for direct
    replies. ``discard`` is the queue in which an exchange loses messages."""

    def __init__(
        self,
        state: BrokerState,
        queues: Mapping[str, Queue],
        replies: Mapping[str, Queue],
        exchanges: Mapping[str, Exchange],
        discard: DiscardQueue,
    ) -> None:
        self.state = state
        self.queues = queues
        self.replies = replies
        self.exchanges = exchanges
        self.default = exchanges[""]
        self.discard = discard

    def route(self, exchange: Exchange, message: Message) -> tuple[Queue, ...]:
        """The queues a message goes to, each once; remembered where the key alone decides."""
        key = message.key
        if exchange is self.default:
            queue = self.queues.get(key) or self.replies.get(key)
            if not exchange.bindings:
                if queue is None:
                    return ()
                self.remember(exchange, key, (queue,))
                return (queue,)
        else:
            queue = None
        found, by_key = self.walk(exchange, message)
        if queue is not None and queue not in found:
            found = (queue, *found)
        if by_key and (found or exchange is not self.default):
            self.remember(exchange, key, found)
        return found

    def remember(self, exchange: Exchange, key: str, found: tuple[Queue, ...]) -> None:
        routes = exchange.routes
        if len(routes) >= self.state.limits.max_route_cache:
            routes.clear()
        routes[key] = found

    def walk(self, exchange: Exchange, message: Message) -> tuple[tuple[Queue, ...], bool]:
        """Follow bindings and alternates from an exchange; exchanges are visited once."""
        EFFORT.fill()
        queues: dict[Queue, None] = {}
        visited = {exchange}
        ahead = [exchange]
        by_key = True
        while ahead:
            here = ahead.pop()
            by_key = by_key and here.by_key
            found: list[Step] = [to for to in here.leads(message) if to is None or not to.gone]
            if not found and here.alternate is not None:
                alternate = self.exchanges.get(here.alternate)
                if alternate is not None:
                    found.append(alternate)
            for destination in found:
                if destination is None:
                    queues[self.discard] = None
                elif isinstance(destination, Queue):
                    queues[destination] = None
                elif destination not in visited:
                    visited.add(destination)
                    ahead.append(destination)
        return tuple(queues), by_key

    def route_copies(
        self,
        exchange: Exchange,
        message: Message,
        queues: Iterable[Queue],
        keys: Iterable[str],
    ) -> tuple[Queue, ...]:
        """More queues by further keys of the same message."""
        found = dict.fromkeys(queues)
        for key in keys:
            copy = message.routed_as(message.exchange, key)
            found.update(dict.fromkeys(self.route(exchange, copy)))
        return tuple(found)


class DeadLetterRouter:
    """Publishes the messages that die in the queues of one virtual host to the dead letter
    exchanges of those queues. ``waiting`` are those still to be published while it is ``busy``."""

    def __init__(self, vhost: str, router: Router, state: BrokerState) -> None:
        self.vhost = vhost
        self.router = router
        self.state = state
        self.waiting: deque[tuple[Queue, Message, str, object]] = deque()
        self.busy = False

    def would_route(self, queue: Queue, message: Message) -> bool:
        """Whether the dead letter exchange of a queue would lead a message to another queue."""
        name = queue.limits.dead_letter_exchange
        exchange = None if name is None else self.router.exchanges.get(name)
        if exchange is None:
            return False
        key = queue.limits.dead_letter_key
        dead = message.routed_as(exchange.name, message.key if key is None else key)
        return bool(self.router.route(exchange, dead))

    def publish(self, queue: Queue, message: Message, reason: str, origin: object = None) -> None:
        """A message has left its queue unwanted: "rejected", "expired" or "maxlen"; or the queue is
        "deleted". A message that dies again in the next queue is dead-lettered in the same call,
        up to ``max_cascade``. ``origin`` is the connection that published it, if that counts."""
        if queue.limits.dead_letter_exchange is None:
            return
        letters = self.waiting
        letters.append((queue, message, reason, origin))
        if self.busy:
            return
        self.busy = True
        left = self.state.limits.max_cascade
        try:
            while letters:
                if left <= 0:
                    what = title("queue", queue.name, self.vhost)
                    text = "multiply in a circle of queues; as many copies are lost"
                    self.state.report(f"dead letters of {what} {text}: {len(letters)}")
                    return
                cost = self._publish(*letters.popleft())
                self.state.drops += cost
                left -= cost
        finally:
            letters.clear()
            self.busy = False

    def _publish(self, queue: Queue, message: Message, reason: str, origin: object) -> int:
        """The cost of it, as ``Limits.max_drops`` counts."""
        exchange = self.router.exchanges.get(queue.limits.dead_letter_exchange or "")
        if exchange is None:
            return 1
        dead = dead_message(queue, message, reason, self.state.now)
        headers = peek_properties(dead).application or {}
        copies = header_keys(headers, "CC")
        cost = DEAD_LETTER_COST
        first = self.router.route(exchange, dead)
        for to in self.router.route_copies(exchange, dead, first, copies):
            cost += 1
            if reason in ("rejected", DELETED) or not is_cycle(to.name, headers):
                to.put(dead, origin)
        return cost + len(deaths_of(headers))
