"""Operations on branches of distributed transactions (class dtx of 0-10; X/Open XA).

A branch is known by its ``Xid`` to all channels of its virtual host. While a channel is associated
with a branch, its publishes and settlements wait for the commit of the branch. Illegal states are
refused with ``CHANNEL_ERROR`` (409 illegal-state in 0-10), unknown branches with 404, branches of
another user with 403.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from gateway.operations.core import Request


class Xid(NamedTuple):
    """Identifier of a branch: the format of the other two, the transaction, the branch."""

    format: int
    global_id: bytes
    branch_id: bytes = b""

    def __str__(self) -> str:
        return f"{self.format}:{self.global_id.hex()}:{self.branch_id.hex()}"


class BranchStatus(IntEnum):
    """Result of an operation on a branch, with the numbers of 0-10 (domain xa-status)."""

    OK = 0
    ROLLBACK = 1
    """The branch has been rolled back, or can only be rolled back."""
    ROLLBACK_TIMEOUT = 2
    """Likewise, because its time was over."""
    HEURISTIC_HAZARD = 3
    HEURISTIC_COMMIT = 4
    """An administrator has committed it."""
    HEURISTIC_ROLLBACK = 5
    """An administrator has rolled it back."""
    HEURISTIC_MIXED = 6
    READ_ONLY = 7


@dataclass(slots=True)
class SelectBranches(Request):
    """The channel is going to use branches. Refused with 406 on a channel with ``Select``."""


@dataclass(slots=True)
class BranchRequest(Request):
    """A request on one branch."""

    xid: Xid


@dataclass(slots=True)
class StartBranch(BranchRequest):
    """Associate the channel with a branch: a new one; with ``join`` one that exists; with
    ``resume`` the one that it has suspended. Answered with ``BranchStatus``. Refused with 503
    before ``SelectBranches``, 409 while the channel is associated with a branch, 530 (known
    already, unknown to ``join`` or ``resume``, both of them), or 506 (too many branches)."""

    join: bool = False
    resume: bool = False


@dataclass(slots=True)
class EndBranch(BranchRequest):
    """End the association. ``fail``: the branch can only be rolled back. ``suspend``: the channel
    will resume it. Answered with ``BranchStatus``. Refused with 409 if the channel is not
    associated with it, 530 with both flags."""

    fail: bool = False
    suspend: bool = False


@dataclass(slots=True)
class PrepareBranch(BranchRequest):
    """Make sure that the branch can be committed, even after a crash. Answered with
    ``BranchStatus`` when the store has committed it; after one of rollback the branch is unknown.
    Refused with 404, or 409 while a channel is associated."""


@dataclass(slots=True)
class CommitBranch(BranchRequest):
    """Commit a prepared branch, or with ``one_phase`` one that is not prepared. Answered as
    ``PrepareBranch`` is; the branch is unknown then. One that was decided by hand answers with its
    heuristic status, and stays. Refused with 404 or 409."""

    one_phase: bool = False


@dataclass(slots=True)
class RollbackBranch(BranchRequest):
    """Discard the publishes of a branch and requeue the deliveries that it has settled, as
    redelivered. Answered as ``CommitBranch`` is. Refused with 404, or 409 while a channel is
    associated."""


@dataclass(slots=True)
class ForgetBranch(BranchRequest):
    """Forget a branch that an administrator has decided by hand. Refused with 404, or 409 if it was
    not."""


@dataclass(slots=True)
class RecoverBranches(Request):
    """Answered with a list of ``Xid``: the branches of the user in the virtual host that are
    prepared, or were decided by hand."""


@dataclass(slots=True)
class BranchTimeout(BranchRequest):
    """Answered with the seconds of ``SetBranchTimeout``. Refused with 404."""


@dataclass(slots=True)
class SetBranchTimeout(BranchRequest):
    """Roll the branch back if it is not prepared after so many seconds from now; 0 is no limit.
    Refused with 404."""

    seconds: int
