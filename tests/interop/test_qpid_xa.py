"""XA with the JMS client of Qpid over 0-10: with the gateway, and with Qpid Broker-J, which shows
what its users are used to. Prepared branches survive the death of client and server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import dial
from gateway.operations import (
    BeginSession,
    BranchStatus,
    CommitBranch,
    DeclareQueue,
    EndBranch,
    Fetch,
    PrepareBranch,
    Publish,
    PurgeQueue,
    RecoverBranches,
    RollbackBranch,
    SelectBranches,
    SetBranchTimeout,
    StartBranch,
    Xid,
)
from tests.interop import brokers
from tests.interop.restarts import LINES, Restartable, Seen, checks, compare, java, running
from tests.interop.servers import Server, start_gateway
from tests.interop.test_qpid_jms import LONG_AT_BROKER_J

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "clients/qpid/QpidXa.java"

NOTA, PROTO, DUPID = -4, -6, -8
RBROLLBACK, RBTIMEOUT = 100, 106
HEURRB, HEURCOM = 6, 7
PREPARED = ["4711 dropped b", "4711 kept b"]

EXPECTED: dict[str, Any] = {
    "commit": [[], 0, [], ["two"], ["a", "b"]],
    "rollback": [[], 0, [], ["one*", "two"], []],
    "one_phase": [[], ["two"], ["a", "b"]],
    "rollback_unprepared": [[], ["one*", "two"], []],
    "suspend_and_resume": ["1", "3"],
    "join": ["1", "2"],
    # Its branches are of a virtual host, which is not known when the server introduces itself.
    "same_rm": [True, False],
    "failed": [RBROLLBACK, RBROLLBACK, []],
    "timeout": [1, RBTIMEOUT, RBTIMEOUT, []],
    "codes": [NOTA, NOTA, NOTA, NOTA, NOTA, DUPID, DUPID],
    "states": [DUPID, PROTO, PROTO, DUPID, PROTO, PROTO],
    "outlives": [["4711 outlives b"], [], ["two"], ["a", "b"]],
    "decided": [
        *(200, ["4711 decided-commit b"], HEURCOM, HEURCOM, NOTA, [], ["two"], ["a", "b"]),
        *(200, ["4711 decided-rollback b"], HEURRB, HEURRB, NOTA, [], ["one*", "two"], []),
    ],
    "prepare": PREPARED,
    "recover": [
        PREPARED,
        # of each: what can be received of its two queues
        [["two"], []],
        [["two"], []],
        [["one*", "two"], []],
        NOTA,
        [[], ["a", "b"]],
        [["one*"], []],
        [],
    ],
}
DIFFERENT: dict[str, dict[str, Any]] = {
    "gateway": {},
    "broker_j": {
        # It does not mark a branch that fails (a server may, dtx.end), and prepares it.
        "failed": [0, 0, []],
        # It has a name for the whole broker, also where the virtual hosts differ.
        "same_rm": [True, True],
        # It forgets in a crash that a message was delivered.
        "recover": [
            PREPARED,
            [["two"], []],
            [["two"], []],
            [["one", "two"], []],
            NOTA,
            [[], ["a", "b"]],
            [["one"], []],
            [],
        ],
    },
}


@pytest.fixture(scope="module")
def program() -> list[str]:
    command = java("qpid-client", "qpid-client", [SOURCE, LINES])
    command[1:1] = ["-Dqpid.amqp.version=0-10", "-Dqpid.sync_op_timeout=10000"]
    return command


def starter(kind: str, folder: Path) -> Any:
    """Starts the server, and again with the files of the one before."""

    def start(before: Server | None) -> Server:
        if kind == "gateway":
            return start_gateway(folder, port=None if before is None else before.port)
        return brokers.start_broker_j(folder)

    return start


@pytest.fixture(scope="module", params=["gateway", LONG_AT_BROKER_J])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restartable]:
    kind = request.param
    if kind == "broker_j" and (reason := brokers.broker_j_missing()):
        pytest.skip(reason)
    with running(starter(kind, tmp_path_factory.mktemp(kind))) as found:
        yield found


def run(program: list[str], target: Restartable, scratch: Path, *words: str) -> Seen:
    """What one process of the client sees."""
    server = target.server
    return checks([*program, server.host, str(server.port), *words], target, scratch)


@pytest.fixture(scope="module")
def seen(program: list[str], target: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Of several processes; client and server are killed before the last."""
    scratch = tmp_path_factory.mktemp("scratch")
    found = run(program, target, scratch, "checks")
    if target.server.http_port is not None:
        words = "decided", f"{target.server.host}:{target.server.http_port}"
        found |= run(program, target, scratch, *words)
    found |= run(program, target, scratch, "prepare")
    target.restart()
    return found | run(program, target, scratch, "recover")


@pytest.mark.parametrize("check", EXPECTED)
def test_qpid_xa(check: str, seen: Seen, target: Restartable) -> None:
    if check == "decided" and target.server.http_port is None:
        pytest.skip("it is not decided by hand here")
    compare(seen, check, {**EXPECTED, **DIFFERENT[target.server.name]}[check])


def test_our_client_role(target: Restartable) -> None:
    """Works in branches of either server, and completes them."""
    asyncio.run(branches_of(target.server))


async def branches_of(server: Server) -> None:
    one, two = Xid(4711, b"of the client role", b"1"), Xid(0, b"x")
    queue = "queue.of-the-client-role"
    async with asyncio.timeout(60):
        remote = await dial((server.host, server.port), version="0-10")
        try:
            await remote.request(BeginSession(1, None))
            await remote.request(DeclareQueue(1, None, queue, durable=True))
            await remote.request(PurgeQueue(1, None, queue))
            await remote.request(SelectBranches(1, None))
            before = set(await remote.request(RecoverBranches(1, None)))
            for xid in (one, two):
                assert await remote.request(StartBranch(1, None, xid)) is BranchStatus.OK
                remote.send(Publish(1, message(xid.global_id, queue), False, False))
                await remote.request(SetBranchTimeout(1, None, xid, 100))
                assert await remote.request(EndBranch(1, None, xid)) is BranchStatus.OK
                assert await remote.request(PrepareBranch(1, None, xid)) is BranchStatus.OK
            found = set(await remote.request(RecoverBranches(1, None)))
            assert found == {*before, one, two}
            assert await remote.request(Fetch(1, None, queue, True)) is None
            assert await remote.request(CommitBranch(1, None, one)) is BranchStatus.OK
            assert await remote.request(RollbackBranch(1, None, two)) is BranchStatus.OK
            fetched = await remote.request(Fetch(1, None, queue, True))
            assert bytes(fetched.message.body[:]) == one.global_id
            assert await remote.request(Fetch(1, None, queue, True)) is None
            assert set(await remote.request(RecoverBranches(1, None))) == before
            with pytest.raises(Refusal) as refused:
                await remote.request(RollbackBranch(1, None, two))
            assert refused.value.condition is Condition.NOT_FOUND
        finally:
            await remote.close()


def message(body: bytes, queue: str) -> Message:
    header = BASIC.write(Properties(durable=True))
    return Message(BASIC, header, body, "", queue, BASIC.essentials(header))
