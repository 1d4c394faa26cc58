"""Messages with the same key stay in order, over several connections and further attempts."""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bridge.ends import Destination, Fate
from gateway.bridge.fan import fan
from gateway.bridge.ordering import KeyOrder, key_reader
from gateway.bridge.preparation import Preparation
from gateway.errors import ConfigError
from gateway.message import Message, Properties
from tests import in_memory
from tests.bridge.fake_ends import Taking, basic, running, settings
from tests.bridge.moving import configuration, declare, publish, shovels, taken
from tests.net.running import Running, until


def keyed(keys: str) -> list[Message]:
    """A message for each letter, which is its key; bodies such as ``a 2``, counted for each."""
    counts: Counter[str] = Counter()
    messages = []
    for key in keys:
        messages.append(basic(f"{key} {counts[key]}", key))
        counts[key] += 1
    return messages


def by_key(bodies: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for one in bodies:
        key, number = one.split()
        found[key].append(int(number))
    return found


def test_a_message_that_is_tried_again_holds_back_its_key_only() -> None:
    async def run() -> None:
        refused = [2]

        def fate(message: Message) -> Fate:
            if in_memory.text(message) == "a 1" and refused[0]:
                refused[0] -= 1
                return Fate.REFUSED
            return Fate.CONFIRMED

        given: dict[str, Any] = {"order_by": "key", "retry_seconds": 0.05}
        async with running(keyed("abaabaccb"), Taking(fate), **given) as rig:
            others = ["b 0", "b 1", "c 0", "c 1", "b 2"]
            await rig.until(lambda: set(others) <= set(rig.destination.bodies))
            assert "a 1" not in rig.destination.bodies
            assert rig.shovel.info().held == 2
            await rig.emptied()
            assert rig.destination.bodies[-3:] == ["a 1", "a 2", "a 3"]
            assert rig.shovel.info().held == 0

    asyncio.run(run())


@pytest.mark.parametrize("refused", ["park", "reject"])
def test_those_behind_a_message_that_is_given_up_go_on(refused: str) -> None:
    async def run() -> None:
        def fate(message: Message) -> Fate:
            return Fate.REFUSED if in_memory.text(message) == "a 1" else Fate.CONFIRMED

        given: dict[str, Any] = {"order_by": "key", "retries": 0, "refused": refused}
        async with running(keyed("aaab"), Taking(fate), **given) as rig:
            await rig.emptied()
            assert rig.destination.bodies == ["a 0", "b 0", "a 2"]

    asyncio.run(run())


def test_order_over_connections_that_refuse_at_random() -> None:
    """Several connections confirm and refuse in any order; without keys the test would see it."""
    dice = random.Random(3)
    keys = "".join(dice.choice("abcdefgh") for _ in range(200))

    async def arrived(order_by: str) -> tuple[list[str], dict[str, list[int]]]:
        ends = [Taking(lambda message: None) for _ in range(3)]
        arrived: list[str] = []

        async def decide() -> None:
            """Give messages their fate in no order."""
            while True:
                await asyncio.sleep(0)
                end = dice.choice(ends)
                if end.held:
                    number, message = end.held.pop(dice.randrange(len(end.held)))
                    fate = dice.choice([Fate.REFUSED, Fate.CONFIRMED])
                    if fate is Fate.CONFIRMED:
                        arrived.append(in_memory.text(message))
                    end.report(number, fate, "")

        given: dict[str, Any] = {"order_by": order_by, "retries": 50, "retry_seconds": 0.001}
        async with running(keyed(keys), Spread(ends), **given) as rig:
            deciding = asyncio.create_task(decide())
            await rig.emptied()
            deciding.cancel()
        return arrived, by_key(arrived)

    bodies, found = asyncio.run(arrived("key"))
    assert len(bodies) == len(keys)
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert len(found) == 8
    _, loose = asyncio.run(arrived(""))
    assert any(numbers != sorted(numbers) for numbers in loose.values())


class Spread(Taking):
    """Opens several ends for one."""

    def __init__(self, ends: list[Taking]) -> None:
        super().__init__()
        self._ends = ends

    async def open(self, report: Any) -> Destination:
        turns = iter(self._ends)
        return await fan(len(self._ends), lambda: next(turns).open(report))


@given(st.lists(st.sampled_from("abc") | st.none(), max_size=30), st.randoms(use_true_random=False))
def test_of_each_key_one_message_goes(keys: list[str | None], dice: random.Random) -> None:
    """And each goes once, in turn, whatever the order in which they are done."""
    order = KeyOrder(lambda message: keys[int(in_memory.text(message))])
    going = [n for n in range(len(keys)) if order.admit(n, basic(str(n)))]
    gone = []
    while going:
        under_way = [keys[n] for n in going if keys[n] is not None]
        assert len(set(under_way)) == len(under_way)
        done = going.pop(dice.randrange(len(going)))
        gone.append(done)
        following = order.done(done)
        if following is not None:
            going.append(following)
    assert sorted(gone) == list(range(len(keys)))
    for key in "abc":
        numbers = [n for n in gone if keys[n] == key]
        assert numbers == sorted(numbers)
    assert order.held == 0


@pytest.mark.parametrize(
    "name, expected",
    [
        ("key", "k"),
        ("group_id", "g"),
        ("headers.h", 5),
        ("app_id", "a"),
        ("headers.table", "{'x': 1}"),
        ("headers.none", None),
        ("type", None),
    ],
)
def test_keys(name: str, expected: object) -> None:
    application = {"h": 5, "table": {"x": 1}}
    message = basic("", "k", group_id="g", app_id="a", application=application)
    assert key_reader(name)(message) == expected


def test_the_group_of_a_jms_client_before_1_0() -> None:
    message = basic("", application={"JMSXGroupID": "g"})
    assert message.properties != Properties()
    assert key_reader("group_id")(message) == "g"


def test_a_wrong_key_is_told() -> None:
    with pytest.raises(ConfigError, match="order_by: 'colour' is neither"):
        Preparation(settings(order_by="colour"))


SPREAD = """
[[shovels]]
name = "out"
source = { queue = "leaving" }
destination = { upstream = "old", queue = "arrived" }
order_by = "headers.n"
connections = 3
"""


@pytest.mark.parametrize("version", ["0-8", "0-9-1", "1.0"])
def test_several_connections_to_an_upstream(tmp_path: Path, version: str) -> None:
    with Running(tmp_path / "old") as old:
        declare(old, "arrived")
        file = configuration(tmp_path / "new", old.port, SPREAD, version)
        with Running(tmp_path / "new", "--config", file) as new:
            declare(new, "leaving")
            publish(new.port, "leaving", [*range(50), *range(50)])
            until(lambda: shovels(new)["out"]["moved"] == 100, "moved")
            (upstream,) = new.asked("/v1/admin/upstreams")["upstreams"]
            assert upstream["connections"] == 3
            found = [in_memory.text(one.message) for one in taken(old.port, "arrived", 50)]
            assert Counter(found).keys() == {f"body {n}" for n in range(50)}
