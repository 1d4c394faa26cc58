"""Branches of distributed transactions (X/Open XA) in one virtual host.

A branch has the work of every channel that was associated with it. It outlives those channels once
they have ended their association. Prepared branches outlive the process: a record names the user
and the lane in which the store keeps the durable messages to be published; records under its key
name their queues, and the deliveries that were settled (see ``branch_records``).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from gateway.broker.branch_records import (
    StoredBranch,
    forget_branch,
    read_branches,
    save_decision,
    saving_branch,
)
from gateway.broker.consumers import Window
from gateway.broker.counters import BranchSnapshot
from gateway.broker.exchanges import Exchange
from gateway.broker.lanes import Entry, Lane
from gateway.broker.long_operations import PORTION, freeing, unanswered
from gateway.broker.publish_path import PublishPath, ToAll, deliver_now, read_copies
from gateway.broker.queues import Queue
from gateway.broker.returning import handed
from gateway.broker.settlements import ChannelSettlements
from gateway.broker.state import BrokerState
from gateway.broker.store import Record
from gateway.broker.transactions import PreparedPublishes, Transaction
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal, Unstorable
from gateway.message import Message
from gateway.operations import BranchStatus, Outcome, Xid

Completing = Generator[None, None, BranchStatus]
"""A long operation with a result."""

HEURISTIC = (BranchStatus.HEURISTIC_COMMIT, BranchStatus.HEURISTIC_ROLLBACK)
"""Of branches that were decided by hand."""
STATES = dict(
    zip((BranchStatus.OK, *HEURISTIC), ("prepared", "committed", "rolled-back"), strict=True)
)
"""How those in doubt are shown."""
REMEMBERED = 3_600_000
"""Milliseconds for which a branch that was rolled back without its coordinator is known, so that
the coordinator hears why."""


class Work:
    """The work of one channel in one branch. ``publish_path`` is ``None`` after a restart.
    ``associated`` also while it is ``suspended``. ``publishes`` are set by preparation."""

    __slots__ = (
        "branch", "settlements", "publish_path", "transaction", "associated", "suspended",
        "publishes",
    )  # fmt: skip

    def __init__(
        self,
        branch: "Branch",
        settlements: ChannelSettlements,
        publish_path: PublishPath | None = None,
    ) -> None:
        self.branch = branch
        self.settlements = settlements
        self.publish_path = publish_path
        self.transaction = Transaction(branch.branches.count_publish)
        self.associated = publish_path is not None
        self.suspended = False
        self.publishes: PreparedPublishes | None = None

    @property
    def size(self) -> int:
        """Publishes and settlements."""
        return len(self.transaction.publishes) + len(self.transaction.settlements)

    def count_octets(self, octets: int) -> None:
        """Publishes of so many octets more are held in memory."""
        branches = self.branch.branches
        branches.octets += octets
        branches.state.octets += octets

    def take(self) -> tuple[list[tuple[Message, bool, bool]], list[Entry]]:
        """The publishes, and the deliveries that were settled: they are the caller's now."""
        transaction = self.transaction
        self.count_octets(-transaction.octets)
        if self.publishes is not None:
            self.publishes.release()
            self.publishes = None
        settled = transaction.take_settlements()
        return transaction.take_publishes(), [entry for _, entry, _ in settled]

    def undoing(self) -> Iterator[None]:
        """Forget the publishes; the deliveries go back to their queues."""
        publishes, entries = self.take()
        if len(entries) > PORTION:
            yield from self.settlements.concluding(handed(entries, Outcome.RELEASE))
        else:
            self.settlements.conclude((entry, Outcome.RELEASE) for entry in entries)
        if len(publishes) > PORTION:
            yield from freeing(publishes)

    def preparing(self) -> Iterator[None]:
        """Route the publishes and reserve room for them. Refuses (406)."""
        publishes = self.transaction.publishes
        vhost = self.settlements.vhost
        flags = iter([(mandatory, immediate) for _, mandatory, immediate in publishes])

        def route(exchange: Exchange, message: Message) -> tuple[Message, tuple[Queue, ...]]:
            sent, queues = self.routed(exchange, message)
            mandatory, immediate = next(flags)
            if not queues:
                vhost.unrouted += 1
                if mandatory or immediate:
                    self.give_back(message, Condition.NO_ROUTE, "NO_ROUTE")
            elif immediate:
                queues = deliver_now(queues, sent, self.origin)
                if not queues:
                    self.give_back(message, Condition.NO_CONSUMERS, "NO_CONSUMERS")
            return sent, queues

        self.publishes = PreparedPublishes(vhost, [message for message, _, _ in publishes], route)
        yield from self.publishes.preparing()

    def routed(self, exchange: Exchange, message: Message) -> tuple[Message, tuple[Queue, ...]]:
        """A message without the keys that its receivers must not see, and its queues."""
        router = self.settlements.vhost.router
        if message.__class__ is ToAll:
            return message, tuple(exchange.everywhere(message))
        if not (message.essentials.has_headers and b"CC" in message.header):
            return message, router.route(exchange, message)
        message, copies = read_copies(message)
        queues = router.route(exchange, message)
        return message, router.route_copies(exchange, message, queues, copies)

    @property
    def origin(self) -> object:
        """The connection that published."""
        return None if self.publish_path is None else self.publish_path.origin

    def give_back(self, message: Message, condition: Condition, text: str) -> None:
        """Return a message to its publisher, if that is still there."""
        if self.publish_path is not None and not self.settlements.window.closed:
            self.publish_path.listener.returned(message, condition, text)

    def committing(self) -> Iterator[None]:
        """Perform the prepared publishes and settlements."""
        assert self.publishes is not None
        yield from self.publishes.putting(self.origin)
        transaction = self.transaction
        self.count_octets(-transaction.octets)
        self.publishes = None
        publishes = transaction.take_publishes()
        if len(publishes) > PORTION:
            yield from freeing(publishes)
        settlements = transaction.take_settlements()
        much = len(settlements) > PORTION
        settlements.reverse()
        settled = (settlements.pop()[1:] for _ in range(len(settlements)))
        if much:
            yield from self.settlements.concluding(settled, atomic=True)
        else:
            self.settlements.conclude(settled, atomic=True)


