"""Channels and handles as the client keeps them: what is open, awaited, and not settled yet."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gateway.adapters.commands.connection import Connection
from gateway.adapters.commands.fragments import IncomingMessage
from gateway.adapters.commands.states import CLOSING, OPEN, State
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Service, Token

MOST_TAG = 0xFFFF

MOST_TEMPLATES = 1024
"""Encoded commands kept by a connection."""


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


class ClientChannels:
    """The channels and handles of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.channels: dict[int, ClientChannel] = {}
        self.handles: dict[int, ClientHandle] = {}
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

    def channel_of(self, number: int) -> int:
        """The number of a handle's channel; 0 if there is no such handle."""
        handle = self.handles.get(number)
        return 0 if handle is None else handle.channel.number

    # --- the end --------------------------------------------------------------------------------

    def silence(self) -> None:
        """The connection is being closed: nothing more is sent."""
        for channel in self.channels.values():
            channel.state = CLOSING

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        """Requests that will not be answered."""
        return [
            (channel.number, token)
            for channel in self.channels.values()
            for token in tokens_of(channel)
        ]

    def forget(self) -> None:
        self.channels.clear()
        self.handles.clear()


def untagged_tokens(handle: ClientHandle) -> list[Token]:
    """Tokens of what is answered without a tag."""
    browses = [token for _, token in handle.browses]
    found = [*handle.queries, *browses, *handle.prepares]
    return [token for token in found if token is not None]


def tokens_of(channel: ClientChannel) -> list[Token]:
    """All that is under way on a channel, but confirms."""
    replies = list(channel.awaited.values())
    found: list[Token] = []
    for handle in channel.handles.values():
        replies += handle.awaited.values()
        found += untagged_tokens(handle)
    return [a.token for a in replies if a.kind != "confirm" and a.token is not None] + found
