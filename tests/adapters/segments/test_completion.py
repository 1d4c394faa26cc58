"""Numbers of commands and sets of them, also where 32 bits wrap around."""

import random
from itertools import pairwise

from gateway.adapters.segments.completion import (
    MOST_GAPS,
    SERIALS,
    ReceivedCommands,
    SentCommands,
    unwrapped,
)


def test_ranges_of_the_peer_get_all_their_bits() -> None:
    following = (1 << 33) + 5
    assert unwrapped(((0, 4),), following) == [(1 << 33, (1 << 33) + 4)]
    assert unwrapped(((SERIALS - 1, 2),), following) == [((1 << 33) - 2, (1 << 33) + 2)]
    assert unwrapped(None, following) == []


def test_numbers_that_never_were_are_left_out() -> None:
    assert unwrapped(((3, 9),), 5) == [(3, 4)]
    assert unwrapped(((7, 9),), 5) == []
    assert unwrapped(((0, SERIALS),), 5) == [(0, 4)]


def test_what_is_complete_has_gaps_and_wraps_around() -> None:
    received = ReceivedCommands()
    received.begin(SERIALS - 1)
    numbers = [received.next() for _ in range(5)]
    assert received.complete_ranges() == ()
    for number in (numbers[0], numbers[2], numbers[4]):
        del received.pending[number]
    assert received.complete_ranges() == ((SERIALS - 1, SERIALS - 1), (0, 0), (2, 2))
    assert received.oldest == SERIALS
    received.pending.clear()
    assert received.complete_ranges() == ((SERIALS - 1, 2),)


def test_what_the_peer_knows_is_not_told_again() -> None:
    received = ReceivedCommands()
    for _ in range(10):
        received.next()
    del received.pending[0], received.pending[1]
    received.known(((0, 1),))
    assert received.complete_ranges() == ()
    received.known(((0, 9),))  # it cannot know what is not complete
    received.pending.clear()
    assert received.complete_ranges() == ((2, 9),)
    received.known(((5, 9),))  # and what lies before stays unknown to it
    assert received.complete_ranges() == ((2, 9),)


def test_a_set_has_so_many_gaps_and_no_more() -> None:
    received = ReceivedCommands()
    for _ in range(4 * MOST_GAPS):
        received.next()
    for number in range(0, 4 * MOST_GAPS, 2):
        del received.pending[number]
    assert len(received.complete_ranges()) == MOST_GAPS


def test_taking_agrees_with_a_plain_dictionary() -> None:
    chance = random.Random(7)
    sent: SentCommands[int] = SentCommands()
    plain: dict[int, int] = {}
    taken: dict[int, int] = {}
    for number in range(1, 3000):
        if chance.random() < 0.8:
            sent.add(number, number * 2)
            plain[number] = number * 2
        if chance.random() < 0.3:
            first = chance.randrange(max(1, number - 60), number + 1)
            last = first if chance.random() < 0.3 else chance.randrange(first, number + 2)
            wanted = {each: plain[each] for each in range(first, last + 1) if each in plain}
            assert sent.look([(first, last)]) == wanted
            taken = sent.take([(first, last)])
            assert taken == wanted
            for each in wanted:
                del plain[each]
        if chance.random() < 0.05:
            sent.restore(taken)
            plain.update(taken)
            taken = {}
        assert len(sent) == len(plain)


def test_sets_agree_with_a_plain_dictionary() -> None:
    """Many ranges, in any order and over each other."""
    chance = random.Random(8)
    for _ in range(200):
        sent: SentCommands[int] = SentCommands()
        plain = {number: -number for number in range(300) if chance.random() < 0.8}
        for number, value in plain.items():
            sent.add(number, value)
        for _ in range(3):
            firsts = [chance.randrange(310) for _ in range(chance.randrange(40))]
            pairs = [(first, first + chance.randrange(9)) for first in firsts]
            ranges = unwrapped(tuple(pairs), 300)
            assert all(one[1] < other[0] for one, other in pairwise(ranges))
            wanted = {n: plain[n] for n in plain if any(low <= n <= high for low, high in pairs)}
            assert sent.look(ranges) == sent.take(ranges) == wanted
            for number in wanted:
                del plain[number]
            assert len(sent) == len(plain) and sent.look([(0, 299)]) == plain


def test_a_set_costs_no_more_than_what_it_names() -> None:
    """Ranges over each other name each command once; and what is gone is not looked at again."""
    sent: SentCommands[int] = SentCommands()
    for number in range(10_000):
        sent.add(number, number)
    assert unwrapped(tuple((number, 9999) for number in range(8000)), 10_000) == [(0, 9999)]
    for number in range(9990):
        sent.take([(number, number)])
    assert len(sent.look([(0, 9999)])) == 10 and len(sent._numbers) < 100


def test_stale_numbers_are_dropped() -> None:
    """Settling one by one, the newest first, leaves no list of what is gone."""
    sent: SentCommands[int] = SentCommands()
    sent.add(1, 1)
    for number in range(2, 10_000):
        sent.add(number, number)
        assert sent.take([(number, number)])
    assert len(sent) == 1 and len(sent._numbers) < 200
