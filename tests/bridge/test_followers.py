"""Followers of queues at their other broker, with ends in this process."""

import asyncio
from typing import Any

import pytest

from gateway.bridge.modes import follower
from gateway.bridge.modes.copies import KEPT, Copies, Expected, copy_of
from gateway.bridge.modes.follower import Follower
from tests.bridge.fake_ends import ListSource, Taking, basic
from tests.net.running import PATIENCE


class Queue(ListSource):
    """A queue that tells when it is empty."""

    draws = False

    async def remaining(self) -> int | None:
        return 0


class CopiesWithoutEnd(Queue):
    """A queue that gets a copy after the other, and is empty in between."""

    async def batch(self) -> Any:
        await asyncio.sleep(follower.QUIET_SECONDS / 10)
        number = len(self.left) + 1
        copy = copy_of(basic(f"body {number}"), f"{KEPT}-{number}")
        self.left[number] = copy
        self._arrivals.add(number, copy, False)
        return await super().batch()


def test_copies_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange waits until the messages have been brought over, while copies go on."""
    source, destination = CopiesWithoutEnd([basic("stranger")]), Taking()

    async def open_source(*_: Any) -> Any:
        return await source.open()

    async def open_destination(at: Any, name: str, report: Any, *_: Any) -> Any:
        return await destination.open(report)

    monkeypatch.setattr(follower, "open_source", open_source)
    monkeypatch.setattr(follower, "open_destination", open_destination)
    nowhere: Any = None

    async def scenario() -> None:
        copies = Copies()
        ends = (nowhere, "q"), (nowhere, "q")
        found = Follower("/", *ends, copies, Expected(), kept=True)
        found.start()
        async with asyncio.timeout(PATIENCE / 2):
            await found.idle(10 * PATIENCE)
        assert destination.bodies == ["stranger"]
        assert copies.held > 0
        await found.close()

    asyncio.run(scenario())


def test_a_broker_that_was_away_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue is emptied as soon as it is back: the next attempt is never too far away."""
    source, destination = Queue([basic("one")]), Taking()
    attempts = 0
    back = asyncio.Event()

    async def open_source(*_: Any) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts <= 6:
            if attempts == 6:
                back.set()
            raise ConnectionRefusedError
        return await source.open()

    async def open_destination(at: Any, name: str, report: Any, *_: Any) -> Any:
        return await destination.open(report)

    monkeypatch.setattr(follower, "open_source", open_source)
    monkeypatch.setattr(follower, "open_destination", open_destination)
    monkeypatch.setattr(follower, "AWAY_SECONDS", 1.0)
    nowhere: Any = None

    async def scenario() -> None:
        ends = (nowhere, "q"), (nowhere, "q")
        found = Follower("/", *ends, Copies(), Expected(), kept=True)
        found.start()
        async with asyncio.timeout(PATIENCE):
            await back.wait()
            await found.empty(PATIENCE)
        assert destination.bodies == ["one"]
        await found.close()

    asyncio.run(scenario())
