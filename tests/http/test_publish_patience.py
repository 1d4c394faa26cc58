"""Waiting, not waiting, asking later, and order across requests."""

import asyncio
from typing import Any

from gateway.http.app import close

QUEUE = "/v1/%2F/queues/kept/messages"
DURABLE = {"Amqp-Durable": "?1"}
BATCH = {"content-type": "application/vnd.amqp-gateway.batch+json"}


def kind_of(answer: Any) -> str:
    return str(answer.json()["type"]).rpartition("/")[2]


async def test_wait_bounds_the_wait(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=b"x", headers={**DURABLE, "Prefer": "wait=0"})
        assert (answer.status_code, kind_of(answer)) == (504, "outcome-unknown")
        rig.release()
        for prefer in ("wait=5", "wait=x", "=", "wait=99999999999999999999"):
            answer = await http.post(QUEUE, content=b"x", headers={**DURABLE, "Prefer": prefer})
            assert answer.status_code == 201, prefer
        assert answer.headers["preference-applied"].startswith("wait=")


async def test_confirm_none_does_not_wait_but_reports_known_outcomes(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        headers = {**DURABLE, "Prefer": "confirm=none"}
        answer = await http.post(QUEUE, content=b"x", headers=headers)
        assert answer.status_code == 202
        told = answer.json()
        assert (told["outcome"], told["durability"]) == ("sent", "memory")
        assert "confirmed_at" not in told
        assert answer.headers["preference-applied"] == "confirm=none"
        path = "/v1/%2F/exchanges/amq.fanout/messages"
        lost = await http.post(path, content=b"x", headers=headers)
        assert (lost.status_code, kind_of(lost)) == (409, "unroutable")
        batch = {"messages": [{"body": "1", "durable": True}, {"body": "2", "durable": True}]}
        many = await http.post(QUEUE, json=batch, headers={**BATCH, "Prefer": "confirm=none"})
        assert many.status_code == 202
    assert rig.depth("kept") == (3, 0)
    rig.release()


async def test_an_answer_that_is_fetched_later(make_rig: Any) -> None:
    rig = make_rig(volatile=False, max_operations=2)
    rig.dependencies.settings.operation_seconds = 0
    rig.queue("kept", durable=True)
    later = {**DURABLE, "Prefer": "respond-async"}
    async with rig.http() as http, rig.http("weak:weak") as stranger:
        at_once = await http.post(
            "/v1/%2F/queues/kept/messages", content=b"x", headers={**later, "Amqp-Durable": "?0"}
        )
        assert at_once.status_code in (201, 202)
        rig.held = True
        first = await http.post(QUEUE, content=b"x", headers=later)
        assert first.status_code == 202, first.text
        where = first.headers["location"]
        assert where.startswith("/v1/%2F/operations/")
        assert first.json()["status"] == "running"
        running = await http.get(where)
        assert (running.status_code, running.json()["status"]) == (200, "running")
        assert running.headers["retry-after"] == "1"
        for method in ("GET", "DELETE"):
            foreign = await stranger.request(method, where)
            assert (foreign.status_code, kind_of(foreign)) == (404, "not-found")
        batch = {"messages": [{"body": "1", "durable": True}, {"priority": -1}]}
        second = await http.post(QUEUE, json=batch, headers={**BATCH, "Prefer": "respond-async"})
        assert second.status_code == 202
        full = await http.post(QUEUE, content=b"x", headers=later)
        assert (full.status_code, kind_of(full)) == (429, "quota")
        deleted = await http.delete(second.headers["location"])
        assert deleted.status_code == 204
        assert (await http.get(second.headers["location"])).status_code == 404
        rig.release()
    assert rig.depth("kept")[0] >= 3


async def test_a_finished_operation_has_the_answer(make_rig: Any) -> None:
    rig = make_rig(volatile=False, operation_seconds=60)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        headers = {**DURABLE, "Prefer": "respond-async, wait=0"}
        first = await http.post(QUEUE, content=b"x", headers=headers)
        assert first.headers["preference-applied"] == "respond-async, wait=0"
        where = first.headers["location"]
        rig.release()

        async def done() -> Any:
            while True:
                told = (await http.get(where)).json()
                if told["status"] == "done":
                    return told

        told = await asyncio.wait_for(done(), 30)
        assert told["result"]["status"] == 201
        assert told["result"]["body"]["outcome"] == "accepted"
        assert 0 < told["expires_in_ms"] <= 60_000
        assert (await http.delete(where)).status_code == 204


async def test_the_end_of_the_gateway_ends_operations(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        first = await http.post(QUEUE, content=b"x", headers={**DURABLE, "Prefer": "respond-async"})
        await close(rig.app)
        await rig.until(lambda: len(asyncio.all_tasks()) == 1)
        told = (await http.get(first.headers["location"])).json()
    assert told["result"]["status"] == 502


async def test_equal_ordering_keys_are_sent_in_order_of_arrival(rig: Any) -> None:
    rig.queue("kept")
    gates = [asyncio.Event() for _ in range(4)]
    arrived = [asyncio.Event() for _ in range(4)]

    async def slow(number: int) -> Any:
        arrived[number].set()
        yield b"%d" % number
        await gates[number].wait()

    async with rig.http() as http:
        tasks = []
        for number in range(4):
            headers = {"Amqp-Ordering-Key": '"k"' if number < 3 else '"other"'}
            task = asyncio.create_task(http.post(QUEUE, content=slow(number), headers=headers))
            tasks.append(task)
            await arrived[number].wait()
        for number in (3, 2, 1):
            gates[number].set()
        assert (await tasks[3]).status_code == 201
        batch = {"messages": [{"body": "b", "ordering_key": "k"}]}
        behind = asyncio.create_task(http.post(QUEUE, json=batch, headers=BATCH))
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in (*tasks[:3], behind))
        gates[0].set()
        answers = await asyncio.gather(*tasks, behind)
        assert all(answer.status_code == 201 for answer in answers)
        bodies = [rig.fetch("kept").body for _ in range(5)]
    assert bodies == [b"3", b"0", b"1", b"2", b"b"]


async def test_failing_or_stalled_publishes_delay_others_for_a_bounded_time(make_rig: Any) -> None:
    rig = make_rig(confirm_seconds=0.05)
    rig.queue("kept")
    headers = {"Amqp-Ordering-Key": '"k"'}
    started, never = asyncio.Event(), asyncio.Event()

    async def stalled() -> Any:
        started.set()
        yield b"x"
        await never.wait()

    async with rig.http() as http:
        refused = await http.post(QUEUE, content=b"x", headers={**headers, "Amqp-Ttl": "x"})
        assert refused.status_code == 400
        assert (await http.post(QUEUE, content=b"1", headers=headers)).status_code == 201
        first = asyncio.create_task(http.post(QUEUE, content=stalled(), headers=headers))
        await started.wait()
        second = await http.post(QUEUE, content=b"2", headers=headers)
        assert (second.status_code, kind_of(second)) == (503, "backpressure")
        assert second.json()["outcome"] == "not-sent"
        never.set()
        assert (await first).status_code == 201
        assert (await http.post(QUEUE, content=b"3", headers=headers)).status_code == 201
    assert [rig.fetch("kept").body for _ in range(3)] == [b"1", b"x", b"3"]
