"""Commands of class dtx as operations on branches, and their results."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.segments.encoding import write_array
from gateway.adapters.segments.operations import write_struct
from gateway.adapters.segments.session import Answer, Request, Serve
from gateway.adapters.segments.types import Unacceptable
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import ErrorCode
from gateway.operations import (
    BranchRequest,
    BranchStatus,
    BranchTimeout,
    CommitBranch,
    EndBranch,
    ForgetBranch,
    Operation,
    PrepareBranch,
    RecoverBranches,
    RollbackBranch,
    SelectBranches,
    SetBranchTimeout,
    StartBranch,
    Xid,
)
from gateway.values import CodedOctets, TypedArray

STRUCT32 = 0xAB
"""Type code of the elements of recover's array."""


def _xid(r: Request) -> Xid:
    """The branch of a command. An absent field counts as 0 or empty; all three are none."""
    xid: w.Xid | None = r.record.xid
    if xid is None:
        raise Unacceptable(ErrorCode.INVALID_ARGUMENT, f"{r.kind.name} names no branch")
    return Xid(xid.format or 0, xid.global_id or b"", xid.branch_id or b"")


def _select(r: Request) -> list[Operation]:
    if r.session.transactional:
        raise Unacceptable(ErrorCode.ILLEGAL_STATE, "the session has transactions of its own")
    r.session.branching = True
    return [SelectBranches(r.session.number, r)]


def _selected(r: Request) -> None:
    """The association with branches is for sessions that have selected it."""
    if not r.session.branching:
        raise Unacceptable(ErrorCode.ILLEGAL_STATE, "the session has not selected class dtx")


def _start(r: Request) -> list[Operation]:
    _selected(r)
    return [StartBranch(r.session.number, r, _xid(r), r.record.join, r.record.resume)]


def _end(r: Request) -> list[Operation]:
    _selected(r)
    return [EndBranch(r.session.number, r, _xid(r), r.record.fail, r.record.suspend)]


def _commit(r: Request) -> list[Operation]:
    return [CommitBranch(r.session.number, r, _xid(r), r.record.one_phase)]


def _on_branch(operation: Callable[[int, Any, Xid], BranchRequest]) -> Serve:
    """A command whose only field is the branch."""

    def serve(r: Request) -> list[Operation]:
        return [operation(r.session.number, r, _xid(r))]

    return serve


def _recover(r: Request) -> list[Operation]:
    return [RecoverBranches(r.session.number, r)]


def _set_timeout(r: Request) -> list[Operation]:
    return [SetBranchTimeout(r.session.number, r, _xid(r), r.record.timeout or 0)]


SERVE: dict[str, Serve] = {
    "dtx.select": _select,
    "dtx.start": _start,
    "dtx.end": _end,
    "dtx.commit": _commit,
    "dtx.forget": _on_branch(ForgetBranch),
    "dtx.get-timeout": _on_branch(BranchTimeout),
    "dtx.prepare": _on_branch(PrepareBranch),
    "dtx.recover": _recover,
    "dtx.rollback": _on_branch(RollbackBranch),
    "dtx.set-timeout": _set_timeout,
}


def _status(r: Request, result: BranchStatus) -> w.XaResult:
    return w.XaResult(int(result))


def _timeout(r: Request, result: int) -> w.GetTimeoutResult:
    return w.GetTimeoutResult(result)


def _in_doubt(r: Request, result: list[Xid]) -> w.RecoverResult:
    structs = (CodedOctets(write_struct(w.Xid(*xid)), STRUCT32) for xid in result)
    return w.RecoverResult(write_array(TypedArray(structs, STRUCT32)))


ANSWERS: dict[str, Answer] = {
    "dtx.start": _status,
    "dtx.end": _status,
    "dtx.commit": _status,
    "dtx.get-timeout": _timeout,
    "dtx.prepare": _status,
    "dtx.recover": _in_doubt,
    "dtx.rollback": _status,
}
