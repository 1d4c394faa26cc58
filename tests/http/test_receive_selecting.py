"""Receives that want certain messages only: filters, groups, and poison that is taken away."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from gateway.http.app import close
from gateway.http.filters import Filter, read_filter
from gateway.http.receive.channels import PORTION, ReceiveChannels
from gateway.http.receive.requests import Receive
from gateway.operations import DeleteQueue
from tests.http.receiving_words import RECEIVE, TOKEN, clocked, take, text_of
from tests.http.settings_words import shared_bearer


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return clocked(make_rig)


def seekers(rig: Any) -> int:
    return len(rig.broker.vhosts["/"].queues["q"].watchers)


def texts(deliveries: list[dict[str, Any]]) -> list[str]:
    return [text_of(one) for one in deliveries]


@asynccontextmanager
async def poll(rig: Any, http: Any, **asked: Any) -> Any:
    """A receive that seeks."""
    before = seekers(rig)
    asked = {"wait_ms": 20_000, **asked}
    task = asyncio.create_task(http.post(RECEIVE.format("q"), json=asked))
    await rig.until(lambda: seekers(rig) == before + 1 or task.done())
    try:
        yield task
    finally:
        task.cancel()


async def test_matches_are_leased_and_the_rest_stays_in_order(rig: Any) -> None:
    rig.queue("q")
    for number in range(9):
        rig.put("q", str(number), application={"kind": "abc"[number % 3], "n": number})
    async with rig.http() as http:
        got = await take(http, "q", max=2, filter="property.kind=b")
        assert texts(got) == ["1", "4"]
        assert rig.depth("q") == (7, 2)
        several = ["property.kind=c", "property.n!=2"]
        assert texts(await take(http, "q", max=9, filter=several)) == ["5", "8"]
        assert await take(http, "q", max=9, filter="property.kind=z") == []
        assert texts(await take(http, "q", max=9)) == ["0", "2", "3", "6", "7"]
        # What is given back stands where it stood.
        for one in reversed(got):
            answer = await http.post(TOKEN.format(one["token"]) + "/release", json={})
            assert answer.status_code == 200
        again = await take(http, "q", max=9, filter="property.n^=")
        assert texts(again) == ["1", "4"]
        assert all(one["redelivered"] for one in again)
        assert seekers(rig) == 0


async def test_a_selector(rig: Any) -> None:
    rig.queue("q")
    for number in range(9):
        rig.put("q", str(number), group_id="abc"[number % 3], application={"n": number})
    async with rig.http() as http:
        assert texts(await take(http, "q", max=2, selector="n > 4 OR n IN (1, 2)")) == ["1", "2"]
        assert texts(await take(http, "q", max=9, group="a", selector="n <> 0")) == ["3", "6"]
        query = RECEIVE.format("q") + "?selector=" + quote("JMSXGroupID = 'b'") + "&max=9"
        assert texts((await http.post(query)).json()["deliveries"]) == ["4", "7"]
        assert await take(http, "q", selector="n > 100") == []
        assert texts(await take(http, "q", max=9)) == ["0", "5", "8"]


async def test_a_group(rig: Any) -> None:
    rig.queue("q")
    for number in range(6):
        rig.put("q", str(number), group_id="odd" if number % 2 else "even")
    rig.put("q", "none")
    async with rig.http() as http:
        assert texts(await take(http, "q", max=2, group="odd")) == ["1", "3"]
        answer = await http.post(RECEIVE.format("q") + "?group=even&max=9&filter=group%5E%3De")
        assert texts(answer.json()["deliveries"]) == ["0", "2", "4"]
        assert await take(http, "q", group="other") == []
        assert texts(await take(http, "q", max=9)) == ["5", "none"]


async def test_the_group_that_a_publisher_over_http_names(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        for group in ("a", "b"):
            await http.post("/v1/%2F/queues/q/messages", content=group,
                            headers={"Amqp-Group-Id": f'"{group}"'})  # fmt: skip
        (one,) = await take(http, "q", max=9, group="b", payload="base64")
        assert text_of(one) == "b"


async def test_a_wait_ends_with_the_first_that_matches(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "before", type="x")
    async with rig.http() as http, poll(rig, http, max=5, filter="type=y") as task:
        rig.put("q", "x", type="x")
        await asyncio.sleep(0)
        assert not task.done()
        rig.put("q", "y", type="y")
        answer = await task
        assert texts(answer.json()["deliveries"]) == ["y"]
        # Nobody seeks any more.
        rig.put("q", "later", type="y")
        assert rig.depth("q") == (3, 1)
        assert seekers(rig) == 0


async def test_a_wait_sees_returned_messages(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", type="y")
    async with rig.http() as http:
        (one,) = await take(http, "q", lease_ms=5000)
        async with poll(rig, http, filter="type=y") as task:
            rig.advance(5000)
            (again,) = (await task).json()["deliveries"]
            assert text_of(again) == "a" and again["delivery_count"] == 2
        assert (await http.get(TOKEN.format(one["token"]))).status_code == 410


async def test_a_wait_takes_no_more_than_it_wants(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, max=2, group="g") as task:
        rig.put("q", "a", "b", "c", group_id="g")
        assert texts((await task).json()["deliveries"]) == ["a", "b"]
        assert rig.depth("q") == (1, 2)


async def test_a_wait_ends_with_its_time(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, group="g") as task:
        rig.put("q", "other")
        rig.advance(19_999)
        await asyncio.sleep(0)
        assert seekers(rig) == 1
        rig.advance(1)
        assert (await task).status_code == 204
        assert seekers(rig) == 0
        assert rig.depth("q") == (1, 0)


async def test_ordinary_receives_compete_with_those_that_seek(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, group="g") as task:
        answer = asyncio.create_task(http.post(RECEIVE.format("q"), json={"wait_ms": 20_000}))
        queue = rig.broker.vhosts["/"].queues["q"]
        await rig.until(lambda: queue.consumers)
        rig.put("q", "a", group_id="g")  # who takes anything is served first
        assert texts((await answer).json()["deliveries"]) == ["a"]
        rig.put("q", "b", group_id="g")
        assert texts((await task).json()["deliveries"]) == ["b"]


async def test_far_behind(rig: Any) -> None:
    """A search takes many turns, in which others are served, and is not cut by its wait."""
    rig.queue("q")
    many = 6 * PORTION
    rig.put("q", *["x"] * many)
    rig.put("q", "far", type="y")
    async with rig.http() as http:
        for asked in ({}, {"wait_ms": 1}):
            turns = rig.turns
            task = asyncio.create_task(take(http, "q", filter="type=y", **asked))
            await rig.until(lambda: seekers(rig) == 1)
            rig.put("q", "new", type="y")
            rig.advance(5)
            assert not task.done()
            (one,) = await task
            assert text_of(one) == "far"
            assert rig.turns - turns > 6
            await http.post(TOKEN.format(one["token"]) + "/release", json={})
        # It stops at the end of what stood there when it began.
        assert await take(http, "q", filter="type=z") == []
        assert rig.depth("q") == (many + 3, 0)


async def test_a_hard_selector_looks_at_few_messages_in_a_turn(rig: Any) -> None:
    """Each look takes most of the steps that a turn has; then others are served."""
    rig.queue("q")
    rig.put("q", *["x"] * 60, application={"t": "a" * 16_000})
    rig.put("q", "found", application={"t": "a" * 41 + "b"})
    hard = " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50)
    async with rig.http() as http:
        turns = rig.turns
        assert texts(await take(http, "q", selector=hard)) == ["found"]
        assert rig.turns - turns >= 10


async def test_messages_during_the_search_are_not_missed(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", *["x"] * (3 * PORTION))
    async with rig.http() as http:
        task = asyncio.create_task(take(http, "q", filter="type=y", wait_ms=20_000))
        await rig.until(lambda: seekers(rig) == 1)
        rig.put("q", "new", type="y")
        assert texts(await task) == ["new"]


async def test_a_search_goes_on_to_what_comes_behind_it(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", *["x"] * (3 * PORTION))
    wanted = Filter((read_filter("type=y"),))
    rig.begin()
    receive_channel = ReceiveChannels(rig.broker).of("/", "alice")
    seeking = receive_channel.seek("q", wanted, Receive(wait_ms=20_000), 1, 1000)
    rig.end()
    rig.put("q", "new", type="y")
    looks = 0
    while seeking.searching:
        rig.begin()
        seeking.look()
        rig.end()
        looks += 1
    assert [taken.message.body for taken in seeking.taken] == [b"new"]
    assert looks == 3
    rig.begin()
    receive_channel.close()
    rig.end()


async def test_the_queue_goes_or_the_gateway_stops_while_somebody_seeks(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        async with poll(rig, http, group="g") as task:
            rig.begin()
            rig.channel.topology.delete_queue(DeleteQueue(1, None, "q"))
            rig.end()
            assert (await task).status_code == 404
        rig.queue("q")
        async with poll(rig, http, group="g") as task:
            await close(rig.app)
            assert (await task).status_code == 503
        rig.put("q", "a", group_id="g")
        assert rig.depth("q") == (1, 0)


async def test_a_right_that_is_gone_meanwhile(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, group="g") as task:
        rig.broker.access.set_permissions("alice", "/", ".*", ".*", "^$")
        rig.put("q", "a", group_id="g")
        assert (await task).status_code == 403
        assert rig.depth("q") == (1, 0)


async def test_too_many_seek(make_rig: Any) -> None:
    rig = clocked(make_rig, max_receives_per_user=1)
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, group="g"):
        answer = await http.post(RECEIVE.format("q"), json={"group": "h"})
        assert answer.status_code == 429


async def test_an_attempt_that_is_repeated_gets_the_same(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b", "c", group_id="g")
    headers = {"Receive-Attempt-Id": "one"}
    async with rig.http() as http:
        asked = {"group": "g", "max": 2}
        first = await http.post(RECEIVE.format("q"), json=asked, headers=headers)
        second = await http.post(RECEIVE.format("q"), json=asked, headers=headers)
        assert texts(first.json()["deliveries"]) == ["a", "b"]
        assert texts(second.json()["deliveries"]) == ["a", "b"]
        assert rig.depth("q") == (1, 2)


async def test_hanging_up_returns_found_messages(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, group="g") as task:
        task.cancel()
        await rig.until(lambda: seekers(rig) == 0)
        rig.put("q", "a", group_id="g")
        assert rig.depth("q") == (1, 0)


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"filter": "colour=red"}, "/filter"),
        ({"filter": ["type=x", "x" * 2000]}, "/filter"),
        ({"filter": ["type=x"] * 17}, "/filter"),
        ({"filter": 1}, "/filter"),
        ({"selector": ""}, "/selector"),
        ({"selector": "n = "}, "/selector"),
        ({"selector": "n" * 4097}, "/selector"),
        ({"selector": ["n = 1"]}, "/selector"),
        ({"selector": "n = '\ud800"}, "/selector"),
        ({"group": ""}, "/group"),
        ({"group": 7}, "/group"),
        ({"max_deliveries": 0}, "/max_deliveries"),
        ({"max_deliveries": "3"}, "/max_deliveries"),
    ],
)
async def test_invalid_requests(rig: Any, asked: Any, pointer: str) -> None:
    rig.queue("q")
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"), content=json.dumps(asked))
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert any(one["pointer"].startswith(pointer) for one in answer.json()["errors"])


async def test_where_a_selector_is_wrong(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        answer = await http.post(RECEIVE.format("q"), json={"selector": "n = 1 AND OR"})
        (error,) = answer.json()["errors"]
        assert error["pointer"] == "/selector"
        assert error["detail"] == "expected a value, found 'OR' at position 11"


# --- poison -------------------------------------------------------------------------------------


async def counted(http: Any) -> float:
    text = (await http.get("/metrics")).text
    (line,) = (
        one for one in text.splitlines()
        if one.startswith("amqp_gateway_deliveries_poisoned_total ")
    )  # fmt: skip
    return float(line.split()[1])


async def test_poison_goes_to_the_dead_letters_before_it_is_handed_out(rig: Any) -> None:
    rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    rig.queue("dead")
    rig.put("q", "bad", "good")
    async with rig.http() as http:
        for times in range(1, 4):
            (one,) = await take(http, "q", max_deliveries=3)
            assert text_of(one) == "bad" and one["delivery_count"] == times
            await http.post(TOKEN.format(one["token"]) + "/release", json={"failed": True})
        assert await counted(http) == 0
        assert texts(await take(http, "q", max_deliveries=3)) == ["good"]
        assert await counted(http) == 1
        answer = await http.get("/v1/%2F/dead-letters/dead")
        (letter,) = answer.json()["messages"]
        (death,) = letter["message"]["dead_letter"]
        assert (death["queue"], death["reason"], death["count"]) == ("q", "delivery_limit", 1)
        assert rig.depth("q") == (0, 1) and rig.depth("dead") == (1, 0)
        answer = await http.post(
            "/v1/%2F/dead-letters/dead/redrive",
            json={"to": "queue", "filter": {"reason": "delivery_limit"}},
        )
        assert answer.json()["redriven"] == 1
        (again,) = await take(http, "q", max_deliveries=3)  # a new life
        assert text_of(again) == "bad" and again["delivery_count"] == 1


async def test_poison_that_comes_back_while_somebody_waits(rig: Any) -> None:
    rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    rig.queue("dead")
    rig.put("q", "bad", type="y")
    async with rig.http() as http:
        await take(http, "q", lease_ms=1000)
        async with poll(rig, http, max_deliveries=1, filter="type=y") as task:
            rig.advance(1000)
            await asyncio.sleep(0)
            assert not task.done() and rig.depth("dead") == (1, 0)
            rig.put("q", "good", type="y")
            assert texts((await task).json()["deliveries"]) == ["good"]


async def test_only_matching_messages_are_poison(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", group_id="a")
    rig.put("q", "b", group_id="b")
    async with rig.http() as http:
        for one in await take(http, "q", max=2):
            await http.post(TOKEN.format(one["token"]) + "/release", json={})
        assert await take(http, "q", max=9, max_deliveries=1, group="a") == []
        assert rig.depth("q") == (1, 0)  # without dead letters it is dropped, as by a reject
        assert texts(await take(http, "q", max=9)) == ["b"]


async def test_a_heap_of_poison_does_not_hold_up_the_others(rig: Any) -> None:
    rig.queue("q")
    many = 4 * PORTION
    rig.put("q", *["bad"] * many)
    async with rig.http() as http:
        for one in await take(http, "q", max=1000):
            await http.post(TOKEN.format(one["token"]) + "/release", json={})
        turns = rig.turns
        (one,) = await take(http, "q", max_deliveries=1)
        assert rig.turns - turns >= 1000 // PORTION
        assert rig.depth("q") == (many - 1001, 1)
        assert one["delivery_count"] == 1


async def test_receiving_alone_does_not_dead_letter(make_rig: Any) -> None:
    """A credential that cannot settle cannot send to the dead letters either."""
    secret = b"a shared secret that is long enough!"
    rig = make_rig(bearer=shared_bearer(secret, "alice"))
    rig.queue("q")
    key = OctKey.import_key(secret)
    async with rig.http(None) as http:
        for scope, status in (("receive", 403), ("receive settle", 204)):
            claims = {"iss": "https://issuer", "aud": "gateway", "sub": "s", "scope": scope,
                      "exp": int(time.time()) + 600}  # fmt: skip
            token = jwt.encode({"alg": "HS256"}, claims, key)
            headers = {"authorization": f"Bearer {token}"}
            path = RECEIVE.format("q")
            answer = await http.post(path, json={"max_deliveries": 1}, headers=headers)
            assert answer.status_code == status, answer.text
            answer = await http.post(path, json={"group": "g"}, headers=headers)
            assert answer.status_code == 204
