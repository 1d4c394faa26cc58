"""Long answers are made in portions, and others have their turn between them.

Time is counted in steps: each look at the clock is a part of a slice.
"""

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest

from gateway.broker.broker import Broker
from gateway.broker.counters import BrokerSnapshot
from gateway.http import portions
from gateway.http.dependencies import ConnectionInfo
from tests.http.stream_words import publish

MANY = 1000
STEPS = 20
"""Looks at the clock that make a slice."""
LEAST = MANY // STEPS * 9 // 10
"""Pauses while as many things are shown."""
QUEUE = "/v1/%2F/queues/large/messages"


class Pauses:
    """Stands in for ``asyncio`` there, and counts."""

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.count += 1
        await asyncio.sleep(seconds)

    def clock(self) -> float:
        """Goes on when it is looked at."""
        self.now += portions.SLICE_SECONDS / STEPS
        return self.now


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    made = Pauses()
    monkeypatch.setattr(portions, "clock", made.clock)
    monkeypatch.setattr(portions, "asyncio", made)
    return made


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/v1/%2F/queues", lambda told: len(told["queues"])),
        ("/v1/connections", lambda told: len(told["connections"])),
        ("/v1/admin/vhosts/%2F/queues", lambda told: len(told["queues"])),
        ("/v1/admin/vhosts/%2F/exchanges", lambda told: len(told["exchanges"])),
        ("/v1/admin/vhosts/%2F/bindings", lambda told: len(told["bindings"])),
        ("/v1/admin/vhosts/%2F/consumers", lambda told: len(told["consumers"])),
        ("/v1/admin/consumers", lambda told: len(told["consumers"])),
        ("/v1/admin/connections", lambda told: len(told["connections"])),
        ("/v1/admin/users", lambda told: len(told["users"])),
        ("/v1/admin/permissions", lambda told: len(told["permissions"])),
        ("/api/queues", len),
        ("/api/queues/%2F", len),
        ("/api/exchanges", len),
        ("/api/bindings", len),
        ("/api/exchanges/%2F/x0/bindings/source", lambda told: MANY),
        ("/api/queues/%2F/q7/bindings", lambda told: MANY),
        ("/api/consumers", len),
        ("/api/connections", len),
        ("/api/users", len),
        ("/api/permissions", len),
        ("/asyncapi.json", lambda told: len(told["channels"])),
    ],
)
async def test_lists(make_rig: Any, pauses: Pauses, path: str, count: Any) -> None:
    rig = make_rig()
    access = rig.broker.access
    verifier = access.user("alice").verifier
    for n in range(MANY):
        rig.queue(f"q{n}")
        rig.exchange(f"x{n}")
        rig.bind(f"q{n}", f"x{n}", "k")
        rig.channel.start(rig.channel.subscribe(f"q{n}", "", True, False, False, {}))
        rig.connections.append(ConnectionInfo(n, f"192.0.2.1:{n}", "0-9-1", vhost="/"))
        if "users" in path or "permissions" in path:
            access.adopt(access.user("alice")._replace(name=f"u{n}", verifier=verifier))
            access.set_permissions(f"u{n}", "/", "", "", "")
    async with rig.http("guest:guest") as http:
        answer = await http.get(path)
        assert answer.status_code == 200
        assert count(json.loads(answer.content)) >= MANY
        assert pauses.count >= LEAST


@pytest.mark.parametrize(
    "path",
    [
        "/metrics", "/v1/admin/vhosts", "/v1/admin/vhosts/%2F", "/v1/admin/overview",
        "/api/vhosts", "/api/vhosts/%2F", "/api/overview",
    ],
)  # fmt: skip
async def test_figures_of_many_queues(make_rig: Any, pauses: Pauses, path: str) -> None:
    rig = make_rig()
    for n in range(MANY):
        rig.queue(f"q{n}")
    async with rig.http("guest:guest") as http:
        answer = await http.get(path)
        assert answer.status_code == 200
        assert path.startswith("/api/vhosts") or str(MANY) in answer.text
        assert pauses.count >= LEAST


async def test_no_queue_is_counted_when_the_routes_are_loaded(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would be in one piece."""
    rig = make_rig()
    rig.queue("q")
    counted: list[Broker] = []
    count = Broker.counting

    def counting(broker: Broker) -> Generator[None, None, BrokerSnapshot]:
        counted.append(broker)
        return count(broker)

    monkeypatch.setattr(Broker, "counting", counting)
    async with rig.http("guest:guest") as http:
        assert (await http.get("/openapi.json")).status_code == 200
        assert not counted
        assert 'amqp_gateway_queues{vhost="/"} 1.0' in (await http.get("/metrics")).text
        assert counted == [rig.broker]


async def test_metrics_of_each_of_many_queues(make_rig: Any, pauses: Pauses) -> None:
    rig = make_rig()
    for n in range(MANY):
        rig.queue(f"q{n}")
    async with rig.http("guest:guest") as http:
        answer = await http.get(f"/metrics/queues?limit={MANY}")
    assert answer.text.count("amqp_gateway_queue_ready{") == MANY
    assert pauses.count >= LEAST


async def test_a_queue_that_goes_while_they_are_counted_counts_once(make_rig: Any) -> None:
    rig = make_rig()
    for name in ("a", "b", "c"):
        rig.queue(name)
        await publish(rig, name, b"x", exchange="")
    vhost = rig.broker.vhosts["/"]
    for gone in ("a", "c"):
        published = rig.broker.snapshot().totals.published
        steps = rig.broker.vhosts_counting()
        next(steps)
        vhost.remove_queue(vhost.queues[gone])
        with pytest.raises(StopIteration) as end:
            while True:
                next(steps)
        assert end.value.value[0].totals.published == published
        assert rig.broker.snapshot().totals.published == published
    assert rig.broker.snapshot().ready == 1


async def test_definitions_come_in_in_portions(make_rig: Any, pauses: Pauses) -> None:
    rig = make_rig()
    names = [f"imported-{n}" for n in range(MANY)]
    queues = [{"name": one, "vhost": "/", "arguments": {"x-max-length": 5}} for one in names]
    users = [{"name": one, "tags": [], "password_hash": "x" * 44} for one in names[:3]]
    async with rig.http("guest:guest") as http:
        answer = await http.post("/v1/admin/definitions", json={"queues": queues, "users": users})
        assert answer.status_code == 200 and answer.json()["queues"] == MANY, answer.text
        assert pauses.count >= LEAST
        # What is wrong is told as for a small document.
        queues[5]["durable"] = "yes"
        queues[7].pop("name")
        answer = await http.post("/v1/admin/definitions", json={"queues": queues})
        assert answer.status_code == 422
        pointers = [one["pointer"] for one in answer.json()["errors"]]
        assert pointers == ["/queues/5/durable", "/queues/7/name"]


async def test_items_deleted_meanwhile_are_left_out(make_rig: Any) -> None:
    rig = make_rig()
    for name in ("a", "b", "c"):
        rig.queue(name)
    seen = []
    async for one in portions.spread(rig.broker.each_queue()):
        seen.append(one.name)
        rig.broker.vhosts["/"].queues.pop("b", None)
    assert seen == ["a", "c"]
