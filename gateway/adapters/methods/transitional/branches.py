"""Classes dtx-demarcation and dtx-coordination: branches of distributed transactions.

Requests and replies of both roles. The programs of July 2007 say 8 where the definition says 0
(xa-ok): the server does as they do, the client takes either. They answer ``recover`` with one long
string of all xids, each a short string.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.channel import ALWAYS_ROOM, Channel
from gateway.adapters.methods.transitional.received import Asked, Received, ServerEngine
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition, Lost, PeerError, Unwritable
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

XA_OK = 8
"""Status in answers of the programs; the definition has 0."""
XIDS = "xids"
"""The field of recover-ok."""
HEAD = Struct(">IBB")
"""Format, octets of the global identifier, octets of that of the branch."""
MOST_DATA = 128
"""Octets of both identifiers (domain xid)."""


def read_xid(octets: bytes) -> Xid:
    """Raises ``ValueError``."""
    if len(octets) < HEAD.size:
        raise ValueError("an xid is cut short")
    form, one, other = HEAD.unpack_from(octets)
    data = octets[HEAD.size :]
    if len(data) != one + other:
        raise ValueError(f"an xid of {one} and {other} octets has {len(data)}")
    if len(data) > MOST_DATA:
        raise ValueError(f"an xid has more than {MOST_DATA} octets")
    return Xid(form, data[:one], data[one:])


def write_xid(xid: Xid) -> bytes:
    """Raises ``Unwritable``."""
    form, one, other = xid
    if len(one) + len(other) > MOST_DATA or form >> 32:
        raise Unwritable(f"branch {xid} has no xid in this version")
    return HEAD.pack(form, len(one), len(other)) + one + other


# --- server --------------------------------------------------------------------------------------


def _branch(kind: Callable[..., BranchRequest], *names: str) -> Callable[[Received], Any]:
    """A request on one branch; ``names`` of the other arguments."""

    def build(r: Received) -> list[Operation]:
        given = [getattr(r.m, name) for name in names]
        return [kind(r.number, r.token, read_xid(r.m.xid), *given)]

    return build


def _exclusive(
    kind: Callable[..., BranchRequest], first: str, second: str
) -> Callable[[Received], Any]:
    """The same with two flags that exclude each other (503)."""
    build = _branch(kind, first, second)

    def checked(r: Received) -> Any:
        if getattr(r.m, first) and getattr(r.m, second):
            text = f"{r.method.name} with both {first} and {second}"
            raise PeerError(Condition.COMMAND_INVALID, text, Lost.SESSION)
        return build(r)

    return checked


SERVE: dict[str, Callable[[Received], list[Operation]]] = {
    "dtx-demarcation.select": lambda r: [SelectBranches(r.number, r.token)],
    "dtx-demarcation.start": _exclusive(StartBranch, "join", "resume"),
    "dtx-demarcation.end": _exclusive(EndBranch, "fail", "suspend"),
    "dtx-coordination.commit": _branch(CommitBranch, "one_phase"),
    "dtx-coordination.forget": _branch(ForgetBranch),
    "dtx-coordination.get-timeout": _branch(BranchTimeout),
    "dtx-coordination.prepare": _branch(PrepareBranch),
    "dtx-coordination.recover": lambda r: [RecoverBranches(r.number, r.token)],
    "dtx-coordination.rollback": _branch(RollbackBranch),
    "dtx-coordination.set-timeout": _branch(SetBranchTimeout, "timeout"),
}


def _status(record: Callable[[int], Any]) -> Callable[..., None]:
    def answer(engine: ServerEngine, channel: Channel, asked: Asked, status: BranchStatus) -> None:
        engine.send_method(channel.number, record(status.value or XA_OK), asked.request)

    return answer


def _timeout(engine: ServerEngine, channel: Channel, asked: Asked, seconds: int) -> None:
    engine.send_method(channel.number, w.DtxCoordinationGetTimeoutOk(seconds), asked.request)


def _recovered(engine: ServerEngine, channel: Channel, asked: Asked, found: list[Xid]) -> None:
    """As many as fit a frame of the client; the next request of the scan gets those behind."""
    m: w.DtxCoordinationRecover = asked.m
    scan = found if m.startscan or not channel.scan else channel.scan
    room = (engine.frame_max or 1 << 31) - ALWAYS_ROOM
    octets, count = bytearray(), 0
    for xid in scan:
        written = write_xid(xid)
        if len(octets) + 1 + len(written) > room:
            break
        octets.append(len(written))
        octets += written
        count += 1
    channel.scan = [] if m.endscan else scan[count:]
    in_doubt = types.write_table({XIDS: bytes(octets).decode("utf-8", "surrogateescape")})
    engine.send_method(channel.number, w.DtxCoordinationRecoverOk(in_doubt), asked.request)


ANSWER: dict[str, Callable[..., None]] = {
    "dtx-demarcation.start": _status(w.DtxDemarcationStartOk),
    "dtx-demarcation.end": _status(w.DtxDemarcationEndOk),
    "dtx-coordination.commit": _status(w.DtxCoordinationCommitOk),
    "dtx-coordination.get-timeout": _timeout,
    "dtx-coordination.prepare": _status(w.DtxCoordinationPrepareOk),
    "dtx-coordination.recover": _recovered,
    "dtx-coordination.rollback": _status(w.DtxCoordinationRollbackOk),
}


def refusal(method: str, condition: Condition) -> Condition:
    """A request in an improper context is 503 in these classes."""
    improper = condition is Condition.CHANNEL_ERROR and method.startswith("dtx-")
    return Condition.COMMAND_INVALID if improper else condition


# --- client --------------------------------------------------------------------------------------

ASK: dict[type[Operation], Callable[[Any], Any]] = {
    SelectBranches: lambda op: w.DtxDemarcationSelect(),
    StartBranch: lambda op: w.DtxDemarcationStart(0, write_xid(op.xid), op.join, op.resume),
    EndBranch: lambda op: w.DtxDemarcationEnd(0, write_xid(op.xid), op.fail, op.suspend),
    CommitBranch: lambda op: w.DtxCoordinationCommit(0, write_xid(op.xid), op.one_phase),
    ForgetBranch: lambda op: w.DtxCoordinationForget(0, write_xid(op.xid)),
    BranchTimeout: lambda op: w.DtxCoordinationGetTimeout(write_xid(op.xid)),
    PrepareBranch: lambda op: w.DtxCoordinationPrepare(0, write_xid(op.xid)),
    RecoverBranches: lambda op: w.DtxCoordinationRecover(0, True, True),
    RollbackBranch: lambda op: w.DtxCoordinationRollback(0, write_xid(op.xid)),
    SetBranchTimeout: lambda op: w.DtxCoordinationSetTimeout(0, write_xid(op.xid), op.seconds),
}


def _told(op: Any, ok: Any) -> BranchStatus:
    """Raises ``ValueError``."""
    return BranchStatus.OK if ok.status == XA_OK else BranchStatus(ok.status)


def _listed(op: RecoverBranches, ok: w.DtxCoordinationRecoverOk) -> list[Xid]:
    """Raises ``ValueError``."""
    value = types.read_arguments(ok.in_doubt).get(XIDS, "")
    if isinstance(value, list):  # as the definition has it
        return [read_xid(_octets(item)) for item in value]
    octets, at, found = _octets(value), 0, []
    while at < len(octets):
        end = at + 1 + octets[at]
        found.append(read_xid(octets[at + 1 : end]))
        at = end
    return found


def _octets(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise ValueError("xids are no octets")


RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "dtx-demarcation.start-ok": _told,
    "dtx-demarcation.end-ok": _told,
    "dtx-coordination.commit-ok": _told,
    "dtx-coordination.get-timeout-ok": lambda op, ok: ok.timeout,
    "dtx-coordination.prepare-ok": _told,
    "dtx-coordination.recover-ok": _listed,
    "dtx-coordination.rollback-ok": _told,
}
