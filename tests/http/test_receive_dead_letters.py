"""Looking without taking, dead letters and their way back."""

import asyncio
from typing import Any

import pytest

from gateway.broker.limits import Limits
from tests.http.receiving_words import clocked, take, text_of

LETTERS = "/v1/%2F/dead-letters/dead"
BROWSE = "/v1/%2F/queues/{}/messages"


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return clocked(make_rig)


def bodies(page: Any) -> list[str]:
    return [text_of(one) for one in page.json()["messages"]]


async def browse(http: Any, queue: str, **parameters: Any) -> list[str]:
    """All pages."""
    found: list[str] = []
    while True:
        page = await http.get(BROWSE.format(queue), params=parameters)
        assert page.status_code == 200, page.text
        if not page.json()["messages"]:
            assert page.json()["next"] is None
            return found
        found += bodies(page)
        parameters["after"] = page.json()["next"]


async def test_browse_takes_nothing(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", *(f"{n}" for n in range(7)))
    async with rig.http() as http:
        page = await http.get(BROWSE.format("q"), params={"limit": 3})
        assert page.headers["cache-control"] == "no-store"
        assert bodies(page) == ["0", "1", "2"] and page.json()["ready"] == 7
        assert page.json()["messages"][0]["deliveries"] == 0
        await take(http, "q", max=2)
        assert await browse(http, "q", limit=2) == ["2", "3", "4", "5", "6"]
        assert rig.depth("q") == (5, 2)
        page = await http.get(BROWSE.format("q"), params={"view": "full", "limit": 1})
        assert page.json()["messages"][0]["message"]["view"] == "full"
        assert (await browse(http, "q", payload="base64"))[0] == "2"


async def test_browse_sees_messages_that_are_paged_out(make_rig: Any) -> None:
    rig = clocked(make_rig)
    rig.broker.state.limits = Limits(page_after_octets=0, keep_in_memory=2)
    rig.queue("q")
    rig.put("q", *(f"{n:02}" for n in range(20)))
    assert rig.broker.vhosts["/"].queues["q"].backlog.lanes[0].paged == 18
    async with rig.http() as http:
        assert await browse(http, "q", limit=7) == [f"{n:02}" for n in range(20)]
    assert rig.broker.vhosts["/"].queues["q"].backlog.lanes[0].paged == 18


async def test_browse_needs_the_right_and_sense(rig: Any) -> None:
    rig.queue("q")
    async with rig.http("weak:weak") as http:
        assert (await http.get(BROWSE.format("q"))).status_code == 403
        assert (await http.get(LETTERS)).status_code == 403
    async with rig.http() as http:
        assert (await http.get(BROWSE.format("none"))).status_code == 404
        for wrong in ("after=x", "after=1-", "after=-1", "after=9999-1", "after=0-99999999999999",
                      "after=²-1", "limit=0", "limit=1001", "limit=x", "view=raw", "payload=x",
                      "odd=1"):  # fmt: skip
            assert (await http.get(BROWSE.format("q") + "?" + wrong)).status_code == 400, wrong


async def test_expired_messages_are_not_shown(rig: Any) -> None:
    rig.queue("q")
    rig.put("q", "a")
    rig.put("q", "b", ttl=1000)
    async with rig.http() as http:
        page = await http.get(BROWSE.format("q"))
        assert page.json()["messages"][1]["expires"] == "2026-09-21T14:13:21.000Z"
        rig.time += 1000
        assert await browse(http, "q") == ["a"]


# --- dead letters -------------------------------------------------------------------------------


def cemetery(rig: Any, **options: Any) -> None:
    """``work`` bound to an exchange, and its dead letters."""
    rig.queue("dead", **options)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    rig.queue("work", arguments=arguments, **options)
    rig.exchange("shop", "direct")
    rig.bind("work", "shop", "new")


async def die(rig: Any, http: Any, *names: str, reason: str = "rejected", **headers: Any) -> None:
    for name in names:
        answer = await http.post(
            "/v1/%2F/exchanges/shop/messages?routing_key=new",
            content=name,
            headers={"content-type": "application/octet-stream", **headers},
        )
        assert answer.status_code == 201
    got = await take(http, "work", max=len(names))
    for one in got:
        if reason == "rejected":
            answer = await http.post(f"/v1/%2F/deliveries/{one['token']}/reject")
            assert answer.status_code == 200


async def test_dead_letters_say_how_they_died(rig: Any) -> None:
    cemetery(rig)
    async with rig.http() as http:
        await die(rig, http, "a")
        page = (await http.get(LETTERS)).json()
        (death,) = page["messages"][0]["message"]["dead_letter"]
        assert (death["queue"], death["reason"], death["count"]) == ("work", "rejected", 1)
        assert (death["exchange"], death["routing_keys"]) == ("shop", ["new"])


@pytest.mark.parametrize(
    ("to", "where"),
    [
        ("exchange", ("shop", "new")),
        ("queue", ("", "work")),
        ({"exchange": "", "routing_key": "work"}, ("", "work")),
    ],
)
async def test_redriven(rig: Any, to: Any, where: tuple[str, str]) -> None:
    cemetery(rig)
    async with rig.http() as http:
        await die(rig, http, "a", "b", "c")
        answer = await http.post(LETTERS + "/redrive", json={"to": to})
        assert answer.json() == {
            "redriven": 3, "skipped": 0, "failed": 0, "failures": [], "complete": True,
            "next": None,
        }  # fmt: skip
        assert rig.depth("dead") == (0, 0)
        got = await take(http, "work", max=9)
        assert [text_of(one) for one in got] == ["a", "b", "c"]
        message = got[0]["message"]
        assert (message["exchange"], message["routing_key"]) == where
        # Its history stays; when it dies again the count goes on.
        await http.post(f"/v1/%2F/deliveries/{got[0]['token']}/reject")
        page = (await http.get(LETTERS)).json()
        assert page["messages"][0]["message"]["dead_letter"][0]["count"] == 2


async def test_only_those_asked_for(rig: Any) -> None:
    cemetery(rig)
    async with rig.http() as http:
        for name, kind in (("a", "x"), ("b", "y"), ("c", "x")):
            await die(rig, http, name, **{"amqp-property": f'"kind";v="{kind}", "n";v=1'})
        for which, skipped in (
            ({"reason": "expired"}, 3),
            ({"queue": "other"}, 3),
            ({"properties": {"kind": "z"}}, 3),
            ({"properties": {"none": None}}, 3),
            ({"properties": {"n": True}}, 3),
        ):
            answer = await http.post(LETTERS + "/redrive", json={"filter": which})
            assert (answer.json()["redriven"], answer.json()["skipped"]) == (0, skipped)
        asked = {
            "filter": {"reason": "rejected", "queue": "work", "properties": {"kind": "x", "n": 1}},
            "limit": 1,
        }
        answer = await http.post(LETTERS + "/redrive", json=asked)
        shown = answer.json()
        assert (shown["redriven"], shown["complete"]) == (1, False)
        assert await browse(http, "dead") == ["b", "c"]
        answer = await http.post(LETTERS + "/redrive", json={**asked, "after": shown["next"]})
        assert answer.json()["redriven"] == 1 and answer.json()["skipped"] == 1
        assert await browse(http, "dead") == ["b"]
        assert await browse(http, "work") == ["a", "c"]


async def test_messages_that_cannot_be_moved_stay(rig: Any) -> None:
    cemetery(rig)
    rig.queue("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    async with rig.http() as http:
        await die(rig, http, "a", "b")
        rig.put("dead", "never died")
        cases = (
            ({"exchange": "", "routing_key": "nowhere"}, "unroutable", 3),
            ({"exchange": "none", "routing_key": ""}, "address-not-found", 3),
            ("queue", "not-a-dead-letter", 1),
        )
        for to, reason, failed in cases:
            before = rig.depth("dead")[0]
            answer = await http.post(LETTERS + "/redrive", json={"to": to})
            assert answer.json()["failed"] == failed
            assert answer.json()["failures"][-1]["reason"] == reason
            assert rig.depth("dead")[0] == before - answer.json()["redriven"]
        await take(http, "work", max=2, mode="auto")
        await die(rig, http, "c", "d")
        to = {"exchange": "", "routing_key": "small"}
        answer = await http.post(LETTERS + "/redrive", json={"to": to})
        assert (answer.json()["redriven"], answer.json()["failed"]) == (1, 2)
        assert answer.json()["failures"][0]["reason"] == "destination-full"
        # Into itself: each is looked at once.
        to = {"exchange": "", "routing_key": "dead"}
        answer = await http.post(LETTERS + "/redrive", json={"to": to})
        assert answer.json()["redriven"] == 2 and answer.json()["complete"] is True
        rig.broker.access.set_permissions("alice", "/", ".*", "^$", ".*")
        answer = await http.post(LETTERS + "/redrive", json={"to": to})
        assert answer.json()["failures"][0]["reason"] == "forbidden"


async def test_at_a_pace(rig: Any) -> None:
    cemetery(rig)
    async with rig.http() as http:
        await die(rig, http, "a", "b", "c", "d", "e")
        task = asyncio.create_task(http.post(LETTERS + "/redrive", json={"rate": 2, "limit": 4}))
        for expected in (1, 2, 3):
            await rig.until(lambda expected=expected: rig.depth("work")[0] == expected)
            assert not task.done()
            busy = await http.post(LETTERS + "/redrive")
            assert busy.status_code == 409
            rig.advance(500)
        answer = await task
        assert (answer.json()["redriven"], answer.json()["complete"]) == (4, False)


async def test_a_redrive_has_its_time(make_rig: Any) -> None:
    rig = clocked(make_rig, redrive_seconds=1)
    cemetery(rig)
    async with rig.http() as http:
        await die(rig, http, "a", "b", "c")
        task = asyncio.create_task(http.post(LETTERS + "/redrive", json={"rate": 0.1}))
        await rig.until(lambda: rig.depth("work")[0] == 1)
        rig.advance(1000)
        shown = (await task).json()
        assert (shown["redriven"], shown["complete"]) == (1, False)
        shown = (await http.post(LETTERS + "/redrive", json={"after": shown["next"]})).json()
        assert (shown["redriven"], shown["complete"]) == (2, True)


async def test_purged(make_rig: Any) -> None:
    rig = clocked(make_rig, volatile=False)
    cemetery(rig, durable=True)
    async with rig.http() as http:
        await die(rig, http, "a", "b", **{"amqp-durable": "?1"})
        answer = await http.delete(LETTERS)
        assert answer.json() == {"purged": 2}
        assert rig.depth("dead") == (0, 0)
        assert (await http.delete("/v1/%2F/dead-letters/none")).status_code == 404
        assert (await http.put(LETTERS)).status_code == 405
        assert (await http.put(LETTERS)).headers["allow"] >= "DELETE"
        for wrong in ({"limit": 0}, {"rate": 0}, {"to": "nowhere"}, {"odd": 1}):
            assert (await http.post(LETTERS + "/redrive", json=wrong)).status_code == 422
        answer = await http.post(LETTERS + "/redrive", json={"after": "x"})
        assert answer.status_code == 422


async def test_a_restart_finds_each_in_one_place(make_rig: Any) -> None:
    rig = clocked(make_rig, volatile=False)
    cemetery(rig, durable=True)
    async with rig.http() as http:
        await die(rig, http, "a", "b", "c", **{"amqp-durable": "?1"})
        await http.post(LETTERS + "/redrive", json={"limit": 2, "to": "queue"})
    again = rig.restart()
    async with again.http() as http:
        assert await browse(http, "work") == ["a", "b"]
        assert await browse(http, "dead") == ["c"]
