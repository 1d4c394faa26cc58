"""The channels of one connection: how they begin, pause and end."""

from collections.abc import Callable
from typing import Any, Protocol, cast

from gateway.broker.channel import Channel, nothing
from gateway.broker.client import Client
from gateway.errors import LocalError
from gateway.operations import BeginSession, Operation
from gateway.sessions.context import SessionContext
from gateway.sessions.realms import Realms
from gateway.sessions.recipient import ChannelRecipient
from gateway.sessions.replies import Replies


class Endpoints(Protocol):
    """Links, handles or named sessions, which hear of the end of their channel."""

    def handlers(self) -> dict[type[Operation], Callable[[Channel, Any], object]]:
        """Functions that perform them, by operation on a channel."""
        ...

    def channel_ended(self, number: int, channel: Channel, /) -> None: ...

    def closed(self) -> None:
        """The connection has ended."""
        ...


class LiveChannels:
    """Those of one connection, which are in its context. ``client`` is set when the connection is
    opened, ``endpoints`` when the parts of the connection are made. ``refuses_alone``: a message
    that is refused does not cost its channel."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        follow: Callable[[], None],
        realms: Realms,
        refuses_alone: bool,
    ) -> None:
        self.client: Client | None = None
        self.endpoints: list[Endpoints] = []
        self.paused = False
        """The peer's socket is full: no deliveries."""
        self._context = context
        self._replies = replies
        self._follow = follow
        self._realms = realms
        self._refuses_alone = refuses_alone

    def begin(self, operation: BeginSession) -> None:
        context, number = self._context, operation.channel
        if context.adapter.closing or self.client is None:
            return  # requested in the read in which the connection was refused, or lost
        try:
            recipient = ChannelRecipient(context, self._replies, self._follow, number)
        except LocalError:
            return  # it was deferred, and a violation has closed the channel meanwhile
        channel = self.client.channel(number, recipient)
        recipient.join(channel)
        if self.paused:
            channel.pause()
        context.channels[number] = channel
        channel.settlements.counts_rejected = self._refuses_alone
        if operation.transacted:
            channel.transactions.select()
        self._replies.answer(number, operation.token)

    def rejoin(self, number: int, channel: Channel) -> None:
        """A channel that was kept belongs to this connection."""
        recipient = cast(ChannelRecipient, channel.recipient)
        recipient.move(self._context, self._replies, self._follow, number)
        recipient.join(channel)
        channel.flow(True)
        channel.pause() if self.paused else channel.resume()
        self._context.channels[number] = channel

    def pause(self) -> None:
        """No deliveries until ``resume``."""
        self.paused = True
        for channel in self._context.channels.values():
            channel.pause()

    def resume(self) -> None:
        self.paused = False
        for channel in list(self._context.channels.values()):
            channel.resume()

    def drop(self, number: int, then: Callable[[], None] = nothing) -> None:
        """End a channel, if it is open. ``then`` is called when its unsettled deliveries are back
        in their queues."""
        channel = self._context.channels.pop(number, None)
        if channel is not None:
            for endpoints in self.endpoints:
                endpoints.channel_ended(number, channel)
            self._realms.leave(channel)
            channel.close(then)
            cast(ChannelRecipient, channel.recipient).part()

    def close(self) -> None:
        """The connection has ended: all of them end with it."""
        for endpoints in self.endpoints:
            endpoints.closed()
        channels = list(self._context.channels.values())
        for channel in channels:
            self._realms.leave(channel)
        self._context.channels.clear()
        if self.client is not None:
            self.client.leave()
        for channel in channels:
            cast(ChannelRecipient, channel.recipient).part()

    def release(self) -> None:
        """Break the reference cycles of a connection that has ended."""
        self.endpoints.clear()
        self.client = None
        self._follow = nothing
