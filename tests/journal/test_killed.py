"""A gateway that records and is killed: what was confirmed is in the journal, once."""

import contextlib
import random
from functools import partial
from pathlib import Path

import pytest

from gateway.journal.entries import Entry
from gateway.journal.reader import JournalReader
from gateway.journal.segments import list_segments
from tests.crash.lives import Life
from tests.crash.story import Story, furnish, publish
from tests.net.running import Running

SETTINGS = {"journal__recording": '[{"address": "/exchanges/*"}]'}
LIVES = 3


def entries(data: Path) -> list[Entry]:
    """All of the journal, from its segments and from the store."""
    with contextlib.closing(JournalReader(data)) as reader:
        _, start, _, end, _ = reader.overview()
        found: list[Entry] = []
        while start < end:
            portion = reader.read(start)
            found += portion.entries
            start = portion.next
        return found


def check(story: Story, found: list[Entry]) -> None:
    """Confirmed messages are there once, and nothing is missing between."""
    numbers = [int(bytes(one.message.body[:]).split(b" ")[0]) for one in found]
    assert len(set(numbers)) == len(numbers)
    assert story.certain <= set(numbers)
    assert [one.pos for one in found] == list(range(len(found)))
    assert [one.offset for one in found] == list(range(len(found)))
    assert {one.publisher.protocol for one in found} == {"amqp-0-9-1"}


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
            check(story, entries(gateway.data))
            gateway.start()


def sealed(data: Path) -> int:
    return len(list_segments(data / "journal"))


@pytest.mark.extras
def test_killed_while_it_seals(tmp_path: Path) -> None:
    """Each life ends when another segment has its name, and its rows are being removed."""
    pytest.importorskip("pyarrow", reason="needs the extra `journal` (pyarrow)")
    story, chance = Story(), random.Random(8)
    with Running(tmp_path, **SETTINGS, journal__segment_messages=200) as gateway:
        furnish(gateway)
        for _ in range(LIVES):
            life = Life(gateway)
            life.work(publish, gateway.wire(1), story, chance)
            before = sealed(gateway.data)
            life.until(partial(more_sealed, gateway.data, before), "segments")
            life.kill()
            check(story, entries(gateway.data))
            gateway.start()
    assert sealed(gateway.data) >= LIVES


def more_sealed(data: Path, before: int) -> bool:
    return sealed(data) > before
