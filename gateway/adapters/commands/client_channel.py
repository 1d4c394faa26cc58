"""Channels and handles as the client keeps them: what is open, asked, and not settled yet."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.adapters.commands.fragments import Arriving
from gateway.adapters.commands.states import OPEN, State
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Operation, Service, Token

if TYPE_CHECKING:
    from gateway.adapters.commands.client import Asking

MOST_TAG = 0xFFFF


class Ask(NamedTuple):
    """A request under way. ``make`` turns the result into what our owner asked for."""

    kind: str
    token: Token
    make: Callable[[object], object] | None = None


class Line:
    """An open handle. ``tag`` is the consumer it stands for."""

    __slots__ = (
        "number", "channel", "service", "tag", "state", "asked", "queries", "browses", "prepares",
        "created", "settled", "streaming", "partial", "link",
    )  # fmt: skip

    def __init__(self, number: int, channel: "Channel", service: Service) -> None:
        self.number = number
        self.channel = channel
        self.service = service
        self.link = self.tag = str(number)
        self.state: State = OPEN
        self.asked: dict[int, Ask] = {}
        """By confirm tag."""
        self.queries: deque[Token] = deque()
        self.browses: deque[tuple[int, Token]] = deque()
        self.prepares: deque[Token] = deque()
        self.created = ""
        self.settled = False
        """What comes over it needs no acknowledgement."""
        self.streaming: bytes | None = None
        """Header of the stream that comes in."""
        self.partial: Arriving | None = None
        """What the server has prepared."""


class Channel:
    """An open channel, and an ``Outlet`` that nobody uses."""

    gate: Callable[[bool], None]

    def __init__(self, number: int, asking: "Asking", transacted: bool, restartable: bool) -> None:
        self.number = number
        self.asking = asking
        self.transacted = transacted
        self.restartable = restartable
        self.state: State = OPEN
        self.lines: dict[int, Line] = {}
        self.asked: dict[int, Ask] = {}
        self.closing: Token = None
        self.arriving: Arriving | None = None
        self.prefetch = MOST_TAG
        self.confirms = 0
        """Publishes that are numbered, so far; with ``counting`` only."""
        self.counting = False
        self.producers: dict[Service, Line] = {}
        self.unsettled: dict[int, bool] = {}
        """Deliveries in order; true if we need only wait for earlier ones to say so."""
        self.over: dict[int, Line] = {}
        """The handles they came over."""
        self.gate = lambda _: None

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        raise LocalError("a client does not deliver")

    def divert(self, pending: list[bytes]) -> None:
        """The engine looks for itself where the output of a channel goes now."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError("a client does not confirm")

    # --- settling -------------------------------------------------------------------------------

    def settled(self, delivery: int, multiple: bool) -> int:
        """These are done with: the number up to which all are, 0 if there is nothing to say.
        Acknowledgement counts up to a number (§3.3.3), so what is accepted out of turn waits."""
        for number in self.unsettled:
            if number == delivery or (multiple and (number < delivery or not delivery)):
                self.unsettled[number] = True
        last = 0
        for number, done in list(self.unsettled.items()):
            if not done:
                break
            last = number
            del self.unsettled[number]
            self.over.pop(number, None)
        return last


Found = list[Operation]
