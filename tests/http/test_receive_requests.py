"""A request and its reply in one call."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from gateway.http.app import close
from gateway.http.publish.templates import encode
from gateway.message import DIALECTS, Message, Properties
from tests.http.receiving_words import clocked

REQUESTS = "/v1/%2F/requests"


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return clocked(make_rig)


def reply(rig: Any, asked: Message, body: bytes, **given: Any) -> None:
    """As a service would answer."""
    properties = asked.properties
    assert properties.reply_to is not None
    rig.begin()
    header, essentials = encode(
        Properties(**{"correlation_id": properties.correlation_id, **given})
    )
    rig.channel.publish(
        Message(DIALECTS["0-9-1"], header, body, "", properties.reply_to, essentials)
    )
    rig.end()


@asynccontextmanager
async def ask(rig: Any, http: Any, headers: Any = None, target: str = "?to=rpc") -> Any:
    """The task that asks, and the request as the service gets it."""
    task = asyncio.create_task(http.post(REQUESTS + target, content=b"ask", headers=headers))
    found: list[Message] = []

    def come() -> bool:
        message = rig.fetch("rpc")
        if message is not None:
            found.append(message)
        return bool(found)

    await rig.until(come)
    try:
        yield task, found[0]
    finally:
        task.cancel()


async def test_the_reply_is_the_answer(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http, ask(rig, http, {"content-type": "text/plain"}) as (task, asked):
        assert asked.body == b"ask" and asked.properties.content_type == "text/plain"
        assert asked.properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        assert asked.properties.correlation_id == asked.properties.message_id
        reply(rig, asked, b'{"n":1}', content_type="application/json", app_id="service")
        answer = await task
        assert answer.status_code == 200
        assert answer.content == b'{"n":1}'
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["amqp-app-id"] == '"service"'
        assert answer.headers["cache-control"] == "no-store"
        sent = answer.headers["amqp-request-id"]
        assert answer.headers["amqp-correlation-id"] == sent
        assert rig.broker.vhosts["/"].replies == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('"0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f";t=uuid',
         UUID("0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f")),
        ('"18446744073709551615";t=ulong', 18446744073709551615),
        (":AQID:;t=binary", b"\x01\x02\x03"),
        ('"order-17"', "order-17"),
    ],
)  # fmt: skip
async def test_the_callers_correlation_id_keeps_its_type(rig: Any, field: str, value: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http, ask(rig, http, {"amqp-correlation-id": field}) as (task, asked):
        assert asked.properties.correlation_id == value
        reply(rig, asked, b"x")
        assert (await task).headers["amqp-correlation-id"] == field


async def test_equal_correlation_ids_do_not_meet(rig: Any) -> None:
    rig.queue("rpc")
    same = {"amqp-correlation-id": '"same"'}
    async with (
        rig.http() as http,
        ask(rig, http, same) as (one, first),
        ask(rig, http, same) as (two, second),
    ):
        reply(rig, second, b"two")
        reply(rig, first, b"one")
        assert ((await one).content, (await two).content) == (b"one", b"two")


async def test_through_an_exchange(rig: Any) -> None:
    rig.queue("rpc")
    rig.exchange("services")
    rig.bind("rpc", "services", "prices.#")
    target = "?to=/exchanges/services/prices.get"
    async with rig.http() as http, ask(rig, http, target=target) as (task, asked):
        reply(rig, asked, b"x")
        assert (await task).status_code == 200


async def test_too_late_is_counted(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http, ask(rig, http, {"prefer": "wait=5"}) as (task, asked):
        rig.advance(4999)
        await asyncio.sleep(0)
        assert not task.done()
        rig.advance(1)
        answer = await task
        assert answer.status_code == 504
        problem = answer.json()
        assert problem["type"].endswith("reply-timeout")
        assert (problem["outcome"], problem["safe_to_retry"]) == ("accepted", False)
        assert answer.headers["amqp-request-id"]
        reply(rig, asked, b"late")
        metrics = (await http.get("/metrics")).text
        assert "amqp_gateway_replies_late_total 1.0" in metrics
        assert "amqp_gateway_reply_timeouts_total 1.0" in metrics
        rig.advance(60_000)
        assert rig.broker.vhosts["/"].replies == {}
        reply(rig, asked, b"much too late")


async def test_a_timeout_says_whether_the_request_was_accepted(make_rig: Any) -> None:
    rig = clocked(make_rig, volatile=False)
    rig.queue("rpc", durable=True)
    rig.held = True
    headers = {"prefer": "wait=1", "amqp-durable": "?1"}
    async with rig.http() as http:
        task = asyncio.create_task(http.post(REQUESTS + "?to=rpc", headers=headers))
        await rig.until(lambda: rig.depth("rpc") == (1, 0))
        rig.advance(1000)
        answer = await task
        assert answer.status_code == 504
        assert answer.json()["outcome"] == "unknown"


async def test_no_responder(rig: Any) -> None:
    rig.exchange("services")
    rig.queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    async with rig.http() as http:
        for target, status, kind in (
            ("?to=/queues/none", 404, "address-not-found"),
            ("?to=/exchanges/none/x", 404, "address-not-found"),
            ("?to=/exchanges/services/x", 409, "unroutable"),
            ("?to=full", 429, "destination-full"),
            ("", 400, "invalid-request"),
            ("?to=/a/b", 400, "invalid-request"),
            ("?to=a&queue=b", 400, "invalid-request"),
            ("?to=" + "x" * 256, 400, "invalid-request"),
        ):
            answer = await http.post(REQUESTS + target)
            assert answer.status_code == status, target
            assert answer.json()["type"].endswith(kind)
        answer = await http.post(REQUESTS + "?to=full", headers={"amqp-reply-to": '"x"'})
        assert answer.status_code == 400
        assert answer.json()["field"] == "amqp-reply-to"
        rig.broker.alarm("memory", True)
        assert (await http.post(REQUESTS + "?to=full")).status_code == 503
    assert rig.broker.vhosts["/"].replies == {}
    async with rig.http("weak:weak") as http:
        rig.broker.alarm("memory", False)
        assert (await http.post(REQUESTS + "?to=full")).status_code == 403
        target = "?to=/exchanges/services/x"
        assert (await http.post(REQUESTS + target)).status_code == 403


async def test_bounds(make_rig: Any) -> None:
    rig = clocked(make_rig, max_requests_per_user=1, max_body_octets=10)
    rig.queue("rpc")
    async with rig.http() as http, ask(rig, http):
        assert (await http.post(REQUESTS + "?to=rpc")).status_code == 429
        answer = await http.post(REQUESTS + "?to=rpc", content=b"x" * 11)
        assert answer.status_code == 413


async def test_a_reply_with_too_many_fields_comes_as_json(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http, ask(rig, http) as (task, asked):
        reply(rig, asked, b"x", application={f"k{n}": "v" * 250 for n in range(60)})
        answer = await task
        assert answer.headers["amqp-view"] == "full"
        assert answer.json()["application_properties"]["k59"] == "v" * 250


async def test_the_caller_hangs_up(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.served() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/%2F/requests?to=rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
            b"Authorization: Basic YWxpY2U6d29uZGVy\r\n\r\nx"
        )
        await rig.until(lambda: rig.depth("rpc") == (1, 0))
        asked = rig.fetch("rpc")
        writer.transport.abort()
        async with rig.http() as http:
            for _ in range(3000):
                metrics = (await http.get("/metrics")).text
                if "amqp_gateway_requests_waiting 0.0" in metrics:
                    break
                await asyncio.sleep(0.005)
            reply(rig, asked, b"late")
            assert "amqp_gateway_replies_late_total 1.0" in (await http.get("/metrics")).text


# --- replies that are fetched later -------------------------------------------------------------

LATER = {"prefer": "respond-async"}
OPERATION = "application/vnd.amqp-gateway.operation+json"


async def asked_later(rig: Any, http: Any, **headers: str) -> tuple[Any, Message]:
    """The answer, and the request as the service gets it."""
    answer = await http.post(REQUESTS + "?to=rpc", content=b"ask", headers={**LATER, **headers})
    return answer, rig.fetch("rpc")


async def test_the_reply_waits_in_an_operation(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http:
        answer, asked = await asked_later(rig, http)
        assert answer.status_code == 202
        assert answer.headers["content-type"] == OPERATION
        assert answer.headers["preference-applied"] == "respond-async"
        assert answer.json()["status"] == "running"
        where = answer.headers["location"]
        assert (await http.get(where)).json()["status"] == "running"
        rig.advance(599_000)  # long after the caller would have hung up
        reply(rig, asked, b'{"n":1}', content_type="application/json", app_id="service")
        await asyncio.sleep(0.01)
        for _ in range(2):
            shown = (await http.get(where)).json()
            assert shown["status"] == "done"
            result = shown["result"]
            assert result["status"] == 200
            assert result["content_type"].startswith("application/vnd.amqp-gateway.message+json")
            assert result["body"]["body"] == {"json": {"n": 1}}
            assert result["body"]["app_id"] == "service"
            assert result["body"]["correlation_id"] == str(asked.properties.message_id)
        async with rig.http("weak:weak") as stranger:
            assert (await stranger.get(where)).status_code == 404
        assert (await http.delete(where)).status_code == 204
        assert (await http.get(where)).status_code == 404
        assert rig.broker.vhosts["/"].replies == {}


async def test_a_reply_that_never_comes_is_a_result_too(make_rig: Any) -> None:
    rig = clocked(make_rig, async_reply_seconds=5)
    rig.queue("rpc")
    async with rig.http() as http:
        answer, _ = await asked_later(rig, http)
        rig.advance(5000)
        await asyncio.sleep(0.01)
        result = (await http.get(answer.headers["location"])).json()["result"]
        assert result["status"] == 504
        assert result["content_type"] == "application/problem+json"
        assert result["body"]["type"].endswith("reply-timeout")
        assert result["body"]["outcome"] == "accepted"


async def test_known_outcomes_are_answered_at_once(rig: Any) -> None:
    async with rig.http() as http:
        answer = await http.post(REQUESTS + "?to=none", content=b"x", headers=LATER)
        assert answer.status_code == 404
        assert answer.json()["type"].endswith("address-not-found")
        rig.queue("rpc")
        wait = {"prefer": "respond-async, wait=60"}
        async with ask(rig, http, wait) as (task, asked):
            reply(rig, asked, b"now")
            answer = await task
            assert answer.status_code == 200
            assert answer.json()["body"] == {"base64": "bm93"}


async def test_operations_are_bounded(make_rig: Any) -> None:
    rig = clocked(make_rig, max_operations=2, max_operation_octets=3000)
    rig.queue("rpc")
    async with rig.http() as http:
        first, one = await asked_later(rig, http)
        second, two = await asked_later(rig, http)
        third, none = await asked_later(rig, http)
        assert third.status_code == 429 and none is None
        reply(rig, one, b"x" * 1500)
        reply(rig, two, b"y" * 1500)
        await asyncio.sleep(0.01)
        # Both do not fit: the older one has made room.
        assert (await http.get(first.headers["location"])).status_code == 404
        assert (await http.get(second.headers["location"])).json()["status"] == "done"
        third, three = await asked_later(rig, http)
        assert third.status_code == 202
        reply(rig, three, b"z" * 9000)  # larger than all of it: kept alone
        await asyncio.sleep(0.01)
        assert (await http.get(third.headers["location"])).json()["status"] == "done"
        assert (await http.get(second.headers["location"])).status_code == 404


async def test_requests_that_wait_count_against_their_user(make_rig: Any) -> None:
    rig = clocked(make_rig, max_requests_per_user=1)
    rig.queue("rpc")
    async with rig.http() as http:
        await asked_later(rig, http)
        answer, _ = await asked_later(rig, http)
        assert answer.status_code == 429
        assert answer.json()["type"].endswith("quota")


async def test_the_gateway_stops_before_the_reply(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http:
        answer, _ = await asked_later(rig, http)
        await close(rig.app)
        await asyncio.sleep(0.01)
        result = (await http.get(answer.headers["location"])).json()["result"]
        assert result["status"] == 503
        assert result["body"]["safe_to_retry"] is False


async def test_the_virtual_host_goes_before_the_reply(rig: Any) -> None:
    rig.queue("rpc")
    async with rig.http() as http:
        later, _ = await asked_later(rig, http)
        async with ask(rig, http) as (task, _):
            rig.begin()
            rig.broker.delete_vhost("/")
            rig.broker.create_vhost("/")
            rig.broker.access.set_permissions("alice", "/", ".*", ".*", ".*")
            rig.end()
            answer = await task
            assert answer.status_code == 502
            assert answer.json()["outcome"] == "accepted"
            assert answer.json()["safe_to_retry"] is False
        result = (await http.get(later.headers["location"])).json()["result"]
        assert result["status"] == 502
        # Another one of its name works.
        rig.client = rig.broker.attach("/", "alice", "the test")
        rig.channel = rig.client.channel(1, rig.recorder)
        rig.queue("rpc")
        async with ask(rig, http) as (task, asked):
            reply(rig, asked, b"x")
            assert (await task).status_code == 200
