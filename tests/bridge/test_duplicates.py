"""Shovels that move each message once, also over kills of the gateway."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.ends import Ends, Fate
from gateway.bridge.ordering import key_reader
from gateway.bridge.repeats import NOTE
from gateway.bridge.seen import KIND, SMALL, Seen, SeenIds
from gateway.bridge.shovel import Shovel
from gateway.broker.memory_store import MemoryStore
from gateway.config.shovel_steps import DuplicateSettings
from gateway.message import Message
from tests import in_memory
from tests.bridge.fake_ends import ListSource, Rig, Taking, basic, settings
from tests.bridge.moving import configuration, declare, empty, publish, shovels, taken
from tests.bridge.relay import Relay
from tests.net.running import PATIENCE, Running, until

ONE = DuplicateSettings()
OWNER = ("a", "")


class House:
    """A store, its turns, and a clock."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now = 1_000_000
        self.turns = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.turns += 1
        yield

    def ids(self) -> SeenIds:
        return SeenIds(self.store, self.turn, lambda: self.now)

    def seen(self, settings: DuplicateSettings = ONE, owner: tuple[str, str] = OWNER) -> Seen:
        return self.ids().of(settings, key_reader(settings.id), owner)


def identities(seen: Seen, numbers: Iterable[int]) -> list[bytes]:
    found = [seen.id_of(basic("", message_id=f"id {n}")) for n in numbers]
    return [one for one in found if one is not None]


# --- ids in the store -----------------------------------------------------------------------------


def test_ids_survive_a_restart() -> None:
    house = House()
    seen = house.seen()
    ids = identities(seen, range(1000))
    for at in range(0, 1000, 7):
        seen.add(ids[at : at + 7])
    again = house.seen()
    assert all(one in again for one in ids)
    assert len(again) == 1000
    assert len(list(house.store.records(KIND))) < 1000 / SMALL * 2, "small batches share a record"
    other = house.seen(owner=("b", ""))
    assert len(other) == 0
    assert seen.id_of(basic("no id")) is None


def test_ids_are_forgotten_by_count_and_time() -> None:
    house = House()
    settings = DuplicateSettings(count=100, seconds=60)
    seen = house.seen(settings)
    ids = identities(seen, range(1000))
    for at in range(0, 1000, 50):
        seen.add(ids[at : at + 50])
    assert 100 <= len(seen) < 100 + 50
    assert all(one in seen for one in ids[900:])
    assert ids[0] not in seen
    assert len(list(house.store.records(KIND))) == len(seen) // 50
    house.now += 59_000
    assert ids[-1] in house.seen(settings)
    house.now += 2_000
    assert ids[-1] not in seen
    assert ids[-1] not in house.seen(settings)


def test_ids_of_messages_that_do_not_last_are_not_kept() -> None:
    """After a crash the message is gone, and has to come again."""
    house = House()
    seen = house.seen()
    kept, lost = identities(seen, range(2))
    seen.add([lost], lasting=False)
    seen.add([kept])
    assert lost in seen
    again = house.seen()
    assert kept in again
    assert lost not in again


def test_an_id_can_be_taken_back() -> None:
    house = House()
    seen = house.seen()
    one, other = identities(seen, range(2))
    seen.add([one, other])
    seen.discard(one)
    seen.discard(b"unknown")
    for each in (seen, house.seen()):
        assert one not in each
        assert other in each


def test_ids_of_shovels_that_are_gone_are_forgotten() -> None:
    house = House()
    for name in ("a", "b"):
        seen = house.seen(owner=(name, "lane"))
        seen.add(identities(seen, range(3)))
    house.ids().forget_others(["a"])
    assert {key[0] for _, key, _ in house.store.records(KIND)} == {"a"}


# --- a shovel -------------------------------------------------------------------------------------


