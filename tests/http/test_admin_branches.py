"""Prepared branches over HTTP: listed, decided by hand, forgotten; how many there are."""

import asyncio
from typing import Any

import pytest

from gateway.broker.branches import Branches
from gateway.broker.long_operations import PORTION
from gateway.operations import BranchStatus, Outcome, Xid
from tests.broker.fakes import declare, put
from tests.broker.test_branches import all_of
from tests.http.test_admin_topology import is_problem

HOST = "/v1/admin/vhosts/%2F/branches"
X = Xid(1, b"g", b"b")
ONE = f"{HOST}/1%3A67%3A62"


def branches(rig: Any) -> Branches:
    found: Branches = rig.broker.branches(rig.broker.vhosts["/"])
    return found


def prepared(rig: Any, count: int = 1) -> None:
    """A branch of alice settles a message and publishes some."""
    channel = rig.channel
    declare(channel, "q", durable=True)
    channel.select_branches()
    mine = channel.needed_branches()
    put(channel, "before", durable=True)
    mine.start(X)
    channel.settlements.settle(channel.fetch("q").delivery, False, Outcome.ACCEPT)
    put(channel, *["new"] * count, durable=True)
    mine.end(X)
    assert all_of(branches(rig).prepare(X, "alice")) is BranchStatus.OK


@pytest.mark.parametrize(
    ("word", "state", "status", "left"),
    [
        ("commit", "committed", BranchStatus.HEURISTIC_COMMIT, b"new"),
        ("rollback", "rolled-back", BranchStatus.HEURISTIC_ROLLBACK, b"before"),
    ],
)
async def test_decided_by_hand(
    rig: Any, word: str, state: str, status: BranchStatus, left: bytes
) -> None:
    async with rig.http("guest:guest") as http:
        assert (await http.get(HOST)).json() == {"branches": []}
        prepared(rig)
        rig.ahead = 5000
        (one,) = (await http.get(HOST)).json()["branches"]
        assert one.pop("since") > 1_500_000_000_000 and one.pop("age_seconds") >= 0
        assert one == {
            "vhost": "/", "branch": "1:67:62", "user": "alice", "state": "prepared",
            "publishes": 1, "settlements": 1,
        }  # fmt: skip
        assert is_problem(await http.post(f"{ONE}/forget"), 409, "conflict")
        done = await http.post(f"{ONE}/{word}")
        assert done.status_code == 200, done.text
        assert "not atomic" in done.json()["warning"]
        shown = done.json()["branch"]
        assert (shown["state"], shown["publishes"], shown["settlements"]) == (state, 0, 0)
        assert shown["age_seconds"] >= 5
        queue = rig.broker.vhosts["/"].queues["q"]
        assert (queue.depth, queue.unsettled) == (1, 0)
        assert rig.channel.fetch("q").message.body == left
        for again in ("commit", "rollback"):
            assert is_problem(await http.post(f"{ONE}/{again}"), 409, "conflict")
        # its coordinator hears of it, as often as it asks
        there = branches(rig)
        assert there.recover("alice") == [X]
        assert all_of(there.commit(X, "alice", False)) is status
        assert all_of(there.rollback(X, "alice")) is status
        assert (await http.post(f"{ONE}/forget")).status_code == 204
        assert (await http.get(HOST)).json() == {"branches": []}
        assert is_problem(await http.post(f"{ONE}/forget"), 404, "address-not-found")


async def test_a_large_branch_takes_turns(rig: Any) -> None:
    prepared(rig, 3 * PORTION)
    async with rig.http("guest:guest") as http:
        answer = asyncio.create_task(http.post(f"{ONE}/commit"))
        work = rig.broker.state.long_operations
        await rig.until(lambda: work.waiting)
        turns = 0
        while work.waiting:
            assert not answer.done()
            turns += 1
            with rig.dependencies.turn():
                work.work()
        assert turns > 2
        assert (await answer).status_code == 200
        assert rig.broker.vhosts["/"].queues["q"].depth == 3 * PORTION


async def test_it_is_answered_when_it_is_on_disk(make_rig: Any) -> None:
    rig = make_rig(volatile=False, confirm_seconds=0.05)
    async with rig.http("guest:guest") as http:
        prepared(rig)
        rig.held = True
        assert is_problem(await http.post(f"{ONE}/commit"), 504, "outcome-unknown")
        rig.release()
        (one,) = (await http.get(HOST)).json()["branches"]
        assert one["state"] == "committed"


@pytest.mark.parametrize("path", [f"{HOST}/nonsense/commit", f"{HOST}/1%3A67%3A/rollback"])
async def test_unknown_branches(rig: Any, path: str) -> None:
    async with rig.http("guest:guest") as http:
        assert is_problem(await http.post(path), 404, "address-not-found")


async def test_for_administrators(rig: Any) -> None:
    prepared(rig)
    async with rig.http("guest:guest") as http:
        assert is_problem(await http.get(HOST.replace("%2F", "no")), 404, "address-not-found")
        for method, path in (("GET", HOST), ("POST", f"{ONE}/commit"), ("POST", f"{ONE}/forget")):
            answer = await http.request(method, path, auth=("alice", "wonder"))
            assert is_problem(answer, 403, "forbidden")
    assert branches(rig).recover("alice") == [X]


async def test_metric(rig: Any) -> None:
    name = 'amqp_gateway_branches_prepared{vhost="/"}'
    async with rig.http("guest:guest") as http:
        assert f"{name} 0.0" in (await http.get("/metrics")).text
        prepared(rig)
        assert f"{name} 1.0" in (await http.get("/metrics")).text
        await http.post(f"{ONE}/commit")
        assert f"{name} 0.0" in (await http.get("/metrics")).text
