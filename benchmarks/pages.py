"""Puts measured rows into the pages of docs/ that show them.

    python -m benchmarks.pages [--anew] [FILE ...]

Rows of these files, as ``python -m benchmarks --markdown FILE`` writes them, replace those of
docs/benchmark-table.md; a row that is new there stands behind the last of its group. Then every
table below a comment ``<!-- rows: PATTERN; PATTERN -->`` in the other pages is written again with
the rows of that page whose labels match, and in tables below ``<!-- ratios -->`` the ratios are."""

import argparse
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent.parent / "docs"
TABLE = "benchmark-table.md"
PAGES = ("benchmarks.md", "compare.md")
HEAD = ["| row | ours | compared with | ratio (min..max) | note |", "|---|---|---|---|---|"]
PEER = re.compile(r"(?P<name>.*?) (?:-|[\d,.]+ ?\S*)")
"""A name and a figure, or a name without one."""
ROWS = re.compile(r"<!-- rows: (?P<patterns>.*) -->")
RATIOS = "<!-- ratios -->"


class Line(NamedTuple):
    """One row of the table; ``peer`` is empty where there is none."""

    label: str
    peer: str
    text: str

    @property
    def group(self) -> str:
        return self.label.partition(": ")[0]

    @property
    def ratio(self) -> str:
        """The median alone."""
        return cells(self.text)[3].partition(" ")[0]


def cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.strip().strip("|").split("|")]


def lines_in(text: str) -> list[Line]:
    """The rows of a text, in order."""
    found = []
    for line in text.splitlines():
        if line.startswith("| ") and ": " in line and len(row := cells(line)) == 5:
            peer = PEER.fullmatch(row[2])
            found.append(Line(row[0], "" if peer is None else peer["name"], line))
    return found


def merged(known: list[Line], newer: Iterable[Line]) -> list[Line]:
    """The known rows, and newer ones in their places."""
    found = list(known)
    for line in newer:
        at = [n for n, one in enumerate(found) if one[:2] == line[:2]]
        if at:
            found[at[0]] = line
            continue
        group = [n for n, one in enumerate(found) if one.group == line.group]
        found.insert(group[-1] + 1 if group else len(found), line)
    return found


def with_rows(page: str, lines: list[Line]) -> str:
    """A page with its tables written again. Raises ``LookupError`` for a table without rows, or
    with a row that is not known."""
    return "\n".join(_with_rows(page.split("\n"), lines))


def _with_rows(page: list[str], lines: list[Line]) -> Iterator[str]:
    rest = iter(page)
    for line in rest:
        yield line
        if wanted := ROWS.fullmatch(line):
            patterns = wanted["patterns"].split("; ")
            chosen = [
                one.text
                for one in lines
                if any(fnmatchcase(one.label, pattern) for pattern in patterns)
            ]
            if not chosen:
                raise LookupError(f"no row is like {wanted['patterns']}")
            yield from ["", *HEAD, *chosen, ""]
            _table(rest)
        elif line == RATIOS:
            table = _table(rest)
            yield from ["", *table[:2]]
            for row in table[2:]:
                label, peer, *_ = cells(row)
                yield f"| {label} | {peer} | {_ratio(lines, label, peer)} |"
            yield ""


def _table(rest: Iterator[str]) -> list[str]:
    """Take the table that comes next, with one empty line before it and one behind it."""
    found: list[str] = []
    for line in rest:
        if line:
            found.append(line)
        elif found:
            break
    return found


def _ratio(lines: list[Line], label: str, peer: str) -> str:
    for one in lines:
        if one[:2] == (label, peer):
            return one.ratio
    raise LookupError(f"no row is {label} against {peer}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages")
    parser.add_argument("files", nargs="*", type=Path, help="tables that --markdown has written")
    parser.add_argument("--anew", action="store_true", help="forget the rows that they have not")
    options = parser.parse_args()
    table = (DOCS / TABLE).read_text()
    lines = lines_in(table)
    newer = [line for file in options.files for line in lines_in(file.read_text())]
    lines = merged([] if options.anew else lines, newer)
    head = table.partition(HEAD[0])[0].rstrip("\n")
    (DOCS / TABLE).write_text("\n".join([head, "", *HEAD, *(one.text for one in lines), ""]))
    for name in PAGES:
        page = DOCS / name
        page.write_text(with_rows(page.read_text(), lines))


if __name__ == "__main__":
    main()
