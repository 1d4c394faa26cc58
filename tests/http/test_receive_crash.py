"""``kill -9`` in the middle of leased consumption and of a redrive.

Nothing accepted comes back, nothing else is lost, nothing is twice; a dead letter is in one place.
"""

import base64
import contextlib
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.lives import Life
from tests.drawing import examples
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT

KILLS = examples(4, least=3)
CONSUMERS = 3
DEAD = 800
"""At 50 a second far from all have moved when the gateway is killed, even on a busy machine."""


def client(gateway: Running) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{gateway.http_port}/v1/%2F", auth=("guest", "guest"), timeout=60
    )


def declare(gateway: Running, *queues: str) -> None:
    wire = gateway.wire(1)
    for queue in queues:
        wire.declare(queue, durable=True)
    wire.close()


class Story:
    """Bodies are numbers."""

    def __init__(self) -> None:
        self.next = 0
        self.confirmed: set[int] = set()
        self.accepted: set[int] = set()
        """The answer said so."""
        self.unconfirmed: set[int] = set()
        """Published, and no answer came."""
        self.unsettled: set[int] = set()
        """Accepted, and no answer came. Apart from the other: a message is often accepted before
        the answer to its publish is read, and one answer must not settle the other doubt."""
        self.old_token = ""


def publish(gateway: Running, story: Story) -> None:
    with client(gateway) as http:
        while True:
            number = story.next
            story.next += 1
            story.unconfirmed.add(number)
            answer = http.post(
                "/queues/q/messages", content=b"%d" % number, headers={"amqp-durable": "?1"}
            )
            assert answer.status_code == 201, answer.text
            story.confirmed.add(number)
            story.unconfirmed.discard(number)


def consume(gateway: Running, story: Story, chance: random.Random) -> None:
    asked = {"max": 5, "wait_ms": 5000, "lease_ms": 30_000, "payload": "base64"}
    with client(gateway) as http:
        while True:
            answer = http.post("/queues/q/deliveries", json=asked)
            if answer.status_code == 204:
                continue  # the others have it all, or the disk is slow
            assert answer.status_code == 200, answer.text
            accept: list[tuple[int, str]] = []
            for one in answer.json()["deliveries"]:
                number = body_of(one["message"])
                assert number not in story.accepted, "accepted, and came again"
                story.old_token = one["token"]
                if chance.random() < 0.6:
                    accept.append((number, one["token"]))
                elif chance.random() < 0.5:
                    path = f"/deliveries/{one['token']}/release"
                    assert http.post(path).status_code == 200
            story.unsettled |= {number for number, _ in accept}
            if chance.random() < 0.5:
                items = [{"token": token, "outcome": "accepted"} for _, token in accept]
                if items:
                    assert http.post("/deliveries/settle", json=items).status_code == 200
                settled(story, *(number for number, _ in accept))
                continue
            for number, token in accept:
                assert http.delete(f"/deliveries/{token}").status_code == 200
                settled(story, number)


def settled(story: Story, *numbers: int) -> None:
    story.accepted.update(numbers)
    story.unsettled.difference_update(numbers)


def more_than(http: httpx.Client, moved: int) -> int:
    """How many have moved, 0 if it is not more."""
    ready: int = http.get("/queues/work/messages", params={"limit": 1}).json()["ready"]
    return ready if ready > moved else 0


def body_of(message: Any) -> int:
    return int(base64.b64decode(message["body"]["base64"]))


def standing(http: httpx.Client, queue: str) -> list[int]:
    """What is in a queue, left there."""
    found: list[int] = []
    after: dict[str, Any] = {}
    while True:
        page = http.get(
            f"/queues/{queue}/messages", params={"limit": 1000, "payload": "base64", **after}
        ).json()
        if not page["messages"]:
            return found
        found += [body_of(one["message"]) for one in page["messages"]]
        after = {"after": page["next"]}


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_killed_while_messages_are_leased(tmp_path: Path) -> None:
    chance = random.Random(7)
    story = Story()
    with Running(tmp_path) as gateway:
        declare(gateway, "q")
        for _ in range(KILLS):
            life = Life(gateway)
            goal = len(story.accepted) + chance.randrange(20, 60)
            for _ in range(CONSUMERS):
                life.work(consume, gateway, story, random.Random(chance.random()))
            life.work(publish, gateway, story)
            life.until(lambda: len(story.accepted) >= goal, "acceptances")  # noqa: B023
            life.kill()
            gateway.start()
            with client(gateway) as http:
                found = standing(http, "q")
                assert found == sorted(set(found)), "out of order, or more than once"
                assert not story.accepted & set(found), "accepted, and came back"
                lost = story.confirmed - story.accepted - story.unsettled - set(found)
                assert not lost, sorted(lost)
                answer = http.delete(f"/deliveries/{story.old_token}")
                assert answer.status_code == 410, answer.text
                # What was doubtful is certain now.
                story.confirmed = set(found) | story.accepted
                story.unconfirmed.clear()
                story.unsettled.clear()
        assert len(story.accepted) > 20 * KILLS


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_killed_while_dead_letters_go_back(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        declare(gateway, "dead", "work")
        wire = gateway.wire(1)
        for number in range(DEAD):
            wire.publish("dead", b"%d" % number, PERSISTENT)
        wire.declare("dead", durable=True)
        wire.close()
        asked = {"to": {"exchange": "", "routing_key": "work"}, "rate": 50}
        moved = 0

        def redrive() -> None:
            with client(gateway) as http, contextlib.suppress(httpx.TransportError):
                http.post("/dead-letters/dead/redrive", json=asked)

        for _ in range(3):
            driver = threading.Thread(target=redrive)
            driver.start()
            with client(gateway) as http:
                # Not by the clock: on a busy machine nothing or all would have moved. What was
                # moved is safe when more is moved.
                seen = until(partial(more_than, http, moved), "the redrive begins")
                until(partial(more_than, http, seen), "the redrive goes on")
            gateway.kill()
            driver.join()
            gateway.start()
            with client(gateway) as http:
                there, back = standing(http, "dead"), standing(http, "work")
            assert sorted(there + back) == list(range(DEAD))
            assert there and len(back) > moved, "killed in the middle"
            moved = len(back)
