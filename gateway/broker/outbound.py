"""Messages that are published in a facade's virtual host, on their way to the upstream.

The upstream has them when it confirms them. Until then they are kept here, and published again when
a connection was lost: an upstream may get a message twice, and never less than once.
"""

from enum import Enum
from typing import Protocol

from gateway.broker.confirms import SAFE, Run
from gateway.broker.journal import Recorder
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

    def confirm_soon(self) -> None: ...


class Nobody:
    """The publish path of messages that the gateway sends itself: nobody is told of them."""

    closed = True
    returning = 0
    origin: object = None

    def give_back(self, message: Message, condition: Condition, text: str) -> None: ...

    def confirm_soon(self) -> None: ...


NOBODY = Nobody()


class Passage:
    """One message that has no fate yet. ``run`` is the confirm that its publisher waits for.
    ``awaits`` are the upstreams that have to confirm it, a bit for each; none, while it is held
    back. ``copier``: the one of these that gets only a ``copy``, 0 without; ``told``: the
    fate that the other told before that one had confirmed the copy."""

    __slots__ = ("path", "run", "message", "mandatory", "awaits", "copier", "copy", "told")

    def __init__(
        self, path: Publishing, run: Run | None, message: Message, mandatory: bool
    ) -> None:
        self.path = path
        self.run = run
        self.message = message
        self.mandatory = mandatory
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

    def publish(self, path: Publishing, run: Run | None, message: Message, mandatory: bool) -> None:
        """Hot."""
        self._last = number = self._last + 1
        self.under_way[number] = Passage(path, run, message, mandatory)
        self.octets += message.weight
        if len(self.under_way) >= MOST_MESSAGES or self.octets >= MOST_OCTETS:
            self.full = True
        self._sender.publish(number, message)

    def record(self, passage: Passage) -> int:
        """Put a message into the journal that the upstream has. Returns the mark on which its
        confirm waits."""
        recorder = self.recorder
        if recorder is None or not recorder.record(passage.message, passage.path.origin):
            return SAFE
        return recorder.journal.state.store.mark

    def conclude(self, number: int, fate: PublishFate, text: str) -> None:
        """The upstream has told the fate of a message. A number without a message is no error: it
        may have been published twice."""
        passage = self.under_way.pop(number, None)
        if passage is None:
            return
        self.octets -= passage.message.weight
        if fate is PublishFate.REFUSED:
            self.refused += 1
        else:
            self.published += 1
        path, run = passage.path, passage.run
        mark = self.record(passage) if fate is PublishFate.TAKEN else SAFE
        if not path.closed:
            if fate is PublishFate.UNROUTABLE and passage.mandatory:
                path.returning = 0 if run is None else run.last
                path.give_back(passage.message, Condition.NO_ROUTE, text or "NO_ROUTE")
                path.returning = 0
            if run is not None:
                run.mark, run.accepted = mark, fate is not PublishFate.REFUSED
                path.confirm_soon()
        if (
            self.full
            and len(self.under_way) <= MOST_MESSAGES // 2
            and (self.octets <= MOST_OCTETS // 2)
        ):
            self.full = False
            self._sender.relieved()
