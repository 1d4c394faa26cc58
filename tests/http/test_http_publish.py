"""Publishing: what arrives, what is answered, and what every refusal says."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from gateway.http.app import close

QUEUE = "/v1/%2F/queues/orders/messages"


async def test_a_body_arrives_unchanged_with_its_metadata(rig: Any) -> None:
    rig.queue("orders")
    body = bytes(range(256))
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "gzip",
        "Amqp-Durable": "?1",
        "Amqp-Priority": "4",
        "Amqp-Ttl": "60000",
        "Amqp-Message-Id": '"m-1"',
        "Amqp-Correlation-Id": '"c-1"',
        "Amqp-Reply-To": '"answers"',
        "Amqp-User-Id": '"alice"',
        "Amqp-Type": '"T"',
        "Amqp-App-Id": '"shop"',
        "Amqp-Property": '"attempt";v=3;t=ubyte, "who";v="A"',
    }
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=body, headers=headers)
    assert answer.status_code == 201
    assert answer.headers["amqp-message-id"] == '"m-1"'
    assert answer.headers["amqp-outcome"] == "accepted"
    receipt = answer.json()
    assert receipt["message_id"] == "m-1"
    assert receipt["durability"] == "memory"
    assert receipt["address"] == "orders"
    message = rig.fetch("orders")
    assert message.body == body
    assert message.essentials.durable is True
    assert message.essentials.priority == 4
    assert message.essentials.ttl == 60000
    found = message.properties
    assert found.content_type == "application/octet-stream"
    assert found.content_encoding == "gzip"
    assert found.message_id == "m-1"
    assert found.correlation_id == "c-1"
    assert found.reply_to == "answers"
    assert found.user_id == b"alice"
    assert found.type == "T"
    assert found.app_id == "shop"
    assert found.application == {"attempt": 3, "who": "A"}


async def test_without_an_id_a_uuid7_is_made_and_returned(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        receipts = [(await http.post(QUEUE, content=b"x")).json() for _ in range(3)]
    ids = [receipt["message_id"] for receipt in receipts]
    assert all(UUID(one).version == 7 and UUID(one).variant for one in ids)
    assert len(set(ids)) == 3
    message = rig.fetch("orders")
    assert message.properties.message_id == ids[0]
    assert message.properties.durable is True


@pytest.mark.parametrize("name", ["a/b", "ü %2F", "x?y#z", "..", "%"])
async def test_every_name_is_one_encoded_segment(rig: Any, name: str) -> None:
    rig.queue(name)
    async with rig.http() as http:
        path = "".join(f"%{octet:02X}" for octet in name.encode())
        answer = await http.post(f"/v1/%2F/queues/{path}/messages", content=b"x")
    assert answer.status_code == 201
    assert answer.json()["address"] == name
    assert rig.fetch(name).body == b"x"


async def test_publishing_through_an_exchange(rig: Any) -> None:
    rig.queue("q")
    rig.exchange("prices")
    rig.bind("q", "prices", "eur.#")
    async with rig.http() as http:
        path = "/v1/%2F/exchanges/prices/messages"
        hit = await http.post(f"{path}?routing_key=eur.a%2Fb", content=b"1")
        miss = await http.post(f"{path}?routing_key=usd", content=b"2")
        gone = await http.post("/v1/%2F/exchanges/none/messages", content=b"3")
    assert hit.status_code == 201
    assert rig.fetch("q").key == "eur.a/b"
    assert (miss.status_code, miss.json()["outcome"]) == (409, "unroutable")
    assert miss.json()["safe_to_retry"] is True
    assert (gone.status_code, gone.json()["outcome"]) == (404, "refused")
    assert gone.json()["amqp"]["condition"] == "not-found"


def check_problem(answer: Any, status: int, kind: str, outcome: str, safe: bool | str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == f"/problems/{kind}"
    assert told["status"] == status
    assert (told["outcome"], told["safe_to_retry"]) == (outcome, safe)
    assert told["title"] and told["detail"]


async def test_refusals_state_the_outcome_of_the_message(rig: Any) -> None:
    rig.queue("orders")
    rig.queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    full = "/v1/%2F/queues/full/messages"
    async with rig.http() as http:
        missing = await http.post("/v1/%2F/queues/none/messages", content=b"x")
        check_problem(missing, 404, "address-not-found", "refused", False)
        nowhere = await http.post("/v1/other/queues/orders/messages", content=b"x")
        check_problem(nowhere, 404, "address-not-found", "refused", False)
        assert (await http.post(full, content=b"1")).status_code == 201
        rejected = await http.post(full, content=b"2")
        check_problem(rejected, 429, "destination-full", "rejected", True)
        assert rejected.headers["retry-after"] == "1"
        foreign = await http.post(QUEUE, content=b"x", headers={"Amqp-User-Id": '"bob"'})
        check_problem(foreign, 422, "message-refused", "rejected", False)
        for headers in ({"Amqp-Priority": "x"}, {"Amqp-Nonsense": "1"}):
            malformed = await http.post(QUEUE, content=b"x", headers=headers)
            check_problem(malformed, 400, "invalid-field", "not-sent", False)
        extra = await http.post(f"{QUEUE}?routing_key=x", content=b"x")
        check_problem(extra, 400, "invalid-request", "not-sent", False)
        not_text = await http.post("/v1/%2F/queues/%FF/messages", content=b"x")
        check_problem(not_text, 400, "invalid-request", "not-sent", False)
        too_long = await http.post(f"/v1/%2F/queues/{'x' * 256}/messages", content=b"x")
        check_problem(too_long, 400, "invalid-request", "not-sent", False)
        # None of it has spoiled the channel that all of them share.
        assert (await http.post(QUEUE, content=b"x")).status_code == 201
    async with rig.http("weak:weak") as http:
        forbidden = await http.post(QUEUE, content=b"x")
        check_problem(forbidden, 403, "forbidden", "refused", False)
    assert rig.depth("orders") == (1, 0)


async def test_held_back_publishers_are_told_to_come_again(rig: Any) -> None:
    rig.queue("orders")
    rig.broker.alarm("memory", True)
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=b"x")
        check_problem(answer, 503, "backpressure", "not-sent", True)
        assert answer.headers["retry-after"] == "1"
        rig.broker.alarm("memory", False)
        assert (await http.post(QUEUE, content=b"x")).status_code == 201


async def test_a_large_body_is_refused_before_and_while_it_is_read(make_rig: Any) -> None:
    rig = make_rig(max_body_octets=10)
    rig.queue("orders")
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 4
            yield b"1234"

    async with rig.http() as http:
        assert (await http.post(QUEUE, content=b"x" * 10)).status_code == 201
        told = await http.post(QUEUE, content=b"x" * 11)
        check_problem(told, 413, "too-large", "refused", False)
        streamed = await http.post(QUEUE, content=endless())
        check_problem(streamed, 413, "too-large", "refused", False)
    assert read <= 20


async def test_201_waits_for_the_disk(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        path = "/v1/%2F/queues/kept/messages"
        headers = {"Amqp-Durable": "?1"}
        posting = asyncio.create_task(http.post(path, content=b"x", headers=headers))
        volatile = await http.post(path, content=b"y", headers={"Amqp-Durable": "?0"})
        await asyncio.sleep(0.01)
        assert not posting.done()
        rig.release()
        assert (await posting).status_code == 201
        assert volatile.status_code == 201


async def test_no_confirm_in_time_is_an_unknown_outcome(make_rig: Any) -> None:
    rig = make_rig(volatile=False, confirm_seconds=0.02)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        path = "/v1/%2F/queues/kept/messages"
        answer = await http.post(path, content=b"x", headers={"Amqp-Durable": "?1"})
        check_problem(answer, 504, "outcome-unknown", "unknown", "with-idempotency-key")
        rig.release()
        again = await http.post(path, content=b"x", headers={"Amqp-Durable": "?1"})
        assert again.status_code == 201


async def test_nothing_is_taken_after_the_end(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        assert (await http.post(QUEUE, content=b"x")).status_code == 201
        await close(rig.app)
        check_problem(await http.post(QUEUE, content=b"x"), 503, "draining", "not-sent", True)


async def test_a_virtual_host_that_was_made_anew_takes_messages(rig: Any) -> None:
    for _ in range(2):
        rig.broker.create_vhost("v")
        rig.broker.access.set_permissions("alice", "v", ".*", ".*", ".*")
        async with rig.http() as http:
            path = "/v1/v/exchanges/amq.fanout/messages"
            assert (await http.post(path, content=b"x")).status_code == 409
        rig.broker.delete_vhost("v")
