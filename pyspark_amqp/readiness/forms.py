"""The report as tables: CSV files, and on a terminal."""

import csv
import io
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from gateway.inventory.knowledge import SEVERITIES
from gateway.inventory.report import safe_cell
from pyspark_amqp.readiness.counts import UNKNOWN
from pyspark_amqp.readiness.document import READY, Document

STATS = ("messages", "octets", "p50", "p95", "p99", "largest", "first", "last")
TABLES = {
    "protocols": ("protocol", *STATS, "severity", "features", "losses"),
    "clients": ("client", "name", "product", "product_version", "users", "protocols", *STATS,
                "severity", "features", "losses"),
    "users": ("user", *STATS, "severity", "features", "losses"),
    "addresses": ("address", "vhost", "protocols", *STATS, "severity", "features", "losses"),
    "flows": ("client", "user", "protocol", "address", "messages", "octets", "severity", "first",
              "last"),
    "features": ("feature", "title", "messages", "severity", "need", "text", "clients",
                 "addresses", "first", "last"),
    "losses": ("property", "messages", "seen", "severity", "need", "text", "clients", "addresses",
               "first", "last"),
    "usage": ("address", "feature", "messages", "of"),
    "hops": ("hop", "messages", "p50_us", "p95_us", "p99_us"),
}  # fmt: skip
"""Files with their columns."""
COLOURS = {"none": "green", "minor": "blue", "major": "yellow", "blocking": "red"}
WORDS = {"none": "ready", "minor": "ready behind the gateway", "major": "needs work",
         "blocking": "cannot move yet"}  # fmt: skip
"""Severities of a client or an address, as people say it."""
NOT_RECORDED = "not recorded"
MOST_ROWS, BROAD = 30, 110
"""Of a table on the terminal; characters of one that has room for features."""


def cell(value: Any) -> Any:
    """A value as text that no spreadsheet takes for a formula."""
    if isinstance(value, dict):
        value = ", ".join(f"{name} {count}" for name, count in value.items())
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    return safe_cell(value)


def as_csv(document: Document) -> dict[str, str]:
    """Files by name."""
    found = {}
    for name, columns in TABLES.items():
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in document[name]:
            writer.writerow([cell(row[column]) for column in columns])
        found[f"{name}.csv"] = file.getvalue()
    file = io.StringIO()
    writer = csv.writer(file)
    trend = document["trend"]
    writer.writerow(["period", *map(cell, trend["protocols"])])
    rows = zip(trend["periods"], *trend["protocols"].values(), strict=True)
    writer.writerows(rows)
    found["trend.csv"] = file.getvalue()
    return found


def write_csv(document: Document, folder: Path) -> list[Path]:
    """Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in as_csv(document).items():
        path = folder / name
        path.write_text(text, newline="")
        written.append(path)
    return written


def share(part: int, whole: int) -> str:
    """A part in percent, never 0 or 100 by rounding alone."""
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    if part < whole and percent > 99:
        return ">99 %"
    return "<1 %" if percent < 1 else f"{percent:.0f} %"


def octets(number: float) -> str:
    """A size as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def micros(number: float) -> str:
    """A time as people read it."""
    if number < 1000:
        return f"{number:.0f} µs"
    return f"{number / 1000:.1f} ms" if number < 1e6 else f"{number / 1e6:.1f} s"


def plural(number: int, one: str, more: str = "") -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def verdict(document: Document) -> str:
    """The report in a sentence or two."""
    found = document["readiness"]
    total = document["total"]["messages"]
    if not total:
        return "There are no messages to report on."
    ready = sum(found[name]["messages"] for name in READY)
    blocked, working = found["blocking"]["clients"], found["major"]["clients"]
    where = document["target_title"]
    parts = []
    if blocked:
        parts.append(f"{plural(blocked, 'client')} cannot move before "
                     f"{'it is' if blocked == 1 else 'they are'} changed.")  # fmt: skip
    if working:
        parts.append(f"{plural(working, 'client')} {'needs' if working == 1 else 'need'} work.")
    if not parts:
        legacy = found["minor"]["clients"]
        parts.append("All clients can move." if not legacy else "All clients can move, "
                     f"{plural(legacy, 'of them', 'of them')} behind the gateway.")  # fmt: skip
    return f"{share(ready, total)} of the messages are ready for {where}. {' '.join(parts)}"


