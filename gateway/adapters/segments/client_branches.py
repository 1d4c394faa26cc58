"""Client role: operations on branches as commands of class dtx, and their results."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.segments.client_session import ClientSession, Result
from gateway.adapters.segments.decoding import read_array
from gateway.adapters.segments.operations import read_struct, struct_of
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import layouts as w
from gateway.operations import (
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
from gateway.values import CodedOctets


def _xid(op: Any) -> w.Xid:
    return w.Xid(*op.xid)


def _status(session: ClientSession, op: Any, value: Any) -> BranchStatus:
    found: w.XaResult = struct_of(value, w.XaResult)
    try:
        return BranchStatus(found.status or 0)
    except ValueError:
        raise FieldError(f"there is no xa-status {found.status}") from None


def _seconds(session: ClientSession, op: BranchTimeout, value: Any) -> int:
    found: w.GetTimeoutResult = struct_of(value, w.GetTimeoutResult)
    return found.timeout or 0


def _in_doubt(session: ClientSession, op: RecoverBranches, value: Any) -> list[Xid]:
    found: w.RecoverResult = struct_of(value, w.RecoverResult)
    xids = []
    for each in read_array(found.in_doubt) if found.in_doubt else ():
        if not isinstance(each, CodedOctets):
            raise FieldError("dtx.recover is answered with xids")
        xid: w.Xid = struct_of(read_struct(bytes(each)), w.Xid)
        xids.append(Xid(xid.format or 0, xid.global_id or b"", xid.branch_id or b""))
    return xids


def _asks(
    record: Callable[[Any], Any], result: Result | None = None
) -> Callable[[ClientSession, Any], None]:
    return lambda session, op: session.ask(op, record(op), result=result)


REQUESTS: dict[type[Operation], Callable[[ClientSession, Any], None]] = {
    SelectBranches: _asks(lambda op: w.DtxSelect()),
    StartBranch: _asks(lambda op: w.DtxStart(_xid(op), op.join, op.resume), _status),
    EndBranch: _asks(lambda op: w.DtxEnd(_xid(op), op.fail, op.suspend), _status),
    PrepareBranch: _asks(lambda op: w.DtxPrepare(_xid(op)), _status),
    CommitBranch: _asks(lambda op: w.DtxCommit(_xid(op), op.one_phase), _status),
    RollbackBranch: _asks(lambda op: w.DtxRollback(_xid(op)), _status),
    ForgetBranch: _asks(lambda op: w.DtxForget(_xid(op))),
    RecoverBranches: _asks(lambda op: w.DtxRecover(), _in_doubt),
    BranchTimeout: _asks(lambda op: w.DtxGetTimeout(_xid(op)), _seconds),
    SetBranchTimeout: _asks(lambda op: w.DtxSetTimeout(_xid(op), op.seconds)),
}
