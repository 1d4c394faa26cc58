"""Settlement of the deliveries of one feed, alone and by the commits of transactions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from gateway.adapters.contract import Capability
from gateway.broker.settlements import FAILED
from gateway.errors import Condition, GatewayError, Refusal
from gateway.message import Table
from gateway.net.dialer import Remote
from gateway.operations import Commit, Modify, Outcome, Select, Settle

log = logging.getLogger("gateway.bridge")


class SettlementsOwner(Protocol):
    """The feed."""

    def before_settling(self) -> None: ...

    def after_settling(self) -> None: ...


class FeedSettlements:
    """``unsettled`` are the deliveries of the channel that are not settled at the upstream, in
    order. ``lost``: the upstream delivers them again, and takes no settlement. ``keeps``: the
    queue keeps its messages, and takes nothing but acceptances."""

    def __init__(self, owner: SettlementsOwner, remote: Remote, channel: int) -> None:
        self.unsettled: dict[int, None] = {}
        self.lost = False
        self.keeps = False
        self._owner = owner
        self._remote = remote
        self._channel = channel
        self._accepted: list[int] = []
        self._settling = False
        self._selected = False
        """The channel has transactions: each settlement needs a commit."""
        self._commits = 0
        """Commits that are to be made; other settlements wait for their end."""
        self._commit_turn = asyncio.Lock()
        self._committing: dict[int, Outcome | None] = {}
        """Deliveries that a commit settles, with the outcome that they got meanwhile since their
        consumer has gone."""
        self._committed: set[int] = set()
        """Deliveries that a commit has settled, and that are accepted here next."""
        self._deferred: list[Settle | Modify] = []

    @property
    def complete(self) -> bool:
        """Nothing is unsettled, and no commit is to be made."""
        return not self.unsettled and not self._commits

    def settle(self, delivery: int, outcome: Outcome) -> None:
        if outcome is Outcome.ACCEPT or (self.keeps and not self.lost):
            self.accept(delivery)
        elif self.lost:
            self._owner.after_settling()
        elif delivery in self._committing:
            self._committing[delivery] = outcome
        else:
            self.unsettled.pop(delivery, None)
            self._send([Settle(self._channel, delivery, False, outcome)])

    def modify(self, delivery: int, elsewhere: bool, added: Table | None) -> None:
        """Release with the modified outcome (1.0 §3.4.5); other versions have none."""
        modifies = Capability.LINKS in self._remote.adapter.capabilities
        if self.lost or self.keeps or not modifies or delivery in self._committing:
            self.settle(delivery, Outcome.RELEASE)
            return
        notes = dict(added or {})
        failed = notes.pop(FAILED, None) is not None
        self.unsettled.pop(delivery, None)
        self._send([Modify(self._channel, delivery, failed, elsewhere, notes or None)])

    def accept(self, delivery: int) -> None:
        """Hot. Accepted deliveries are settled at the end of the turn, as many at once as stand
        in a row."""
        if self.lost:
            self._owner.after_settling()
            return
        if self._committed and delivery in self._committed:
            self._committed.discard(delivery)
        else:
            self._accepted.append(delivery)
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        self._settling = False
        if self.lost or self._commits:
            return
        accepted, unsettled = self._accepted, self.unsettled
        self._accepted = []
        if not accepted:
            self._send([])
            return
        if len(accepted) == len(unsettled):
            front = next(reversed(unsettled))
            unsettled.clear()
            self._send([Settle(self._channel, front, True, Outcome.ACCEPT)])
            return
        done = set(accepted)
        front = 0
        for delivery in unsettled:
            if delivery not in done:
                break
            front = delivery
        settled = [Settle(self._channel, front, True, Outcome.ACCEPT)] if front else []
        for delivery in accepted:
            unsettled.pop(delivery, None)
            if delivery > front:
                settled.append(Settle(self._channel, delivery, False, Outcome.ACCEPT))
        self._send(settled)

    def _send(self, settled: Sequence[Settle | Modify]) -> None:
        if self._commits:
            self._deferred += settled
            return
        self._owner.before_settling()
        try:
            for one in settled:
                self._remote.send(one)
            if self._selected and settled:
                self._remote.request(Commit(self._channel, None)).add_done_callback(unheard)
        except GatewayError as error:  # the connection is lost
            log.debug("settling: %s", error)
            return
        self._remote.wake()
        self._owner.after_settling()

    # --- commits ----------------------------------------------------------------------------------

    def begin_commit(self, deliveries: list[int]) -> None:
        """A commit is going to settle these; ``committing`` has to follow."""
        self._commits += 1
        for delivery in deliveries:
            self.unsettled.pop(delivery, None)
            self._committing[delivery] = None

    @asynccontextmanager
    async def committing(self, deliveries: list[int]) -> AsyncIterator[tuple[Remote, int]]:
        """The connection and the channel, on which nothing else is settled meanwhile. Left by an
        exception, the deliveries are unsettled again. Raises ``Refusal``."""
        done = False
        try:
            async with self._commit_turn:
                if self.lost:
                    text = "the upstream delivers the messages of this transaction again"
                    raise Refusal(Condition.RESOURCE_ERROR, text)
                if not self._selected:
                    await self._remote.request(Select(self._channel, None))
                    self._selected = True
                yield self._remote, self._channel
                done = True
        finally:
            self._end_commit(deliveries, done)

    def _end_commit(self, deliveries: list[int], done: bool) -> None:
        self._commits -= 1
        if not done and not self.lost:
            in_order = sorted((*self.unsettled, *deliveries))
            self.unsettled.clear()
            self.unsettled.update(dict.fromkeys(in_order))
        outcomes = [(delivery, self._committing.pop(delivery)) for delivery in deliveries]
        if self.lost:
            return
        for delivery, outcome in outcomes:
            if done and outcome is None:
                self._committed.add(delivery)
            elif outcome is not None and not done:
                self.settle(delivery, outcome)
        if not self._commits:
            deferred, self._deferred = self._deferred, []
            self._send(deferred)
            self._settle()


def unheard(answer: "asyncio.Future[Any]") -> None:
    """The answer has no reader; a refusal ends the channel, which is noticed elsewhere."""
    if not answer.cancelled():
        answer.exception()