class Rigs:
    """Shovels one after the other, with one store."""

    def __init__(self, **given: Any) -> None:
        self.house = House()
        self._given = {"duplicates": ONE, **given}

    async def run(self, messages: list[Message], to: Taking) -> Rig:
        """Until all messages are settled."""
        rig = Rig(messages, to, seen=self.house.seen(), **self._given)
        task = asyncio.create_task(rig.shovel.run())
        await rig.emptied()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return rig


def identified(numbers: Iterable[int]) -> list[Message]:
    return [basic(f"body {n}", message_id=f"id {n}") for n in numbers]


def test_messages_that_have_come_are_settled_and_counted() -> None:
    async def run() -> None:
        rigs = Rigs()
        first = await rigs.run(identified([1, 2, 1, 3, 2]), Taking())
        assert first.destination.bodies == ["body 1", "body 2", "body 3"]
        assert (first.shovel.info().moved, first.shovel.info().duplicates) == (3, 2)
        second = await rigs.run([*identified([3, 4]), basic("no id"), basic("no id")], Taking())
        assert second.destination.bodies == ["body 4", "no id", "no id"]
        assert second.shovel.info().duplicates == 1

    asyncio.run(run())


def test_a_message_that_was_not_taken_may_come_again() -> None:
    async def run() -> None:
        rigs = Rigs(retries=0)
        first = await rigs.run(identified([1, 2]), Taking(lambda message: Fate.REFUSED))
        assert first.parking.bodies == ["body 1", "body 2"]
        second = await rigs.run(identified([1, 2]), Taking())
        assert second.destination.bodies == ["body 1", "body 2"]

    asyncio.run(run())


def test_messages_whose_confirm_was_lost_are_flagged() -> None:
    """They are redelivered, and not among the ids."""

    async def run() -> None:
        house = House()
        hold = {"body 2", "body 3"}

        def fate(message: Message) -> Fate | None:
            return None if in_memory.text(message) in hold else Fate.CONFIRMED

        rig = Rig(identified([1, 2, 3, 4]), Taking(fate), seen=house.seen(), duplicates=ONE)
        task = asyncio.create_task(rig.shovel.run())
        await rig.until(lambda: len(rig.destination.held) == 2 and len(rig.source.left) == 2)
        hold.clear()
        rig.source.lost.set()
        await rig.emptied()
        task.cancel()
        notes = [
            (in_memory.text(one), (one.properties.application or {}).get(NOTE))
            for one in rig.destination.taken
        ]
        assert sorted(notes, key=str) == [
            ("body 1", None), ("body 2", "possible"), ("body 3", "possible"), ("body 4", None)
        ]  # fmt: skip
        assert rig.shovel.info().repeated == 2

    asyncio.run(run())


class MarkingSource(ListSource):
    """A source in a store that is slow."""

    def __init__(self, messages: Iterable[Message]) -> None:
        super().__init__(messages)
        self.safe = asyncio.Event()
        self.asked = False

    async def marked(self) -> None:
        self.asked = True
        await self.safe.wait()


