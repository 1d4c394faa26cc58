"""``kill -9`` in the middle of a replay: the queue has each message once."""

import json
import random
from pathlib import Path

import httpx

from tests.crash.lives import Life
from tests.http.test_publish_kill import dialled
from tests.http.test_replay import batch
from tests.net.running import Running

KILLS = 3
MESSAGES = 6000
PATH = "/v1/%2F/replays/again/messages"


class Progress:
    """Of a task, over all lives. ``duplicates``: messages that had come before a kill."""

    def __init__(self, first: int) -> None:
        self.first = self.next = first
        self.end = first + MESSAGES // 2
        self.duplicates = 0


def send(http: httpx.Client, progress: Progress) -> None:
    """One batch. What was sent before, and had no answer, is sent again."""
    last = min(progress.next + 100, progress.end)
    content = json.dumps(batch(*range(progress.next, last)))
    answer = http.post(PATH, content=content, auth=("guest", "guest"))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["rejected"] == []
    progress.duplicates += len(found["duplicates"])
    progress.next += found["attempted"]


def work(gateway: Running, progress: Progress) -> None:
    with dialled(gateway) as http:
        while progress.next < progress.end:
            send(http, progress)


def test_each_message_once_after_any_kill(tmp_path: Path) -> None:
    chance = random.Random(5)
    tasks = [Progress(0), Progress(MESSAGES // 2)]
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("kept", durable=True)
        wire.close()
        for _ in range(KILLS):
            live(gateway, tasks, chance)
        for one in tasks:
            one.next = one.first  # as a replay that is begun again
            work(gateway, one)
        assert sum(one.duplicates for one in tasks) >= MESSAGES // 4, "little was sent twice"
        found = gateway.wire(1).everything("kept")
        assert sorted(found) == sorted(b"body %d" % n for n in range(MESSAGES))


def live(gateway: Running, tasks: list[Progress], chance: random.Random) -> None:
    """One life: until it is killed, some time after an answer."""
    life = Life(gateway)
    before = sum(one.next for one in tasks)
    for one in tasks:
        life.work(work, gateway, one)
    life.until(lambda: sum(one.next for one in tasks) > before, "an answer")
    life.kill(after=chance.uniform(0, 0.2))
    gateway.start()
