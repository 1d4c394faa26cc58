"""``kill -9`` in the middle of idempotent publishing: every key ends as exactly one message.

Publishers repeat what got no answer, with the same key, over all lives of the gateway. At the end
the queue must hold each message that was answered with 201 once, and nothing twice.
"""

import base64
import json
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.crash.lives import Life
from tests.drawing import examples
from tests.net.running import PATIENCE, Running

KILLS = examples(8, least=3)
AUTH = "Basic " + base64.b64encode(b"guest:guest").decode()
BATCH = "application/vnd.amqp-gateway.batch+json"
LINES = "application/vnd.amqp-gateway.messages+ndjson"
QUEUE = "/v1/%2F/queues/orders/messages"

Job = tuple[str, str, list[str]]
"""Way, key, and the bodies of its messages."""


class Story:
    """Over all lives. ``open`` got no (full) answer yet."""

    def __init__(self) -> None:
        self.next = 0
        self.open: list[Job] = []
        self.closed: list[Job] = []
        self.replayed = 0
        self.lock = threading.Lock()

    def job(self, chance: random.Random) -> Job:
        with self.lock:
            if self.open and chance.random() < 0.8:
                return self.open.pop(0)
            way = chance.choice(["single", "batch", "atomic", "lines"])
            count = 1 if way == "single" else chance.randint(2, 20)
            bodies = [f"{self.next + n}" for n in range(count)]
            self.next += count
            return way, f"key-{bodies[0]}", bodies

    def end(self, job: Job, done: bool, replayed: bool) -> None:
        with self.lock:
            (self.closed if done else self.open).append(job)
            self.replayed += replayed


def post(http: httpx.Client, job: Job) -> tuple[bool, bool]:
    """Whether all of it is in, and whether the gateway knew."""
    way, key, bodies = job
    headers = {"Authorization": AUTH, "Idempotency-Key": f'"{key}"'}
    messages = [{"durable": True, "body": body} for body in bodies]
    if way == "single":
        headers |= {"Amqp-Durable": "?1", "Content-Type": "text/plain"}
        answer = http.post(QUEUE, content=bodies[0], headers=headers)
        assert answer.status_code in (201, 409), answer.text
        return answer.status_code == 201, "idempotency-replayed" in answer.headers
    found: list[dict[str, Any]]
    if way == "lines":
        content = "".join(json.dumps(one) + "\n" for one in messages)
        answer = http.post(QUEUE, content=content, headers={**headers, "Content-Type": LINES})
        found = [json.loads(line) for line in answer.text.splitlines()]
    else:
        whole = {"messages": messages, "atomic": way == "atomic"}
        headers["Content-Type"] = BATCH
        answer = http.post(QUEUE, content=json.dumps(whole), headers=headers)
        found = answer.json()["results"]
    assert {one["status"] for one in found} <= {201, 409, 424}, answer.text
    replays = [one.get("replayed", False) for one in found]
    if way == "atomic":
        assert len(set(replays)) == 1
    return len(found) == len(bodies) and all(one["status"] == 201 for one in found), any(replays)


def dialled(gateway: Running) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{gateway.http_port}", timeout=PATIENCE)


def work(gateway: Running, story: Story, chance: random.Random) -> None:
    """One publisher, until the gateway is gone."""
    with dialled(gateway) as http:
        while True:
            job = story.job(chance)
            done = replayed = False
            try:
                done, replayed = post(http, job)
            finally:
                story.end(job, done, replayed)


def live(gateway: Running, story: Story, chance: random.Random) -> None:
    life = Life(gateway)
    before = len(story.closed)
    for _ in range(4):
        life.work(work, gateway, story, random.Random(chance.random()))
    life.until(lambda: len(story.closed) > before, "an answer")
    life.kill(after=chance.uniform(0, 0.4))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_key_is_one_message_after_any_kill(tmp_path: Path) -> None:
    chance = random.Random(3)
    story = Story()
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("orders", durable=True)
        wire.close()
        # Where a kill meets a publish is up to the machine: until one fell behind a commit and
        # before its answer.
        lives = 0
        while lives < KILLS or (lives < 8 * KILLS and not story.replayed):
            live(gateway, story, chance)
            gateway.start()
            lives += 1
        with dialled(gateway) as http:
            for job in story.open:
                done, replayed = post(http, job)
                story.replayed += replayed
                assert done, job
            sample = chance.sample(story.closed, min(50, len(story.closed)))
            for job in sample:
                assert post(http, job) == (True, True), job
        wire = gateway.wire(1)
        count = wire.declare("orders", durable=True).message_count
        wire.consume("orders")
        found = [int(wire.delivered()[1]) for _ in range(count)]
        wire.reset()
        assert len(found) == len(set(found)), "a message was stored twice"
        assert set(found) == set(range(story.next)), "a confirmed message is lost"
        assert story.replayed, "no retry ever met what a killed process had stored"


def test_killed_right_after_the_answer(tmp_path: Path) -> None:
    """The answer is a promise, and so is the record of the key."""
    headers = {"Authorization": AUTH, "Amqp-Durable": "?1", "Idempotency-Key": '"once"'}
    with Running(tmp_path) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        told = []
        for _ in range(3):
            url = f"http://127.0.0.1:{gateway.http_port}{QUEUE}"
            answer = httpx.post(url, content=b"x", headers=headers, timeout=PATIENCE)
            gateway.kill()
            assert answer.status_code == 201
            told.append((answer.json(), answer.headers.get("idempotency-replayed")))
            gateway.start()
        assert [replayed for _, replayed in told] == [None, "true", "true"]
        assert told[0][0] == told[1][0] == told[2][0]
        wire = gateway.wire(1)
        wire.say(1, w.QueueDeclare(queue="orders", passive=True))
        assert wire.heard(w.QueueDeclareOk).message_count == 1


def test_durability_is_as_in_the_receipt(tmp_path: Path) -> None:
    """Killed at once, a queue has what was said to be on disk, and nothing else."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("orders", durable=True)
        wire.declare("passing")
        told = {}
        for queue, durable in (("orders", ""), ("orders", "?1"), ("orders", "?0"), ("passing", "")):
            url = f"http://127.0.0.1:{gateway.http_port}{QUEUE.replace('orders', queue)}"
            headers = {"Authorization": AUTH, **({"Amqp-Durable": durable} if durable else {})}
            body = f"{queue}{durable}"
            answer = httpx.post(url, content=body, headers=headers, timeout=PATIENCE)
            assert answer.headers["amqp-durability"] == answer.json()["durability"]
            told[body.encode()] = answer.json()["durability"]
        gateway.kill()
        gateway.start()
        found = gateway.wire(1).everything("orders")
        assert found == [body for body, word in told.items() if word == "disk"] != []
        assert set(told.values()) == {"disk", "memory"}