def test_nothing_goes_before_the_store_knows_that_it_was_delivered() -> None:
    """Otherwise it would come again without a note after a kill."""

    async def run() -> None:
        house = House()
        rig = Rig([], Taking(), seen=house.seen(), duplicates=ONE)
        rig.source = source = MarkingSource(identified([1]))
        ends = Ends(source.open, rig.destination.open, rig.parking.open)
        shovel = Shovel(settings(duplicates=ONE), ends, seen=house.seen())
        task = asyncio.create_task(shovel.run())
        await rig.until(lambda: source.asked)
        await asyncio.sleep(0)
        assert rig.destination.bodies == []
        source.safe.set()
        await rig.emptied()
        assert rig.destination.bodies == ["body 1"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


# --- kills ----------------------------------------------------------------------------------------

COUNT = 200
IN = """
[[upstreams]]
name = "third"
addresses = ["amqp://127.0.0.1:{third}"]

[[shovels]]
name = "in"
source = {{ upstream = "old", queue = "there" }}
destination = {{ {destination} }}
retry_seconds = 0.05
"""
SUPPRESSING = 'duplicates = { id = "headers.n" }\n'


@pytest.mark.parametrize("destination", ["this gateway", "another broker"])
@pytest.mark.parametrize("duplicates", [SUPPRESSING, ""], ids=["suppressed", "as they come"])
def test_a_kill_between_confirm_and_settlement(
    tmp_path: Path, destination: str, duplicates: str
) -> None:
    """The settlements do not reach the source, and the gateway is killed: the destination has each
    message once, or twice without suppression."""
    with (
        Running(tmp_path / "old") as old,
        Running(tmp_path / "third") as third,
        Relay(old.port) as relay,
    ):
        declare(old, "there")
        declare(third, "here")
        there = 'upstream = "third", queue = "here"'
        given = 'queue = "here"' if destination == "this gateway" else there
        shovel = IN.format(third=third.port, destination=given) + duplicates
        file = configuration(tmp_path / "new", relay.port, shovel, "0-9-1")
        with Running(tmp_path / "new", "--config", file) as new:
            declare(new, "here")
            until(lambda: shovels(new)["in"]["state"] == "running", "running")
            relay.deaf = True
            publish(old.port, "there", range(COUNT))
            until(lambda: shovels(new)["in"]["moved"] == COUNT, "moved")
            declare(new, "later")  # is answered when all that was before is on disk
            new.kill()
            relay.cut()
            relay.deaf = False
            new.start()
            until(lambda: empty(old, "there"), "settled")
            target = new if destination == "this gateway" else third
            told = until(lambda: settled(new), "nothing is under way")
            depth = target.asked("/api/queues/%2F/here")["messages"]
            if duplicates:
                assert (depth, told["moved"], told["duplicates"]) == (COUNT, 0, COUNT)
            else:
                assert (depth, told["moved"], told["duplicates"]) == (2 * COUNT, COUNT, 0)


def settled(running: Running) -> Any:
    told = shovels(running)["in"]
    return None if told["under_way"] else told


RANDOM = """
[[shovels]]
name = "in"
source = {{ {source} }}
destination = {{ {destination} }}
retry_seconds = 0.05
duplicates = {{ id = "headers.n" }}
"""
ENOUGH = 2000


@pytest.mark.parametrize(
    "source, destination",
    [("old", ""), ("", "old"), ("", "")],
    ids=["upstream to core", "core to upstream", "core to core"],
)
def test_kills_at_random(tmp_path: Path, source: str, destination: str) -> None:
    """All arrive; into this gateway each once, and to another broker more often only with a
    note."""
    dice = random.Random(11)
    with Running(tmp_path / "old") as old:
        ends = [
            f'upstream = "{one}", queue = "{queue}"'
            for one, queue in ((source, "leaving"), (destination, "arrived"))
        ]
        shovel = RANDOM.format(source=ends[0], destination=ends[1])
        file = configuration(tmp_path / "new", old.port, shovel, "0-9-1")
        with Running(tmp_path / "new", "--config", file) as new:
            for one in (old, new):
                declare(one, "leaving", "arrived")
            where, target = (old if source else new), (old if destination else new)
            publish(where.port, "leaving", range(ENOUGH))
            for _ in range(5):
                time.sleep(dice.uniform(0.005, 0.15))
                new.kill()
                new.start()
            until(lambda: empty(where, "leaving"), "all moved", 2 * PATIENCE)
            until(lambda: settled(new), "nothing is under way")
            depth = target.asked("/api/queues/%2F/arrived")["messages"]
            found = taken(target.port, "arrived", ENOUGH)
            plain = Counter(
                in_memory.text(one.message)
                for one in found
                if NOTE not in (one.message.properties.application or {})
            )
            assert depth >= len(found) >= ENOUGH
            assert not plain or max(plain.values()) == 1
            if not destination:
                assert depth == ENOUGH
