"""The cost of the journal for publishers: a gateway that records against one that does not."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.drivers import build
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing, gateway
from benchmarks.throughput import DISTURBED, MODES, Run, Side, cell, describe

GROUP = "journal"
SIZES = {"256 B": 256, "1 KiB": 1024}
AIM = 0.85
CELLS = [replace(one, different=True) for one in MODES if one.window]
RULES = '[[journal.recording]]\naddress = "*"\n'


def micro(runs: list[Run]) -> float:
    """Microseconds of the gateway for each message."""
    return statistics.median(run.server_cpu * 1e6 / run.count for run in runs)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """Messages with confirms, whose headers all differ; sealing included."""
    cells = [
        (mode, label, size)
        for mode in CELLS
        for label, size in SIZES.items()
        if wanted(f"{GROUP} {mode.name}, {label}")
    ]
    if not cells:
        return
    try:
        for name in ("producer", "consumer"):
            build(name)
        with tempfile.TemporaryDirectory(prefix="bench-journal-") as folder:
            file = Path(folder) / "gateway.toml"
            file.write_text(RULES)
            with gateway("--config", str(file)) as ours, gateway() as theirs:
                for mode, label, size in cells:
                    row = Row(GROUP, f"{mode.name}, {label}", "msg/s", against="off", aim=AIM)
                    sides = [Side(ours), Side(theirs)]
                    cell(sides, mode, size, 0.4 if quick else 3.0, repeat)
                    compare(row, *([run.rate for run in side.runs] for side in sides))
                    on, off = (side.runs for side in sides)
                    row.detail = {"ours": describe(on), "theirs": describe(off)}
                    row.note = f"gateway {micro(on):.1f} us, off {micro(off):.1f} us"
                    others = max(run.others for run in on + off)
                    if others > DISTURBED:
                        row.note += f"; others kept {others:.1f} processors busy"
                    yield row
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
