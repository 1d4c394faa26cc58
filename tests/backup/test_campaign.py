"""Many backups, each while clients publish and consume until the gateway is killed."""

import os
import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from gateway.backup.manifest import NAME
from gateway.backup.restoring import restore_backup
from tests.backup.filled import segments_of
from tests.backup.test_running import SETTINGS, SIZES
from tests.crash.lives import Life
from tests.crash.story import Story, check, consume, furnish, publish, read, transact
from tests.journal.test_killed import entries, have_more
from tests.net.preloaded import start
from tests.net.running import Running, environment

ROUNDS = 20


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_gateways_are_killed_while_backups_are_made(tmp_path: Path) -> None:
    story, chance = Story(), random.Random(9)
    with Running(tmp_path / "source", **SETTINGS) as gateway:
        furnish(gateway)
        for _ in range(ROUNDS):
            life = Life(gateway)
            jobs = {publish: (SIZES,), consume: (), transact: ()}
            for job, more in jobs.items():
                random_of = random.Random(chance.random())
                life.work(job, gateway.wire(1), story, random_of, *more)
            life.until(partial(have_more, story, story.confirmed + 100), "confirms")
            certain = set(story.certain)
            target = tmp_path / "backup"
            told = tmp_path / "told"
            with told.open("wb") as sink, open(os.devnull, "rb") as nothing:
                backup = start(
                    "gateway",
                    ["backup", str(target), "--data-dir", str(gateway.data)],
                    environment(),
                    stdin=nothing,
                    stdout=sink,
                    stderr=sink,
                )
            life.kill(after=chance.uniform(0, 0.5))
            assert backup.wait(60) == 0, told.read_text()
            assert (target / NAME).exists()
            done = set(story.done)
            gateway.start()
            check(gateway, story)
            compare(target, tmp_path / "again", certain - done)
            shutil.rmtree(target)


def compare(backup: Path, folder: Path, certain: set[int]) -> None:
    """A gateway on the backup has what was confirmed before and not consumed."""
    data = folder / "data"
    restore_backup(backup, data, segments_of(data))
    recorded = entries(data)
    assert [one.pos for one in recorded] == list(range(recorded[0].pos, recorded[-1].pos + 1))
    orders = [one for one in recorded if one.address == "/exchanges/orders"]
    numbers = [int(bytes(one.message.body[:20]).split()[0]) for one in orders]
    assert len(set(numbers)) == len(numbers)
    with Running(folder, **SETTINGS) as gateway:
        found = read(gateway.wire(1), "orders")
        assert found == sorted(set(found)), "out of order, or more than once"
        assert not certain - set(found)
        assert set(found) <= set(numbers)
    shutil.rmtree(folder)
