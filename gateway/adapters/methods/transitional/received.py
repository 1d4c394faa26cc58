"""One method of a client on a channel, as the handlers of a server see it."""

from typing import Any, NamedTuple, Protocol

from gateway.adapters.methods.codes import ReplyCodes
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.versions import Carried
from gateway.message import Message, Table


class ServerEngine(Protocol):
    """The engine, as far as requests and replies need it."""

    requests: bool
    frame_max: int
    max_message_octets: int
    announced: int
    life: Lifecycle
    codes: ReplyCodes

    def write(self, channel: int, record: Any, request: int = 0, asked: Any = None) -> None: ...

    def send_method(self, channel: int, record: Any, request: int = 0) -> int: ...


class Asked(NamedTuple):
    """A request of the client; the ``record`` of its token."""

    m: Any
    request: int
    """Its identifier; 0 if it is a plain method."""
    mark: int
    """Commands of the client up to it."""
    message: Message | None = None
    """That a transfer published."""


class Received(NamedTuple):
    """One method on a channel."""

    engine: Any
    channel: Channel
    method: Method
    m: Any
    carried: Carried | None

    @property
    def number(self) -> int:
        return self.channel.number

    @property
    def token(self) -> PendingReply:
        """For its operation."""
        return self.answering(None)

    @property
    def request(self) -> int:
        """Its identifier; 0 if it is a plain method."""
        return 0 if self.carried is None else self.carried.identifier

    def answering(self, message: Message | None) -> PendingReply:
        """The token of a transfer with this message."""
        request = 0 if self.carried is None else self.carried.identifier
        mark = self.channel.numbering.received
        return PendingReply(self.method, Asked(self.m, request, mark, message))


def table(entries: bytes) -> Table:
    """Arguments of a method. Raises ``FieldError``."""
    return types.read_arguments(entries) if entries else {}
