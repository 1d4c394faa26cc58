"""The way of a message through exchanges into queues, and out of them to the dead letters."""

from collections import deque
from collections.abc import Callable, Iterable

from gateway.broker.deadletters import (
    dead_message,
    deaths_of,
    header_keys,
    look,
    turns_in_circles,
)
from gateway.broker.exchanges import Exchange, Step
from gateway.broker.limits import DEAD_LETTER_COST
from gateway.broker.queues import Queue
from gateway.broker.state import BrokerState
from gateway.broker.void import Void
from gateway.message import Message
from gateway.selector import EFFORT


class Routing:
    """The part of a virtual host that messages pass through. ``default`` is the exchange without
    a name, which leads to every queue by the queue's name, and to ``replies``: those who wait for
    direct replies. ``void`` is where an exchange loses messages."""

    void: Void
    title: Callable[[str, str], str]

    def __init__(self, state: BrokerState, exchanges: dict[str, Exchange]) -> None:
        self.state = state
        self.queues: dict[str, Queue] = {}
        self.replies: dict[str, Queue] = {}
        self.exchanges = exchanges
        self.default = exchanges[""]
        self._dead_letters: deque[tuple[Queue, Message, str]] = deque()
        self.dead_lettering = False

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
                    queues[self.void] = None
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
            copy = Message(
                message.dialect,
                message.header,
                message.body,
                message.exchange,
                key,
                message.essentials,
                message.notes,
            )
            found.update(dict.fromkeys(self.route(exchange, copy)))
        return tuple(found)

    def would_dead_letter(self, queue: Queue, message: Message) -> bool:
        """Whether a message that is not wanted in a queue would come to another by its dead letter
        exchange."""
        name = queue.limits.dead_letter_exchange
        exchange = None if name is None else self.exchanges.get(name)
        if exchange is None:
            return False
        key = queue.limits.dead_letter_key
        dead = Message(
            message.dialect,
            message.header,
            message.body,
            exchange.name,
            message.key if key is None else key,
            message.essentials,
            message.notes,
        )
        return bool(self.route(exchange, dead))

    def dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        """A message has left its queue unwanted: "rejected", "expired" or "maxlen". What dies again
        where it goes is dead-lettered here too, as long as that comes to an end soon enough."""
        if queue.limits.dead_letter_exchange is None:
            return
        letters = self._dead_letters
        letters.append((queue, message, reason))
        if self.dead_lettering:
            return
        self.dead_lettering = True
        left = self.state.limits.max_cascade
        try:
            while letters:
                if left <= 0:
                    what = self.title("queue", queue.name)
                    text = "multiply in a circle of queues; as many copies are lost"
                    self.state.report(f"dead letters of {what} {text}: {len(letters)}")
                    return
                cost = self._dead_letter(*letters.popleft())
                self.state.drops += cost
                left -= cost
        finally:
            letters.clear()
            self.dead_lettering = False

    def _dead_letter(self, queue: Queue, message: Message, reason: str) -> int:
        """What it has cost (``Limits.max_drops``)."""
        exchange = self.exchanges.get(queue.limits.dead_letter_exchange or "")
        if exchange is None:
            return 1
        dead = dead_message(queue, message, reason, self.state.now)
        headers = look(dead).application or {}
        copies = header_keys(headers, "CC")
        cost = DEAD_LETTER_COST
        for to in self.route_copies(exchange, dead, self.route(exchange, dead), copies):
            cost += 1
            if reason == "rejected" or not turns_in_circles(to.name, headers):
                to.put(dead)
        return cost + len(deaths_of(headers))
