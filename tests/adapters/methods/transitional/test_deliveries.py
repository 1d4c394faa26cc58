"""Unsettled deliveries by name: against a plain list, and the work that hostile ranges cost."""

import random

import pytest

from gateway.adapters.methods.transitional.deliveries import FETCHED, FEW, Deliveries
from gateway.adapters.methods.transitional.numbering import Numbering
from gateway.adapters.methods.transitional.types import SERIALS
from gateway.errors import PeerError
from gateway.operations import Outcome


def settled(before: dict[int, int], kept: Deliveries, what: list[int]) -> None:
    """These names, and no others, are settled."""
    for name in what:
        del before[name]
    assert len(kept) == len(before)


@pytest.mark.parametrize("seed", range(20))
def test_as_a_plain_list(seed: int) -> None:
    chance = random.Random(seed)
    kept, plain = Deliveries(1), {}  # type: Deliveries, dict[int, int]
    name = delivery = 0
    for _ in range(600):
        kind = chance.random()
        if kind < 0.55:
            name, delivery = name + chance.randint(1, 3), delivery + 1
            tag = FETCHED | delivery if chance.random() < 0.2 else name
            kept.add(tag, delivery)
            plain[tag] = delivery
        elif kind < 0.75 and plain:
            tag = chance.choice(list(plain))
            assert kept.settle(tag).delivery == plain[tag]
            settled(plain, kept, [tag])
        elif kind < 0.9:
            first = chance.randint(0, name + 2)
            last = first + chance.choice([0, 1, 5, 1 << 32])
            wanted = [tag for tag in plain if first <= tag <= last]
            found = kept.settle_range(first, last, Outcome.REJECT)
            assert [one.delivery for one in found] == [plain[tag] for tag in wanted]
            settled(plain, kept, wanted)
        elif plain:
            tag = chance.choice(list(plain))
            wanted = [one for one in plain if plain[one] <= plain[tag]]
            (all_of_them,) = kept.settle_up_to(tag)
            assert all_of_them.multiple and all_of_them.delivery == plain[tag]
            settled(plain, kept, wanted)
    if plain:
        (rest,) = kept.settle_up_to(0)
        assert rest.delivery == max(plain.values())
    assert not len(kept)


def test_unknown_names() -> None:
    kept = Deliveries(1)
    kept.add(5, 1)
    for name in (4, 6, FETCHED | 1, -1):
        with pytest.raises(PeerError, match="no unsettled delivery"):
            kept.settle(name)
    assert kept.settle_up_to(4) == kept.settle_up_to(FETCHED | 7) == []
    assert kept.settle_range(6, 1 << 40, Outcome.ACCEPT) == []
    assert len(kept) == 1


def test_names_that_are_settled_are_not_passed_again() -> None:
    kept = Deliveries(1)
    for name in range(1000):
        kept.add(name, name + 1)
    for name in range(0, 800):
        kept.settle(name)
    assert kept.settle_range(0, 799, Outcome.ACCEPT) == []
    assert len(kept._names) == 200
    for name in range(1000, 5000):
        kept.add(name, name + 1)
        kept.settle(name)
    assert len(kept._names) <= 2 * len(kept) + FEW


def test_serial_numbers_name_the_last_command_that_has_them() -> None:
    numbering = Numbering()
    numbering.sent = SERIALS + 5
    assert numbering.named(5) == SERIALS + 5
    assert numbering.named(SERIALS - 1) == SERIALS - 1
    assert numbering.named(6) == -1  # not sent yet
    numbering.sent = 3
    assert numbering.named(SERIALS - 1) < 0


def test_the_oldest_is_found_without_passing_settled_ones_again() -> None:
    kept = Deliveries(1)
    assert kept.oldest() is None
    for name in range(10, 60):
        kept.add(name, name)
    for name in range(10, 30):
        kept.settle(name)
        assert kept.oldest() == name + 1
    assert len(kept._names) == 30
    kept.settle(40)
    assert kept.oldest() == 30
    kept.settle_up_to(59)
    assert kept.oldest() is None


def test_a_name_that_comes_late_takes_its_place() -> None:
    kept = Deliveries(1)
    for name in (1, 5, 7, 3):
        kept.add(name, name)
    assert (kept.up_to(0), kept.oldest()) == ([1, 3, 5, 7], None)
