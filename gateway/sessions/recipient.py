"""The recipient of one channel's deliveries, confirms and returns, as the broker sees it."""

from collections.abc import Callable
from typing import Any

from gateway.broker.channel import Channel
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import Cancelled, Returned
from gateway.sessions.context import SessionContext
from gateway.sessions.replies import Replies


def _unowned(allowed: bool) -> None:
    """No-op."""


class ChannelRecipient:
    """Callbacks of the broker for one channel. ``deliver``, ``deliver_run`` and ``confirm`` are
    hot: they are the adapter's own methods. Raises ``LocalError`` if the adapter has no such
    channel open."""

    __slots__ = (
        "outlet", "deliver", "deliver_run", "confirm", "_context", "_replies", "_follow", "_number",
        "_gone",
    )  # fmt: skip

    def __init__(
        self, context: SessionContext, replies: Replies, follow: Callable[[], None], number: int
    ) -> None:
        self.outlet = outlet = context.adapter.outlet(number)
        self.deliver = outlet.deliver
        self.deliver_run = getattr(outlet, "deliver_run", None)
        self.confirm = outlet.confirm
        self._context = context
        self._replies = replies
        self._follow = follow
        self._number = number
        self._gone: Callable[[str], None] | None = None
        """Called with the tag of a consumer that is cancelled while no connection has the
        channel."""

    def leave(self, gone: Callable[[str], None]) -> None:
        """The channel is kept without a connection."""
        self._gone = gone

    def move(
        self, context: SessionContext, replies: Replies, follow: Callable[[], None], number: int
    ) -> None:
        """The channel belongs to another connection now."""
        self._context, self._replies, self._follow = context, replies, follow
        self._number = number
        self._gone = None

    def answer(self, channel: Channel, token: Any, result: Any) -> None:
        """Answer a request that was not performed at once: another channel may have the number by
        then, or another connection the channel."""
        if self._context.has(self._number, channel):
            self._replies.answer(self._number, token, result)

    def join(self, channel: Channel) -> None:
        """Pause the channel while the outlet cannot take more."""
        self.outlet.allow_deliveries = channel.allow_deliveries

    def part(self) -> None:
        """Let go of the channel, which has ended."""
        self.outlet.allow_deliveries = _unowned

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        channel = self._context.channels.get(self._number)
        sequence = 0 if channel is None else channel.publish_path.sequence
        returned = Returned(self._number, message, condition, text, sequence)
        if sequence:  # before its confirm, which waits for no answer
            self._context.adapter.send(returned)
        else:
            self._replies.send(self._number, returned, message.weight)
        self._follow()

    def cancelled(self, tag: str) -> None:
        if self._gone is not None:
            self._gone(tag)
        else:
            self._replies.notify(Cancelled(self._number, tag))
