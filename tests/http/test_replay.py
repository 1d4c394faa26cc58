"""``POST /v1/{vhost}/replays/{replay}/messages``: each message of an archive once, in order."""

import base64
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import pieces
from gateway.broker.memory_store import MemoryStore
from gateway.crossing.sameness import same_basic
from gateway.http.problems import Problem
from gateway.http.publish.replays.ingest import BURST_SECONDS, Ingest
from gateway.http.publish.replays.keys import BLOCK, KIND, ReplayKeys, Source
from gateway.http.publish.replays.routes import ReplayEndpoints
from gateway.journal.canonical import Rows
from gateway.journal.entries import NOBODY, Entry
from gateway.message import Message, Properties

REPLAYS = "/v1/%2F/replays"
PATH = f"{REPLAYS}/again/messages"


def sections(body: bytes, **properties: Any) -> str:
    header = SECTIONS.write(Properties(**{"durable": True, **properties}))
    found = b"".join(bytes(one) for one in pieces(header, body))  # type: ignore[arg-type]
    return base64.b64encode(found).decode()


def message(offset: int, to: str = "kept", **more: Any) -> dict[str, Any]:
    given = {"journal": "j", "address": "/queues/orders", "offset": offset, "to": to}
    return {**given, "amqp10": sections(b"body %d" % offset), **more}


def batch(*offsets: int, **more: Any) -> dict[str, Any]:
    return {"messages": [message(offset, **more) for offset in offsets]}


def bodies(rig: Any, queue: str) -> list[bytes]:
    found = []
    while (one := rig.fetch(queue)) is not None:
        found.append(one.body)
    return found


def endpoints(rig: Any) -> ReplayEndpoints:
    found: list[ReplayEndpoints] = [
        route.endpoint.__self__
        for route in rig.app.api.routes
        if getattr(route, "path", "").endswith("/replays/{replay}/messages")
    ]
    return found[0]


