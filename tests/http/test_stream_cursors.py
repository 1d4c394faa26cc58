"""Cursors of stream queues: positions that every gateway understands, whatever its secret is."""

import pytest

from gateway.http.events.cursor import DIGEST_OCTETS, ELSEWHERE, Cursors, digest_of
from gateway.http.sealing import Forged

ONE, TWO = Cursors(b"1" * 32), Cursors(b"2" * 32)
LOG, OTHER = digest_of("/", "queue:log"), digest_of("/", "queue:other")
JOURNAL = ONE.digest("/", "exchange:news") + b"epoch"


@pytest.mark.parametrize("offset", [0, 1, 255, 2**32, 2**48 - 1])
def test_another_gateway_opens_it(offset: int) -> None:
    text = ONE.seal([(LOG, offset)])
    assert text == TWO.seal([(LOG, offset)])
    assert ONE.open(text.decode()) == TWO.open(text.decode()) == {LOG: offset}


def test_several_stream_queues() -> None:
    positions = {LOG: 5, OTHER: 7}
    assert TWO.open(ONE.seal(positions.items()).decode()) == positions


def test_journals_stay_with_their_gateway() -> None:
    """The other one knows that there was something more."""
    text = ONE.seal([(JOURNAL, 3), (LOG, 5)]).decode()
    assert ONE.open(text) == {JOURNAL: 3, LOG: 5}
    assert TWO.open(text) == {LOG: 5, ELSEWHERE: 0}
    assert len(ONE.seal([(JOURNAL, 3)] * 32 + [(LOG, 5)] * 32)) < 1400


def test_the_same_length_for_every_offset() -> None:
    assert len({len(ONE.seal([(LOG, offset)])) for offset in (0, 77, 2**40)}) == 1


def test_names_of_sources_are_told_apart() -> None:
    digests = {digest_of(v, s) for v in ("/", "shop") for s in ("queue:log", "route:log")}
    assert len(digests) == 4 and all(len(one) == DIGEST_OCTETS for one in digests)


@pytest.mark.parametrize("damage", ["", "s1.", "s1.AAAA", "s1.!!!!", "s1." + "A" * 2000])
def test_damaged_cursors_are_noticed(damage: str) -> None:
    if not damage:
        text = ONE.seal([(LOG, 9)]).decode()
        for at in range(3, len(text) - 1):
            changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
            with pytest.raises(Forged):
                ONE.open(changed)
        return
    with pytest.raises(Forged):
        ONE.open(damage)


def test_a_damaged_seal_behind_it_is_noticed() -> None:
    text = ONE.seal([(JOURNAL, 3), (LOG, 5)]).decode()
    with pytest.raises(Forged):
        ONE.open(text[:-2] + ("AA" if text[-2:] != "AA" else "BA"))
