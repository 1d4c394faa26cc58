"""A gateway that records and is killed: what was confirmed is in the journal, once."""

import random
from functools import partial
from pathlib import Path

from gateway.journal.entries import ALL, Entry
from gateway.journal.tail import Tail
from tests.crash.lives import Life
from tests.crash.story import Story, furnish, publish
from tests.net.running import Running

SETTINGS = {"journal__recording": '[{"address": "/exchanges/*"}]'}
LIVES = 3


def entries(data: Path) -> list[Entry]:
    tail = Tail(data)
    try:
        start, end = tail.span()
        found: list[Entry] = []
        while start < end:
            portion = tail.read(start, ALL)
            found += portion.entries
            start = portion.next
        return found
    finally:
        tail.close()


def have_more(story: Story, wanted: int) -> bool:
    return story.confirmed >= wanted


def test_killed_while_it_records(tmp_path: Path) -> None:
    story, chance = Story(), random.Random(7)
    with Running(tmp_path, **SETTINGS) as gateway:
        furnish(gateway)
        for _ in range(LIVES):
            life = Life(gateway)
            life.work(publish, gateway.wire(1), story, chance)
            life.until(partial(have_more, story, story.confirmed + 500), "confirms")
            life.kill()
            found = entries(gateway.data)
            numbers = [int(bytes(one.message.body[:]).split(b" ")[0]) for one in found]
            assert len(set(numbers)) == len(numbers)
            assert story.certain <= set(numbers)
            assert [one.pos for one in found] == list(range(len(found)))
            assert [one.offset for one in found] == list(range(len(found)))
            assert {one.publisher.protocol for one in found} == {"amqp-0-9-1"}
            gateway.start()
