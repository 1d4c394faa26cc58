"""Messages that are published in a facade's virtual host, on their way to the upstream.

The upstream has them when it confirms them. Until then they are kept here, and published again when
a connection was lost: an upstream may get a message twice, and never less than once.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from gateway.broker.confirms import SAFE
from gateway.broker.recorder import Recorder
from gateway.errors import Condition
from gateway.message import Message

MOST_MESSAGES = 20_000
MOST_OCTETS = 64 << 20
"""Messages without a confirm, and octets of these, above which publishers are held back."""


FIRST = 1
"""The bit of the only upstream, or of the first of two."""


class PublishFate(Enum):
    """What the upstream did with a message."""

    TAKEN = "taken"
    UNROUTABLE = "unroutable"
    REFUSED = "refused"


class Publishing(Protocol):
    """The publish path of one channel."""

    closed: bool
    returning: int
    origin: object

    def give_back(self, message: Message, condition: Condition, text: str) -> None: ...

    def decide(self, first: int, last: int, mark: int, accepted: bool) -> None:
        """The fate of publishes in a row, by their numbers, and the mark on which they wait."""
        ...


class Nobody:
    """The publish path of messages that the gateway sends itself: nobody is told of them."""

    closed = True
    returning = 0
    origin: object = None

    def give_back(self, message: Message, condition: Condition, text: str) -> None: ...

    def decide(self, first: int, last: int, mark: int, accepted: bool) -> None: ...


NOBODY = Nobody()


class Passage:
    """One message that has no fate yet. ``sequence`` is the number under which its publisher waits
    for its confirm, 0 if it does not; ``weight`` are its octets in memory. ``awaits`` are the
    upstreams that have to confirm it, a bit for each; none, while it is held back. ``copier``: the
    one of these that gets only a ``copy``, 0 without; ``told``: the fate that the other told before
    that one had confirmed the copy."""

    __slots__ = (
        "path", "sequence", "message", "mandatory", "weight", "awaits", "copier", "copy", "told",
        "entered",
    )  # fmt: skip

    def __init__(
        self, path: Publishing, sequence: int, message: Message, mandatory: bool, weight: int
    ) -> None:
        self.path = path
        self.sequence = sequence
        self.message = message
        self.mandatory = mandatory
        self.weight = weight
        self.entered = 0
        """When it was published, ms since 1970; only told if it is recorded."""
        self.awaits = FIRST
        self.copier = 0
        self.copy: Message | None = None
        self.told: tuple[PublishFate, str] | None = None

    def message_for(self, upstream: int) -> Message:
        """As one of the upstreams gets it."""
        return self.message if self.copy is None or upstream != self.copier else self.copy


class OutboundSender(Protocol):
    """Sends messages to the upstream."""

    def publish(self, number: int, message: Message) -> None: ...

    def relieved(self) -> None:
        """Publishers need not be held back any more."""
        ...


class Outbound:
    """``under_way`` are the messages without a fate, by number, in the order of their publishing;
    ``full``: publishers should be held back."""

    def __init__(self, sender: OutboundSender, recorder: Recorder | None) -> None:
        self.under_way: dict[int, Passage] = {}
        self.octets = 0
        self.full = False
        self.published = self.refused = 0
        self.recorder = recorder
        self._sender = sender
        self._last = 0

    def publish(self, path: Publishing, sequence: int, message: Message, mandatory: bool) -> None:
        """``sequence``: its number among the confirmed publishes of the path, or 0. Hot."""
        self._last = number = self._last + 1
        body = message.body  # its weight, without a call
        weight = len(message.header) + (len(body) if body.__class__ is bytes else 0)
        under_way = self.under_way
        under_way[number] = passage = Passage(path, sequence, message, mandatory, weight)
        if self.recorder is not None:
            passage.entered = self.recorder.journal.state.now
        self.octets += weight
        if self.octets >= MOST_OCTETS or len(under_way) >= MOST_MESSAGES:
            self.full = True
        self._sender.publish(number, message)

    def record(self, passage: Passage) -> int:
        """Put a message into the journal that the upstream has. Returns the mark on which its
        confirm waits, if it is durable."""
        recorder, message = self.recorder, passage.message
        if recorder is None or not recorder.record_forwarded(
            message, passage.path.origin, passage.entered
        ):
            return SAFE
        return recorder.journal.state.store.mark if message.essentials.durable else SAFE

    def conclude(self, number: int, fate: PublishFate, text: str) -> None:
        """The upstream has told the fate of a message. A number without a message is no error: it
        may have been published twice."""
        passage = self.under_way.pop(number, None)
        if passage is None:
            return
        self.octets -= passage.weight
        if fate is PublishFate.REFUSED:
            self.refused += 1
        else:
            self.published += 1
        path, sequence = passage.path, passage.sequence
        mark = self.record(passage) if fate is PublishFate.TAKEN else SAFE
        if not path.closed:
            if fate is PublishFate.UNROUTABLE and passage.mandatory:
                path.returning = sequence
                path.give_back(passage.message, Condition.NO_ROUTE, text or "NO_ROUTE")
                path.returning = 0
            if sequence:
                path.decide(sequence, sequence, mark, fate is not PublishFate.REFUSED)
        if self.full:
            self._relieve()

    def taken(self, numbers: Iterable[int]) -> None:
        """``conclude`` for messages that the upstream has taken. Hot: publishes in a row are
        decided at once."""
        if self.recorder is not None:
            for number in numbers:
                self.conclude(number, PublishFate.TAKEN, "")
            return
        under_way = self.under_way
        path: Publishing = NOBODY
        first = last = octets = count = 0
        for number in numbers:
            passage = under_way.pop(number, None)
            if passage is None:
                continue
            count += 1
            octets += passage.weight
            sequence = passage.sequence
            if passage.path is path and sequence == last + 1:
                last = sequence
                continue
            if first and not path.closed:
                path.decide(first, last, SAFE, True)
            path, first, last = passage.path, sequence, sequence
        if first and not path.closed:
            path.decide(first, last, SAFE, True)
        self.octets -= octets
        self.published += count
        if self.full:
            self._relieve()

    def _relieve(self) -> None:
        """Publishers go on when half of what held them back has left."""
        if len(self.under_way) <= MOST_MESSAGES // 2 and self.octets <= MOST_OCTETS // 2:
            self.full = False
            self._sender.relieved()
