"""Rules of all rows: which brokers run, warm-up, and when figures may be written down."""

import contextlib
import os
import signal
import time
import timeit
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from benchmarks.rows import Row
from benchmarks.servers import Server, machine_busy

BUSY = 0.2
"""Processors that third parties may keep busy while figures are made that are written down."""
JAVA_WARM_UP = 250_000
"""Messages that a broker in Java carries before it is measured: its compiler needs them."""
HEADERS = ("unique", "same")
"""``unique``: each message has a message id, a timestamp and a trace header of its own."""
PROBE_SECONDS = 2.0
TRIES = 5
"""How often at most a passage is measured that third parties disturb."""


class ThirdParties:
    """Those that keep processors busy from now on, beside the processes of a passage."""

    def __init__(self) -> None:
        self._begun, self._busy = time.monotonic(), machine_busy()

    def busy(self, ours: float = 0.0) -> float:
        """How many processors they have kept busy. ``ours``: seconds of processors that the servers
        and drivers of the passage took."""
        foreign = machine_busy() - self._busy - ours
        return max(foreign, 0.0) / (time.monotonic() - self._begun)


class Measured(Protocol):
    """A passage. ``others``: processors that third parties kept busy meanwhile."""

    @property
    def others(self) -> float: ...


class Figures(dict[str, Any]):
    """The figures of a passage, by name."""

    @property
    def others(self) -> float:
        return float(self["others"])


M = TypeVar("M", bound=Measured)


def undisturbed(measure: Callable[[], M], tries: int = TRIES) -> M:
    """The first passage in which third parties kept no more than ``BUSY`` processors busy, or the
    quietest of all tries."""
    found = measure()
    for _ in range(tries - 1):
        if found.others <= BUSY:
            break
        found = min(found, measure(), key=lambda one: one.others)
    return found


def note_disturbance(row: Row, passages: Iterable[Measured]) -> None:
    """The most that third parties kept busy in these passages goes into the row, and into its note
    if it is too much."""
    row.others = max(one.others for one in passages)
    if row.others > BUSY:
        row.note = f"{row.note}; others kept {row.others:.1f} processors busy".strip("; ")


@contextlib.contextmanager
def alone(server: Server, others: Iterable[Server]) -> Iterator[None]:
    """The other servers are stopped (SIGSTOP) for as long as the block."""
    stopped: list[int] = []
    try:
        for other in others:
            if other is server:
                continue
            for pid in other.family():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def busy_without_us(seconds: float = PROBE_SECONDS) -> float:
    """Processors that are kept busy while nothing of ours runs."""
    all_others = ThirdParties()
    time.sleep(seconds)
    return all_others.busy()


def pace() -> float:
    """Nanoseconds of a turn of a small loop, the least of some: builds of the same version of
    Python that are optimized by a profile, and those that are not, differ by up to a half."""
    turns = 20_000
    code = "for n in turns: pair = (n, n + 1); table[n & 7] = pair"
    given = {"turns": range(turns), "table": {}}
    return min(timeit.repeat(code, globals=given, number=1, repeat=20)) / turns * 1e9


def why_not(rows: Iterable[Row], before: float, quick: bool, allowed: bool) -> str | None:
    """Why these figures are not written down; ``None``: they may be. ``before``: processors that
    were busy before and between the rows; ``allowed``: they are wanted all the same."""
    if allowed:
        return None
    if quick:
        return "they are of a quick run"
    most = max([before, *(row.others for row in rows if row.others is not None)])
    return f"third parties kept {most:.2f} processors busy" if most > BUSY else None
