"""Receive with a lease, and everything that can become of one."""

import asyncio
import base64
from typing import Any

import pytest

from gateway.operations import DeclareQueue, DeleteQueue
from tests.http.receiving_words import RECEIVE, TOKEN, clocked, take, text_of


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return clocked(make_rig)


async def test_received_and_accepted(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b", "c")
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"), json={"max": 2, "lease_ms": 5000})
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        got = answer.json()["deliveries"]
        assert [text_of(one) for one in got] == ["a", "b"]
        assert got[0]["delivery_count"] == 1 and got[0]["redelivered"] is False
        assert got[0]["lock_until"] == "2026-09-21T14:13:25.000Z"
        assert rig.depth("q") == (1, 2)
        path = TOKEN.format(got[0]["token"])
        answer = await http.get(path)
        assert answer.json()["state"] == "leased"
        assert text_of(answer.json()) == "a"
        for repeated in (False, True):
            answer = await http.delete(path)
            assert answer.status_code == 200
            assert answer.json() == {
                "outcome": "accepted", "confirmed": True, "repeated": repeated,
            }  # fmt: skip
        assert rig.depth("q") == (1, 1)
        answer = await http.get(path)
        assert answer.json() == {"state": "settled", "outcome": "accepted"}
        answer = await http.post(path + "/release", json={})
        assert answer.status_code == 409
        assert answer.json()["type"].endswith("already-settled")
        assert answer.json()["settled"] == "accepted"


async def test_nothing_is_there(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"))
        assert (answer.status_code, answer.content) == (204, b"")
        answer = await http.post(RECEIVE.format("none"))
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert rig.depth("q") == (0, 0)


async def test_expired_leases_are_redelivered(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http:
        (one,) = await take(http, "q", lease_ms=5000)
        path = TOKEN.format(one["token"])
        rig.advance(4999)
        assert rig.depth("q") == (0, 1)
        answer = await http.patch(path, json={"lease_ms": 5000})
        assert answer.json() == {"outcome": "renewed", "lock_until": "2026-09-21T14:13:29.999Z"}
        rig.advance(4999)
        assert rig.depth("q") == (0, 1)
        rig.advance(1)
        assert rig.depth("q") == (1, 0)
        for method, tail in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/release")):
            answer = await http.request(method, path + tail)
            assert answer.status_code == 410, method
            assert answer.json()["type"].endswith("lease-lost")
        (again,) = await take(http, "q")
        assert again["redelivered"] is True and again["delivery_count"] == 2
        assert again["message"]["redelivered"] is True
        # Long after, nobody remembers; the answer is the same.
        rig.advance(10_000_000)
        assert (await http.delete(path)).status_code == 410


async def test_a_settled_lease_is_remembered_for_twice_its_time(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http:
        (one,) = await take(http, "q", lease_ms=5000)
        path = TOKEN.format(one["token"])
        assert (await http.delete(path)).status_code == 200
        rig.advance(9999)
        assert (await http.delete(path)).status_code == 200
        rig.advance(1)
        assert (await http.delete(path)).status_code == 410


async def test_release_and_modify_give_back_with_notes(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b")
    async with rig.http() as http:
        one, two = await take(http, "q", max=2)
        answer = await http.post(TOKEN.format(two["token"]) + "/release", json={"failed": True})
        assert answer.json()["outcome"] == "released"
        notes = {"x-opt-tried": 3, "x-opt-by": "alice"}
        answer = await http.post(
            TOKEN.format(one["token"]) + "/modify",
            json={"delivery_failed": True, "annotations": notes},
        )
        assert answer.json()["outcome"] == "modified"
        one, two = await take(http, "q", max=2)
        assert (text_of(one), text_of(two)) == ("a", "b")
        assert one["message"]["properties"] == notes
        answer = await http.post(
            TOKEN.format(one["token"]) + "/modify", json={"undeliverable_here": True}
        )
        assert answer.status_code == 422
        assert answer.json()["type"].endswith("outcome-unsupported")
        assert "x-dead-letter-exchange" in answer.json()["detail"]
        assert "ack=explicit" in answer.json()["detail"]
        answer = await http.post(
            TOKEN.format(one["token"]) + "/modify", json={"annotations": {"x-death": 1}}
        )
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"].startswith("/annotations")


async def test_reject_and_undeliverable_here_go_to_the_dead_letters(rig: Any) -> None:
    rig.queue("dead")
    rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    rig.put("q", "a", "b")
    async with rig.http() as http:
        one, two = await take(http, "q", max=2)
        answer = await http.post(
            TOKEN.format(one["token"]) + "/reject",
            json={"reason": "bad-order", "description": "no item"},
        )
        assert answer.json()["outcome"] == "rejected"
        answer = await http.post(
            TOKEN.format(two["token"]) + "/modify",
            json={"undeliverable_here": True, "annotations": {"x-opt-a": "b"}},
        )
        assert answer.json()["outcome"] == "modified"
        first, second = await take(http, "dead", max=2)
        properties = first["message"]["properties"]
        assert properties["x-opt-reject-reason"] == "bad-order"
        assert properties["x-opt-reject-description"] == "no item"
        assert second["message"]["properties"]["x-opt-a"] == "b"
        (death,) = first["message"]["dead_letter"]
        assert death == {
            "queue": "q", "reason": "rejected", "count": 1, "exchange": "",
            "routing_keys": ["q"], "first": "2026-09-21T14:13:20.000Z",
        }  # fmt: skip


async def test_many_at_once_with_a_result_each(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b", "c", "d")
    async with rig.http() as http:
        got = await take(http, "q", max=4)
        tokens = [one["token"] for one in got]
        items = [
            {"token": tokens[0], "outcome": "accepted"},
            {"token": tokens[1], "outcome": "released"},
            {"token": tokens[2], "outcome": "rejected", "reason": "x"},
            {"token": tokens[3], "outcome": "renewed", "lease_ms": 60000},
        ]
        answer = await http.post(TOKEN.format("settle"), json=items)
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert [one["outcome"] for one in results] == [
            "accepted", "released", "rejected", "renewed",
        ]  # fmt: skip
        assert rig.depth("q") == (1, 1)
        items = [{"token": tokens[0], "outcome": "released"}, {"token": "x", "outcome": "accepted"},
                 {"token": tokens[3], "outcome": "accepted"}]  # fmt: skip
        answer = await http.post(TOKEN.format("settle"), json=items)
        assert answer.status_code == 207
        results = answer.json()["results"]
        assert [one["status"] for one in results] == [409, 404, 200]
        assert results[0]["problem"]["type"].endswith("already-settled")
        mistakes: tuple[object, ...] = (
            [],
            {},
            [{"token": "x"}],
            [{"token": "x", "outcome": "eaten"}],
            None,
        )
        for wrong in mistakes:
            answer = await http.post(TOKEN.format("settle"), json=wrong)
            assert answer.status_code == 422


async def test_tokens_are_bound_to_their_user(rig: Any) -> None:
    rig.broker.access.add_user("bob", "builder", ())
    rig.broker.access.set_permissions("bob", "/", ".*", ".*", ".*")
    rig.begin()
    rig.broker.create_vhost("other")
    rig.broker.access.set_permissions("alice", "other", ".*", ".*", ".*")
    rig.end()
    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http, rig.http("bob:builder") as stranger:
        (one,) = await take(http, "q")
        token = one["token"]
        assert (await stranger.delete(TOKEN.format(token))).status_code == 404
        assert (await http.delete(f"/v1/other/deliveries/{token}")).status_code == 404
        changed = [token[:-1] + ("A" if token[-1] != "A" else "B"), token[:-8], "x", "é",
                   "x" * 300, token[:20] + "!" + token[21:]]  # fmt: skip
        for forged in changed:
            answer = await http.delete(TOKEN.format(forged))
            assert answer.status_code == 404, forged
            assert answer.json()["type"].endswith("invalid-token")
        rig.broker.access.set_permissions("alice", "/", ".*", ".*", "^$")
        assert (await http.delete(TOKEN.format(token))).status_code == 403
        assert rig.depth("q") == (0, 1)


async def test_after_a_restart_the_message_is_back_and_the_lease_lost(make_rig: Any) -> None:
    rig = clocked(make_rig, volatile=False)
    rig.queue("q", durable=True)
    rig.put("q", "a", durable=True)
    async with rig.http() as http:
        (one,) = await take(http, "q")
    again = rig.restart()
    async with again.http() as http:
        answer = await http.delete(TOKEN.format(one["token"]))
        assert answer.status_code == 410
        (back,) = await take(http, "q")
        assert back["redelivered"] is True
    again.dependencies.secret = b"another one, as without a data dir"
    from gateway.http.app import build

    again.app = build(again.dependencies)
    async with again.http() as http:
        assert (await http.delete(TOKEN.format(back["token"]))).status_code == 410


async def test_the_disk_is_waited_for(make_rig: Any) -> None:
    rig = clocked(make_rig, volatile=False, confirm_seconds=0.01)
    rig.queue("q", durable=True)
    rig.put("q", "a", "b", durable=True)
    async with rig.http() as http:
        one, two = await take(http, "q", max=2)
        rig.held = True
        answer = await http.delete(TOKEN.format(one["token"]))
        assert answer.status_code == 504
        assert (answer.json()["outcome"], answer.json()["safe_to_retry"]) == ("unknown", True)
        rig.dependencies.settings.confirm_seconds = 5
        task = asyncio.create_task(http.delete(TOKEN.format(two["token"])))
        await rig.until(lambda: rig.depth("q") == (0, 0))
        assert not task.done()
        rig.release()
        assert (await task).status_code == 200
        assert (await http.delete(TOKEN.format(one["token"]))).json()["repeated"] is True


async def test_a_deleted_queue_takes_its_leases(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http:
        (one,) = await take(http, "q")
        rig.begin()
        rig.channel.topology.delete_queue(DeleteQueue(1, None, "q"))
        rig.end()
        assert (await http.delete(TOKEN.format(one["token"]))).status_code == 410
        rig.begin()
        rig.broker.create_vhost("gone")
        rig.broker.access.set_permissions("alice", "gone", ".*", ".*", ".*")
        client = rig.broker.attach("gone", "alice", "test")
        client.channel(1, rig.recorder).topology.declare_queue(DeclareQueue(1, None, "q"))
        rig.end()
        await http.post("/v1/gone/queues/q/messages", content=b"x")
        answer = await http.post("/v1/gone/queues/q/deliveries")
        token = answer.json()["deliveries"][0]["token"]
        rig.begin()
        rig.broker.delete_vhost("gone")
        rig.broker.create_vhost("gone")
        rig.broker.access.set_permissions("alice", "gone", ".*", ".*", ".*")
        rig.end()
        assert (await http.delete(f"/v1/gone/deliveries/{token}")).status_code == 410
        answer = await http.post("/v1/gone/queues/q/deliveries")
        assert answer.status_code == 404


async def test_auto_mode_is_settled_by_the_answer(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b")
    async with rig.http() as http:
        (one,) = await take(http, "q", mode="auto")
        assert "token" not in one and text_of(one) == "a"
        assert rig.depth("q") == (1, 0)


async def test_too_many_leases(make_rig: Any) -> None:
    rig = clocked(make_rig, max_leases_per_user=2)
    rig.queue("q")
    rig.put("q", "a", "b", "c")
    async with rig.http() as http:
        got = await take(http, "q", max=10)
        assert len(got) == 2
        answer = await http.post(RECEIVE.format("q"))
        assert answer.status_code == 429
        assert answer.headers["retry-after"] and answer.json()["type"].endswith("quota")
        await http.delete(TOKEN.format(got[0]["token"]))
        assert len(await take(http, "q", max=10)) == 1


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"max": 0}, 422),
        ({"max": 1001}, 422),
        ({"max": "1"}, 422),
        ({"wait_ms": 60_001}, 422),
        ({"lease_ms": 1}, 422),
        ({"view": "odd"}, 422),
        ({"filter": "colour=red"}, 422),
        ({"leese_ms": 5000}, 422),
        ([], 422),
    ],
)
async def test_invalid_requests(rig: Any, asked: Any, status: int) -> None:
    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"), json=asked)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert rig.depth("q") == (1, 0)


async def test_unreadable_queues(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        for path, content, headers, status in (
            ("", b"{", {}, 400),
            ("?max=1&max=2", b"", {}, 400),
            ("?odd=1", b"", {}, 400),
            ("?max=x", b"", {}, 422),
            ("", b"x" * 1_100_000, {}, 413),
            ("", b"", {"receive-attempt-id": "x" * 200}, 400),
            ("?mode=auto", b"", {"receive-attempt-id": "x"}, 409),
        ):
            answer = await http.post(RECEIVE.format("q") + path, content=content, headers=headers)
            assert answer.status_code == status, path
    async with rig.http("weak:weak") as http:
        assert (await http.post(RECEIVE.format("q"))).status_code == 403
    async with rig.http(None) as http:
        assert (await http.post(RECEIVE.format("q"))).status_code == 401


async def test_views(rig: Any) -> None:
    rig.queue("q")
    from uuid import UUID

    known = UUID("0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f")
    rig.put(
        "q", '{"n": 12345678901234567890.0001}', content_type="application/json",
        correlation_id=known, application={"k": 7},
    )  # fmt: skip
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"), json={})
        assert '{"json":{"n": 12345678901234567890.0001}}' in answer.text
        message = answer.json()["deliveries"][0]["message"]
        assert message["content_type"] == "application/json"
        assert message["correlation_id"] == f"urn:uuid:{known}"
        path = TOKEN.format(answer.json()["deliveries"][0]["token"])
        for payload in ("auto", "base64"):
            body = (await http.get(path, params={"payload": payload})).json()["message"]["body"]
            assert list(body) == (["json"] if payload == "auto" else ["base64"])
        full = (await http.get(path, params={"view": "full"})).json()["message"]
        assert full["properties"]["correlation_id"] == {"$type": "uuid", "value": str(known)}
        assert full["application_properties"]["k"] == 7
        assert full["header"]["delivery_count"] == 0 and full["header"]["first_acquirer"] is True
        assert base64.b64decode(full["body"]["base64"]).startswith(b'{"n"')
        await http.post(path + "/release")
        answer = await http.post(RECEIVE.format("q") + "?view=raw&lease_ms=5000")
        assert answer.content == b'{"n": 12345678901234567890.0001}'
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["amqp-correlation-id"] == f'"{known}";t=uuid'
        assert answer.headers["amqp-property"].startswith('"k";v=7')
        assert answer.headers["amqp-first-acquirer"] == "?0"
        assert answer.headers["amqp-delivery-count"] == "1"
        assert answer.headers["x-content-type-options"] == "nosniff"
        where = answer.headers["location"]
        assert where == TOKEN.format(answer.headers["amqp-lock-token"])
        assert (await http.delete(where)).status_code == 200


async def test_raw_is_for_requests_without_json_and_never_breaks_out(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "<b>", content_type="text/html\r\nset-cookie: x=y", message_id="a\r\nb: c")
    rig.put("q", "x", application={"k" * 200: "v" * 250})
    rig.put("q", "y", application={f"{n:03}" * 20: "v" * 250 for n in range(60)})
    async with rig.http() as http:
        for body, view in ((b"<b>", None), (b"x", None), (None, "full")):
            answer = await http.post(RECEIVE.format("q"), headers={"accept": "text/plain"})
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers and "b" not in answer.headers
            assert answer.headers.get("amqp-view") == view
            if body is None:
                assert answer.json()["deliveries"][0]["message"]["view"] == "full"
            else:
                assert answer.content == body
                assert answer.headers["content-type"] == "application/octet-stream"


async def test_the_gateway_says_goodbye(rig: Any) -> None:
    from gateway.http.app import close

    rig.queue("q")
    rig.put("q", "a")
    async with rig.http() as http:
        await take(http, "q")
        await close(rig.app)
        assert rig.depth("q") == (1, 0)
        answer = await http.post(RECEIVE.format("q"))
        assert answer.status_code == 503
        assert answer.json()["type"].endswith("draining")
