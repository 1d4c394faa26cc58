"""Shovels that move some messages only, and not faster than they may."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.bridge.pacing import Pace
from gateway.config.bridge import ShovelSource
from gateway.config.shovel_steps import RateSettings
from gateway.operations import Outcome
from tests import in_memory
from tests.bridge.fake_ends import basic, running, settings
from tests.bridge.moving import declare, empty, publish, shovels, taken
from tests.net.running import Running, until

MESSAGES = [basic(f"body {n}", application={"n": n}) for n in range(10)]
BIG = [f"body {n}" for n in range(6, 10)]
FROM_OLD = ShovelSource(upstream="old", queue="q")


def test_dropped_messages_are_settled_and_counted() -> None:
    async def run() -> None:
        given: dict[str, Any] = {"filter": "n > 5", "unmatched": "drop", "source": FROM_OLD}
        async with running(MESSAGES, **given) as rig:
            await rig.emptied()
            assert rig.destination.bodies == BIG
            info = rig.shovel.info()
            assert (info.moved, info.dropped, info.parked) == (4, 6, 0)
            assert set(rig.source.outcomes.values()) == {Outcome.ACCEPT}

    asyncio.run(run())


@pytest.mark.parametrize("refused", ["park", "reject"])
def test_parked_messages_that_do_not_match(refused: str) -> None:
    """Whatever is done with those that the destination refuses."""

    async def run() -> None:
        given: dict[str, Any] = {"filter": "n > 5", "unmatched": "park", "refused": refused}
        async with running(MESSAGES, **given) as rig:
            await rig.emptied()
            assert rig.destination.bodies == BIG
            assert rig.parking.bodies == [f"body {n}" for n in range(6)]
            assert {one.key for one in rig.parking.taken} == {"shovel.a.parked"}
            assert (rig.shovel.info().moved, rig.shovel.info().parked) == (4, 6)

    asyncio.run(run())


LEAVING = """
[[shovels]]
name = "some"
source = { queue = "leaving" }
destination = { queue = "arrived" }
filter = "n >= 2 AND text LIKE '%3'"
"""


def test_other_messages_stay_in_a_queue_of_this_gateway(tmp_path: Path) -> None:
    """For other consumers, also while the shovel runs."""
    file = tmp_path / "gateway.toml"
    file.write_text(LEAVING)
    with Running(tmp_path, "--config", file) as running:
        declare(running, "leaving", "arrived")
        publish(running.port, "leaving", range(25))
        found = taken(running.port, "arrived", 3)
        assert [in_memory.text(one.message) for one in found] == ["body 3", "body 13", "body 23"]
        until(lambda: shovels(running)["some"]["moved"] == 3, "moved")
        left = taken(running.port, "leaving", 22)
        assert len(left) == 22
        until(lambda: empty(running, "leaving"), "all taken")
        assert shovels(running)["some"]["dropped"] == 0


@pytest.mark.parametrize(
    "given, told",
    [
        ({"filter": "n >"}, "position"),
        ({"filter": "n > 5", "source": FROM_OLD}, "say with unmatched"),
        ({"rate": {"messages": 0}}, "greater than 0"),
    ],
)
def test_wrong_settings_are_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(**given)


# --- rate -----------------------------------------------------------------------------------------


def passed(pace: Pace, clock: list[float], count: int, size: int) -> list[int]:
    """How many of these messages pass at each pause, until all have."""
    messages = [basic("x" * size)] * count
    passed = []
    while messages:
        admitted, pause = pace.admit(messages)
        passed.append(admitted)
        messages = messages[admitted:]
        clock[0] += pause
    return passed


def test_messages_per_second() -> None:
    """A burst, then one at a time; the clock says that the rate is kept."""
    clock = [0.0]
    pace = Pace(RateSettings(messages=4, burst_seconds=2), lambda: clock[0])
    assert passed(pace, clock, 20, 1) == [8] + [1] * 12
    assert clock[0] == pytest.approx(12 / 4)
    clock[0] += 60
    assert passed(pace, clock, 9, 1) == [8, 1]


def test_fewer_than_one_message_in_a_second() -> None:
    clock = [0.0]
    pace = Pace(RateSettings(messages=0.25), lambda: clock[0])
    assert passed(pace, clock, 3, 1) == [1, 1, 1]
    assert clock[0] == pytest.approx(8)


def test_octets_per_second() -> None:
    """One that is larger than the burst waits for all of it, and is paid for afterwards."""
    clock = [0.0]
    size = basic("x" * 98).size
    pace = Pace(RateSettings(octets=size), lambda: clock[0])
    assert passed(pace, clock, 3, 98) == [1, 1, 1]
    assert clock[0] == pytest.approx(2)
    clock[0] += 60
    large = basic("x" * (10 * size - 2))
    assert large.size == 10 * size
    admitted, pause = pace.admit([large, large])
    assert admitted == 1
    assert pause == pytest.approx(10)


def test_a_shovel_keeps_its_rate_and_counts_what_waits() -> None:
    async def run() -> None:
        rate = {"messages": 200, "burst_seconds": 0.01}
        async with running(MESSAGES, rate=rate) as rig:
            await rig.emptied()
            assert rig.destination.bodies == [f"body {n}" for n in range(10)]
            assert rig.shovel.info().delayed >= 1

    asyncio.run(run())
