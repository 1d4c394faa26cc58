"""State of one connection that the parts of its session share."""

from gateway.adapters.contract import Adapter
from gateway.broker.broker import Broker
from gateway.broker.channel import Channel


class SessionContext:
    """Written by the session; ``publisher`` also by the parts that publish."""

    __slots__ = (
        "broker", "adapter", "number", "channels", "user", "vhost", "publisher", "closed",
    )  # fmt: skip

    def __init__(self, broker: Broker, adapter: Adapter) -> None:
        self.broker = broker
        self.adapter = adapter
        self.number = 0
        """Number of the connection in this process, from 1 once it is registered."""
        self.channels: dict[int, Channel] = {}
        """Open channels by number."""
        self.user = ""
        """Name of the authenticated user; "" before ``Open``."""
        self.vhost = ""
        """Name of the virtual host; "" before ``Open``."""
        self.publisher = False
        """The peer has published at least once."""
        self.closed = False
        """The connection has ended; its channels are being given back or are gone."""

    def has(self, number: int, channel: Channel) -> bool:
        """Whether this channel still has its number: requests of several turns ask before they
        answer, for another channel may have it by then."""
        return not self.closed and self.channels.get(number) is channel
