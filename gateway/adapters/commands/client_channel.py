"""State of channels and handles, client role."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gateway.adapters.commands.connection import MOST_TEMPLATES, Connection
from gateway.adapters.commands.fragments import IncomingMessage
from gateway.adapters.commands.states import CLOSING, OPEN, State
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Service, Token

MOST_TAG = 0xFFFF


class AwaitedReply(NamedTuple):
    """A request that the server has not answered. ``make`` turns the reply into the result for our
    owner."""

    kind: str
    token: Token
    make: Callable[[object], object] | None = None


class ClientHandle:
    """An open handle. ``tag``: the tag of its consumer."""

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
        """Deliveries over this handle need no acknowledgement."""
        self.streaming: bytes | None = None
        """Header of the incoming stream, if there is one."""
        self.partial: IncomingMessage | None = None
        """The message that the server has prepared."""


class ClientChannel:
    """An open channel. Its ``Outlet`` methods are never called for a client."""

    allow_deliveries: Callable[[bool], None]

    def __init__(self, number: int, transacted: bool, restartable: bool) -> None:
        self.number = number
        self.transacted = transacted
        self.restartable = restartable
        self.state: State = OPEN
        self.handles: dict[int, ClientHandle] = {}
        self.awaited: dict[int, AwaitedReply] = {}
        self.closing: Token = None
        self.incoming: IncomingMessage | None = None
        self.prefetch = MOST_TAG
        self.confirms = 0
        """Publishes numbered so far, while ``counting`` is set."""
        self.counting = False
        self.producers: dict[Service, ClientHandle] = {}
        self.unsettled: dict[int, bool] = {}
        """Deliveries in order; true for those that are settled but not yet acknowledged, because an
        earlier one is not settled."""
        self.handle_of: dict[int, ClientHandle] = {}
        """The handles of unsettled deliveries."""
        self.allow_deliveries = lambda _: None

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        raise LocalError("a client does not deliver")

    def divert(self, pending: list[bytes]) -> None:
        """No-op: ``Connection`` looks up the output of a channel for each write."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError("a client does not confirm")

    # --- settling -------------------------------------------------------------------------------

    def settled(self, delivery: int, multiple: bool) -> int:
        """Settle deliveries. Returns the number up to which all are settled, 0 if there is nothing
        to acknowledge. An acknowledgement covers all numbers up to its own (§3.3.3), so a delivery
        accepted out of order waits."""
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


class ClientChannels:
    """The channels and handles of a connection."""

    def __init__(self, connection: Connection, channels: dict[int, ClientChannel]) -> None:
        self.connection = connection
        self.write = connection.write
        self.channels = channels
        self.handles: dict[int, ClientHandle] = connection.handles
        self.channel_max = MOST_TAG
        self.handle_max = MOST_TAG
        self.templates: BoundedCache[tuple[int, str], tuple[bytes, bytes]] = BoundedCache(
            MOST_TEMPLATES
        )
        """Encoded commands of messages by handle and name, without the fields that vary."""
        self._tag = 0

    def tuned(self, channel_max: int, handle_max: int) -> None:
        """The limits of the server; 0 is none."""
        self.channel_max = min(channel_max or MOST_TAG, MOST_TAG)
        self.handle_max = min(handle_max or MOST_TAG, MOST_TAG)

    def tag(self) -> int:
        """The next confirm tag; 0 would ask for none."""
        self._tag = self._tag % MOST_TAG + 1
        return self._tag

    def channel(self, number: int) -> ClientChannel:
        """Raises ``LocalError`` unless it is open."""
        channel = self.channels.get(number)
        if channel is None or channel.state is not OPEN:
            raise LocalError(f"channel {number} is not open")
        return channel

    outlet = channel

    # --- the end --------------------------------------------------------------------------------

    def silence(self) -> None:
        """The connection is being closed: nothing more is sent."""
        for channel in self.channels.values():
            channel.state = CLOSING

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        """Channel and token of each request that will not be answered."""
        return [
            (channel.number, token)
            for channel in self.channels.values()
            for token in tokens_of(channel)
        ]

    def forget(self) -> None:
        self.channels.clear()
        self.handles.clear()


def requests_of(handle: ClientHandle) -> list[AwaitedReply]:
    """All unanswered requests over a handle, also those whose replies have no confirm tag."""
    browses = [token for _, token in handle.browses]
    untagged = [*handle.queries, *browses, *handle.prepares]
    return [*handle.awaited.values(), *(AwaitedReply("untagged", token) for token in untagged)]


def tokens_of(channel: ClientChannel) -> list[Token]:
    """Tokens of all unanswered requests on a channel, except publishes to be confirmed."""
    replies = list(channel.awaited.values())
    for handle in channel.handles.values():
        replies += requests_of(handle)
    return [a.token for a in replies if a.kind != "confirm" and a.token is not None]
