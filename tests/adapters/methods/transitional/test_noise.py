"""Mutated conversations with the classes that no recorded program used: nothing escapes, and
nothing is left behind."""

import random
from functools import cache
from typing import Any

import pytest

from gateway.adapters.methods.transitional import branches, types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Spool
from gateway.operations import Xid
from gateway.partial_bodies import PartialBodyStore
from tests.adapters.methods.transitional.serving import Client, Served
from tests.adapters.methods.transitional.test_server import both, inline
from tests.adapters.test_fuzz import mutate

XID = branches.write_xid(Xid(3, b"global", b"branch"))
BY_NAME = types.write_body(types.Body(True, b"r"))
PART = bytes(range(256)) * 8

CONVERSATION: tuple[tuple[int, Any], ...] = (
    (5, w.SessionOpen(60)),
    (5, w.SessionPing()),
    (5, w.QueueDeclare(queue="q")),
    (5, w.AccessRequest("/data", read=True)),
    (5, w.MessageOpen(b"r")),
    (5, w.MessageAppend(b"r", PART)),
    (5, w.MessageCheckpoint(b"r", "id")),
    (5, w.MessageAppend(b"r", PART)),
    (5, w.SessionSolicitAck()),
    (5, w.SessionSuspend()),
    (1, w.MessageResume(b"r", "id")),
    (1, w.MessageAppend(b"r", PART)),
    (1, w.DtxDemarcationSelect()),
    (1, w.DtxDemarcationStart(xid=XID)),
    (1, w.MessageTransfer(
        routing_key="q", ttl=5, content_length=7, transaction_id="t", security_token=b"s",
        application_headers=types.write_table({"a": 1, "t": {"b": "c"}}), body=BY_NAME,
    )),
    (1, w.MessageTransfer(routing_key="q", body=inline(PART))),
    (1, w.MessageClose(b"r")),
    (1, w.MessageConsume(queue="q", destination="d")),
    (1, w.DtxDemarcationEnd(xid=XID, suspend=True)),
    (1, w.DtxDemarcationStart(xid=XID, resume=True)),
    (1, w.DtxDemarcationEnd(xid=XID)),
    (1, w.DtxCoordinationSetTimeout(xid=XID, timeout=9)),
    (1, w.DtxCoordinationGetTimeout(XID)),
    (1, w.DtxCoordinationPrepare(xid=XID)),
    (1, w.DtxCoordinationRecover(startscan=True)),
    (1, w.DtxCoordinationCommit(xid=XID)),
    (1, w.MessageGet(queue="q", destination="g")),
    (1, w.ExecutionFlush()),
    (1, w.ChannelClose(200, "")),
    (0, w.ConnectionClose(200, "bye")),
)  # fmt: skip


@cache
def spoken(version: str) -> tuple[bytes, bytes]:
    """What a client says: its login, and all behind it."""
    client = Client(version)
    login: list[bytes] = []
    rest: list[bytes] = []
    receive = client.served.receive
    said = login

    def listening(data: bytes) -> Any:
        said.append(data)
        return receive(data)

    client.served.receive = listening  # type: ignore[method-assign]
    client.open()
    said = rest
    for channel, record in CONVERSATION:
        client.say(channel, record)
    assert client.served.adapter.closing, "it has come to its end"
    return b"".join(login), b"".join(rest)


@both
@pytest.mark.parametrize("seed", range(4))
def test_mutated(version: str, seed: int) -> None:
    chance = random.Random(f"{version}{seed}")
    login, rest = spoken(version)
    reached = 0
    for _ in range(40):
        spool = Spool(threshold=3000)
        partials = PartialBodyStore(spool)
        served = Served(version, spool=spool, partials=partials)
        octets = login + mutate(rest, chance)
        while octets:
            size = chance.choice([3, 50, 400, 100_000])
            served.octets(octets[:size])
            octets = octets[size:]
            assert served.adapter.announced >= 0
        reached += len(served.broker.vhosts["/"].queues)
        if served.adapter.closing:
            assert served.adapter.announced == 0
        else:
            served.lose()
        state = served.broker.state
        state.tick(state.now + 3_600_000)
        assert not list(served.registry.named) and not partials.used
        for item in list(partials.kept.values()):
            partials.drop(item)
        assert (partials.octets, partials.number, partials.memory) == (0, 0, 0)
    assert reached, "some come as far as a queue"
