"""Plans for headers of one size: what a ``Plan`` writes, with nothing left to do but to put the
values in."""

from collections.abc import Callable, Container, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from gateway.adapters.core.templates import Both, Place, Template
from gateway.crossing.plans import (
    OF_WHOLE,
    UNREAD,
    Plan,
    Slot,
    Write,
    as_it_is,
    both,
    digest,
    is_whole,
)

MOST_FRAMES = 32
"""Frames that a plan keeps, for other lengths of exchange and routing key."""

T = TypeVar("T")
Pick = Callable[[Sequence[bytes]], Sequence[bytes]]


class Frame(NamedTuple):
    """The octets of a header around values of certain sizes: ``parts`` with room for a value at
    each odd place. ``pick`` gives these from the octets of the template, as they stand there but
    those that are ``transferred`` (place, index among the octets, conversion), and those that were
    written already, as the ``narrowed`` ones that a header has (place, which of these)."""

    parts: list[bytes]
    pick: Pick
    transferred: list[tuple[int, int, Write]]
    narrowed: list[tuple[int, int]]


class Tally:
    """A number of messages."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class SizedPlan:
    """Writes headers like one that has a plan: with values of the same sizes at the same places,
    as its ``template`` says. Exchange and routing key are values too, unless messages with the same
    come one after the other."""

    __slots__ = (
        "template", "correlation", "fidelity", "tally", "_plan", "_split", "_made", "_whole",
        "_narrowed", "_few", "_before", "_exchange", "_key", "_steady", "_usual", "_frames",
    )  # fmt: skip

    def __init__(self, header: bytes, places: list[Place], plan: Plan, tally: Tally) -> None:
        """``places``: of the values of the plan. ``tally``: messages of its fidelity."""
        seconds = {slot.value for slot in plan.slots if slot.sized and slot.transfer in OF_WHOLE}
        self._whole: set[int] = set()
        """Values that must be whole seconds, which their transfer tells: it raises an error."""
        places = places.copy()
        for value, place in enumerate(places):
            check = place.check
            if value in seconds and isinstance(check, Both) and check.other is is_whole:
                self._whole.add(value)
                places[value] = place._replace(check=check.one)
        self.template = Template(header, places, self)
        self._split = self.template.split
        self._plan = plan
        self._made = None if plan.made is None else tuple(2 * value + 1 for value in plan.made)
        """As in the plan, the indices among the octets of the template."""
        self.correlation = plan.correlation
        self.fidelity = plan.fidelity
        self.tally = tally if plan.correlation < 0 and isinstance(plan.fidelity, str) else None
        """``None`` if a message may need more than its header, or references, say: a capsule."""
        narrowed = [slot for slot in plan.slots if not slot.sized]
        self._narrowed = [(index_of(slot), both(slot.transfer, slot.write)) for slot in narrowed]
        """Values whose size in the header depends on their own octets."""
        self._few: list[tuple[int, Container[bytes]]] | None = [
            (index_of(slot), slot.few) for slot in narrowed
            if slot.few is not None and slot.transfer is as_it_is
        ]  # fmt: skip
        """These, and which of their octets make them smaller than usual; ``None`` if that cannot be
        told for all."""
        if len(self._few) < len(narrowed):
            self._few = None
        self._before: tuple[str | int, ...] = ()
        """Exchange, routing key and sizes of what was narrowed of the message before."""
        self._exchange = self._key = ""
        """Those in ``_steady`` and ``_usual``."""
        self._steady: dict[int, Frame] = {}
        """By the widths of narrowed values, an octet for each: these are not in it."""
        self._usual: Frame | None = None
        """The one for narrowed values of their usual sizes, as for all others."""
        self._frames: dict[tuple[int, int, int], Frame] = {}
        """By the octets of exchange and routing key, and these widths: none of them is in it."""

    def converted(self, header: bytes, exchange: str, key: str) -> bytes | None:
        """The header in the other dialect; ``None`` if it is not like that of the template. Hot."""
        try:
            octets = self._split(header)
            if octets is None:
                return None
            made = self._made
            if made is not None and digest(octets[made[1]]) != octets[made[0]]:
                return None
            frame = self._usual
            if frame is None or key != self._key or exchange != self._exchange:
                return self._narrower(octets, exchange, key)
            for index, few in self._few or ():
                if octets[index] in few:
                    return self._narrower(octets, exchange, key)
            parts = frame.parts.copy()
            parts[1::2] = frame.pick(octets)
            for at, index, transfer in frame.transferred:
                parts[at] = transfer(octets[index])
            return b"".join(parts)
        except UNREAD:
            return None

    def _narrower(self, octets: Sequence[bytes], exchange: str, key: str) -> bytes:
        """The same for another exchange or routing key, and for narrowed values. Hot."""
        narrowed: list[bytes] = []
        widths = 0
        for index, write in self._narrowed:
            written = write(octets[index])
            narrowed.append(written)
            widths = widths << 8 | len(written)
        if key == self._key and exchange == self._exchange:
            frame = self._steady.get(widths)
            if frame is None:
                frame = self._framed(octets, exchange, key, False, False)
                keep(self._steady, widths, frame)
            usual = self._few is not None and not any(octets[at] in few for at, few in self._few)
            if usual and self._usual is None:
                self._usual = self._framed(octets, exchange, key, False, True)
        else:
            if self._before == (exchange, key):
                self._exchange, self._key = exchange, key
                self._steady.clear()
                self._usual = None
            self._before = exchange, key
            given = octets
            octets = *given, exchange.encode(), b"", key.encode()
            sizes = len(octets[-3]), len(octets[-1]), widths
            frame = self._frames.get(sizes)
            if frame is None:
                frame = self._framed(given, exchange, key, True, False)
                keep(self._frames, sizes, frame)
        parts = frame.parts.copy()
        parts[1::2] = frame.pick(octets)
        for at, index, transfer in frame.transferred:
            parts[at] = transfer(octets[index])
        for at, index in frame.narrowed:
            parts[at] = narrowed[index]
        return b"".join(parts)

    def _framed(
        self, octets: Sequence[bytes], exchange: str, key: str, passing: bool, usual: bool
    ) -> Frame:
        """Join all parts but those of the values, and of exchange and routing key if they are only
        ``passing``. ``usual``: so are the sizes of all values."""
        values = *octets[1::2], exchange.encode(), key.encode()
        count = len(values) if passing else len(values) - 2
        slots = {slot.at: slot for slot in self._plan.slots if slot.value < count}
        parts: list[bytes] = []
        indices: list[int] = []
        transferred: list[tuple[int, int, Write]] = []
        narrowed: list[tuple[int, int]] = []
        joined = b""
        for at, part in enumerate(self._plan.written(values)):
            slot = slots.get(at)
            if slot is None:
                joined += part
                continue
            place = len(parts) + 1
            indices.append(index_of(slot))
            if not slot.sized and not usual:
                narrowed.append((place, len(narrowed)))
            else:
                joined += part[: len(part) - len(slot.transfer(values[slot.value]))]
                transfer = slot.transfer
                if slot.value in self._whole:
                    transfer = OF_WHOLE.get(transfer, transfer)
                if transfer is not as_it_is:
                    transferred.append((place, index_of(slot), transfer))
            parts += joined, b""
            joined = b""
        parts.append(joined)
        return Frame(parts, pick(indices), transferred, narrowed)


def pick(indices: list[int]) -> Pick:
    """A function that gives the octets with these indices."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda octets: [octets[index] for index in indices]


def index_of(slot: Slot) -> int:
    """Where its value stands among the octets of a template, and of exchange and routing key behind
    these."""
    return 2 * slot.value + 1


def keep(frames: dict[T, Frame], sizes: T, frame: Frame) -> None:
    if len(frames) >= MOST_FRAMES:
        frames.clear()
    frames[sizes] = frame
