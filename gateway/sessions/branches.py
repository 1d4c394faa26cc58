"""Requests on branches of distributed transactions."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from gateway.broker.branches import Branches, Completing
from gateway.broker.channel import Channel
from gateway.broker.channel_branches import ChannelBranches
from gateway.operations import (
    BranchRequest,
    BranchStatus,
    BranchTimeout,
    CommitBranch,
    EndBranch,
    ForgetBranch,
    PrepareBranch,
    RecoverBranches,
    RollbackBranch,
    SelectBranches,
    SetBranchTimeout,
    StartBranch,
)
from gateway.sessions.context import SessionContext
from gateway.sessions.replies import Replies


class Undertake(Protocol):
    """Performs a large request in several turns."""

    def __call__(
        self,
        channel: Channel,
        op: Any,
        steps: Iterator[None],
        atomic: bool = True,
        *,
        answer: Callable[[], None],
    ) -> None: ...


class BranchRequests:
    """Performs those of one connection."""

    def __init__(self, context: SessionContext, replies: Replies, undertake: Undertake) -> None:
        self._context = context
        self._replies = replies
        self._undertake = undertake

    def _branches(self, channel: Channel) -> Branches:
        return self._context.broker.branches(channel.vhost)

    def select(self, channel: Channel, op: SelectBranches) -> None:
        channel.select_branches()
        self._replies.answer(op.channel, op.token)

    def start(self, channel: Channel, op: StartBranch) -> None:
        branches: ChannelBranches = channel.needed_branches()
        status = branches.start(op.xid, op.join, op.resume)
        self._replies.answer(op.channel, op.token, status)

    def end(self, channel: Channel, op: EndBranch) -> None:
        status = channel.needed_branches().end(op.xid, op.fail, op.suspend)
        self._replies.answer(op.channel, op.token, status)

    def prepare(self, channel: Channel, op: PrepareBranch) -> None:
        self._complete(channel, op, self._branches(channel).prepare(op.xid, channel.client.user))

    def commit(self, channel: Channel, op: CommitBranch) -> None:
        user = channel.client.user
        self._complete(channel, op, self._branches(channel).commit(op.xid, user, op.one_phase))

    def rollback(self, channel: Channel, op: RollbackBranch) -> None:
        self._complete(channel, op, self._branches(channel).rollback(op.xid, channel.client.user))

    def _complete(self, channel: Channel, op: BranchRequest, work: tuple[bool, Completing]) -> None:
        """Answer with the status when the store has committed it."""
        much, steps = work
        found: list[BranchStatus] = []

        def performing() -> Iterator[None]:
            found.append((yield from steps))

        def answer() -> None:
            self._replies.answer_when_safe(op.channel, op.token, found[0])

        if much:
            self._undertake(channel, op, performing(), answer=answer)
            return
        for _ in performing():
            pass
        answer()

    def forget(self, channel: Channel, op: ForgetBranch) -> None:
        self._branches(channel).forget(op.xid, channel.client.user)
        self._replies.answer_when_safe(op.channel, op.token)

    def recover(self, channel: Channel, op: RecoverBranches) -> None:
        found = self._branches(channel).recover(channel.client.user)
        self._replies.answer(op.channel, op.token, found)

    def timeout(self, channel: Channel, op: BranchTimeout) -> None:
        branch = self._branches(channel).find(op.xid, channel.client.user)
        self._replies.answer(op.channel, op.token, branch.seconds)

    def set_timeout(self, channel: Channel, op: SetBranchTimeout) -> None:
        self._branches(channel).find(op.xid, channel.client.user).set_timeout(op.seconds)
        self._replies.answer(op.channel, op.token)


BRANCHES: dict[type[Any], Callable[[BranchRequests, Channel, Any], None]] = {
    SelectBranches: BranchRequests.select,
    StartBranch: BranchRequests.start,
    EndBranch: BranchRequests.end,
    PrepareBranch: BranchRequests.prepare,
    CommitBranch: BranchRequests.commit,
    RollbackBranch: BranchRequests.rollback,
    ForgetBranch: BranchRequests.forget,
    RecoverBranches: BranchRequests.recover,
    BranchTimeout: BranchRequests.timeout,
    SetBranchTimeout: BranchRequests.set_timeout,
}
"""By operation."""
