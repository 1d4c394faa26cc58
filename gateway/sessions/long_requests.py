"""Requests that may be too much for one turn of the loop: settling or recovering everything that is
unsettled, the ends of transactions, the end of a channel that holds much.

What is small is performed at once. What is not goes to the broker's ``Undertakings``, and what
follows on its channel waits until it is done, so that the peer sees everything in its order.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gateway.broker.channel import Channel
from gateway.errors import Refusal
from gateway.operations import Commit, Recover, Rollback, Settle, SettleMany
from gateway.sessions.replies import Replies

if TYPE_CHECKING:
    from gateway.sessions.session import Session


class LongRequests:
    """Of one connection. ``handlers`` by operation."""

    def __init__(self, session: "Session", replies: Replies) -> None:
        self._session = session
        self._replies = replies
        self.handlers: dict[type[Any], Callable[[Channel, Any], None]] = {
            Commit: self._commit,
            Recover: self._recover,
            Rollback: self._rollback,
            Settle: self._settle,
            SettleMany: self._settle_many,
        }

    def _settle(self, channel: Channel, op: Settle) -> None:
        if not op.multiple:
            channel.settlements.settle(op.delivery, False, op.outcome)
            return
        steps = channel.settlements.settling(op.delivery, op.outcome)
        if steps is not None:
            self.undertake(channel, op, steps, whole=False)

    def _settle_many(self, channel: Channel, op: SettleMany) -> None:
        steps = channel.settlements.settling_many(op.deliveries, op.outcome)
        if steps is not None:
            self.undertake(channel, op, steps, whole=False)

    def _recover(self, channel: Channel, op: Recover) -> None:
        if channel.settlements.much_to_settle:
            self.undertake(channel, op, channel.settlements.recovering(op.requeue), whole=False)
        else:
            channel.settlements.recover(op.requeue)
            self._session.answer(op.channel, op.token)

    def _rollback(self, channel: Channel, op: Rollback) -> None:
        if channel.transactions.much_to_commit:
            self.undertake(channel, op, channel.transactions.rolling_back(), whole=False)
        else:
            channel.transactions.rollback()
            self._session.answer(op.channel, op.token)

    def _commit(self, channel: Channel, op: Commit) -> None:
        if channel.transactions.much_to_commit:
            self.undertake(channel, op, channel.transactions.committing())
        else:
            channel.transactions.commit()
            self._session.answer_when_safe(op.channel, op.token)

    def undertake(
        self,
        channel: Channel,
        op: Any,
        steps: Iterator[None],
        whole: bool = True,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Perform a request in several turns, and answer it. ``whole``: it is one thing in the
        store, and answered when that has it. ``then`` is done behind the answer."""
        session, number = self._session, op.channel
        token = getattr(op, "token", None)
        free = self._replies.keep(number)

        def done(refusal: Refusal | None) -> None:
            if not session.closed and session.channels.get(number) is channel:
                if refusal is not None:
                    session.refuse(op, refusal)
                elif whole:
                    session.answer_when_safe(number, token, then=then)
                else:
                    session.answer(number, token, then=then)
            free()

        session.broker.state.undertakings.begin(steps, done, whole)

    def put_off(self, op: Any) -> None:
        """Perform a request behind what is being done in portions now."""
        free = self._replies.put_off(op.channel, op)
        undertakings = self._session.broker.state.undertakings
        undertakings.begin(iter(()), lambda refusal: free(), whole=False)

    def give_back(self, number: int, token: Any) -> None:
        """End a channel that holds much, and answer when all of it is back in its queues."""
        session = self._session
        free = self._replies.keep(number)

        def done() -> None:
            if not session.closed:
                session.answer(number, token)
            free()

        session.drop(number, done)