class Branch:
    """``status`` is that of a rollback when it can only be rolled back, and a heuristic one when it
    was decided by hand. ``number`` is that of its lane in the store when it is prepared, which was
    at ``since``. ``completing``: it is being prepared, committed or rolled back. ``seconds`` is its
    time, 0 is no limit, which is over at ``deadline``."""

    __slots__ = (
        "branches", "xid", "user", "works", "status", "prepared", "number", "since", "completing",
        "seconds", "deadline", "due",
    )  # fmt: skip

    def __init__(self, branches: "Branches", xid: Xid, user: str) -> None:
        self.branches = branches
        self.xid = xid
        self.user = user
        self.works: list[Work] = []
        self.status = BranchStatus.OK
        self.prepared = False
        self.number = 0
        self.since = 0
        self.completing = False
        self.seconds = 0
        self.deadline: int | None = None
        self.due: int | None = None

    @property
    def associated(self) -> bool:
        """Whether a channel works in it, or has suspended it."""
        return any(work.associated for work in self.works)

    @property
    def decided(self) -> bool:
        """It was committed or rolled back by hand, and is not forgotten."""
        return self.status in HEURISTIC

    def snapshot(self) -> BranchSnapshot:
        """Of one that is prepared or decided."""
        works = [work.transaction for work in self.works]
        return BranchSnapshot(
            self.branches.vhost.name,
            str(self.xid),
            self.user,
            STATES[self.status],
            self.since,
            sum(len(work.publishes) for work in works),
            sum(len(work.settlements) for work in works),
        )

    @property
    def much(self) -> bool:
        """Whether completing it is more than a portion."""
        return sum(work.size for work in self.works) > PORTION

    def set_timeout(self, seconds: int) -> None:
        """Its time starts anew, unless it is rolled back already."""
        self.seconds = seconds
        if self.xid in self.branches.remembered:
            return
        self.deadline = None
        if seconds and not self.prepared:
            state = self.branches.state
            self.deadline = state.now + 1000 * seconds
            state.schedule(self, self.deadline)

    def on_due(self) -> None:
        """Its time may be over: it is rolled back, and forgotten some time later."""
        if self.deadline is None or self.prepared or self.completing:
            return
        state = self.branches.state
        if self.deadline > state.now:
            state.schedule(self, self.deadline)
            return
        if self.xid in self.branches.remembered and not self.associated:
            self.branches.drop(self)
            return
        self.status = BranchStatus.ROLLBACK_TIMEOUT
        self.branches.remember(self)
        state.long_operations.begin(self.undoing(), unanswered, atomic=False)

    def undoing(self) -> Iterator[None]:
        for work in self.works:
            yield from work.undoing()
        if not self.associated:
            self.works = []

    def lose(self, work: Work) -> tuple[list[tuple[Message, bool, bool]], list[Entry]]:
        """A channel has gone while it was associated: the branch is rolled back, and can only be
        rolled back (0-10, dtx.end, rule "session-closed"). Answers with the publishes and
        deliveries of the channel."""
        work.associated = False
        taken = work.take()
        if self.status is BranchStatus.OK:
            self.status = BranchStatus.ROLLBACK
        if not self.associated:
            self.branches.remember(self)
            steps = self.undoing()
            self.branches.state.long_operations.begin(steps, unanswered, atomic=False)
        return taken

    # --- completion, as long operations ---------------------------------------------------------

    def preparing(self) -> Completing:
        """Afterwards it can be committed, also after a crash. If it cannot be, its work is rolled
        back, and it can only be rolled back."""
        if self.status is not BranchStatus.OK:
            return (yield from self.ending())
        try:
            for work in self.works:
                yield from work.preparing()
            state = self.branches.state
            self.since = state.now
            if not state.volatile:
                self.number = state.number()
                yield from self.saving()
        except (Refusal, Unstorable) as reason:
            self.branches.state.warn(f"branch {self.xid} is rolled back: {reason}")
            self.status = BranchStatus.ROLLBACK
            return (yield from self.ending())
        self.prepared = True
        self.deadline = None
        self.completing = False
        return BranchStatus.OK

    def saving(self) -> Iterator[None]:
        """Its messages and records go into the store."""
        works = self.works
        settled = (one[1:] for work in works for one in work.transaction.settlements)
        yield from saving_branch(
            self.branches.state.store,
            self.stored(),
            [work.publishes for work in works if work.publishes is not None],
            settled,
        )

    def stored(self) -> StoredBranch:
        """Its record in the store, without messages and deliveries."""
        vhost = self.branches.vhost.name
        return StoredBranch(
            vhost, self.xid, self.user, self.number, {}, [], self.since, self.status
        )

    def deciding(self, commit: bool) -> Completing:
        """A prepared branch is completed by hand. It is known until it is forgotten."""
        works, self.works = self.works, []
        for work in works:
            yield from work.committing() if commit else work.undoing()
        self.status = HEURISTIC[0] if commit else HEURISTIC[1]
        self.branches.forget_work(self)
        if not self.branches.state.volatile:
            save_decision(self.branches.state.store, self.stored())
        self.completing = False
        return self.status

    def committing(self) -> Completing:
        """Of a prepared branch, or of one that is not, in one phase."""
        if self.decided:
            self.completing = False  # its coordinator is told how
            return self.status
        if self.status is not BranchStatus.OK:
            return (yield from self.ending())
        if not self.prepared:
            try:
                for work in self.works:
                    yield from work.preparing()
            except Refusal as reason:
                self.branches.state.warn(f"branch {self.xid} is rolled back: {reason}")
                self.status = BranchStatus.ROLLBACK
                return (yield from self.ending())
        for work in self.works:
            yield from work.committing()
        self.branches.drop(self)
        return BranchStatus.OK

    def rolling_back(self) -> Completing:
        """Answers with ``OK``, unless its time was over before."""
        if self.decided:
            self.completing = False
            return self.status
        self.branches.drop(self)
        yield from self.undoing()
        timed_out = self.status is BranchStatus.ROLLBACK_TIMEOUT
        return self.status if timed_out else BranchStatus.OK

    def ending(self) -> Completing:
        """It cannot be prepared or committed. Its coordinator, told that it can only be rolled
        back, may do that; told that its time was over, it is done."""
        if self.status is BranchStatus.ROLLBACK:
            self.branches.remember(self)
        else:
            self.branches.drop(self)
        yield from self.undoing()
        self.completing = False
        return self.status


