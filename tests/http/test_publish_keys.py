"""Idempotency keys: one message per key, whatever is repeated, and whoever dies in between."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.memory_store import MemoryStore
from gateway.http.problems import Problem
from gateway.http.publish.idempotency import IdempotencyKeys, KeyedPublish
from tests.drawing import examples

QUEUE = "/v1/%2F/queues/kept/messages"
BATCH = {"content-type": "application/vnd.amqp-gateway.batch+json"}
DURABLE = {"Amqp-Durable": "?1"}


def kind_of(answer: Any) -> str:
    return str(answer.json()["type"]).rpartition("/")[2]


def keyed(key: str, **more: str) -> dict[str, str]:
    return {**DURABLE, "Idempotency-Key": f'"{key}"', **more}


async def test_a_retry_gets_the_first_answer_and_no_second_message(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        first = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        again = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        assert first.status_code == again.status_code == 201
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json() == first.json()
        assert again.headers["amqp-message-id"] == first.headers["amqp-message-id"]
        other = await http.post(QUEUE, content=b"y", headers=keyed("k"))
        assert (other.status_code, kind_of(other)) == (422, "idempotency-mismatch")
        fields = await http.post(QUEUE, content=b"x", headers=keyed("k", **{"Amqp-Ttl": "1"}))
        assert kind_of(fields) == "idempotency-mismatch"
        assert rig.depth("kept") == (1, 0)
        rig.queue("other")
        elsewhere = "/v1/%2F/queues/other/messages"
        assert (await http.post(elsewhere, content=b"y", headers=keyed("k"))).status_code == 201
    rig.broker.access.add_user("bob", "b", ())
    rig.broker.access.set_permissions("bob", "/", ".*", ".*", ".*")
    async with rig.http("bob:b") as http:
        theirs = await http.post(QUEUE, content=b"y", headers=keyed("k"))
        assert "idempotency-replayed" not in theirs.headers
    assert rig.depth("kept") == (2, 0)


@pytest.mark.parametrize("key", ["k", '""', "", "7", '"a', ":aa:", f'"{"x" * 256}"', '"a";b=1'])
async def test_a_malformed_key(rig: Any, key: str) -> None:
    rig.queue("kept")
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=b"x", headers={"Idempotency-Key": key})
    assert (answer.status_code, kind_of(answer)) == (400, "idempotency-key")
    assert answer.json()["outcome"] == "not-sent"


async def test_while_the_first_is_under_way(make_rig: Any) -> None:
    rig = make_rig(volatile=False, confirm_seconds=0.05)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        unknown = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        assert (unknown.status_code, kind_of(unknown)) == (504, "outcome-unknown")
        assert unknown.json()["safe_to_retry"] == "with-idempotency-key"
        busy = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        assert (busy.status_code, kind_of(busy)) == (409, "idempotency-in-progress")
        assert busy.headers["retry-after"] == "1"
        rig.release()
        again = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert rig.depth("kept") == (1, 0)


async def test_201_waits_until_the_record_is_safe(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("passing")
    rig.held = True
    async with rig.http() as http:
        posting = asyncio.create_task(
            http.post(
                "/v1/%2F/queues/passing/messages",
                content=b"x",
                headers={"Idempotency-Key": '"k"'},
            )
        )
        await rig.until(lambda: rig.depth("passing") == (1, 0))
        await asyncio.sleep(0.01)
        assert not posting.done()
        rig.release()
        assert (await posting).status_code == 201


async def test_a_key_is_free_again_when_nothing_was_stored(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.http() as http:
        assert (await http.post(QUEUE, content=b"x", headers=keyed("k"))).status_code == 404
        rig.queue(
            "kept", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
        )
        assert (await http.post(QUEUE, content=b"x", headers=keyed("k"))).status_code == 201
        assert (await http.post(QUEUE, content=b"y", headers=keyed("l"))).status_code == 429
        assert rig.fetch("kept").body == b"x"
        fuller = await http.post(QUEUE, content=b"y", headers=keyed("l"))
        assert (fuller.status_code, fuller.headers.get("idempotency-replayed")) == (201, None)


def restarted(rig: Any, make_rig: Any) -> Any:
    """A gateway on what the last one left on disk."""
    later = make_rig(volatile=False, store=rig.store.survivors())
    return later


async def test_after_a_crash_it_is_known_exactly(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.queue("passing", durable=True)
    passing = "/v1/%2F/queues/passing/messages"
    transient = {"Idempotency-Key": '"k"', "Amqp-Durable": "?0"}
    async with rig.http() as http:
        first = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        gone = await http.post(passing, content=b"y", headers=transient)
        assert first.status_code == gone.status_code == 201
    rig = restarted(rig, make_rig)
    assert rig.depth("kept") == (1, 0)
    assert rig.depth("passing") == (0, 0)
    async with rig.http() as http:
        again = await http.post(QUEUE, content=b"x", headers=keyed("k"))
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
        assert again.json() == first.json()
        assert rig.depth("kept") == (1, 0)
        other = await http.post(QUEUE, content=b"z", headers=keyed("k"))
        assert other.status_code == 422
        resent = await http.post(passing, content=b"y", headers=transient)
        assert "idempotency-replayed" not in resent.headers
        assert resent.json()["duplicate"] == "possible"
        assert resent.json()["attempts"] == 2
        assert resent.json()["message_id"] == gone.json()["message_id"]
        assert rig.fetch("passing").properties.message_id == gone.json()["message_id"]
        replayed = await http.post(passing, content=b"y", headers=transient)
        assert replayed.json() == resent.json()
        assert rig.depth("passing") == (0, 0)


async def test_batches_are_retried_whole(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    messages = [
        {"id": "a", "to": "kept", "durable": True, "body": "1"},
        {"to": "later", "durable": True, "body": "2"},
        {"to": "kept", "durable": True, "body": "3"},
    ]

    async def post(http: Any, found: Any = messages, **more: Any) -> Any:
        headers = {**BATCH, "Idempotency-Key": '"b"'}
        content = json.dumps({"messages": found, **more})
        return await http.post("/v1/%2F/messages", content=content, headers=headers)

    async with rig.http() as http:
        half = await post(http)
        assert [one["status"] for one in half.json()["results"]] == [201, 404, 201]
        rig.queue("later", durable=True)
    rig = restarted(rig, make_rig)
    async with rig.http() as http:
        whole = await post(http)
        assert whole.status_code == 201, whole.text
        results = whole.json()["results"]
        assert [one.get("replayed", False) for one in results] == [True, False, True]
        assert results[2]["message_id"] == half.json()["results"][2]["message_id"]
        assert "idempotency-replayed" not in whole.headers
        once_more = await post(http)
        assert once_more.headers["idempotency-replayed"] == "true"
        changed = await post(http, [{**messages[0], "body": "9"}])
        assert (changed.status_code, kind_of(changed)) == (422, "idempotency-mismatch")
    assert rig.depth("kept") == (2, 0)
    assert rig.depth("later") == (1, 0)


async def test_an_atomic_batch_has_one_key(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    messages = [{"to": "kept", "durable": True, "body": str(n)} for n in range(3)]
    headers = {**BATCH, "Idempotency-Key": '"b"'}
    batch = {"messages": messages, "atomic": True}
    async with rig.http() as http:
        first = await http.post("/v1/%2F/messages", json=batch, headers=headers)
        assert first.status_code == 201, first.text
    rig = restarted(rig, make_rig)
    async with rig.http() as http:
        again = await http.post("/v1/%2F/messages", json=batch, headers=headers)
        assert again.headers["idempotency-replayed"] == "true"
        told = [one["message_id"] for one in again.json()["results"]]
        assert told == [one["message_id"] for one in first.json()["results"]]
        fewer = {"messages": messages[:2], "atomic": True}
        other = await http.post("/v1/%2F/messages", json=fewer, headers=headers)
        assert (other.status_code, kind_of(other)) == (422, "idempotency-mismatch")
    assert rig.depth("kept") == (3, 0)


async def test_keys_are_bounded_and_expire(make_rig: Any) -> None:
    rig = make_rig(volatile=False, max_idempotency_keys=2, idempotency_seconds=1)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        for key in ("a", "b"):
            assert (await http.post(QUEUE, content=b"x", headers=keyed(key))).status_code == 201
        full = await http.post(QUEUE, content=b"x", headers=keyed("c"))
        assert (full.status_code, kind_of(full)) == (429, "quota")
        rig.ahead = 1001
        assert (await http.post(QUEUE, content=b"x", headers=keyed("c"))).status_code == 201
        again = await http.post(QUEUE, content=b"other", headers=keyed("a"))
        assert again.status_code == 201
    kept = {key[-1] for kind, key, _ in rig.store.records() if kind == "idempotency"}
    assert kept == {"a", "c"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40))
@settings(max_examples=examples(60), deadline=None)
def test_a_restart_finds_kept_keys(steps: list[tuple[int, int]]) -> None:
    store = MemoryStore(False)
    book = IdempotencyKeys(store, 3600, 100)
    model: dict[int, str] = {}
    now = int(time.time() * 1000)
    for what, number in steps:
        key = ("u", "", "/", "queue:q", str(number))
        if what == 3:
            book = IdempotencyKeys(store, 3600, 100)
            book.load(store.records())
            continue
        try:
            entry = book.claim(key, f"f{what}", now)
        except Problem as problem:
            assert problem.row.kind == "idempotency-mismatch"
            assert model[number] != f"f{what}"
            continue
        if entry.done:
            assert model[number] == f"f{what}"
            continue
        assert number not in model
        ticket = KeyedPublish(book, entry)
        if what == 0:
            ticket.settle(False)
            continue
        book.sent(entry, {"outcome": "accepted"}, True)
        ticket.settle(True)
        assert ticket.accepted is None
        ticket.record_safe()
        assert ticket.accepted
        model[number] = f"f{what}"
    assert {int(key[-1]) for key in book.entries} == model.keys()
    assert {int(key[-1]) for _, key, _ in store.records()} == model.keys()
