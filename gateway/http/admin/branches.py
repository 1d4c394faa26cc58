"""Branches of distributed transactions that are prepared: an administrator lists them, and decides
about those whose coordinator does not come back."""

import asyncio
from collections.abc import Iterator

from starlette.responses import Response

from gateway.broker.branch_records import read_xid
from gateway.broker.branches import Branches
from gateway.broker.counters import BranchSnapshot
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.topology import HOST
from gateway.http.admin.views import BranchList, BranchView, Decision
from gateway.http.problems import Problem
from gateway.operations import Xid

BRANCHES = HOST + "/branches"
ONE = BRANCHES + "/{branch}"
WARNING = (
    "The coordinator may have decided otherwise, then the transaction is not atomic: compare. "
    "It is told when it completes the branch, and the branch is listed until it is forgotten."
)


def view(one: BranchSnapshot, now: int) -> BranchView:
    age = max(now - one.since, 0) / 1000
    return BranchView(**one._asdict(), age_seconds=age)


def branches_of(call: Call) -> Branches:
    """Raises ``Problem`` 404."""
    vhost = call.context.broker.vhosts.get(call.vhost)
    if vhost is None:
        raise problems.no_vhost(call.vhost)
    return call.context.broker.branches(vhost)


def named(call: Call) -> Xid:
    """Raises ``Problem`` 404: it is no xid, so there is no such branch."""
    try:
        return read_xid(call.names["branch"])
    except ValueError:
        text = "a branch is named by its format, ':', and two identifiers in hexadecimal"
        raise Problem(problems.NOT_FOUND, text) from None


async def list_branches(call: Call) -> Response:
    branches_of(call)
    broker = call.context.broker
    found = broker.each_branch(call.vhost)
    return listed("branches", (view(one, broker.state.now) for one in found))


async def commit_branch(call: Call) -> Decision:
    return await decide(call, True)


async def rollback_branch(call: Call) -> Decision:
    return await decide(call, False)


async def decide(call: Call, commit: bool) -> Decision:
    """Answered when the decision is on disk."""
    branches, xid = branches_of(call), named(call)
    dependencies = call.context.dependencies
    done: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

    def tell(refusal: Refusal | None) -> None:
        if not done.done():
            done.set_result(refusal)

    with dependencies.turn():
        try:
            _, steps = branches.decide(xid, commit)
        except Refusal as refusal:
            raise in_conflict(refusal) from None

        def performing() -> Iterator[None]:
            yield from steps

        call.context.broker.state.long_operations.begin(performing(), tell)
    try:
        async with asyncio.timeout(dependencies.settings.confirm_seconds):
            refused = await done
    except TimeoutError:
        raise Problem(problems.UNKNOWN, "the branch is being completed") from None
    if refused is not None:
        raise refused
    shown = await call.act(lambda: shown_one(call, xid))
    return Decision(branch=shown, warning=WARNING)


def shown_one(call: Call, xid: Xid) -> BranchView:
    broker = call.context.broker
    for one in broker.each_branch(call.vhost):
        if one.branch == str(xid):
            return view(one, broker.state.now)
    raise Problem(problems.NOT_FOUND, "the branch is forgotten already")


async def forget_branch(call: Call) -> None:
    branches, xid = branches_of(call), named(call)

    def forget() -> None:
        try:
            branches.forget(xid, None)
        except Refusal as refusal:
            raise in_conflict(refusal) from None

    await call.act(forget)


def in_conflict(refusal: Refusal) -> Exception:
    """The state of the branch does not allow it: 409."""
    if refusal.condition is Condition.CHANNEL_ERROR:
        return Problem(problems.CONFLICT, refusal.text)
    return refusal


MISSING = (problems.NOT_FOUND,)
CHANGE = (problems.NOT_FOUND, problems.CONFLICT)
ADMIN = Rank.ADMINISTRATOR

HEURISTIC = (
    "A heuristic decision (X/Open XA): its coordinator is told `{}`. Only for a coordinator that "
    "does not come back, after a look at the other branches."
)

ENDPOINTS = [
    Endpoint("GET", BRANCHES, list_branches, "Prepared branches of a virtual host", Rank.MONITOR,
             gives=BranchList, refusals=MISSING,
             text="Branches of distributed transactions that wait for their coordinator, and those "
             "that were decided by hand and are not forgotten."),
    Endpoint("POST", ONE + "/commit", commit_branch, "Commit a prepared branch by hand", ADMIN,
             gives=Decision, refusals=CHANGE, text=HEURISTIC.format("XA_HEURCOM")),
    Endpoint("POST", ONE + "/rollback", rollback_branch, "Roll back a prepared branch by hand",
             ADMIN, gives=Decision, refusals=CHANGE, text=HEURISTIC.format("XA_HEURRB")),
    Endpoint("POST", ONE + "/forget", forget_branch, "Forget a branch that was decided by hand",
             ADMIN, status=204, refusals=CHANGE,
             text="As `xa_forget` does, for a coordinator that will never do it."),
]  # fmt: skip
