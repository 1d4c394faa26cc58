"""What a resumed move does with messages that were under way: none lost, doubles only in doubt."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.bridge.migration.identity import Identity
from gateway.bridge.migration.recovery import Fate, Late, Unfinished, judge, late


def identity(content: int, with_id: bool) -> Identity:
    return Identity(content.to_bytes(2), f"id-{content}" if with_id else "")


def unfinished(identities: list[Identity], confirmed: int) -> list[Unfinished]:
    return [Unfinished(n, one, n <= confirmed) for n, one in enumerate(identities, 1)]


def fates(journal: list[Unfinished], arrived: list[Identity], there: set[int]) -> list[str]:
    return [one.fate.value for one in judge(journal, arrived, there)]


A, B, C, D = (identity(n, False) for n in range(4))


def test_the_order_tells_how_far_the_settlement_got() -> None:
    journal = unfinished([A, B, C], 2)
    assert fates(journal, [A, B, C, D], set()) == ["there", "there", "doubtful", "new"]
    assert fates(journal, [C, D], set()) == ["doubtful", "new"]
    assert fates(journal, [B, C, D], {3}) == ["there", "there", "new"]


def test_equal_messages_are_not_taken_for_each_other() -> None:
    """All alike: what comes may be others, so nothing is dropped, and what is in doubt is
    flagged."""
    journal = unfinished([A, A, A], 2)
    assert fates(journal, [A, A, A, A], set()) == ["doubtful", "doubtful", "doubtful", "new"]
    assert fates(unfinished([A, A], 2), [A, A, A], set()) == ["doubtful", "doubtful", "new"]


def test_an_id_decides_where_the_order_does_not() -> None:
    one, two = identity(1, True), identity(2, True)
    assert fates(unfinished([one, two], 2), [one, two, D], set()) == ["there", "there", "new"]
    assert fates(unfinished([one, A, two], 2), [two, one], {3}) == ["there", "doubtful"]
    assert fates(unfinished([one, A, two], 1), [two, one], {3}) == ["there", "there"]


def test_what_has_not_come_may_come_late() -> None:
    """Unless something behind it has come: a source gives all back in its order."""
    journal = unfinished([A, B, A], 2)
    assert late(journal, set()) == journal
    assert late(journal, {3}) == []
    assert late(journal, {1, 2}) == journal[2:]
    awaited = Late(journal)
    assert sorted(awaited.numbers) == [1, 2, 3]
    taken = [awaited.take(one) for one in (A, C, A, A, B)]
    assert taken == [journal[0], None, journal[2], None, journal[1]]
    assert awaited.numbers == []


contents = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)


@given(contents, st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.data())
def test_nothing_is_lost(
    given: list[tuple[int, bool]], under_way: int, confirmed: int, settled: int, data: st.DataObject
) -> None:
    """Whatever the source settled and the destination got: after the verdicts each message is at
    the destination at least once, if messages with the same id are the same message; and what is
    there twice was flagged."""
    identities = [identity(*one) for one in given]
    under_way = min(under_way, len(identities))
    confirmed = min(confirmed, under_way)
    settled = min(settled, confirmed)
    journal = unfinished(identities[:under_way], confirmed)
    got = (
        data.draw(st.sets(st.integers(confirmed + 1, under_way)))
        if confirmed < under_way
        else set()
    )
    told = data.draw(st.booleans())
    at_destination = Counter(identities[:confirmed])
    at_destination.update(identities[n - 1] for n in got)
    arrived = identities[settled:]
    flagged: Counter[Identity] = Counter()
    for one, verdict in zip(arrived, judge(journal, arrived, got if told else set()), strict=True):
        if verdict.fate is not Fate.THERE:
            at_destination[one] += 1
        if verdict.fate is Fate.DOUBTFUL:
            flagged[one] += 1
    for one, count in Counter(identities).items():
        assert at_destination[one] >= (1 if one.id else count), (one, at_destination)
        assert at_destination[one] - count <= flagged[one]
