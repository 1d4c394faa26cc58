"""Pairs of versions: what a passage checks, and what a row says of the costs."""

from collections.abc import Iterator

import pytest

from benchmarks import pairs
from benchmarks.pairs import BLOCK, VERSIONS, Passage, check, message_of, row
from benchmarks.servers import Failed
from gateway import message


@pytest.fixture(autouse=True)
def same_crossing_afterwards() -> Iterator[None]:
    before = message._crosser
    yield
    message.cross_with(before)


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_hold_what_is_checked(version: str) -> None:
    check(message_of(version, 7), 7)
    with pytest.raises(Failed):
        check(message_of(version, 7), 8)


@pytest.mark.parametrize(
    "source, reader", [*zip(VERSIONS, VERSIONS[1:] + VERSIONS[:1], strict=True)]
)
def test_messages_pass_from_each_version_to_another(source: str, reader: str) -> None:
    passage = Passage(source, reader)
    passage.run(2)
    assert len(passage.costs) == 2
    counts = passage.crossing.counts
    expected = 0 if pairs.dialect_of(source) is pairs.dialect_of(reader) else 2 * BLOCK
    assert sum(counts.values()) == expected, "the clients convert nothing"
    assert {fidelity for _, _, fidelity in counts} <= {"exact", "equivalent"}


def test_a_row_shows_the_worst_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {("a", "a"): 1.0, ("a", "b"): 6.0, ("a", "c"): 2.0, ("b", "b"): 3.0, ("c", "c"): 1.0}
    monkeypatch.setattr(pairs, "costs_of", lambda asked, blocks, turns: costs)
    found = row("a", ("a", "b", "c"), 1, 2)
    assert (found.name, found.ours, found.theirs) == ("from a, worst to b", 1 / 6, 1 / 2)
    assert found.note == "times the cost of own dialects: b 3.00, c 2.00"
    assert found.met is False
