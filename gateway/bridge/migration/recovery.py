"""The fate of the messages that were under way when a move was interrupted.

A source that gets its messages back delivers them again in their old order. The journal knows
those without an outcome, in the same order: first those that the destination has confirmed
(``settling``), whose settlement the source may have performed up to some point, then those that
were only sent. Where the journal fits on what comes tells how far the settlement got.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from gateway.bridge.migration.identity import Identity


class Unfinished(NamedTuple):
    """A message in the journal without an outcome. ``settling``: the destination has confirmed
    it."""

    number: int
    identity: Identity
    settling: bool


class Fate(Enum):
    """The next step with a message that comes after an interruption."""

    NEW = "new"
    THERE = "there"
    """It is at the destination: settle it."""
    DOUBTFUL = "doubtful"
    """It may be at the destination: publish it with a flag."""


class Verdict(NamedTuple):
    """``number`` is the one that the message has in the journal, 0 if it is not there."""

    fate: Fate
    number: int = 0


NEW = Verdict(Fate.NEW)


def judge(
    unfinished: Sequence[Unfinished], arrived: Sequence[Identity], there: Collection[int]
) -> list[Verdict]:
    """A verdict on each message that came first. ``there`` has the numbers of messages that were
    found at the destination.

    A message is settled without being published only if it is certain that it was: equal messages
    (a source may have many) are told apart by the order alone, and in doubt one comes twice."""
    journal = [one.identity.digest for one in unfinished]
    digests = [one.digest for one in arrived]
    sent = sum(not one.settling for one in unfinished)
    total = len(journal)
    fits = [at for at in range(total - sent + 1) if digests[: total - at] == journal[at:]]
    if not fits:
        return _unordered(unfinished, arrived, there)
    start, least = fits[-1], fits[0]
    if start == total:
        # Nothing has to come back: what fits may be the messages themselves, or others like them.
        again = [_by_id(one, there) for one in unfinished[least:]]
        return again + [NEW] * (len(arrived) - len(again))
    verdicts = [
        Verdict(Fate.THERE if one.settling or one.number in there else Fate.DOUBTFUL, one.number)
        for one in unfinished[start:]
    ]
    settled = Counter(journal[:start])
    for digest in digests[len(verdicts) :]:
        # Like one that was settled: another one, or the source has lost the settlement.
        verdicts.append(Verdict(Fate.DOUBTFUL) if settled[digest] else NEW)
        settled[digest] -= bool(settled[digest])
    return verdicts


def late(unfinished: Sequence[Unfinished], came: Collection[int]) -> list[Unfinished]:
    """Those that may still come, when messages with these numbers have come: a source that has not
    noticed the end of the last connection holds them. As they come in order, those before the
    first that has come are settled."""
    at = next((at for at, one in enumerate(unfinished) if one.number in came), 0)
    return [one for one in unfinished[at:] if one.number not in came]


class Late:
    """The messages that may still come, by identity."""

    def __init__(self, awaited: Sequence[Unfinished]) -> None:
        self._awaited: dict[Identity, list[Unfinished]] = {}
        for one in reversed(awaited):
            self._awaited.setdefault(one.identity, []).append(one)

    @property
    def numbers(self) -> list[int]:
        return [one.number for alike in self._awaited.values() for one in alike]

    def take(self, identity: Identity) -> Unfinished | None:
        """The one that has come with a message, if it may be one of them. Hot."""
        alike = self._awaited.get(identity)
        if alike is None:
            return None
        found = alike.pop()
        if not alike:
            del self._awaited[identity]
        return found


def _by_id(one: Unfinished, there: Collection[int]) -> Verdict:
    """The same id and the same content: the same message."""
    known = (one.settling or one.number in there) and one.identity.id
    return Verdict(Fate.THERE if known else Fate.DOUBTFUL, one.number)


def _unordered(
    unfinished: Sequence[Unfinished], arrived: Sequence[Identity], there: Collection[int]
) -> list[Verdict]:
    """Others have taken some of the messages, or the source keeps another order."""
    left: dict[Identity, list[Unfinished]] = {}
    for one in unfinished:
        left.setdefault(one.identity, []).append(one)
    alike = Counter(arrived)
    verdicts = []
    for identity in arrived:
        known = left.get(identity)
        if not known:
            verdicts.append(NEW)
        elif len(known) == alike[identity] or not identity.id:
            verdicts.append(_by_id(known.pop(0), there))
        else:
            verdicts.append(Verdict(Fate.DOUBTFUL, known.pop(0).number))
    return verdicts
