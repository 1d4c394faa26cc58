"""Transactions of a channel: publishes and settlements that wait for their commit.

The messages being settled stay with the channel, out of reach of another settlement; rolling back
gives them back as they were.
"""

from collections import deque
from collections.abc import Callable, Iterator

from gateway.broker.exchanges import Exchange
from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import Modify, Outcome

Retired = tuple[int, Entry, Outcome | Modify, bool]
"""Number, delivery, verdict, and whether the peer has forgotten the delivery."""


class Transaction:
    """The channel's own (0-9-1 class tx), or its work in a branch. ``publishes``: message,
    mandatory, immediate. ``settlements``: tag, entry, outcome. ``count`` is called before each
    publish and may refuse it."""

    __slots__ = ("publishes", "settlements", "octets", "count")

    def __init__(self, count: Callable[[Message], None] | None = None) -> None:
        self.publishes: list[tuple[Message, bool, bool]] = []
        self.settlements: list[tuple[int, Entry, Outcome]] = []
        self.octets = 0
        self.count = count

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        if self.count is not None:
            self.count(message)
        self.publishes.append((message, mandatory, immediate))
        self.octets += message.weight

    def settle(self, tag: int, entry: Entry, outcome: Outcome) -> None:
        self.settlements.append((tag, entry, outcome))

    def take_publishes(self) -> list[tuple[Message, bool, bool]]:
        publishes, self.publishes = self.publishes, []
        self.octets = 0
        return publishes

    def take_settlements(self) -> list[tuple[int, Entry, Outcome]]:
        settlements, self.settlements = self.settlements, []
        return settlements


class DeclaredTransaction:
    """A transaction that a coordinator declared under an id (1.0 §4.2): messages posted, and
    deliveries retired (number, entry, verdict, and whether the peer has forgotten the delivery)."""

    __slots__ = ("posts", "retired", "octets")

    def __init__(self) -> None:
        self.posts: list[Message] = []
        self.retired: list[Retired] = []
        self.octets = 0


Route = Callable[[Exchange, Message], tuple[Message, tuple[Queue, ...]]]
"""The queues of a message, and the message that goes into them."""


class PreparedPublishes:
    """Messages that go into their queues together, or not at all. ``preparing`` reserves room in
    the queues that may refuse, as they could be full later; ``putting`` may follow, and ``release``
    must. It needs no channel, so it may outlive the one that published. ``route`` chooses the
    queues."""

    __slots__ = ("vhost", "messages", "queues", "reserved", "route")

    def __init__(
        self, vhost: VirtualHost, messages: list[Message], route: Route | None = None
    ) -> None:
        self.vhost = vhost
        self.route = route
        self.messages = messages
        self.queues: list[tuple[Queue, ...]] = []
        """For each message."""
        self.reserved: deque[tuple[Queue, int]] = deque()

    def preparing(self) -> Iterator[None]:
        """A long operation. Refuses (406) when a queue is too full to take a message, or an
        exchange has gone."""
        vhost = self.vhost
        for count, message in enumerate(self.messages, 1):
            exchange = vhost.exchanges.get(message.exchange)
            if exchange is None:
                text = f"no {vhost.title('exchange', message.exchange)}"
                raise Refusal(Condition.PRECONDITION_FAILED, text)
            if self.route is None:
                queues = vhost.router.route(exchange, message)
            else:
                self.messages[count - 1], queues = self.route(exchange, message)
            for queue in queues:
                if queue.refuses_when_full and queue.overflows(len(message.body)):
                    text = f"{vhost.title('queue', queue.name)} is full"
                    raise Refusal(Condition.PRECONDITION_FAILED, text)
                self.reserve(queue, message)
            self.queues.append(queues)
            if count % PORTION == 0:
                yield

    def reserve(self, queue: Queue, message: Message) -> None:
        """Room for one message, if the queue could refuse it."""
        if queue.refuses_when_full:
            size = len(message.body)
            queue.reserve(size)
            self.reserved.append((queue, size))

    def restore(self, message: Message, queues: tuple[Queue, ...]) -> None:
        """One more message, as an earlier process has prepared it."""
        self.messages.append(message)
        self.queues.append(queues)
        for queue in queues:
            self.reserve(queue, message)

    def putting(self, origin: object) -> Iterator[None]:
        """A long operation. ``origin`` is the connection that published."""
        recorder = self.vhost.recorder
        for count, (message, queues) in enumerate(zip(self.messages, self.queues, strict=True), 1):
            if recorder is not None and queues:
                recorder.record(message, origin)
            for queue in queues:
                if queue.refuses_when_full:
                    _, size = self.reserved.popleft()
                    queue.reserve(-size, -1)
                if not queue.gone:
                    queue.put(message, origin)
            if count % PORTION == 0:
                yield

    def release(self) -> None:
        """Give up the room that is still reserved."""
        while self.reserved:
            queue, size = self.reserved.popleft()
            queue.reserve(-size, -1)