async def test_each_message_once(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        first = await http.post(PATH, json=batch(0, 1, 2))
        assert first.status_code == 200, first.text
        assert first.json() == {
            "attempted": 3, "published": 3, "duplicates": [], "rejected": [],
        }  # fmt: skip
        again = await http.post(PATH, json=batch(1, 2, 3))
        assert again.json()["published"] == 1
        assert again.json()["duplicates"] == [0, 1]
        other = await http.post(f"{REPLAYS}/other/messages", json=batch(1))
        assert other.json()["published"] == 1
        # Another journal, another address and another block are other keys.
        more = [message(1, journal="k"), message(1, address="/queues/x"), message(1 + BLOCK)]
        assert (await http.post(PATH, json={"messages": more})).json()["published"] == 3
        shown = (await http.get(f"{REPLAYS}/again")).json()
        assert shown == {"name": "again", "published": 7, "pending": 0, "blocks": 4}
        names = [one["name"] for one in (await http.get(REPLAYS)).json()["replays"]]
        assert names == ["again", "other"]
    async with rig.http("guest:guest") as http:
        theirs = await http.post(PATH, json=batch(0))
        assert theirs.json()["published"] == 1, "the keys are those of their caller"
        assert (await http.get(f"{REPLAYS}/other")).status_code == 404
    expected = [b"body %d" % n for n in (0, 1, 2, 3, 1, 1, 1, 1 + BLOCK, 0)]
    assert bodies(rig, "kept") == expected


async def test_after_a_restart(make_rig: Any) -> None:
    """Keys of messages that last, and only those, are there again. Deleted ones are not."""
    store = MemoryStore(volatile=False)
    rig = make_rig(store=store)
    rig.queue("kept", durable=True)
    passing = message(1, amqp10=sections(b"", durable=False))
    async with rig.http() as http:
        given = {"messages": [message(0), passing, message(5000)]}
        assert (await http.post(PATH, json=given)).json()["published"] == 3
        assert (await http.post(f"{REPLAYS}/b/messages", json=batch(7))).json()["published"] == 1
        assert (await http.delete(f"{REPLAYS}/b")).status_code == 204
        assert (await http.delete(f"{REPLAYS}/b")).status_code == 404
    rig = make_rig(store=store)
    async with rig.http() as http:
        assert (await http.get(f"{REPLAYS}/again")).json()["published"] == 2
        again = (await http.post(PATH, json=given)).json()
        assert (again["published"], again["duplicates"]) == (1, [0, 2])
        assert (await http.get(f"{REPLAYS}/b")).status_code == 404
    assert len(list(store.records(KIND))) == 2


async def test_the_record_is_in_the_batch_of_its_message(make_rig: Any) -> None:
    """The disk is slow: nothing is answered, and the same message is not published meanwhile."""
    rig = make_rig(volatile=False, confirm_seconds=0.05)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.http() as http:
        first = (await http.post(PATH, json=batch(0, 1))).json()
        assert (first["attempted"], first["published"]) == (0, 0)
        assert first["reason"]["type"].endswith("outcome-unknown")
        busy = (await http.post(PATH, json=batch(0, 1))).json()
        assert busy["attempted"] == 0
        assert busy["reason"]["type"].endswith("idempotency-in-progress")
        assert (await http.delete(f"{REPLAYS}/again")).status_code == 409
        taken = rig.store.take()
        rig.store.write(taken)
        rig.held = False
        rig.broker.committed(taken.mark)
        assert len(list(rig.store.records(KIND))) == 1, "one batch has messages and record"
        rig.end()
        again = (await http.post(PATH, json=batch(0, 1))).json()
        assert (again["attempted"], again["duplicates"]) == (2, [0, 1])
    assert rig.depth("kept") == (2, 0)


async def test_rejected_messages(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.exchange("dead")
    given = [
        message(0),
        message(1, "missing"),
        message(2, "/exchanges/dead/key"),
        message(3, "/exchanges/missing/key"),
        message(4, amqp10="AFN1oAVo"),
        message(5, amqp10="?"),
        message(6, amqp10=sections(b"", user_id=b"somebody")),
        message(7, amqp10=sections(b"", absolute_expiry_time=1)),
        message(8),
    ]
    async with rig.http() as http:
        for query, attempted in (("dry_run=true", 9), ("on_error=stop", 2), ("", 9)):
            found = (await http.post(f"{PATH}?{query}", json={"messages": given})).json()
            assert found["attempted"] == attempted, query
            kinds = [one["problem"]["type"].rpartition("/")[2] for one in found["rejected"]]
            expected = [
                "address-not-found", "unroutable", "address-not-found", "message-refused",
                "message-refused", "message-refused", "message-refused",
            ]  # fmt: skip
            assert kinds == expected[: attempted - 1], query
            indexes = [one["index"] for one in found["rejected"]]
            assert indexes == list(range(1, min(8, attempted))), query
        assert found["duplicates"] == [0]
        rig.queue("missing", durable=True)
        assert (await http.post(PATH, json={"messages": given})).json()["published"] == 1
    assert rig.depth("kept") == (2, 0), "the dry run published nothing"
    assert rig.depth("missing") == (1, 0), "the key of a rejected message is free"


async def test_rights(make_rig: Any) -> None:
    rig = make_rig()
    rig.queue("kept")
    async with rig.http("weak:weak") as http:
        for query in ("", "?dry_run=true"):
            found = (await http.post(PATH + query, json=batch(0))).json()
            kinds = [one["problem"]["status"] for one in found["rejected"]]
            assert kinds == [403], query
    async with rig.http("weak:wrong") as http:
        assert (await http.post(PATH, json=batch(0))).status_code == 401


async def test_nothing_overtakes_at_a_full_queue(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    rig.queue("kept", durable=True, arguments=limits)
    rig.queue("other", durable=True)
    given = {"messages": [message(0), message(1), message(2), message(3, "other")]}
    async with rig.http() as http:
        dry = (await http.post(f"{PATH}?dry_run=true", json=given)).json()
        assert dry["rejected"] == [], "a replay waits for room"
        first = (await http.post(PATH, json=given)).json()
        assert (first["attempted"], first["published"]) == (2, 2)
        assert first["reason"]["type"].endswith("destination-full")
        assert rig.depth("other") == (0, 0)
        assert bodies(rig, "kept") == [b"body 0", b"body 1"]
        again = (await http.post(PATH, json=given)).json()
        assert (again["attempted"], again["published"]) == (4, 2)


@pytest.mark.parametrize(
    "given",
    [
        [], {}, {"messages": []}, {"messages": [1]}, {"messages": [{}]},
        {"messages": [message(0)], "more": 1}, batch(*range(501)),
        batch(-1), batch(1 << 63), {"messages": [message(True)]},
        {"messages": [message(0, journal="")]}, {"messages": [message(0, to="/a/b")]},
        {"messages": [message(0, address="x" * 2049)]}, {"messages": [message(0, more=1)]},
    ],
)  # fmt: skip
async def test_a_batch_that_is_none(rig: Any, given: Any) -> None:
    rig.queue("kept")
    async with rig.http() as http:
        answer = await http.post(PATH, json=given)
        assert answer.status_code == 422, answer.text
        assert (await http.post(f"{PATH}?rate=0", json=batch(0))).status_code == 400
        assert (await http.post(f"{PATH}?rat=1", json=batch(0))).status_code == 400
        assert (await http.post(PATH, content=b"{")).status_code == 400
    assert rig.depth("kept") == (0, 0)


async def test_bounded(make_rig: Any) -> None:
    rig = make_rig(max_replay_blocks=2)
    rig.queue("kept")
    async with rig.http() as http:
        found = (await http.post(PATH, json=batch(0, BLOCK, 2 * BLOCK))).json()
        assert (found["attempted"], found["reason"]["quota"]) == (2, "replay-keys")
        assert (await http.post(PATH, json=batch(1))).json()["published"] == 1
        assert (await http.delete(f"{REPLAYS}/again")).status_code == 204
        assert (await http.post(PATH, json=batch(2 * BLOCK))).json()["published"] == 1
    rig = make_rig(max_body_octets=1000)
    async with rig.http() as http:
        answer = await http.post(PATH, json=batch(0, amqp10=sections(bytes(1000))))
        assert answer.status_code == 413


class Clock:
    """Time passes in pauses only."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_no_faster_than_the_rate(make_rig: Any) -> None:
    """500 per second: two tasks with a batch in turns for a minute, of a clock of their own."""
    rig = make_rig(confirm_seconds=10)
    rig.queue("kept")
    ingest: Ingest = endpoints(rig).ingest
    clock = Clock()
    ingest.clock, ingest.sleep = clock, clock.sleep
    published: list[float] = []
    publish = ingest.publish

    def counted(*arguments: Any) -> Any:
        published.append(clock.now)
        return publish(*arguments)

    ingest.publish = counted  # type: ignore[method-assign,assignment]
    async with rig.http() as http:
        offsets = [0, 1_000_000]
        while clock.now < 60:
            for task in (0, 1):
                first = offsets[task]
                given = batch(*range(first, first + 500))
                found = (await http.post(f"{PATH}?rate=500", json=given)).json()
                assert found["published"] == found["attempted"]
                offsets[task] += found["attempted"]
        within = [at for at in published if at < 60]
        assert len(within) == pytest.approx(30_000, rel=0.03)
        seconds = [sum(n <= at < n + 1 for at in within) for n in range(60)]
        assert max(seconds) <= 500 * (1 + BURST_SECONDS)
        clock.now += 100
        before = clock.now
        found = (await http.post(f"{PATH}?rate=10", json=batch(*range(10**9, 10**9 + 500)))).json()
        assert 0 < found["attempted"] < 100, "a slow one ends before its client gives up"
        assert clock.now - before <= 5


def entry(text: Message) -> Entry:
    return Entry(0, 0, "/", "/queues/orders", 0, NOBODY, text, len(text.body))


APPLICATION = {"a": {"nested": [1, None, {"deep": b"x"}]}, "x-opt": "y", "f": 1.5}


@pytest.mark.parametrize("message_id", ["m", "m\udcff"])
async def test_messages_of_old_versions_come_back_octet_by_octet(
    make_rig: Any, message_id: str
) -> None:
    """What 1.0 does not express is in the capsule of the column ``amqp10``."""
    rig = make_rig()
    rig.queue("kept")
    header = BASIC.write(Properties(
        durable=True, message_id=message_id, type="t", cluster_id="c", priority=3,
        application=APPLICATION,
    ))  # fmt: skip
    original = Message(BASIC, header, b"body", "", "orders", BASIC.essentials(header))
    ((octets,),) = Rows("j", ["amqp10"]).of([entry(original)])
    assert (b"x-opt-gateway-origin" in octets) == (message_id != "m")
    given = message(0, amqp10=base64.b64encode(octets).decode())
    async with rig.http() as http:
        assert (await http.post(PATH, json={"messages": [given]})).json()["published"] == 1
    found = rig.fetch("kept")
    assert found.body == b"body"
    assert found.dialect is BASIC
    assert found.essentials == original.essentials
    if message_id == "m":
        assert same_basic(found.header, header)
    else:
        assert found.header == header


def test_keys_of_blocks() -> None:
    """Against a plain set, whatever is claimed, sent and abandoned."""
    store = MemoryStore(volatile=False)
    keys = ReplayKeys(store, lambda scope: store.forget_under(KIND, scope), 100)
    scope = ("u", "", "/", "r")
    for offset in (0, 1, BLOCK - 1, BLOCK, 10**15):
        source = Source("j", "a", offset)
        key = keys.claim(scope, source)
        with pytest.raises(Problem):
            keys.claim(scope, source)
        keys.sent(key)
        keys.flush()
        if offset == 1:
            keys.abandon(key)
        else:
            key.done = True
        assert keys.published(scope, source) == (offset != 1)
    batch = store.take()
    assert batch is not None
    store.write(batch)
    again = ReplayKeys(store, lambda scope: None, 100)
    again.load(store.records(KIND))
    found = [
        n for n in (0, 1, BLOCK - 1, BLOCK, 10**15) if again.published(scope, Source("j", "a", n))
    ]
    assert found == [0, BLOCK - 1, BLOCK, 10**15]
    info = again.find(scope)
    assert info is not None and (info.published, info.pending, info.blocks) == (4, 0, 3)
