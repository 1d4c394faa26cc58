"""A message that a reader's version cannot say costs that message, and never the reader.

Two kinds of it: one that came by an exchange whose name is longer than a short string (kept from
before names had a limit), and one whose properties are more than a frame holds. Both were the end
of each connection that was given one, with the message back at the head of its queue.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.operations import (
    Fetch,
    Fetched,
    Outcome,
    Publish,
    PurgeQueue,
    Settle,
    Subscribe,
    Unsubscribe,
)
from gateway.store.plain import write_plain
from tests.net.running import PATIENCE, Running, until
from tests.net.test_every_pair import (
    DRAFTS,
    LISTENERS,
    QUEUE,
    TRANSITIONAL,
    VERSIONS,
    entered,
    heard,
    message,
)

FAR = "x" * 300
UNSAID = "unsaid"
FETCHING = ("0-8", "0-9", "0-9-1", *DRAFTS, *TRANSITIONAL)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("unsayable")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file) as running:
        running.stop()
        database = sqlite3.connect(running.data / "gateway.db")
        exchange = {"type": "fanout", "auto_delete": False, "internal": False, "arguments": {}}
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": UNSAID}
        with database:
            for kind, key, value in (
                ("exchange", ["/", FAR], exchange),
                ("queue", ["/", QUEUE],
                 {"lanes": {"0": 1000}, "auto_delete": False, "arguments": letters}),
                ("queue", ["/", UNSAID],
                 {"lanes": {"0": 1001}, "auto_delete": False, "arguments": {}}),
                ("binding", ["/", FAR, "queue", QUEUE, "", ""], {"arguments": {}}),
            ):  # fmt: skip
                row = (kind, write_plain(key), write_plain(value))
                database.execute("INSERT INTO records VALUES (?, ?, ?)", row)
        database.close()
        running.start()
        yield running


async def fill(gateway: Running, octets: int = 200_000) -> None:
    """Far, too large, and plain, in this order."""
    async with entered(gateway, "0-9-1", "maker") as maker:
        for queue in (QUEUE, UNSAID):
            await maker.request(PurgeQueue(1, None, queue))
    async with entered(gateway, "1.0", "writer") as writer:
        far = message(b"far", durable=True)
        far.exchange, far.key = FAR, ""
        large = message(b"large", durable=True, application={"x": "y" * octets})
        for one in (far, large, message(b"plain", durable=True)):
            writer.send(Publish(1, one, False, False))
            await writer.drain()
    until(lambda: depths(gateway)[QUEUE] == 3, "three messages")


def depths(gateway: Running) -> dict[str, int]:
    return {queue["name"]: queue["messages"] for queue in gateway.asked("/api/queues")}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_gets_the_messages_behind(gateway: Running, version: str) -> None:
    async def consume() -> None:
        # 0-9a6 agrees on no size of frames, so nothing is too large for it there.
        await fill(gateway, 100_000 if version == "0-9a6" else 200_000)
        async with entered(gateway, version, "reader") as reader:
            await reader.request(Subscribe(1, None, QUEUE, "mine"))
            bodies: list[bytes] = []
            while b"plain" not in bodies:
                bodies.append((await heard(reader)).message.body[:])
            await reader.request(Unsubscribe(1, None, "mine"))
        until(lambda: depths(gateway)[QUEUE] == 0, "an empty queue")
        assert depths(gateway)[UNSAID] == 3 - len(bodies)
        assert (len(bodies) == 3) is (version in ("0.8a2", "1.0")), "these cut anything to size"

    asyncio.run(consume())


@pytest.mark.parametrize("version", FETCHING)
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_fetch_gets_the_messages_behind(gateway: Running, version: str, no_ack: bool) -> None:
    async def fetch() -> None:
        await fill(gateway, 100_000 if version == "0-9a6" else 200_000)
        async with entered(gateway, version, "reader") as reader:
            bodies: list[bytes] = []
            while b"plain" not in bodies:
                found = await reader.request(Fetch(1, None, QUEUE, no_ack))
                if isinstance(found, Fetched):
                    bodies.append(found.message.body[:])
                    if not no_ack:
                        reader.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
        until(lambda: depths(gateway)[QUEUE] == 0, "an empty queue")
        assert depths(gateway)[UNSAID] == 3 - len(bodies), "the others are dead letters"

    asyncio.run(fetch())


@pytest.mark.parametrize("view", ["raw", "simple", "full"])
def test_http_shows_all_of_them(gateway: Running, view: str) -> None:
    asyncio.run(fill(gateway))
    url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/queues/{QUEUE}/deliveries"
    seen = []
    for _ in range(3):
        answer = httpx.post(
            url,
            json={"max": 1, "mode": "auto", "view": view},
            auth=("guest", "guest"),
            timeout=PATIENCE,
        )
        assert answer.status_code == 200, answer.text
        seen.append(answer.content)
    assert b"plain" in seen[-1] or b"cGxhaW4" in seen[-1]
