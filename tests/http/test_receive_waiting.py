"""The long poll: demand, hang-ups, and receives that are repeated."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.http.app import close
from gateway.operations import DeleteQueue
from tests.http.receiving_words import RECEIVE, TOKEN, clocked, take, text_of


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return clocked(make_rig)


def waiting(rig: Any, queue: str = "q") -> int:
    """Consumers on a queue: there are none but while somebody waits."""
    return len(rig.broker.vhosts["/"].queues[queue].consumers)


@asynccontextmanager
async def poll(rig: Any, http: Any, headers: Any = None, **asked: Any) -> Any:
    """A receive that waits."""
    before = waiting(rig)
    asked = {"wait_ms": 20_000, **asked}
    task = asyncio.create_task(http.post(RECEIVE.format("q"), json=asked, headers=headers))
    await rig.until(lambda: waiting(rig) == before + 1 or task.done())
    try:
        yield task
    finally:
        task.cancel()


async def test_a_wait_ends_with_the_first_message(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, max=5) as task:
        rig.put("q", "a")
        answer = await task
        assert [text_of(one) for one in answer.json()["deliveries"]] == ["a"]
        assert waiting(rig) == 0
        # What comes later stays where it is: nobody asks for it.
        rig.put("q", "b")
        assert rig.depth("q") == (1, 1)


async def test_a_wait_ends_with_its_time(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http) as task:
        rig.advance(19_999)
        await asyncio.sleep(0)
        assert waiting(rig) == 1
        rig.advance(1)
        assert (await task).status_code == 204
        assert waiting(rig) == 0


async def test_a_wait_asks_for_no_more_than_it_wants(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http, max=2) as task:
        rig.put("q", "a", "b", "c")
        answer = await task
        assert len(answer.json()["deliveries"]) == 2
        assert rig.depth("q") == (1, 2)


async def test_waits_take_turns_and_leave_an_auto_delete_queue_alone(rig: Any) -> None:
    rig.queue("q", auto_delete=True)
    async with rig.http() as http, poll(rig, http) as one, poll(rig, http) as two:
        rig.put("q", "a", "b")
        answers = [await one, await two]
        bodies = [text_of(each.json()["deliveries"][0]) for each in answers]
        assert sorted(bodies) == ["a", "b"]
        assert rig.depth("q") == (0, 2)


async def test_the_queue_goes_while_somebody_waits(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http) as task:
        rig.begin()
        rig.channel.topology.delete_queue(DeleteQueue(1, None, "q"))
        rig.end()
        answer = await task
        assert answer.status_code == 404


async def test_a_right_that_is_gone_meanwhile(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http) as task:
        rig.broker.access.set_permissions("alice", "/", ".*", ".*", "^$")
        rig.put("q", "a")
        assert (await task).status_code == 403
        assert rig.depth("q") == (1, 0)


async def test_the_gateway_stops_while_somebody_waits(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http, poll(rig, http) as task:
        await close(rig.app)
        answer = await task
        assert answer.status_code == 503


async def test_too_many_wait(make_rig: Any) -> None:
    rig = clocked(make_rig, max_receives_per_user=1)
    rig.queue("q")
    async with rig.http() as http, poll(rig, http):
        answer = await http.post(RECEIVE.format("q"), json={"wait_ms": 1000})
        assert answer.status_code == 429


# --- hang-ups, on a real socket -----------------------------------------------------------------


def request(body: dict[str, Any], *headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"POST {RECEIVE.format('q')} HTTP/1.1",
        "Host: gateway",
        "Authorization: Basic " + base64.b64encode(b"alice:wonder").decode(),
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


async def test_hanging_up_while_waiting_takes_nothing(rig: Any) -> None:
    rig.queue("q")
    async with rig.served() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request({"wait_ms": 60_000}))
        await rig.until(lambda: waiting(rig) == 1)
        writer.transport.abort()
        await rig.until(lambda: waiting(rig) == 0)
        rig.put("q", "a")
        assert rig.depth("q") == (1, 0)


@pytest.mark.parametrize("mode", ["lease", "auto"])
async def test_hanging_up_before_all_is_written_gives_it_back(rig: Any, mode: str) -> None:
    rig.queue("q")
    rig.put("q", "x" * (12 * 1024 * 1024))
    async with rig.served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request({"mode": mode}))
        await reader.readuntil(b"\r\n\r\n")
        assert rig.depth("q") == (0, 1)
        writer.transport.abort()
        await rig.until(lambda: rig.depth("q") == (1, 0))


# --- repeated -----------------------------------------------------------------------------------


async def test_a_repeated_receive_gives_the_same(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a", "b", "c")
    again = {"receive-attempt-id": "one"}
    async with rig.http() as http:
        first = await http.post(RECEIVE.format("q"), json={"max": 2}, headers=again)
        rig.advance(1000)
        second = await http.post(RECEIVE.format("q"), json={"max": 2}, headers=again)
        bodies = [text_of(one) for one in second.json()["deliveries"]]
        assert bodies == ["a", "b"]
        assert rig.depth("q") == (1, 2)
        # Either token is good for the same delivery.
        tokens = [one.json()["deliveries"][0]["token"] for one in (first, second)]
        assert (await http.delete(TOKEN.format(tokens[0]))).json()["repeated"] is False
        assert (await http.delete(TOKEN.format(tokens[1]))).json()["repeated"] is True
        third = await http.post(RECEIVE.format("q"), json={"max": 2}, headers=again)
        assert [text_of(one) for one in third.json()["deliveries"]] == ["b"]
        other = await http.post(RECEIVE.format("q"), json={}, headers={"receive-attempt-id": "two"})
        assert [text_of(one) for one in other.json()["deliveries"]] == ["c"]
        # When its time is over it is a receive like any other.
        rig.advance(40_000)
        fourth = await http.post(RECEIVE.format("q"), json={"max": 9}, headers=again)
        assert [text_of(one) for one in fourth.json()["deliveries"]] == ["b", "c"]
        rig.queue("other")
        answer = await http.post(RECEIVE.format("other"), headers=again)
        assert answer.status_code == 204


async def test_a_repeated_wait_takes_the_place_of_the_first(rig: Any) -> None:
    rig.queue("q")
    again = {"receive-attempt-id": "one"}
    async with rig.http() as http, poll(rig, http, again) as first:
        second = asyncio.create_task(
            http.post(RECEIVE.format("q"), json={"wait_ms": 20_000}, headers=again)
        )
        assert (await first).status_code == 204
        rig.put("q", "a")
        assert len((await second).json()["deliveries"]) == 1
        assert waiting(rig) == 0


async def test_messages_of_a_lost_answer_are_in_the_second(rig: Any) -> None:
    """The first caller hangs up after the second was answered: the leases are the second's."""
    rig.queue("q")
    large = "x" * (12 * 1024 * 1024)
    rig.put("q", large)
    async with rig.served() as port, rig.http() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request({}, "Receive-Attempt-Id: one"))
        await reader.readuntil(b"\r\n\r\n")
        answer = await http.post(
            RECEIVE.format("q"), json={}, headers={"receive-attempt-id": "one"}
        )
        (one,) = answer.json()["deliveries"]
        writer.transport.abort()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert rig.depth("q") == (0, 1)
        assert (await http.delete(TOKEN.format(one["token"]))).status_code == 200


async def test_an_attempt_that_got_nothing_is_forgotten(rig: Any) -> None:
    rig.queue("q")
    again = {"receive-attempt-id": "one"}
    async with rig.http() as http:
        for _ in range(2):
            assert (await http.post(RECEIVE.format("q"), headers=again)).status_code == 204
        assert (await http.post(RECEIVE.format("no"), headers=again)).status_code == 404
        rig.put("q", "a")
        answer = await http.post(RECEIVE.format("q"), headers=again)
        assert answer.status_code == 200
        assert len(await take(http, "q")) == 0
