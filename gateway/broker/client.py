"""One attached connection: its channels, and the queues that end with it."""

from collections.abc import Callable

from gateway.broker.channel import Channel, ChannelBroker, Recipient
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import LocalError
from gateway.operations.rules import RABBITMQ, VersionRules


class Client:
    """Made by ``Broker.attach``. Exclusive queues belong to it. ``rules`` are those of its version,
    ``prefetch`` the limits (messages, octets) of the channels that it will open."""

    def __init__(
        self,
        broker: ChannelBroker,
        vhost: VirtualHost,
        user: str,
        name: str,
        rules: VersionRules = RABBITMQ,
    ) -> None:
        self.broker = broker
        self.vhost = vhost
        self.user = user
        self.name = name
        self.rules = rules
        self.origin: dict[str, str] = {}
        """Its protocol and product for the journal, beside its user and its name."""
        self.journal_origin = 0
        """Number under which the journal has described it last."""
        self.prefetch: tuple[int, int] = (0, 0)
        self.channels: dict[int, Channel] = {}
        self.exclusive: dict[Queue, None] = {}
        self.is_session = False
        self.closed = self.left = False
        self._kept = 0
        """The number of the last channel that was kept, negative."""
        self.ended: Callable[[], None] = lambda: None
        """Called once when it is closed, also by the deletion of its virtual host."""

    @property
    def names(self) -> frozenset[str]:
        """Its user and its client id."""
        return frozenset(filter(None, (self.user, self.origin.get("client_id"))))

    def channel(self, number: int, recipient: Recipient) -> Channel:
        """Open a channel."""
        if number in self.channels:
            raise LocalError(f"channel {number} is open already")
        channel = Channel(self, number, recipient)
        channel.window.limit, channel.window.size = self.prefetch
        self.channels[number] = channel
        return channel

    def keep(self, channel: Channel) -> None:
        """A channel may outlive the connection. Another may have its number."""
        if self.channels.get(channel.number) is channel:
            del self.channels[channel.number]
            self._kept -= 1
            channel.number = self._kept
            self.channels[channel.number] = channel

    def leave(self) -> None:
        """The connection has ended. Exclusive queues stay as long as a channel is kept."""
        self.left = True
        for number, channel in list(self.channels.items()):
            if number >= 0:
                channel.close()
        self._close_unused()

    def forget(self, channel: Channel) -> None:
        """A channel is closed."""
        self.channels.pop(channel.number, None)
        self._close_unused()

    def _close_unused(self) -> None:
        if self.left and not self.channels:
            self.close()

    def close(self) -> None:
        """Everything that belongs to the connection ends. May be called twice."""
        if self.closed:
            return
        self.closed = True
        for channel in list(self.channels.values()):
            channel.close()
        self.vhost.remove_queues(list(self.exclusive))
        self.vhost.clients.pop(self, None)
        self.ended()

    def forget_rights(self) -> None:
        for channel in self.channels.values():
            channel.forget_rights()

    def forget_exchange(self, name: str) -> None:
        """An exchange is gone. Another of its name needs permission anew."""
        for channel in self.channels.values():
            channel.publish_path.writable.pop(name, None)
