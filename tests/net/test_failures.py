"""Failed logins are counted per peer, and per user and peer: scripts with a clock of their own."""

from typing import Any

import pytest

from gateway.broker.memory_store import MemoryStore
from gateway.net.failures import KIND, SHARE, FailureRecords, Failures

HERE, THERE = "192.0.2.1", "192.0.2.2"
MOST, SECONDS = 5, 60.0


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A store that outlives the process whose ``failures`` these are."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(volatile=False)
        self.turns = 0
        self.restart()

    def restart(self) -> None:
        kept = FailureRecords(self.store, self.begin, self.end)
        self.failures = Failures(self.clock, MOST, SECONDS, kept)

    def begin(self) -> None:
        self.turns += 1

    def end(self) -> None:
        self.turns -= 1

    def guess(self, user: str, peer: str, right: bool = False) -> int:
        """The seconds to wait; 0 if the attempt was looked at."""
        seconds = self.failures.take(user, peer)
        if not seconds:
            (self.failures.succeeded if right else self.failures.failed)(user, peer)
        assert self.turns == 0
        return seconds

    def kept(self) -> list[Any]:
        return list(self.store.records(KIND))


def test_guesses_at_a_user_are_no_concern_of_its_other_addresses() -> None:
    house = House()
    assert [house.guess("ann", HERE) for _ in range(MOST + 2)] == [0] * MOST + [12] * 2
    assert house.guess("ann", THERE, right=True) == 0
    assert house.guess("bob", HERE, right=True) == 0
    house.clock.now += 12
    assert [house.guess("ann", HERE) for _ in range(2)] == [0, 12]


def test_a_success_clears_failures_of_its_user_and_address() -> None:
    house = House()
    for _ in range(10):
        assert [house.guess("ann", HERE) for _ in range(MOST - 1)] == [0] * (MOST - 1)
        assert house.guess("ann", HERE, right=True) == 0
        house.clock.now += SECONDS


def test_logins_between_guesses_do_not_clear_the_peer() -> None:
    house = House()
    waits = []
    for number in range(MOST * SHARE + 2):
        assert house.guess("mallory", HERE, right=True) in (0, 3)
        waits.append(house.guess(f"victim-{number}", HERE))
    assert waits == [0] * MOST * SHARE + [3] * 2
    assert house.guess("mallory", HERE, right=True) == 3
    assert house.guess("mallory", THERE, right=True) == 0


def test_a_restart_keeps_guesses_and_locks_no_other_user_out() -> None:
    house = House()
    for _ in range(MOST):
        house.guess("ann", HERE)
    house.restart()
    assert house.guess("ann", HERE) == 12
    assert house.guess("ann", THERE, right=True) == 0
    assert house.guess("bob", HERE, right=True) == 0
    house.clock.now += 12
    house.restart()
    assert [house.guess("ann", HERE) for _ in range(2)] == [0, 12]


def test_a_clock_that_went_back_makes_no_wait_longer() -> None:
    house = House()
    for _ in range(MOST):
        house.guess("ann", HERE)
    house.clock.now -= 86_400
    house.restart()
    assert house.guess("ann", HERE) == 12
    house.clock.now += 12
    assert house.guess("ann", HERE) == 0


def test_expired_failures_are_deleted() -> None:
    house = House()
    for number in range(20):
        house.guess(f"user-{number}", HERE)
        house.guess(f"user-{number}", f"10.0.0.{number}")
    assert len(house.kept()) == 20 * 2 + 20 + 1
    house.clock.now += SECONDS
    house.restart()
    assert house.kept() == []
    house.guess("ann", HERE)
    assert len(house.kept()) == 2
    house.clock.now += SECONDS
    house.guess("bob", THERE)
    assert len(house.kept()) == 2


def test_a_success_leaves_nothing_behind() -> None:
    house = House()
    house.guess("ann", HERE, right=True)
    assert house.kept() == []
    house.guess("ann", HERE)
    house.guess("ann", HERE, right=True)
    assert len(house.kept()) == 1, "of the peer"


def test_kept_failures_are_bounded_and_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.net.failures.MOST_KEPT", 50)
    house = House()
    for number in range(300):
        house.guess("hunter2", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(house.kept()) <= 50
    assert "hunter2" not in repr(house.kept())
    assert "10.0" not in repr([key for _, key, _ in house.kept()])
