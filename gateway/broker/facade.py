"""A virtual host whose exchanges and queues are those of another broker: the upstream.

Nothing is kept here. A message goes to the upstream and is confirmed when the upstream has
confirmed it (``outbound``); a consumer has a subscription of its own at the upstream, with as much
credit as it has here (``FeedQueue``); a delivery is settled there when it is settled here. Names
are looked up at the upstream when they are first used.

The upstream answers later. An operation that needs its answer raises ``AwaitsUpstream``, and is
performed again when the answer has come, so that sessions, HTTP and administration need no second
form of their operations.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, cast

from gateway.broker.answers import Answer, Answers
from gateway.broker.consumers import Consumer, Window
from gateway.broker.exchanges import Binding, Exchange, Step
from gateway.broker.feed_queue import MOST_AHEAD, FeedQueue, Subscription, UpstreamPort
from gateway.broker.lanes import Entry
from gateway.broker.names import MOST_OCTETS, octets
from gateway.broker.outbound import NOBODY, Outbound
from gateway.broker.queues import TAKEN, Queue, QueueOwner
from gateway.broker.state import BrokerState
from gateway.broker.stream_queues import QueueType, check_offset
from gateway.broker.upstream_names import UpstreamNames
from gateway.broker.vhost import VirtualHost
from gateway.errors import AwaitsUpstream, Condition, Refusal
from gateway.message import Message
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    FindQueue,
    Outcome,
)

MISSING_MS = 1000
"""Time for which the upstream is not asked again for a name that it does not have."""
MOST_MISSING = 10_000
GENERATED = "gen-"
"""Prefix of names that the gateway makes; ``amq.`` is the upstream's."""
REPLIES = f"{GENERATED}reply."
"""Prefix of the queues for direct replies."""


class Named(Protocol):
    """The client of a consumer."""

    @property
    def names(self) -> frozenset[str]: ...


class UpstreamQueue(Queue):
    """A queue of the upstream, as the clients of the facade know it. ``restore`` are the requests
    that made it, in order, if it ends with the connection to the upstream."""

    __slots__ = ("host", "restore", "fetches", "opened", "type")

    def __init__(self, host: "FacadeVirtualHost", name: str, **given: Any) -> None:
        super().__init__(host, name, 0, **given)
        self.host = host
        self.restore: list[Any] = []
        self.fetches: FeedQueue | None = None
        self.type = QueueType(lambda: host.upstream.ask(FindQueue(0, None, name)))
        self.opened: FeedQueue | None = None
        """The feed of the consumer that is added next, to which the upstream has agreed."""

    def open_feed(
        self, answers: Answers, subscription: Subscription, client: frozenset[str]
    ) -> None:
        """Subscribe at the upstream for a client, of these names. Raises ``AwaitsUpstream``, or
        its refusal."""
        check_offset(self.host.title("queue", self.name), subscription.arguments)
        answers.begin()
        key = f"subscribe {self.name}"
        answer = answers.given.get(key)
        if answer is None:
            feed = FeedQueue(self, subscription, client)
            answer = answers.given[key] = self.host.upstream.open(feed)
        self.opened = answer.value()

    def add_consumer(self, consumer: Consumer) -> None:
        feed, self.opened = self.opened, None
        if consumer.cursor is not None:
            text = "consumers of an upstream's queue cannot browse, and have no filters"
            consumer.window.consumers.pop(consumer.tag, None)
            raise Refusal(Condition.NOT_IMPLEMENTED, text)
        if feed is None or feed.gone:
            limits = most_unsettled(
                consumer.no_ack, consumer.limit, consumer.window, consumer.credit
            )
            subscription = Subscription(consumer.exclusive, consumer.arguments, False, *limits)
            feed = FeedQueue(self, subscription, cast(Named, consumer.origin).names)
        feed.consumer = consumer
        consumer.queue = feed
        self.consumers.append(consumer)
        feed.add_consumer(consumer)

    def consumer_gone(self, consumer: Consumer, keep_queue: bool) -> None:
        self.consumers.remove(consumer)
        if self.auto_delete and not self.consumers and not keep_queue:
            self.host.lose_queue(self.name)  # as the upstream does by itself

    def put(self, message: Message, origin: object = None) -> int:
        self.host.send(message.routed_as("", self.name))
        return TAKEN

    def refuse_stream(self, method: str) -> None:
        """Refuses (540) a method over which RabbitMQ would end the connection, which all consumers
        of the facade share. Raises ``AwaitsUpstream``."""
        if self.type.is_stream():
            text = f"{method} not supported by stream queues {self.host.title('queue', self.name)}"
            raise Refusal(Condition.NOT_IMPLEMENTED, text)

    def take_from_upstream(self, answers: Answers) -> Entry | None:
        """Fetch one message. Raises ``AwaitsUpstream``, or a refusal."""
        self.refuse_stream("basic.get")
        fetches = self.fetches
        if fetches is None:
            fetches = self.fetches = FeedQueue(self, None)
        answers.begin()
        key = f"fetch {self.name}"
        while not fetches.depth:
            answer = answers.given.get(key)
            if answer is None:
                answer = answers.given[key] = self.host.upstream.fetch(fetches)
            if not answer.value():
                return None
            del answers.given[key]  # another fetch has taken the message meanwhile
        return fetches.take()

    @property
    def at_hand(self) -> int:
        return 0 if self.fetches is None else self.fetches.depth

    @property
    def left(self) -> int:
        return 0 if self.fetches is None else self.fetches.remaining

    def hold(self, entry: Entry) -> None:
        entry.lane.queue.unsettled += 1
        entry.deliveries += 1

    def finish(self, entry: Entry) -> None:
        entry.lane.queue.finish(entry)


