"""Commands of ours that are kept as runs, against the plain way to keep them."""

from collections import Counter
from random import Random

import pytest

from gateway.adapters.segments.completion import SentCommands, SentRuns, ranges_of


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_taken_as_single_commands_are(seed: int) -> None:
    chance = Random(seed)
    runs: SentRuns[str] = SentRuns()
    plain: SentCommands[str] = SentCommands()
    number = chance.randrange(5)
    for _ in range(30):
        value = "ab"[chance.randrange(2)]
        for _ in range(chance.randrange(12)):
            value = value if chance.random() < 0.8 else "c"
            runs.add(number, value)
            plain.add(number, value)
            number += chance.choice((1, 1, 1, 3))
        share = chance.random()
        ranges = list(ranges_of([each for each in range(number + 2) if chance.random() < share]))
        taken: Counter[str] = Counter()
        for value, times in runs.take(ranges):
            taken[value] += times
        assert taken == Counter(plain.take(ranges).values())
    taken = Counter()
    for value, times in runs.take([(0, number)]):
        taken[value] += times
    assert taken == Counter(plain.values()), "the rest"
    assert runs.take([(0, number)]) == []


def test_a_run_is_one_step_however_long() -> None:
    runs: SentRuns[str] = SentRuns()
    for number in range(10_000):
        runs.add(number, "same")
    assert runs.take([(0, 99), (200, 299)]) == [("same", 100), ("same", 100)]
    assert runs.take([(0, 9_999)]) == [("same", 100), ("same", 9_700)]
    runs.add(10_000, "same")
    runs.clear()
    assert runs.take([(0, 10_000)]) == []
