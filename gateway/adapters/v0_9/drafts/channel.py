"""One channel of a draft: its state, its consumers and tickets, what is under way on it."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gateway.adapters.v0_9 import states
from gateway.adapters.v0_9.drafts.assembly import Assembly
from gateway.adapters.v0_9.drafts.contents import CONTENTS, DraftDialect
from gateway.adapters.v0_9.drafts.staging import Staging
from gateway.adapters.v0_9.drafts.words import Awaited, Spoken, Words
from gateway.adapters.v0_9.geometry import Version
from gateway.errors import Condition, LocalError, Lost, PeerError
from gateway.message import Message
from gateway.operations import DeclareQueue, Operation, Unsent

MOST_TICKETS = 1024
MOST_CONSUMERS = 0xFFFF
CROWD = 16 * 1024
"""Pieces waiting to be written that are enough for one turn."""


class Owner(Protocol):
    """What a channel needs of its engine."""

    table: Version
    words: Words
    pending: list[bytes]
    later: list[Operation]
    server: bool
    vhost: str
    connection: Any
    max_message_octets: int
    announced: int
    """Octets of the contents that are under way on all channels."""

    def speak(self, channel: int, spoken: Spoken) -> None: ...

    def crowd(self) -> None: ...

    def unsent(self, what: Unsent) -> None: ...

    def wake(self) -> None: ...

    def condition(self, code: int) -> Condition: ...

    def lose(self, channel: int, condition: Condition, text: str, method: int = 0) -> None: ...


class Consumer(NamedTuple):
    """What a consumer's deliveries are called. ``place`` is the queue or destination it asked
    for; ``key``: deliveries name what they were published to instead (topics). ``tag`` is its
    name here, ``number`` on the wire."""

    group: str
    place: str
    number: int
    tag: str
    keyed: bool = False
    domain: str = ""


class Channel:
    """Also its own ``Outlet``."""

    gate: Callable[[bool], None]
    __slots__ = (
        "number", "state", "gate", "awaited", "content", "consumers", "tickets", "owner",
        "prefetch", "transacted", "classes", "unsettled", "files", "wanted", "_tags",
    )  # fmt: skip

    def __init__(self, number: int, owner: Owner) -> None:
        self.number = number
        self.owner = owner
        self.state = states.OPENING
        self.awaited: deque[Awaited] = deque()
        self.content: Assembly | None = None
        self.consumers: dict[str, Consumer] = {}
        self.tickets: dict[int, frozenset[str]] = {}
        self.prefetch = (0, 0)
        self.transacted = False
        self.classes: dict[str, str] = {}
        """Exchanges declared here and their types: what a binding must say depends on it."""
        self.unsettled: dict[int, None] = {}
        """Client: deliveries, for rejecting many of them, which is no method here."""
        self.files = Staging(owner.words.layouts, owner.max_message_octets)
        self.wanted: dict[str, DeclareQueue] = {}
        """Client: subscriptions declared and not yet bound (0-9a0)."""
        self._tags = 0

    # --- state -----------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Open, and no content is under way."""
        return self.state is states.OPEN and self.content is None

    def move(self, word: str) -> None:
        """Take a step of the table. Raises ``PeerError`` if it is not allowed now."""
        state = states.after(states.CHANNEL, self.state, word)
        if state is None:
            raise PeerError(
                Condition.CHANNEL_ERROR, f"{word!r} on channel {self.number}, which is {self.state}"
            )
        self.state = state

    def opened(self) -> None:
        self.move("channel.open-ok")

    def die(self) -> None:
        """Discard everything but the answer to our close."""
        self.drop_content()
        self.move("lose")
        self.consumers.clear()

    def vanish(self) -> None:
        """The channel is no more; whoever still holds it as an outlet says nothing."""
        self.state = states.CLOSED
        self.drop_content()

    def drop_content(self) -> None:
        """What is under way is not; of a file that is being staged, the beginning is kept."""
        content = self.content
        self.content = None
        cut = b""
        if content is not None:
            self.owner.announced -= content.size
            if content.method.name == "file.stage":
                cut = content.begun
        self.files.cut(cut)

    def covered(self, delivery: int, multiple: bool) -> list[int]:
        """Client: the deliveries that are settled by this; they are settled then."""
        tags = [delivery]
        if multiple:
            tags = [tag for tag in self.unsettled if not delivery or tag <= delivery]
        for tag in tags:
            self.unsettled.pop(tag, None)
        return tags

    # --- tickets and consumers -------------------------------------------------------------------

    def grant(self, *rights: str) -> int:
        """A new ticket. It is good on this channel and for these rights; what the user may really
        do is for the broker to say, whatever the ticket."""
        if len(self.tickets) >= MOST_TICKETS:
            raise PeerError(Condition.RESOURCE_ERROR, "too many access tickets")
        number = len(self.tickets) + 1
        self.tickets[number] = frozenset(rights)
        return number

    def ticket(self, number: int, *rights: str) -> None:
        """Refuse a ticket that was not granted here, or for none of these rights. 0 is what the
        original clients send, who never ask for one."""
        if not number:
            return
        granted = self.tickets.get(number)
        if granted is None or (rights and not granted & frozenset(rights)):
            text = f"ticket {number} is not good for {' or '.join(rights) or 'this'}"
            raise PeerError(Condition.ACCESS_REFUSED, text, Lost.SESSION)

    def next_tag(self) -> int:
        """A number for a new consumer."""
        if len(self.consumers) >= MOST_CONSUMERS:
            raise PeerError(Condition.RESOURCE_ERROR, "too many consumers", Lost.SESSION)
        while True:
            self._tags = self._tags % MOST_CONSUMERS + 1
            if str(self._tags) not in self.consumers:
                return self._tags

    def consumer_at(self, group: str, place: str) -> Consumer | None:
        """Client: whose delivery this is. Deliveries name where they come from, not a consumer."""
        ours = [c for c in self.consumers.values() if c.group == group]
        for consumer in ours:
            if consumer.place == place and not consumer.keyed:
                return consumer
        for consumer in ours:
            if consumer.keyed:
                return consumer
        return ours[0] if len(ours) == 1 else None

    # --- contents --------------------------------------------------------------------------------

    def dialect(self, group: str) -> DraftDialect:
        """How contents of a class are written."""
        table = self.owner.table
        number = next(n for n, content in table.contents.items() if content.name == group)
        return CONTENTS[table.name, number]

    def speak(self, spoken: Spoken) -> None:
        self.owner.speak(self.number, spoken)

    def fail(self, condition: Condition, text: str) -> PeerError:
        """An error that costs the channel."""
        return PeerError(condition, text, Lost.SESSION)

    def divert(self, pending: list[bytes]) -> None:
        """The engine looks for itself where the output of a channel goes now."""

    # --- the outlet ------------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        if self.state is not states.OPEN:
            return
        if len(self.owner.pending) > CROWD:
            self.owner.crowd()
        try:
            said = self.owner.words.deliver(self, consumer, delivery, redelivered, message)
        except ValueError:
            self.owner.unsent(Unsent(self.number, consumer, delivery, message))
            return
        for spoken in said:
            self.speak(spoken)

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError(f"{self.owner.table.name} has no confirms")

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        if self.state is not states.OPEN:
            raise LocalError(f"channel {self.number} is {self.state}")
        for spoken in self.owner.words.publish(self, message, mandatory, immediate):
            self.speak(spoken)
