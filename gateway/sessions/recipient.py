"""The way out of one channel, as the broker sees it."""

from typing import TYPE_CHECKING

from gateway.broker.channel import Channel
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import Cancelled, Returned

if TYPE_CHECKING:
    from gateway.sessions.session import Session


def _open_gate(open_: bool) -> None:
    """Nobody is to be stopped."""


class ChannelRecipient:
    """What the broker calls for one channel. The hot two are the adapter's own methods."""

    __slots__ = ("outlet", "deliver", "confirm", "_session", "_number")

    def __init__(self, session: "Session", number: int) -> None:
        self.outlet = outlet = session.adapter.outlet(number)
        self.deliver = outlet.deliver
        self.confirm = outlet.confirm
        self._session = session
        self._number = number

    def join(self, channel: Channel) -> None:
        """What the outlet cannot take yet stops the channel."""
        self.outlet.gate = channel.gate

    def part(self) -> None:
        """The channel is over; nothing of it is to be held by what it was for."""
        self.outlet.gate = _open_gate

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        channel = self._session.channels.get(self._number)
        sequence = 0 if channel is None else channel.publish_path.sequence
        returned = Returned(self._number, message, condition, text, sequence)
        self._session.say(self._number, returned, message.weight)
        self._session.follow()

    def cancelled(self, tag: str) -> None:
        self._session.notify(Cancelled(self._number, tag))
