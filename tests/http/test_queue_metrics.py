"""Metrics of single queues."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.operations import DeclareQueue

PREFIX = "amqp_gateway_"
ODD = 'a "queue"\\ of\nthe ünusual'


async def shown(http: Any, **query: Any) -> dict[tuple[str, ...], float]:
    answer = await http.get("/metrics/queues", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_figures_of_each_queue(rig: Any) -> None:
    for name in ("orders", "orders-2", ODD):
        rig.queue(name)
    private = rig.channel.topology.declare_queue(DeclareQueue(1, None, "")).name
    assert private.startswith("amq.")
    async with rig.http() as http:
        for _ in range(3):
            await http.post("/v1/%2F/queues/orders/messages", content=b"12345")
        found = await shown(http)
        assert found["queue_ready", "/", "orders"] == 3
        assert found["queue_octets", "/", "orders"] == 15
        assert found["queue_published_total", "/", "orders"] == 3
        assert found["queue_ready", "/", "orders-2"] == 0
        assert found["queue_consumers", "/", ODD] == 0
        assert found["queues_left_out",] == 0
        assert ("queue_ready", "/", private) not in found
        own = await shown(http, name="amq.*")
        assert [one[2] for one in own if one[0] == "queue_ready"] == [private]


async def test_no_more_than_asked_for(rig: Any) -> None:
    for number in range(20):
        rig.queue(f"q{number:02}")
        rig.queue(f"other{number:02}")
    async with rig.http() as http:
        found = await shown(http, name="q*", limit=5, vhost="/")
    ready = [one[2] for one in found if one[0] == "queue_ready"]
    assert ready == [f"q{number:02}" for number in range(5)]
    assert found["queues_left_out",] == 15


@pytest.mark.parametrize(
    ("query", "status"),
    [({"limit": 0}, 422), ({"limit": 10_001}, 422), ({"limit": "x"}, 422), ({"vhost": "no"}, 404)],
)
async def test_wrong_questions(rig: Any, query: dict[str, Any], status: int) -> None:
    async with rig.http() as http:
        answer = await http.get("/metrics/queues", params=query)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_from_elsewhere_for_monitors(rig: Any) -> None:
    rig.broker.access.add_user("mon", "itor", ["monitoring"])
    for user, status in ((None, 401), ("alice:wonder", 403), ("mon:itor", 200)):
        async with rig.http(user, "192.0.2.7") as http:
            assert (await http.get("/metrics/queues")).status_code == status