def notes(document: Document) -> list[str]:
    """How it was counted."""
    sample = document["sample"]
    found = []
    if sample["looked"] < sample["of"]:
        found.append(
            f"Losses on 1.0: {plural(sample['looked'], 'message')} of {sample['of']:,} were "
            f"looked at ({share(sample['looked'], sample['of'])}); their counts are scaled, and "
            "estimates. "
            "All other counts are exact."
        )
    found.append("Sizes, and times per hop, are within 1 %; all other counts are exact."
                 if sample["looked"] == sample["of"]
                 else "Sizes, and times per hop, are within 1 %.")  # fmt: skip
    found.append(
        "The journal has publishers and messages. Consumers, queues, and what clients declare are "
        "in an inventory of the observe mode."
    )
    if document["target_lacks"]:
        found.append(f"The target lacks: {'; '.join(document['target_lacks'])}.")
    if document["target_unknown"]:
        found.append(f"Not found out of the target: {'; '.join(document['target_unknown'])}.")
    return found


def show(document: Document, out: Console) -> None:
    """The report on a terminal."""
    total, found = document["total"], document["readiness"]
    out.print(Text(verdict(document), style="bold"))
    out.print(
        Text(f"{total['messages']:,} messages, {octets(total['octets'])}, "
             f"{document['first']} to {document['last']}; target: {document['target_title']}")
    )  # fmt: skip
    out.print(Text("  ".join(
        f"{WORDS[name]}: {plural(found[name]['clients'], 'client')}, "
        f"{share(found[name]['messages'], total['messages'])} of messages"
        for name in SEVERITIES)))  # fmt: skip
    if document["actions"]:
        table = Table("to do first", "severity", "who acts", "messages", "clients", title="")
        for one in document["actions"]:
            table.add_row(
                Text(f"{one['title']}\n{one['text']}"), severity(one), one["need"],
                f"{one['messages']:,}", str(len(one["clients"])),
            )  # fmt: skip
        out.print(table)
    broad = out.width >= BROAD
    for key, title in (("clients", "client"), ("users", "user"), ("addresses", "address"),
                       ("protocols", "protocol")):  # fmt: skip
        table = Table(Column(title, overflow="fold", min_width=20))
        columns = ("p50", "p95", "largest") if broad else ("p95",)
        for column in ("messages", *columns):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("last seen", no_wrap=True)
        table.add_column("readiness", no_wrap=True)
        if broad:
            table.add_column("features")
        for one in document[key][:MOST_ROWS]:
            sizes = (octets(one[name]) for name in columns)
            features = [Text(", ".join(one["features"]))] if broad else []
            table.add_row(
                Text(one[title] or UNKNOWN), f"{one['messages']:,}", *sizes, one["last"][:10],
                severity(one), *features,
            )  # fmt: skip
        out.print(table)
        if len(document[key]) > MOST_ROWS:
            out.print(f"… and {len(document[key]) - MOST_ROWS} more; see --json, --csv or --html")
    for one in document["losses"][:MOST_ROWS]:
        out.print(Text(f"lost on 1.0: {one['property']}, {one['messages']:,} messages of "
                       f"{', '.join(one['clients'])}"))  # fmt: skip
    times = [
        f"{one['hop']} p50 {micros(one['p50_us'])}, p99 {micros(one['p99_us'])}"
        for one in document["hops"]
    ]
    out.print(Text(f"time per hop: {'; '.join(times) or NOT_RECORDED}"))
    for line in notes(document):
        out.print(Text(line, style="dim"))


def severity(one: Document) -> Text:
    return Text(one["severity"], style=COLOURS[one["severity"]])
