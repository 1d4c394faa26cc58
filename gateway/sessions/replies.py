"""Replies of one connection: on a channel, answers come in the order of the requests.

An answer that waits for the store holds back the answers behind it on its channel. Requests whose
only effect that the peer can see is their answer are performed meanwhile, so that declarations that
come together share one commit. All others are deferred: a fetch takes a message, a confirm may not
overtake a returned message, the end of the channel silences it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.broker.channel import Channel, nothing
from gateway.operations import (
    Acknowledge,
    Assure,
    AttachSource,
    AttachTarget,
    Bind,
    Cancelled,
    CloseDestination,
    Commit,
    Continue,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeclareTransaction,
    DeleteExchange,
    DeleteQueue,
    DetachLink,
    Discharge,
    Done,
    EndSubscription,
    EnterRealm,
    FindQueue,
    GiveBack,
    KeepSession,
    Listen,
    Manage,
    Modify,
    OpenDestination,
    Operation,
    Post,
    Prefetch,
    Prepare,
    Publish,
    PublishMany,
    PurgeQueue,
    Retire,
    RetireMany,
    Rollback,
    Select,
    SelectConfirms,
    SendMany,
    SendTo,
    SessionLost,
    Settle,
    SettleMany,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
)
from gateway.sessions.context import SessionContext

PERFORMED: frozenset[type[Operation]] = frozenset(
    [
        Acknowledge, Assure, AttachSource, AttachTarget, Bind, CloseDestination, Commit, Continue,
        DeclareExchange, DeclareQueue, DeclareTransaction, DeleteExchange, DeleteQueue, DetachLink,
        Discharge, EndSubscription, EnterRealm, FindQueue, GiveBack, Listen, Manage, Modify,
        OpenDestination, Post, Prefetch, Prepare, PurgeQueue, Retire, RetireMany,
        Rollback, Select, SelectConfirms, SendMany, SendTo, SessionLost, Settle, SettleMany,
        Subscribe, Synchronize, Unbind, Unsubscribe,
    ]
)  # fmt: skip
"""Performed while earlier answers of their channel wait. Deliveries to a consumer begin with the
answer to its request, and returned messages keep their place among the answers."""

MOST_OCTETS = 8 << 20
"""Octets of messages that came back and wait behind an answer, after which publishes wait too."""


class PendingAnswer:
    """An answer in the queue of its channel. ``safe``: it does not wait for the store; ``holds``:
    operations behind it may have to wait for it."""

    __slots__ = ("send", "safe", "holds")

    def __init__(self, send: Callable[[], None], safe: bool, holds: bool) -> None:
        self.send = send
        self.safe = safe
        self.holds = holds


class ChannelReplies:
    """One channel on which an answer waits: the answers, and the operations deferred behind them.
    ``holding`` counts the answers that operations may have to wait for."""

    __slots__ = ("answers", "deferred", "holding", "octets", "busy")

    def __init__(self) -> None:
        self.answers: deque[PendingAnswer] = deque()
        self.deferred: list[Operation] = []
        self.holding = 0
        self.octets = 0
        """Octets of returned messages among the answers."""
        self.busy = 0
        """Requests that are being performed over several turns: all other operations wait. One that
        an upstream has answered may begin another."""

    def defers(self, operation: Operation, channel: Channel | None) -> bool:
        """Whether this operation waits for the answers."""
        kind = operation.__class__
        if isinstance(operation, SessionLost) and operation.token is None:
            return False
        if self.deferred or self.busy or kind is KeepSession:
            return True
        if not self.holding:
            return False
        if kind is Publish or kind is PublishMany:
            # A confirm may not overtake a returned message, which keeps its place.
            confirmed = channel is not None and channel.publish_path.confirms is not None
            return confirmed or self.octets > MOST_OCTETS
        if isinstance(operation, Credit):
            return operation.drain
        return kind not in PERFORMED


class Replies:
    """Answers, notices and deferred operations of one connection.

    ``ready`` is called when deferred operations may be performed, which ``take_deferred`` gives,
    and when the last answer has been sent and nothing is deferred any more."""

    def __init__(self, context: SessionContext, ready: Callable[[], None]) -> None:
        self.waiting: dict[int, ChannelReplies] = {}
        """By channel; only those on which an answer waits or an operation is deferred."""
        self.deferred = 0
        """Number of deferred operations, over all channels."""
        self._context = context
        self._ready = ready
        self._notices: list[Cancelled] | None = None
        """Notices caused by the request that is being performed."""

    def release(self) -> None:
        """Let go of the session, which has ended."""
        self.waiting.clear()
        self._ready = nothing

    # --- sending --------------------------------------------------------------------------------

    def send(self, number: int, operation: Operation, octets: int = 0) -> None:
        """Send it behind the answers that wait on this channel: now, if none does. ``octets``: size
        of the message that it holds in memory meanwhile."""
        self._in_order(number, partial(self._context.adapter.send, operation), octets)

    def answer(
        self, number: int, token: Any, result: Any = None, then: Callable[[], None] | None = None
    ) -> None:
        """Send ``Done`` behind the answers that wait on this channel, then call ``then``."""
        if token is not None or then is not None:
            # A drain that overtook the start of a consumer would drop its credit.
            send = partial(self._done, number, token, result, then)
            self._in_order(number, send, holds=then is not None)

    def answer_when_safe(
        self,
        number: int,
        token: Any,
        result: Any = None,
        then: Callable[[], None] | None = None,
        *,
        holds: bool = True,
    ) -> None:
        """Likewise, once the store has committed everything requested so far. ``holds``: later
        operations may have to wait for this answer."""
        answer = PendingAnswer(partial(self._done, number, token, result, then), False, holds)
        queue = self._queue(number)
        queue.holding += holds
        queue.answers.append(answer)
        self._context.broker.when_safe(partial(self._safe, number, queue, answer))

    def begin_request(self) -> None:
        """Gather notices until ``end_request``, so that they follow the answer to the request."""
        self._notices = []

    def end_request(self) -> list[Cancelled]:
        """Notices that the request has caused."""
        notices, self._notices = self._notices, None
        return notices or []

    def notify(self, notice: Cancelled) -> None:
        """Send a notice that answers no request, but not between a request and its answer."""
        if self._notices is not None:
            self._notices.append(notice)
        elif not self._context.closed and notice.channel in self._context.channels:
            self.send(notice.channel, notice)

    def _done(self, number: int, token: Any, result: Any, then: Callable[[], None] | None) -> None:
        if token is not None:
            self._context.adapter.send(Done(number, token, result))
        if then is not None:
            then()

    # --- order ----------------------------------------------------------------------------------

    def _queue(self, number: int) -> ChannelReplies:
        queue = self.waiting.get(number)
        if queue is None:
            queue = self.waiting[number] = ChannelReplies()
        return queue

    def _in_order(
        self, number: int, send: Callable[[], None], octets: int = 0, holds: bool = False
    ) -> None:
        queue = self.waiting.get(number)
        if queue is None or not queue.answers:
            send()
        else:
            queue.holding += holds
            queue.answers.append(PendingAnswer(send, True, holds))
            queue.octets += octets

    def _safe(self, number: int, queue: ChannelReplies, answer: PendingAnswer) -> None:
        """The store has committed the request of this answer."""
        answer.safe = True
        answers = queue.answers
        if self.waiting.get(number) is not queue or answers[0] is not answer:
            return
        while answers and answers[0].safe:
            # It stays in its place while it is sent: the effects of sending it come behind it.
            answers[0].send()
            if self.waiting.get(number) is not queue:
                return
            queue.holding -= answers.popleft().holds
        if answers:
            return
        queue.octets = 0
        if not queue.busy:
            self._finish(number, queue)

    def _finish(self, number: int, queue: ChannelReplies) -> None:
        """No answer waits on the channel any more."""
        if not queue.deferred:
            del self.waiting[number]
        if queue.deferred or not self.waiting:
            self._ready()

    # --- deferred operations --------------------------------------------------------------------

    def occupy(self, number: int) -> Callable[[], None]:
        """Defer all operations on this channel until the function that this returns is called."""
        queue = self._queue(number)
        queue.busy += 1
        return partial(self._free, number, queue)

    def _free(self, number: int, queue: ChannelReplies) -> None:
        queue.busy -= 1
        if self.waiting.get(number) is queue and not queue.answers and not queue.busy:
            self._finish(number, queue)

    def defer(self, operation: Operation) -> bool:
        """Defer the operation if it has to wait; whether it has."""
        number = getattr(operation, "channel", None)
        queue = None if number is None else self.waiting.get(number)
        if queue is None or number is None:
            return False
        if not queue.defers(operation, self._context.channels.get(number)):
            return False
        queue.deferred.append(operation)
        self.deferred += 1
        return True

    def defer_first(self, number: int, operation: Operation) -> Callable[[], None]:
        """Defer an operation whose turn it is, and all that follow on its channel, until the
        function that this returns is called."""
        free = self.occupy(number)
        self.waiting[number].deferred.insert(0, operation)
        self.deferred += 1
        return free

    def all_deferred(self) -> list[Operation]:
        """All deferred operations, which stay deferred."""
        return [operation for queue in self.waiting.values() for operation in queue.deferred]

    def take_deferred(self) -> list[Operation]:
        """Deferred operations of the channels on which no answer waits any more, in their order."""
        found: list[Operation] = []
        for number, queue in list(self.waiting.items()):
            if not queue.answers and not queue.busy:
                found += self.forget(number)
        return found

    def forget(self, number: int) -> list[Operation]:
        """Drop the waiting answers of a channel that has ended; returns its deferred operations."""
        queue = self.waiting.pop(number, None)
        if queue is None:
            return []
        self.deferred -= len(queue.deferred)
        return queue.deferred

    def forget_all(self) -> list[Operation]:
        """Likewise for all channels of a connection that has ended."""
        return [operation for number in list(self.waiting) for operation in self.forget(number)]
