"""The ring, its cursor and its gaps: exact continuation or an honest gap, whatever happens."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from gateway.http.events.cursor import Cursors, Forged, digest_of
from gateway.http.events.journal import Gap, Journal
from gateway.http.octets import Chunks

EPOCH = b"epoch"


def frame(number: int) -> bytes:
    return b"<%d>" % number


def numbers(chunk: bytes | Chunks) -> list[int]:
    return [int(part) for part in bytes(chunk).decode().strip("<>").split("><") if part]


class Readers(RuleBasedStateMachine):
    """Writers append, readers come, go and come back with the cursor of what they last got."""

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.cursors = Cursors(b"secret")
        self.key = digest_of("/", "exchange:x?binding=#") + EPOCH
        self.journal = Journal(max_events=5, max_octets=40)
        self.written: list[int] = []

    @rule(number=st.integers(0, 10**6))
    def append(self, number: int) -> None:
        self.journal.append(frame(number))
        self.written.append(number)

    @rule(target=readers)
    def connect(self) -> list[str]:
        return [self.cursor(self.journal.head).decode()]

    def cursor(self, position: int) -> bytes:
        return self.cursors.seal([(self.key, position)])

    @rule(reader=readers, limit=st.integers(1, 30))
    def reconnect_and_read(self, reader: list[str], limit: int) -> None:
        positions = self.cursors.open(reader[0])
        assert positions is not None
        position = positions[self.key]
        gap = self.journal.gap(position)
        expected = self.written[position:]
        if gap is not None:
            assert gap.start == position + 1
            assert gap.lost is not None
            assert gap.lost == gap.end - position
            expected = expected[gap.lost :]
            position = gap.end
        chunk, reached = self.journal.read(position, limit)
        got = numbers(chunk)
        assert got == expected[: len(got)]
        assert reached == position + len(got)
        assert got or not expected
        reader[0] = self.cursor(reached).decode()

    @invariant()
    def bounded(self) -> None:
        journal = self.journal
        assert len(journal) <= 5
        assert journal.octets <= 40 or len(journal) == 1
        kept, reached = journal.frames(journal.first - 1)
        assert sum(map(len, kept)) == journal.octets
        assert reached == journal.head


TestReaders = Readers.TestCase


def test_readers_at_one_place_share_one_object() -> None:
    journal = Journal(10, 1000)
    for number in range(4):
        journal.append(frame(number))
    assert journal.read(1)[0] is journal.read(1)[0]
    journal.append(frame(4))
    assert numbers(journal.read(1)[0]) == [1, 2, 3, 4]


def test_one_event_is_kept_however_large() -> None:
    journal = Journal(10, 10)
    journal.append(b"x" * 5)
    journal.append(b"y" * 50)
    assert journal.read(0) == (b"y" * 50, 2)
    assert journal.gap(0) == Gap(1, 1, 1)


def test_pinned_events_are_never_evicted() -> None:
    journal = Journal(2, 10)
    journal.pin = 0
    for number in range(5):
        journal.append(frame(number))
    assert numbers(journal.read(0)[0]) == [0, 1, 2, 3, 4]
    journal.pin = 5
    journal.append(frame(5))
    assert journal.gap(0) is not None
    assert journal.octets <= 10


def test_a_ring_grows_to_its_bound() -> None:
    journal = Journal(150, 10**6)
    for number in range(400):
        assert journal.append(frame(number)) == number + 1
        assert len(journal) == min(number + 1, 150)
    assert numbers(journal.read(0)[0]) == list(range(250, 400))


def test_voided_events_leave_holes_and_their_numbers_are_not_used_again() -> None:
    journal = Journal(10, 1000)
    for number in range(4):
        journal.append(frame(number))
    journal.read(0)
    journal.void(2)
    assert journal.read(0) == (b"<0><1>", 4)
    assert journal.append(frame(9)) == 5
    assert journal.read(3) == (b"<9>", 5)
    assert journal.gap(2) is None


@given(st.binary(max_size=40), st.lists(st.integers(0, 2**40 - 1), max_size=64))
def test_a_cursor_opens_to_its_position(secret: bytes, positions: list[int]) -> None:
    cursors = Cursors(secret)
    pairs = [(digest_of("/", f"queue:{n}") + EPOCH, at) for n, at in enumerate(positions)]
    text = cursors.seal(pairs).decode()
    assert len(text) <= 1400
    assert cursors.open(text) == dict(pairs)


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_changed_cursor_is_forged_or_unknown(place: int, bit: int) -> None:
    cursors = Cursors(b"secret")
    text = cursors.seal([(digest_of("/", "queue:a") + EPOCH, 7)])
    changed = bytearray(text)
    changed[place % len(changed)] ^= 1 << bit
    with contextlib.suppress(Forged):
        assert cursors.open(changed.decode("latin-1")) is None


def test_foreign_cursors_are_unknown_and_altered_ones_forged() -> None:
    ours, theirs = Cursors(b"secret"), Cursors(b"other")
    key = digest_of("/", "queue:a") + EPOCH
    assert ours.open("17") is None
    assert ours.open(theirs.seal([(key, 1)]).decode()) is None
    odd = ours.sealing.seal(b"1234567").decode()
    for text in ("b1.", "b1.!!!!", "b1.AAAA", "b1." + "A" * 2000, "b1.\u00e9", "b1." + odd):
        with pytest.raises(Forged):
            ours.open(text)
