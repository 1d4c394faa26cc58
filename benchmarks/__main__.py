"""`python -m benchmarks [--quick] [--only PATTERN] [--repeat N] [--json FILE]`: one table.

`--markdown FILE` writes it as docs/benchmarks.md has it. Nothing is written down when others kept
the machine busy, or of a quick run, unless `--although-busy` is said. Meanwhile the groups that
have ended are in a file beside that of `--json`, whose name ends in `.part`.
"""

import argparse
import fnmatch
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from benchmarks import (
    canary,
    codec,
    codec_1_0,
    codec_2005,
    crossing,
    facade,
    fanout,
    http,
    journal,
    loads,
    memory,
    pairs,
    pipeline,
    shovels,
    throughput,
    throughput_1_0,
)
from benchmarks.rows import Row, human
from benchmarks.rules import busy_without_us, pace, why_not

GROUPS: list[Callable[[Callable[[str], bool], bool, int], Iterator[Row]]] = [
    codec.rows,
    codec_1_0.rows,
    codec_2005.rows,
    crossing.rows,
    pairs.rows,
    throughput.rows,
    loads.rows,
    throughput_1_0.rows,
    facade.rows,
    shovels.rows,
    journal.rows,
    pipeline.rows,
    http.rows,
    fanout.rows,
    memory.rows,
    canary.rows,
]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short cells: a smoke test")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="rows whose name holds PATTERN (shell wildcards); may be repeated",
    )
    parser.add_argument("--repeat", type=int, default=0, help="interleaved pairs (3; quick 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument(
        "--although-busy",
        action="store_true",
        help="write quick figures too, and those of a machine on which others are busy",
    )
    return parser.parse_args()


def chosen(patterns: list[str]) -> Callable[[str], bool]:
    def wanted(name: str) -> bool:
        plain = name.lower().replace(",", "")
        return not patterns or any(
            fnmatch.fnmatch(plain, f"*{pattern.lower().replace(',', '')}*") for pattern in patterns
        )

    return wanted


def empty_table(title: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("row", "ours", "compared with"):
        table.add_column(name, justify="left" if name == "row" else "right")
    table.add_column("ratio", justify="right")
    table.add_column("min..max", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("note", overflow="fold")
    return table


def add(table: Table, row: Row) -> None:
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    if row.met is not None and row.ratio is not None and row.ceiling is None:
        ratio = f"[{'green' if row.met else 'red'}]{ratio}[/]"
    spread = f"{min(row.ratios):.2f}..{max(row.ratios):.2f}" if len(row.ratios) > 1 else ""
    aim = f"{row.aim:g}x" if row.aim else ""
    if row.ceiling is not None:
        aim = f"< {human(row.ceiling, row.unit)}"
    if row.met is not None:
        aim += " [green]met[/]" if row.met else " [red]missed[/]"
    theirs = human(row.theirs, row.unit) if row.theirs is not None else "-"
    against = f"{row.against} {theirs}" if row.against else "-"
    label = f"{row.group}: {row.name}"
    table.add_row(label, human(row.ours, row.unit), against, ratio, spread, aim, row.note)


def main() -> int:
    options = arguments()
    # Servers are ended, and those that are stopped go on, when this is asked to end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    repeat = options.repeat or (1 if options.quick else 3)
    console = Console(width=None if sys.stdout.isatty() else 170)
    title = f"{platform.python_implementation()} {platform.python_version()}"
    title += f" ({pace():.0f} ns for a turn of a loop)"
    title += f", {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at start"
    before = 0.0 if options.quick else busy_without_us()
    title += f", {repeat} interleaved repeats{', quick' if options.quick else ''}"
    table, found, begun = empty_table(title), [], time.monotonic()
    ended = ""
    partial = options.json and options.json.with_suffix(".part")
    with Live(table, console=console, auto_refresh=False) as live:
        for group in GROUPS:
            try:
                for row in group(chosen(options.only), options.quick, repeat):
                    found.append(row)
                    add(table, row)
                    live.refresh()
            except Exception:  # an hour of other rows is not lost
                console.print_exception()
                ended += f", {group.__module__} ended early"
            if partial is not None:
                record(partial, title + ", not ended", found)
        table.caption = f"{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f} at end"
    if partial is not None:
        partial.unlink(missing_ok=True)
    if options.json or options.markdown:
        reason = why_not(found, before, options.quick, options.although_busy)
        if reason is not None:
            console.print(f"not written down: {reason} (--although-busy)")
            return 2
    write(options, title + ended, found)
    return 1 if ended or not found else 0


def write(options: argparse.Namespace, title: str, found: list[Row]) -> None:
    """Write what was asked for."""
    if options.json:
        record(options.json, title, found)
    if options.markdown:
        options.markdown.write_text("\n".join([title, "", *markdown(found)]) + "\n")


def record(file: Path, title: str, found: list[Row]) -> None:
    content = {"title": title, "rows": [row.as_json() for row in found]}
    file.write_text(json.dumps(content, indent=2) + "\n")


def markdown(found: list[Row]) -> Iterator[str]:
    """The table as docs/benchmarks.md has it."""
    yield "| row | ours | compared with | ratio (min..max) | note |"
    yield "|---|---|---|---|---|"
    for row in found:
        ratio = "-"
        if row.ratio is not None:
            ratio = f"{row.ratio:.2f} ({min(row.ratios):.2f}..{max(row.ratios):.2f})"
        against = f"{row.against} {human(row.theirs, row.unit)}" if row.against else "-"
        ours = human(row.ours, row.unit)
        yield f"| {row.group}: {row.name} | {ours} | {against} | {ratio} | {row.note} |"


if __name__ == "__main__":
    sys.exit(main())
