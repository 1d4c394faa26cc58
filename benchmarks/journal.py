"""The cost of the journal for publishers: a gateway that records against one that does not, with
the clients of *throughput*, which need less of the processors than any real client, and with
RabbitMQ's PerfTest, a client as people run it.

Where processors share a core or a cache, whatever runs on one costs a process on another something.
A gateway that does not record beside a process that only spins shows how much."""

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.drivers import build
from benchmarks.loads import Found, Passage, perf_test
from benchmarks.rows import Row, compare
from benchmarks.rules import alone, note_disturbance, undisturbed
from benchmarks.servers import Failed, Missing, Server, gateway
from benchmarks.throughput import MODES, Mode, Run, Side, cell, describe

GROUP = "journal"
SIZES = {"256 B": 256, "1 KiB": 1024}
AIM = 0.85
CELLS = [replace(one, different=True) for one in MODES if one.window]
RULES = '[[journal.recording]]\naddress = "*"\n'


@contextlib.contextmanager
def spinning() -> Iterator[None]:
    """A process of the lowest priority that never rests."""
    command = [sys.executable, "-c", "import os; os.nice(19)\nwhile True: pass"]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def micro(runs: list[Run]) -> float:
    """Microseconds of the gateway for each message."""
    return statistics.median(run.server_cpu * 1e6 / run.count for run in runs)


def against_off(row: Row, ours: list[Run], off: list[Run]) -> Row:
    """A row that compares these runs with those of a gateway that does not record."""
    compare(row, [run.rate for run in ours], [run.rate for run in off])
    row.detail = {"ours": describe(ours), "theirs": describe(off)}
    row.note = f"gateway {micro(ours):.1f} us, off {micro(off):.1f} us"
    note_disturbance(row, off)
    return row


def perf_test_row(name: str, ours: Server, off: Server, passage: Passage, repeat: int) -> Row:
    """The same with PerfTest, in turns, after a passage of warm-up."""

    def run(server: Server) -> Found:
        with alone(server, [ours, off]):
            return passage(server, 0)

    both = (ours, off)
    for server in both:
        run(server)
    turns = [[undisturbed(partial(run, server)) for server in both] for _ in range(repeat)]
    on, without = ([turn[side] for turn in turns] for side in range(2))
    row = Row(GROUP, name, "msg/s", against="off", aim=AIM)
    compare(row, [one.figures[""] for one in on], [one.figures[""] for one in without])
    micro = [statistics.median(one.server_us for one in found) for found in (on, without)]
    row.note = "gateway {:.1f} us, off {:.1f} us".format(*micro)
    note_disturbance(row, on + without)
    return row


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """Messages with confirms, whose headers all differ; sealing included."""

    def chosen(driver: str) -> list[tuple[Mode, str, int]]:
        """Modes, names and sizes of the wanted rows with these clients."""
        every = [
            (mode, f"{driver}{mode.name}, {label}", size)
            for mode in CELLS
            for label, size in SIZES.items()
        ]
        return [one for one in every if wanted(f"{GROUP} {one[1]}")]

    cells, third_party = chosen(""), chosen("PerfTest, ")
    if not cells and not third_party:
        return
    seconds = 0.4 if quick else 3.0
    try:
        for driver in ("producer", "consumer"):
            build(driver)
        with tempfile.TemporaryDirectory(prefix="bench-journal-") as folder:
            file = Path(folder) / "gateway.toml"
            file.write_text(RULES)
            with gateway("--config", str(file)) as ours, gateway() as theirs:
                for mode, name, size in cells:
                    sides = [Side(ours), Side(theirs), Side(theirs, beside=spinning)]
                    cell(sides, mode, size, seconds, repeat)
                    on, off, beside = (side.runs for side in sides)
                    yield against_off(Row(GROUP, name, "msg/s", against="off", aim=AIM), on, off)
                    row = Row(
                        GROUP, f"{name}, off beside a spinning process", "msg/s", against="off"
                    )
                    yield against_off(row, beside, off)
                for mode, name, size in third_party:
                    passage = perf_test(
                        max(3, int(3 * seconds)), size, confirmed=True, durable=mode.durable
                    )
                    yield perf_test_row(name, ours, theirs, passage, repeat)
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
