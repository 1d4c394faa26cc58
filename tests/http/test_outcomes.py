"""The table of outcomes: what becomes of a publish, and how it is told. One row of the table, one
case here; docs/http.md lists the rows that cannot occur on the broker that is built in."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.config.web import DeclaredRoute, RouteQuota
from gateway.http.app import close

TO = "/v1/%2F/queues/kept/messages"
DURABLE = {"amqp-durable": "?1"}
MANUAL = Path(__file__).parents[2] / "docs" / "http.md"

Act = Callable[[Any, Any], Awaitable[Any]]


def post(path: str = TO, **given: Any) -> Act:
    async def act(rig: Any, http: Any) -> Any:
        return await http.post(path, **{"content": b"x", **given})

    return act


async def full(rig: Any, http: Any) -> Any:
    rig.queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await http.post("/v1/%2F/queues/full/messages", content=b"1")
    return await http.post("/v1/%2F/queues/full/messages", content=b"2")


async def blocked(rig: Any, http: Any) -> Any:
    rig.broker.alarm("disk", True)
    return await http.post(TO, content=b"x")


async def late(rig: Any, http: Any) -> Any:
    rig.held = True
    return await http.post(TO, content=b"x", headers={**DURABLE, "prefer": "wait=0"})


async def gone(rig: Any, http: Any) -> Any:
    """Its virtual host is deleted while it is in doubt."""
    rig.held = True
    task = asyncio.create_task(http.post(TO, content=b"x", headers=DURABLE))
    await rig.until(rig.app.state.context.publisher.waiting)
    rig.begin()
    rig.broker.delete_vhost("/")
    rig.end()
    return await task


async def stopped(rig: Any, http: Any) -> Any:
    """The gateway stops while it is in doubt, and the disk does not work."""
    rig.held = True
    task = asyncio.create_task(http.post(TO, content=b"x", headers=DURABLE))
    await rig.until(rig.app.state.context.publisher.waiting)
    await close(rig.app)
    return await task


async def stopped_in_time(rig: Any, http: Any) -> Any:
    """The gateway stops while it is in doubt, and the disk works a moment later."""
    rig.held = True
    task = asyncio.create_task(http.post(TO, content=b"x", headers=DURABLE))
    await rig.until(rig.app.state.context.publisher.waiting)
    stop = asyncio.create_task(close(rig.app))
    await asyncio.sleep(0)
    rig.release()
    await stop
    return await task


async def draining(rig: Any, http: Any) -> Any:
    """Whether its password was known already or not."""
    async with rig.http() as other:
        await other.post(TO, content=b"x")
        await close(rig.app)
        later = {"prefer": "respond-async", "idempotency-key": '"k"'}
        careful = await other.post(TO, content=b"x", headers=later)
        assert (careful.status_code, careful.json()["outcome"]) == (503, "not-sent")
        return await other.post(TO, content=b"x")


async def draining_a_stranger(rig: Any, http: Any) -> Any:
    await close(rig.app)
    return await http.post(TO, content=b"x")


async def spent(rig: Any, http: Any) -> Any:
    assert (await http.post("/v1/%2F/routes/scarce/messages", **JSON)).status_code == 201
    return await http.post("/v1/%2F/routes/scarce/messages", **JSON)


async def busy(rig: Any, http: Any) -> Any:
    rig.held = True
    keyed = {**DURABLE, "idempotency-key": '"k"'}
    task = asyncio.create_task(http.post(TO, content=b"x", headers=keyed))
    await rig.until(rig.app.state.context.publisher.waiting)
    answer = await http.post(TO, content=b"x", headers=keyed)
    rig.release()
    assert (await task).status_code == 201
    return answer


async def reused(rig: Any, http: Any) -> Any:
    keyed = {"idempotency-key": '"k"'}
    await http.post(TO, content=b"x", headers=keyed)
    return await http.post(TO, content=b"y", headers=keyed)


JSON = {"content": b"{}", "headers": {"content-type": "application/json"}}
KEY = "with-idempotency-key"
ROWS: dict[str, tuple[Act, int, str, str, Any]] = {
    "accepted": (post(), 201, "", "accepted", None),
    "accepted, nearly too late": (stopped_in_time, 201, "", "accepted", None),
    "unroutable": (
        post("/v1/%2F/exchanges/amq.topic/messages?routing_key=none"),
        409, "unroutable", "unroutable", True,
    ),
    "unroutable by a route that drops": (
        post("/v1/%2F/routes/dropping/messages", **JSON), 200, "", "unroutable", None,
    ),
    "destination-full": (full, 429, "destination-full", "rejected", True),
    "message-refused": (
        post(headers={"amqp-user-id": '"somebody"'}), 422, "message-refused", "rejected", False,
    ),
    "address-not-found": (
        post("/v1/%2F/queues/none/messages"), 404, "address-not-found", "refused", False,
    ),
    "address-not-found, an exchange": (
        post("/v1/%2F/exchanges/none/messages"), 404, "address-not-found", "refused", False,
    ),
    "forbidden": (
        post(TO, auth=("weak", "weak")), 403, "forbidden", "refused", False,
    ),
    "too-large": (post(content=b"x" * 5000), 413, "too-large", "refused", False),
    "backpressure": (blocked, 503, "backpressure", "not-sent", True),
    "quota": (spent, 429, "quota", "not-sent", True),
    "outcome-unknown, in time": (late, 504, "outcome-unknown", "unknown", KEY),
    "outcome-unknown, lost": (gone, 502, "outcome-unknown", "unknown", KEY),
    "outcome-unknown, lost with the gateway": (stopped, 502, "outcome-unknown", "unknown", KEY),
    "schema": (
        post(content=b'{"body":1,"colour":2}',
             headers={"content-type": "application/vnd.amqp-gateway.message+json"}),
        422, "schema", "not-sent", False,
    ),
    "idempotency-key": (
        post(headers={"idempotency-key": "k k"}), 400, "idempotency-key", "not-sent", False,
    ),
    "idempotency-required": (
        post("/v1/%2F/routes/keyed/messages", **JSON),
        400, "idempotency-required", "not-sent", False,
    ),
    "idempotency-in-progress": (busy, 409, "idempotency-in-progress", "unknown", KEY),
    "idempotency-mismatch": (reused, 422, "idempotency-mismatch", "not-sent", False),
    "draining": (draining, 503, "draining", "not-sent", True),
    "draining, a password not seen before": (
        draining_a_stranger, 503, "draining", "not-sent", True,
    ),
}  # fmt: skip
RETRY_AFTER = {"destination-full", "backpressure", "quota", "idempotency-in-progress", "draining"}


@pytest.mark.parametrize("name", ROWS)
async def test_a_row(make_rig: Any, name: str) -> None:
    act, status, kind, outcome, retry = ROWS[name]
    routes = (
        DeclaredRoute(name="dropping", exchange="amq.topic", key="none", unroutable="drop"),
        DeclaredRoute(name="keyed", queue="kept", idempotency="required"),
        DeclaredRoute(
            name="scarce", queue="kept", quota=RouteQuota(requests=1, requests_seconds=3600)
        ),
    )
    rig = make_rig(volatile=False, max_body_octets=4096, routes=routes)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        answer = await act(rig, http)
    told = answer.json()
    assert (answer.status_code, told["outcome"]) == (status, outcome), told
    if status < 300:
        assert "type" not in told
        assert told["routed"] is (outcome == "accepted")
        return
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["type"] == f"/problems/{kind}"
    assert told["safe_to_retry"] == retry and type(told["safe_to_retry"]) is type(retry)
    assert ("retry-after" in answer.headers) is (kind in RETRY_AFTER)
    if kind == "draining":
        assert answer.headers["connection"] == "close"


def test_the_manual_has_the_same_table() -> None:
    text = MANUAL.read_text().partition("### Outcomes of a publish")[2].partition("\n#")[0]
    found = {
        (int(status), kind)
        for status, kind in re.findall(r"^\| [^|]*\| ([0-9]{3})[^|]*\| `([a-z-]+)`", text, re.M)
    }
    expected = {(status, kind) for _, status, kind, _, _ in ROWS.values() if kind}
    assert found == expected