class Branches:
    """Of one virtual host, by xid."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.state: BrokerState = vhost.state
        self.known: dict[Xid, Branch] = {}
        self.remembered: dict[Xid, Branch] = {}
        """Those of them that were rolled back without their coordinator; the oldest are forgotten
        first, also where their room is needed."""
        self.octets = 0
        """Of their publishes."""

    def count_publish(self, message: Message) -> None:
        """Refuses (506) a publish if the branches hold too much."""
        most = self.state.limits.max_branch_octets
        if self.octets + message.weight > most:
            text = f"branches of vhost '{self.vhost.name}' hold more than {most} octets"
            raise Refusal(Condition.RESOURCE_ERROR, text)
        self.octets += message.weight

    def make(self, xid: Xid, user: str) -> Branch:
        """Refuses (506) too many."""
        most = self.state.limits.max_branches
        if len(self.known) >= most:
            self.forget_remembered()
        if len(self.known) >= most:
            text = f"cannot have more than {most} branches in vhost '{self.vhost.name}'"
            raise Refusal(Condition.RESOURCE_ERROR, text)
        branch = self.known[xid] = Branch(self, xid, user)
        branch.set_timeout(self.state.limits.max_branch_seconds)
        return branch

    def find(self, xid: Xid, user: str | None, unknown: Condition = Condition.NOT_FOUND) -> Branch:
        """Refuses an unknown one, and (403) one of another user; ``None`` is any user."""
        branch = self.known.get(xid)
        if branch is None:
            raise Refusal(unknown, f"no branch {xid}")
        if user is not None and branch.user != user:
            raise Refusal(Condition.ACCESS_REFUSED, f"branch {xid} belongs to another user")
        return branch

    def complete(self, xid: Xid, user: str) -> Branch:
        """One that no channel is associated with, which is being completed from now on."""
        branch = self.find(xid, user)
        if branch.associated:
            raise illegal(f"a channel is associated with branch {xid}")
        if branch.completing:
            raise illegal(f"branch {xid} is being completed")
        branch.completing = True
        return branch

    def prepare(self, xid: Xid, user: str) -> tuple[bool, Completing]:
        """Whether it is much, and a long operation. The same for the others."""
        branch = self.complete(xid, user)
        if branch.prepared:
            branch.completing = False
            raise illegal(f"branch {xid} is prepared")
        return branch.much, branch.preparing()

    def commit(self, xid: Xid, user: str, one_phase: bool) -> tuple[bool, Completing]:
        branch = self.complete(xid, user)
        if branch.status is BranchStatus.OK and branch.prepared is one_phase:
            branch.completing = False
            state = "is prepared" if one_phase else "is not prepared"
            raise illegal(f"branch {xid} {state}")
        return branch.much, branch.committing()

    def rollback(self, xid: Xid, user: str) -> tuple[bool, Completing]:
        branch = self.complete(xid, user)
        return branch.much, branch.rolling_back()

    def decide(self, xid: Xid, commit: bool) -> tuple[bool, Completing]:
        """Complete a prepared branch by hand, whoever's it is: its coordinator may decide
        otherwise, and is told so when it does."""
        branch = self.known.get(xid)
        if branch is None:
            raise Refusal(Condition.NOT_FOUND, f"no branch {xid}")
        if not branch.prepared or branch.decided or branch.completing:
            raise illegal(f"branch {xid} is not prepared")
        branch.completing = True
        outcome = "committed" if commit else "rolled back"
        self.state.warn(f"branch {xid} of {branch.user} is {outcome} by hand")
        return branch.much, branch.deciding(commit)

    def forget(self, xid: Xid, user: str | None) -> None:
        """Forget a branch that was decided by hand; ``None`` is any user. Refuses others."""
        branch = self.find(xid, user)
        if not branch.decided:
            state = "has an associated channel" if branch.associated else "is not completed"
            raise illegal(f"branch {xid} {state}")
        self.drop(branch)

    @property
    def in_doubt(self) -> list[Branch]:
        """The prepared ones, and those that were decided by hand."""
        return [branch for branch in self.known.values() if branch.prepared]

    def recover(self, user: str) -> list[Xid]:
        """Those in doubt of a user."""
        return [branch.xid for branch in self.in_doubt if branch.user == user]

    def remember(self, branch: Branch) -> None:
        """Its work is rolled back: its coordinator is told so, for some time from now on."""
        self.forget_work(branch)
        self.remembered[branch.xid] = branch
        branch.deadline = self.state.now + REMEMBERED
        self.state.schedule(branch, branch.deadline)

    def forget_remembered(self) -> None:
        """Make room for another branch."""
        for branch in self.remembered.values():
            if not (branch.associated or branch.completing):
                self.drop(branch)
                return

    def drop(self, branch: Branch) -> None:
        """It is unknown from now on, also to the store."""
        self.known.pop(branch.xid, None)
        self.remembered.pop(branch.xid, None)
        branch.deadline = None
        if branch.number:
            self.forget_work(branch)
        elif branch.decided and not self.state.volatile:
            forget_branch(self.state.store, self.vhost.name, branch.xid, 0)

    def forget_work(self, branch: Branch) -> None:
        """The store keeps nothing of it."""
        if branch.number:
            forget_branch(self.state.store, self.vhost.name, branch.xid, branch.number)
            branch.number = 0

    def restore(self, stored: StoredBranch, lanes: dict[int, tuple[Queue, Lane]]) -> None:
        """A prepared branch as the store has it; ``lanes`` of the queues by number."""
        branch = self.known[stored.xid] = Branch(self, stored.xid, stored.user)
        branch.prepared, branch.number = True, stored.number
        branch.since, branch.status = stored.since, stored.status
        if branch.decided:
            return
        work = Work(branch, ChannelSettlements(Window(), self.vhost))
        branch.works.append(work)
        for number, outcome, positions in stored.settled:
            if number in lanes:
                work.transaction.settlements += [
                    (0, entry, outcome) for entry in taken_again(*lanes[number], positions)
                ]
        publishes = work.publishes = PreparedPublishes(self.vhost, [])
        start = 1
        while found := self.state.store.read(stored.number, start, PORTION):
            for kept in found:
                names = stored.queues.get(kept.position, [])
                queues = [self.vhost.queues[name] for name in names if name in self.vhost.queues]
                publishes.restore(kept.message, tuple(queues))
                work.transaction.publishes.append((kept.message, False, False))
                work.transaction.octets += kept.message.weight
            start = found[-1].position + 1
        work.count_octets(work.transaction.octets)

    def close(self) -> None:
        """The virtual host is deleted: roll back all of them."""
        for branch in list(self.known.values()):
            self.drop(branch)
            self.state.long_operations.begin(branch.undoing(), unanswered, atomic=False)


def taken_again(queue: Queue, lane: Lane, positions: list[int]) -> Iterator[Entry]:
    """Deliveries of an earlier process out of a queue that was restored: they are unsettled."""
    for position in positions:
        stored = lane.at(position)
        if stored is not None:
            entry = queue.backlog.take(lane, stored)
            entry.deliveries = max(entry.deliveries, 1)
            queue.unsettled += 1
            yield entry


def restore_branches(
    records: Iterable[Record],
    vhosts: Mapping[str, VirtualHost],
    branches_of: Callable[[VirtualHost], Branches],
) -> None:
    """Prepared branches of all virtual hosts, whose queues are restored."""
    lanes = {
        lane.number: (queue, lane)
        for vhost in vhosts.values()
        for queue in (*vhost.queues.values(), *vhost.leaving)
        for lane in queue.backlog.lanes
    }
    for stored in read_branches(records):
        if stored.vhost in vhosts:
            branches_of(vhosts[stored.vhost]).restore(stored, lanes)


def illegal(text: str) -> Refusal:
    """The command does not fit the state of the branch (409 illegal-state of 0-10)."""
    return Refusal(Condition.CHANNEL_ERROR, text)
