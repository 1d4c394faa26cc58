"""Associations of one channel with branches of distributed transactions."""

from collections.abc import Iterator

from gateway.broker.branches import Branches, Work, illegal
from gateway.broker.lanes import Entry
from gateway.broker.publish_path import PublishPath
from gateway.broker.settlements import ChannelSettlements
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import BranchStatus, Xid


class ChannelBranches:
    """Associations of one channel: the ``active`` one, and suspended ones by xid."""

    def __init__(
        self,
        branches: Branches,
        settlements: ChannelSettlements,
        publish_path: PublishPath,
        user: str,
    ) -> None:
        self.branches = branches
        self.settlements = settlements
        self.publish_path = publish_path
        self.user = user
        self.active: Work | None = None
        self.suspended: dict[Xid, Work] = {}

    @property
    def held(self) -> int:
        """Publishes and settlements that are given up with the channel."""
        found = sum(work.size for work in self.suspended.values())
        return found + (0 if self.active is None else self.active.size)

    def start(self, xid: Xid, join: bool = False, resume: bool = False) -> BranchStatus:
        if join and resume:
            raise Refusal(Condition.NOT_ALLOWED, "a branch is either joined or resumed")
        if self.active is not None:
            raise illegal(f"the channel is associated with branch {self.active.branch.xid}")
        if not (join or resume):
            if xid in self.branches.known:
                raise Refusal(Condition.NOT_ALLOWED, f"branch {xid} is already known")
            branch = self.branches.make(xid, self.user)
        else:
            branch = self.branches.find(xid, self.user, Condition.NOT_ALLOWED)
            if branch.prepared or branch.completing:
                raise illegal(f"branch {xid} is prepared")
        if resume:
            work = self.suspended.get(xid)
            if work is None:
                raise illegal(f"branch {xid} is not suspended on this channel")
            if branch.status is BranchStatus.OK:
                del self.suspended[xid]
                work.suspended = False
                self.work_in(work)
            return branch.status
        if xid in self.suspended:
            raise illegal(f"branch {xid} is suspended on this channel")
        if branch.status is BranchStatus.OK:
            work = Work(branch, self.settlements, self.publish_path)
            branch.works.append(work)
            self.work_in(work)
        return branch.status

    def work_in(self, work: Work | None) -> None:
        self.active = work
        transaction = None if work is None else work.transaction
        self.settlements.transaction = transaction
        self.publish_path.work_in(transaction)

    def end(self, xid: Xid, fail: bool = False, suspend: bool = False) -> BranchStatus:
        if fail and suspend:
            raise Refusal(Condition.NOT_ALLOWED, "a branch that fails cannot be suspended")
        work = self.active
        if work is not None and work.branch.xid == xid:
            self.work_in(None)
        elif xid in self.suspended and not suspend:
            work = self.suspended.pop(xid)
        else:
            raise illegal(f"the channel is not associated with branch {xid}")
        branch = work.branch
        if suspend:
            work.suspended = True
            self.suspended[xid] = work
            return branch.status
        work.associated = work.suspended = False
        if fail and branch.status is BranchStatus.OK:
            branch.status = BranchStatus.ROLLBACK
        return branch.status

    def abandon(self) -> Iterator[tuple[list[tuple[Message, bool, bool]], list[Entry]]]:
        """The channel is over, and its branches with it: the publishes to forget, and the
        deliveries that go back."""
        works = list(self.suspended.values())
        if self.active is not None:
            works.append(self.active)
        self.work_in(None)
        self.suspended.clear()
        for work in works:
            yield work.branch.lose(work)
