"""Channels and handles as the client keeps them: what is open, awaited, and not settled yet."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.adapters.commands.fragments import IncomingMessage
from gateway.adapters.commands.states import OPEN, State
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Operation, Service, Token

if TYPE_CHECKING:
    from gateway.adapters.commands.client import Client

MOST_TAG = 0xFFFF


class AwaitedReply(NamedTuple):
    """A request under way. ``make`` turns the result into what our owner asked for."""

    kind: str
    token: Token
    make: Callable[[object], object] | None = None


class ClientHandle:
    """An open handle. ``tag`` is the consumer it stands for."""

    __slots__ = (
        "number", "channel", "service", "tag", "state", "awaited", "queries", "browses", "prepares",
        "created", "settled", "streaming", "partial", "link",
    )  # fmt: skip

    def __init__(self, number: int, channel: "ClientChannel", service: Service) -> None:
        self.number = number
        self.channel = channel
        self.service = service
        self.link = self.tag = str(number)
        self.state: State = OPEN
        self.awaited: dict[int, AwaitedReply] = {}
        """By confirm tag."""
        self.queries: deque[Token] = deque()
        self.browses: deque[tuple[int, Token]] = deque()
        self.prepares: deque[Token] = deque()
        self.created = ""
        self.settled = False
        """What comes over it needs no acknowledgement."""
        self.streaming: bytes | None = None
        """Header of the stream that comes in."""
        self.partial: IncomingMessage | None = None
        """What the server has prepared."""


class ClientChannel:
    """An open channel, and an ``Outlet`` that nobody uses."""

    gate: Callable[[bool], None]

    def __init__(self, number: int, client: "Client", transacted: bool, restartable: bool) -> None:
        self.number = number
        self.client = client
        self.transacted = transacted
        self.restartable = restartable
        self.state: State = OPEN
        self.handles: dict[int, ClientHandle] = {}
        self.awaited: dict[int, AwaitedReply] = {}
        self.closing: Token = None
        self.incoming: IncomingMessage | None = None
        self.prefetch = MOST_TAG
        self.confirms = 0
        """Publishes that are numbered, so far; with ``counting`` only."""
        self.counting = False
        self.producers: dict[Service, ClientHandle] = {}
        self.unsettled: dict[int, bool] = {}
        """Deliveries in order; true if we need only wait for earlier ones to say so."""
        self.handle_of: dict[int, ClientHandle] = {}
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
            self.handle_of.pop(number, None)
        return last


Found = list[Operation]
