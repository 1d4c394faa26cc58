"""Operations that an upstream has to answer first: they are performed again afterwards."""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.broker.channel import Channel
from gateway.errors import AwaitsUpstream, Refusal
from gateway.sessions.context import SessionContext
from gateway.sessions.replies import Replies


class Retries:
    """Those of one connection. ``act`` performs an operation, ``refuse`` tells the peer about a
    refused one. The operations behind it on its channel wait."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        act: Callable[[Any], None],
        refuse: Callable[[Any, Refusal], None],
    ) -> None:
        self._context = context
        self._replies = replies
        self._act = act
        self._refuse = refuse
        self._closed = False

    def close(self) -> None:
        """The connection has ended: nobody needs an answer that comes now."""
        self._closed = True
        del self._context, self._replies, self._act, self._refuse

    def wait(self, operation: Any, waits: AwaitsUpstream) -> None:
        """Perform an operation again when the answer has come."""
        number = operation.channel
        again = partial(
            self._again, operation, self._context.channels[number], self._replies.occupy(number)
        )
        waits.answer.then(again)

    def _again(self, operation: Any, channel: Channel, free: Callable[[], None]) -> None:
        if self._closed:
            return
        if not self._context.has(operation.channel, channel):
            free()
            return
        answers = channel.topology.answers
        assert answers is not None
        answers.again = True
        try:
            self._act(operation)
        except AwaitsUpstream as waits:
            waits.answer.then(partial(self._again, operation, channel, free))
            return
        except Refusal as refusal:
            self._refuse(operation, refusal)
        finally:
            answers.again = False
        free()
