"""Commits of one channel of a facade: the upstream makes them."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast

from gateway.broker.answers import Answer
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.feed_queue import Borrowed, ReturnedMessage, UpstreamWork
from gateway.broker.lanes import Entry
from gateway.broker.publish_path import PublishPath
from gateway.errors import Condition
from gateway.message import Message


class UpstreamCommits:
    """Operations that raise ``AwaitsUpstream`` are performed again when the answer has come; no
    other of the channel comes in between."""

    __slots__ = ("_host", "_publish_path", "_answer", "_outgoing", "_replies", "_entered")

    def __init__(self, publish_path: PublishPath) -> None:
        self._host = cast(FacadeVirtualHost, publish_path.vhost)
        self._publish_path = publish_path
        self._answer: Answer | None = None
        self._outgoing: list[tuple[Message, bool]] = []
        self._entered = 0
        """When the commit was asked for, if it is recorded."""
        """Messages of the transaction that go to the upstream, and whether they are mandatory."""
        self._replies: list[Message] = []
        """Direct replies of the transaction, whose place is here and not at the upstream."""

    def allow(self) -> None:
        """Raises ``AwaitsUpstream``, or refuses (540) if the upstream has no transactions."""
        self._value(self._host.upstream.allow_transactions)

    def commit(self, publishes: Iterable[tuple[Message, bool]], accepted: Iterable[Entry]) -> None:
        """Messages, and whether they are mandatory, and deliveries: all of it, or nothing. Raises
        ``AwaitsUpstream``, or the refusal. The arguments are ignored when it is performed again."""

        def begin() -> Answer:
            self._outgoing, self._replies = [], []
            for message, mandatory in publishes:
                if self._publish_path.is_direct_reply(message):
                    self._replies.append(message)
                else:
                    self._outgoing.append((message, mandatory))
            borrowed = [one for one in accepted if isinstance(one, Borrowed)]
            if self._host.outbound.recorder is not None:
                self._entered = self._host.outbound.recorder.journal.state.now
            return self._host.upstream.transact(UpstreamWork(self._outgoing, borrowed))

        returned: list[ReturnedMessage] = self._value(begin)
        path, outbound = self._publish_path, self._host.outbound
        for message, text in returned:
            path.listener.returned(message, Condition.NO_ROUTE, text or "NO_ROUTE")
        for message in self._replies:
            path.reply_directly(message)
        outbound.published += len(self._outgoing)
        if outbound.recorder is not None:
            for message in routed(self._outgoing, returned):
                outbound.recorder.record_forwarded(message, path.origin, self._entered)
        self._outgoing, self._replies = [], []

    def _value(self, begin: Callable[[], Answer]) -> Any:
        answer = self._answer
        if answer is None:
            answer = self._answer = begin()
        if answer.done:
            self._answer = None
        return answer.value()


def routed(
    outgoing: list[tuple[Message, bool]], returned: list[ReturnedMessage]
) -> Iterable[Message]:
    """Messages that were committed, without those that came back, in order."""
    back = Counter((one.exchange, one.key, bytes(one.body[:])) for one, _ in returned)
    for message, mandatory in outgoing:
        if mandatory and back:
            place = message.exchange, message.key, bytes(message.body[:])
            if back[place]:
                back[place] -= 1
                continue
        yield message
