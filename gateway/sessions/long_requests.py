"""Requests that may be too much for one turn of the loop: settling or recovering everything that is
unsettled, the ends of transactions and branches, the end of a channel that holds much.

Small requests are performed at once. Large ones go to the broker's ``LongOperations``, and the
operations behind them on their channel wait until they are done, so that the peer sees everything
in its order.
"""

from collections.abc import Callable, Iterator
from typing import Any

from gateway.broker.channel import Channel
from gateway.broker.long_operations import PORTION
from gateway.errors import AwaitsUpstream, Refusal
from gateway.operations import Acquire, Commit, Recover, Rollback, Settle, SettleMany
from gateway.sessions.branches import BRANCHES, BranchRequests
from gateway.sessions.context import SessionContext
from gateway.sessions.replies import Replies

Drop = Callable[[int, Callable[[], None]], None]
"""Ends a channel by its number, and calls the function when its messages are back in their
queues."""


class LongRequests:
    """Large requests of one connection. ``refuse`` tells the peer about a refused operation;
    ``drop`` ends a channel."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        refuse: Callable[[Any, Refusal], None],
        drop: Drop,
    ) -> None:
        self._context = context
        self._replies = replies
        self._refuse = refuse
        self._drop = drop

    def branch(self, channel: Channel, op: Any) -> None:
        """A request on a branch of a distributed transaction."""
        requests = BranchRequests(self._context, self._replies, self.undertake)
        BRANCHES[op.__class__](requests, channel, op)

    def settle(self, channel: Channel, op: Settle) -> None:
        if not op.multiple:
            channel.settlements.settle(op.delivery, False, op.outcome)
            return
        steps = channel.settlements.settling(op.delivery, op.outcome)
        if steps is not None:
            self.undertake(channel, op, steps, atomic=False)

    def settle_many(self, channel: Channel, op: SettleMany) -> None:
        steps = channel.settlements.settling_many(op.deliveries, op.outcome, op.reason)
        if steps is not None:
            self.undertake(channel, op, steps, atomic=False)

    def acquire(self, channel: Channel, op: Acquire) -> None:
        replies, held = self._replies, list[int]()
        steps = channel.acquiring(op.deliveries, held)

        def answer() -> None:
            replies.answer(op.channel, op.token, held)

        if len(op.deliveries) > PORTION:
            self.undertake(channel, op, steps, atomic=False, answer=answer)
            return
        for _ in steps:
            pass
        answer()

    def recover(self, channel: Channel, op: Recover) -> None:
        if channel.settlements.much_to_settle:
            self.undertake(channel, op, channel.settlements.recovering(op.requeue), atomic=False)
        else:
            channel.settlements.recover(op.requeue)
            self._replies.answer(op.channel, op.token)

    def rollback(self, channel: Channel, op: Rollback) -> None:
        if channel.transactions.much_to_commit:
            self.undertake(channel, op, channel.transactions.rolling_back(), atomic=False)
        else:
            channel.transactions.rollback()
            self._replies.answer(op.channel, op.token)

    def commit(self, channel: Channel, op: Commit) -> None:
        try:
            channel.transactions.commit_upstream()
        except AwaitsUpstream:
            raise
        except Refusal as refusal:
            self.undertake(channel, op, refused(channel.transactions.rolling_back(), refusal))
            return
        if channel.transactions.much_to_commit:
            self.undertake(channel, op, channel.transactions.committing())
        else:
            channel.transactions.commit()
            self._replies.answer_when_safe(op.channel, op.token)

    def undertake(
        self,
        channel: Channel,
        op: Any,
        steps: Iterator[None],
        atomic: bool = True,
        then: Callable[[], None] | None = None,
        answer: Callable[[], None] | None = None,
    ) -> None:
        """Perform a request in several turns, and answer it. ``atomic``: it is one commit of the
        store, and answered after that. ``then`` is called after the answer; ``answer`` gives
        another answer than ``Done`` without a result."""
        context, replies, refuse = self._context, self._replies, self._refuse
        number, token = op.channel, getattr(op, "token", None)
        free = replies.occupy(number)

        def done(refusal: Refusal | None) -> None:
            if context.has(number, channel):
                if refusal is not None:
                    refuse(op, refusal)
                elif answer is not None:
                    answer()
                elif atomic:
                    replies.answer_when_safe(number, token, then=then)
                else:
                    replies.answer(number, token, then=then)
            free()

        context.broker.state.long_operations.begin(steps, done, atomic)

    def postpone(self, op: Any) -> None:
        """Perform a request after the large requests that are being performed now."""
        free = self._replies.defer_first(op.channel, op)
        long_operations = self._context.broker.state.long_operations
        long_operations.begin(iter(()), lambda refusal: free(), atomic=False)

    def end_channel(self, number: int, token: Any) -> None:
        """End a channel with many unsettled deliveries, and answer when all of them are back in
        their queues."""
        context, replies = self._context, self._replies
        free = replies.occupy(number)

        def done() -> None:
            if not context.closed:
                replies.answer(number, token)
            free()

        self._drop(number, done)


def refused(undoing: Iterator[None], refusal: Refusal) -> Iterator[None]:
    """The steps of a commit that the upstream has refused."""
    yield from undoing
    raise refusal


LARGE: dict[type[Any], Callable[[LongRequests, Channel, Any], None]] = {
    Acquire: LongRequests.acquire,
    Commit: LongRequests.commit,
    Recover: LongRequests.recover,
    Rollback: LongRequests.rollback,
    Settle: LongRequests.settle,
    SettleMany: LongRequests.settle_many,
    **dict.fromkeys(BRANCHES, LongRequests.branch),
}
"""By operation."""
