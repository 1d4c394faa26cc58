"""``kill -9`` again and again, with clients of AMQP and HTTP at work on one gateway.

Over AMQP somebody publishes with confirms, consumes, and publishes in transactions; over HTTP
somebody publishes, leases and accepts, and publishes atomic batches. After each restart everything
that was confirmed and not settled is there, in order and once, and of each transaction and each
atomic batch all or nothing.

The short form has a few rounds; ``-m long`` runs a hundred.
"""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.crash import story as amqp
from tests.crash.lives import Life
from tests.net.running import PATIENCE, Running

AUTH = ("guest", "guest")
BATCH = {"Content-Type": "application/vnd.amqp-gateway.batch+json"}
FEW = 3
MANY = 100
DRAINED = 3000
"""Messages at which a queue is emptied between two rounds, or reading it takes most of the time."""


class Web:
    """What was said over HTTP, over all lives of the gateway. Numbers are the bodies."""

    def __init__(self) -> None:
        self.next = 1
        self.certain: set[int] = set()
        self.done: set[int] = set()
        """An acceptance was sent, and may have arrived."""
        self.couples: set[int] = set()
        """Atomic batches that were confirmed; each is two messages of this number."""
        self.begun = 0
        self.confirmed = self.accepted = 0


def post(http: httpx.Client, queue: str, bodies: list[int], atomic: bool) -> bool:
    """Publish durable messages; whether all are confirmed."""
    messages = [{"durable": True, "body": str(body)} for body in bodies]
    content = json.dumps({"messages": messages, "atomic": atomic})
    answer = http.post(f"/v1/%2F/queues/{queue}/messages", content=content, headers=BATCH)
    return all(one["status"] == 201 for one in answer.json()["results"])


def publish(http: httpx.Client, web: Web, chance: random.Random) -> None:
    while True:
        bodies = [web.next + n for n in range(chance.choice([1, 1, 5, 50]))]
        web.next = bodies[-1] + 1
        if post(http, "web", bodies, False):
            web.certain |= set(bodies)
            web.confirmed += len(bodies)


def couple(http: httpx.Client, web: Web, chance: random.Random) -> None:
    while True:
        web.begun += 1
        number = web.begun
        if post(http, "couples", [number, number], True):
            web.couples.add(number)


def consume(http: httpx.Client, web: Web, chance: random.Random) -> None:
    """Leases a few and accepts about half of them; the others come back."""
    while True:
        most = chance.choice([1, 5, 20])
        asked = {"max": most, "wait_ms": 100, "lease_ms": 30_000, "payload": "base64"}
        answer = http.post("/v1/%2F/queues/web/deliveries", json=asked)
        if answer.status_code == 204:
            continue
        assert answer.status_code == 200, answer.text
        for lease in answer.json()["deliveries"]:
            path = f"/v1/%2F/deliveries/{lease['token']}"
            if chance.random() < 0.5:
                web.done.add(int(base64.b64decode(lease["message"]["body"]["base64"])))
                answer = http.delete(path)
                web.accepted += 1
            else:
                answer = http.post(path + "/release")
            assert answer.status_code == 200, answer.text


def check(gateway: Running, web: Web) -> None:
    found = amqp.read(gateway.wire(1), "web")
    assert found == sorted(set(found)), "out of order, or more than once"
    lost = web.certain - web.done - set(found)
    assert not lost, sorted(lost)[:20]
    couples = amqp.read(gateway.wire(1), "couples")
    assert couples[::2] == couples[1::2], "half of an atomic batch"
    assert couples == sorted(couples)
    assert web.couples <= set(couples), sorted(web.couples - set(couples))[:20]
    web.certain, web.done = set(found), set()
    if len(found) + len(couples) > DRAINED:
        wire = gateway.wire(1)
        for queue in ("web", "couples"):
            wire.call(1, w.QueuePurge(queue=queue), w.QueuePurgeOk)
        wire.close()
        web.certain.clear()
        web.couples.clear()


def live(gateway: Running, story: amqp.Story, web: Web, chance: random.Random) -> None:
    """Six clients at work until the process is killed."""
    life = Life(gateway)

    def call(job: Callable[..., None], seed: float) -> None:
        url = f"http://127.0.0.1:{gateway.http_port}"
        with httpx.Client(base_url=url, auth=AUTH, timeout=PATIENCE) as http:
            job(http, web, random.Random(seed))

    wires = {job: gateway.wire(1) for job in (amqp.publish, amqp.consume, amqp.transact)}
    before = (story.confirmed, story.commits, web.confirmed, len(web.couples), web.accepted)
    for speak, wire in wires.items():
        life.work(speak, wire, story, random.Random(chance.random()))
    for job in (publish, couple, consume):
        life.work(call, job, chance.random())
    patience = chance.random()
    if patience < 0.8:  # not by the clock alone: on a busy machine nothing would have happened
        life.until(lambda: story.confirmed > before[0], "confirms")
        life.until(lambda: web.confirmed > before[2], "answers")
    if patience < 0.5:
        life.until(lambda: story.commits > before[1], "commits")
        life.until(lambda: len(web.couples) > before[3], "atomic batches")
        life.until(lambda: web.accepted > before[4], "acceptances")
        story.long_lives += 1
    life.kill(after=chance.uniform(0, 0.4))
    for wire in wires.values():
        wire.close()


def campaign(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    story, web = amqp.Story(), Web()
    with Running(folder) as gateway:
        amqp.furnish(gateway)
        wire = gateway.wire(1)
        for queue in ("web", "couples"):
            wire.declare(queue, durable=True)
        wire.close()
        for _ in range(rounds):
            live(gateway, story, web, chance)
            gateway.start()
            amqp.check(gateway, story)
            check(gateway, web)
    assert story.long_lives >= rounds // 5, "hardly anything happened"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_few_kills_with_two_doors(tmp_path: Path) -> None:
    campaign(tmp_path, FEW, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_kills_with_two_doors(tmp_path: Path) -> None:
    campaign(tmp_path, MANY, 2)
