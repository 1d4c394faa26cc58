"""Messages that a shovel moves again after it has lost an end carry a note."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from gateway.bridge.repeats import NOTE
from gateway.message import Message
from tests import in_memory
from tests.bridge.fake_ends import Taking, basic, running
from tests.bridge.moving import configuration, declare, publish, shovels, taken
from tests.bridge.relay import Relay
from tests.net.running import Running, until

VERSIONS = ("0.8a2", "0-8", "0-9", "0-9-1", "0-10", "1.0")
BATCH = 300
ROUNDS = 40
SHOVEL = """
[[shovels]]
name = "in"
source = {{ upstream = "old", queue = "there" }}
destination = {{ queue = "here" }}
window = {window}
"""


def test_what_the_source_delivers_again_is_noted() -> None:
    """Messages that it delivers for the first time are not."""

    async def run() -> None:
        to = Taking(lambda message: None)
        async with running([basic("a"), basic("b")], to) as rig:
            await rig.until(lambda: len(to.held) == 2)
            assert [notes(one) for _, one in to.held] == [None, None]
            rig.source.lost.set()
            await rig.until(lambda: rig.shovel.connected == 2 and len(to.held) == 2)
            assert [notes(one) for _, one in to.held] == ["possible", "possible"]
            assert rig.shovel.info().repeated == 2

    asyncio.run(run())


def notes(message: Message) -> object:
    return (message.properties.application or {}).get(NOTE)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_copy_is_without_a_note(version: str, tmp_path: Path) -> None:
    """The network is cut until messages have come twice."""
    with Running(tmp_path / "old") as old, Relay(old.port) as relay:
        declare(old, "there")
        file = configuration(tmp_path / "new", relay.port, SHOVEL.format(window=50), version)
        with Running(tmp_path / "new", "--config", file) as new:
            declare(new, "here")
            count = 0
            for _ in range(ROUNDS):
                publish(old.port, "there", range(count, count + BATCH))
                count += BATCH
                relay.cut()
                until(lambda: shovels(new)["in"]["moved"] >= count, "all have come")  # noqa: B023
                if shovels(new)["in"]["repeated"]:
                    break
            assert shovels(new)["in"]["repeated"]
            found = taken(new.port, "here", count)
            plain = Counter(
                in_memory.text(one.message) for one in found if notes(one.message) is None
            )
            assert max(plain.values()) == 1