class UpstreamExchange(Exchange):
    """An exchange of the upstream. Its bindings are there."""

    by_key = False

    def __init__(self, name: str, type: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.type = type

    def index(self, binding: Binding) -> None:
        """The upstream has it."""

    def drop(self, binding: Binding) -> None:
        """Likewise."""

    def match(self, message: Message) -> Iterable[Step]:
        return ()


class Making(NamedTuple):
    """A queue of the gateway's own that is being declared and bound."""

    declaration: DeclareQueue
    binding: Bind
    declared: Answer
    bound: Answer


class FacadeVirtualHost(VirtualHost):
    """``outbound`` has the messages that are published. ``missing`` are names that the upstream did
    not have, until a time."""

    outbound: Outbound
    queues: UpstreamNames[Queue]
    exchanges: UpstreamNames[Exchange]
    on_settled: Callable[[str, Message, Outcome], None] | None = None
    """Is told the queue of each delivery that is settled, its message and its outcome."""

    def __init__(self, name: str, state: BrokerState, upstream: UpstreamPort) -> None:
        super().__init__(name, state)
        self.forgotten = True  # the store has nothing of it
        self.upstream = upstream
        self.outbound = Outbound(upstream, self.recorder)
        self.missing: dict[tuple[str, str], int] = {}
        self._private: dict[tuple[str, str], Making] = {}
        self._lookups: dict[tuple[str, str], Answer] = {}
        types = {one.name: one.type for one in self.exchanges.values()}
        self.queues = UpstreamNames[Queue](lambda name: self.find("queue", name))
        self.exchanges = UpstreamNames[Exchange](lambda name: self.find("exchange", name))
        for known, kind in types.items():
            self.know_exchange(known, kind)

    def find(self, kind: str, name: str) -> bool:
        """Look a name up at the upstream; it is known here afterwards."""
        if kind == "queue" and self.is_reply(name):
            return False
        place = kind, name
        if not name or octets(name) > MOST_OCTETS or self.missing.get(place, 0) > self.state.now:
            return False
        answer = self._lookups.get(place)
        if answer is None:
            request = (DeclareQueue if kind == "queue" else DeclareExchange)(0, None, name)
            request.passive = True
            answer = self._lookups[place] = self.upstream.ask(request)
        if not answer.done:
            raise AwaitsUpstream(answer)
        del self._lookups[place]
        try:
            answer.value()
        except Refusal as refusal:
            if refusal.condition is not Condition.NOT_FOUND:
                raise
            if len(self.missing) >= MOST_MISSING:
                self.missing.clear()
            self.missing[place] = self.state.now + MISSING_MS
            return False
        if kind == "queue":
            self.know_queue(name)
        else:
            self.know_exchange(name)
        return True

    # --- exchanges ------------------------------------------------------------------------------

    def know_exchange(self, name: str, kind: str = "", **given: Any) -> None:
        """The upstream has it."""
        self.missing.pop(("exchange", name), None)
        found = self.exchanges.known(name)
        if found is None:
            self.exchanges[name] = UpstreamExchange(name, kind, **given)
        elif kind:
            found.type = kind

    def lose_exchange(self, name: str) -> None:
        """The upstream has it no more."""
        found = self.exchanges.known(name)
        if found is not None:
            self.remove_exchange(found)

    def exchange(self, name: str) -> Exchange:
        found: Exchange | None = self.exchanges.get(name)
        if found is None:
            return super().exchange(name)
        return found

    # --- queues ---------------------------------------------------------------------------------

    def new_name(self, hint: str = "") -> str:
        """The upstream refuses names that begin with ``amq.``. It need not be asked for one that
        cannot be guessed."""
        return f"{GENERATED}{secrets.token_urlsafe(16)}{hint}"

    def know_queue(
        self, name: str, op: DeclareQueue | None = None, owner: QueueOwner | None = None
    ) -> UpstreamQueue:
        """The upstream has it; ``op`` has declared it."""
        self.missing.pop(("queue", name), None)
        found = cast(UpstreamQueue | None, self.queues.known(name))
        if found is None:
            found = UpstreamQueue(
                self,
                name,
                durable=op is None or op.durable,  # nobody tells
                auto_delete=op is not None and op.auto_delete,
                arguments=None if op is None else op.arguments,
            )
            self.queues[name] = found
            if op is not None and op.exclusive and owner is not None:
                self.own(found, owner)
        if op is not None:
            found.type.declared(op)
        return found

    def save_queue(self, queue: Queue) -> None:
        """The upstream keeps it."""

    def remove_queue(self, queue: Queue) -> int:
        if queue.name in self.replies:
            self.upstream.close_replies(queue.name)
        elif not queue.gone:
            self.upstream.ask(DeleteQueue(0, None, queue.name))
        return super().remove_queue(queue)

    def remove_queues(self, queues: list[Queue]) -> None:
        for queue in queues:
            self.remove_queue(queue)

    def lose_queue(self, name: str) -> None:
        """The upstream has it no more: its consumers end."""
        found = self.queues.known(name)
        if found is not None and not found.gone:
            super().remove_queue(found)

    def private_queue(self, exchange: str, key: str) -> UpstreamQueue:
        """An exclusive queue of the gateway's own, bound to an exchange. Raises ``AwaitsUpstream``
        until one is there, or the refusal."""
        place = exchange, key
        making = self._private.get(place)
        if making is None:
            name = self.new_name()
            declaration = DeclareQueue(0, None, name, exclusive=True)
            binding = Bind(0, None, name, exchange, key)
            making = self._private[place] = Making(
                declaration, binding, self.upstream.ask(declaration), self.upstream.ask(binding)
            )
        try:
            making.declared.value()
            making.bound.value()
        except AwaitsUpstream:
            raise
        except Refusal:
            del self._private[place]
            raise
        del self._private[place]
        queue = self.know_queue(making.declaration.name)
        queue.type.declared(making.declaration)
        queue.restore += [making.declaration, making.binding]
        return queue

    # --- direct replies -------------------------------------------------------------------------

    def reply_name(self, answers: Answers | None) -> str:
        """That of a queue which the upstream has for the replies; "" if it cannot. Raises
        ``AwaitsUpstream``, or its refusal."""
        assert answers is not None
        answers.begin()
        answer = answers.given.get(REPLIES)
        if answer is None:
            name = f"{REPLIES}{secrets.token_urlsafe(24)}"
            answer = answers.given[REPLIES] = self.upstream.open_replies(name)
        return str(answer.value())

    def is_reply(self, name: str) -> bool:
        """Also if its client is at another gateway, or has gone."""
        return name in self.replies or name.startswith(REPLIES)

    # --- messages -------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Publish without a publisher that waits."""
        self.outbound.publish(NOBODY, 0, message, False)


def most_unsettled(
    no_ack: bool, limit: int, window: Window, credit: int | None
) -> tuple[int, bool]:
    """Deliveries that a consumer may have unsettled, with a prefetch limit of its own and so much
    credit; as many as are given when it gets credit, if it has none. And whether that lasts as long
    as the consumer: others share the limit of their channel, and credit is given."""
    if no_ack and credit is None:
        return MOST_AHEAD, True
    limits = [one for one in (limit, window.limit, credit) if one]
    lasting = credit is None and not window.limit and 0 < limit <= MOST_AHEAD
    return 1 if credit == 0 else min(limits, default=MOST_AHEAD), lasting
