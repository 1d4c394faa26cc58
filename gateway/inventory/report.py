"""The report of an inventory: features of each client and node, and their needs at a target. And
the difference of two inventories."""

import csv
import html
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from gateway.inventory.inventory import ClientEntry, Features, Inventory, NodeEntry
from gateway.inventory.knowledge import SEVERITIES, TARGETS, UNKNOWN, Severity, knowledge


class Finding(NamedTuple):
    """A feature that a client or a node uses, and its needs."""

    scope: str
    """ "client" or "node"."""
    id: str
    """The client's number, or virtual host, kind and name of the node."""
    label: str
    feature: str
    title: str
    seen: int
    """How often."""
    first: str
    last: str
    severity: Severity
    need: str
    text: str
    details: str


def moment(seconds: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""


def client_label(client: ClientEntry) -> str:
    who = client.identity
    product = " ".join(part for part in (who.product, who.product_version) if part)
    parts = (who.name, product, who.version, f"{who.user}@{who.host}" if who.user else who.host)
    return ", ".join(part for part in parts if part)


def node_label(node: NodeEntry) -> str:
    vhost, kind, name = node.key
    where = f" in {vhost}" if vhost not in ("", "/") else ""
    return f"{kind} {name or '(default)'}{where}"


def severity_order(severity: Severity) -> int:
    return SEVERITIES.index(severity)


def findings(inventory: Inventory, target: str) -> list[Finding]:
    """All findings, by client and node, the worst first."""
    found = []
    for client in inventory.clients.values():
        found += _of("client", client.id, client_label(client), client.features, target)
    for node in inventory.nodes.values():
        found += _of("node", " ".join(node.key), node_label(node), node.features, target)
    return found


def _of(scope: str, name: str, label: str, features: Features, target: str) -> list[Finding]:
    found = []
    for feature, usage in features.used.items():
        known = knowledge().get(feature, UNKNOWN)
        advice = known.on(target)
        samples = features.details.get(feature)
        details = ", ".join(list(samples.counts)[:5]) if samples else ""
        found.append(
            Finding(
                scope,
                name,
                label,
                feature,
                known.title,
                usage.count,
                moment(usage.first),
                moment(usage.last),
                advice.severity,
                advice.need,
                advice.text,
                details,
            )  # fmt: skip
        )
    return sorted(found, key=lambda one: (-severity_order(one.severity), one.feature))


def worst(found: Iterable[Finding]) -> Severity:
    """The worst severity of some findings."""
    return max((one.severity for one in found), key=severity_order, default="none")


def ready(inventory: Inventory) -> list[ClientEntry]:
    """Clients that speak 1.0 already: they need no gateway."""
    return [one for one in inventory.clients.values() if one.identity.version == "1.0"]


# --- forms ----------------------------------------------------------------------------------------


def as_json(inventory: Inventory, target: str) -> str:
    """The report for programs, with the counts of each client and node."""
    found = findings(inventory, target)
    document = inventory.written()
    return json.dumps(
        {
            "target": target,
            "worst": worst(found),
            "summary": {name: sum(one.severity == name for one in found) for name in SEVERITIES},
            "needs_no_gateway": [client.id for client in ready(inventory)],
            "findings": [one._asdict() for one in found],
            **{
                key: document[key]
                for key in ("upstream", "started", "counts", "clients", "nodes", "undecoded")
            },
        },
        indent=2,
    )


def safe_cell(value: object) -> object:
    """Text that no spreadsheet takes for a formula: names are chosen by peers."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def as_csv(inventory: Inventory, target: str) -> str:
    """One line for each finding."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(Finding._fields)
    for one in findings(inventory, target):
        writer.writerow([safe_cell(value) for value in one])
    return file.getvalue()


STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem;max-width:75rem}"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem;width:100%}"
    "th,td{border:1px solid #bbb;padding:.25rem .5rem;text-align:left;vertical-align:top}"
    ".blocking{background:#f6c7c7}.major{background:#fbe3bd}.minor{background:#fdf7d5}"
)


def as_html(inventory: Inventory, target: str) -> str:
    """One page without scripts."""
    found = findings(inventory, target)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>Inventory of {html.escape(inventory.upstream)}</title><style>{STYLE}</style>",
        f"<h1>Inventory of {html.escape(inventory.upstream)}</h1><ul>",
        *(f"<li>{html.escape(line)}</li>" for line in headline(inventory, target, found)),
        "</ul>",
    ]
    for title, lines in _grouped(found):
        parts.append(f"<h2>{html.escape(title)}</h2><table><tr><th>feature<th>count<th>first seen")
        parts.append("<th>last seen<th>severity<th>who acts<th>what it needs</tr>")
        for one in lines:
            cells = (one.title, one.seen, one.first, one.last, one.severity, one.need, one.text)
            row = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
            parts.append(f"<tr class={one.severity}>{row}</tr>")
        parts.append("</table>")
    return "".join(parts) + "</html>\n"


def _grouped(found: list[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    """The findings of each client and node, under their title."""
    groups: dict[str, list[Finding]] = {}
    for one in found:
        title = f"{one.id}: {one.label}" if one.scope == "client" else one.label
        groups.setdefault(title, []).append(one)
    yield from groups.items()


def headline(inventory: Inventory, target: str, found: list[Finding]) -> list[str]:
    """The report in a few lines."""
    counts = inventory.counts
    by_severity = [f"{sum(one.severity == name for one in found)} {name}" for name in SEVERITIES]
    lines = [
        f"target: {TARGETS[target]}",
        f"since {moment(inventory.started)}: {counts['connections']} connections,"
        f" {len(inventory.clients)} clients, {len(inventory.nodes)} nodes",
        f"findings: {', '.join(reversed(by_severity))}",
    ]
    native = ready(inventory)
    if native:
        names = ", ".join(one.id for one in native)
        lines.append(f"speak 1.0 already, and need no gateway: {names}")
    if counts["undecoded"]:
        lines.append(f"{counts['undecoded']} connections were not decoded to their end")
    cut = counts["cut_clients"] + counts["cut_nodes"]
    if cut:
        lines.append(f"{cut} sightings of clients or nodes are beyond the limits of the inventory")
    return lines


def show(inventory: Inventory, target: str, out: Console) -> None:
    """The report for people."""
    found = findings(inventory, target)
    for line in headline(inventory, target, found):
        out.print(line, highlight=False, markup=False)
    for title, lines in _grouped(found):
        table = Table("severity", "feature", "count", "last seen", "who acts", "what it needs")
        for one in lines:
            name = f"{one.title} ({one.details})" if one.details else one.title
            cells = (one.severity, name, str(one.seen), one.last, one.need, one.text)
            table.add_row(*(cell.replace("[", r"\[") for cell in cells))
        out.print(f"\n{title}", highlight=False, markup=False)
        out.print(table)
    for node in inventory.nodes.values():
        out.print(traffic_line(node), highlight=False, markup=False)


def traffic_line(node: NodeEntry) -> str:
    """Traffic of a node."""
    sent, got = node.published, node.delivered
    return (
        f"{node_label(node)}: {sent.usage.count} published ({node.durable} durable,"
        f" {sent.per_second:.1f}/s, at most {sent.peak} in a minute and {sent.largest} octets),"
        f" {got.usage.count} delivered; publishers {', '.join(node.publishers.counts) or '-'};"
        f" consumers {', '.join(node.consumers.counts) or '-'}"
    )


# --- differences ----------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Something that is in one inventory only: new in the second, or gone from it."""

    change: str
    """ "new" or "gone"."""
    scope: str
    """ "client", "node" or "feature"."""
    label: str
    severity: Severity


def compare(before: Inventory, after: Inventory, target: str) -> list[Difference]:
    """Features that are new, and those not seen any more."""
    found: list[Difference] = []
    for change, old, new in (("new", before, after), ("gone", after, before)):
        known = set(map(client_label, old.clients.values()))
        clients = [label for label in map(client_label, new.clients.values()) if label not in known]
        nodes = [node_label(node) for key, node in new.nodes.items() if key not in old.nodes]
        found += [Difference(change, "client", label, "none") for label in clients]
        found += [Difference(change, "node", label, "none") for label in nodes]
        seen = {(one.label, one.feature) for one in findings(old, target)}
        for one in findings(new, target):
            if (one.label, one.feature) not in seen:
                label = f"{one.label}: {one.title}"
                found.append(Difference(change, "feature", label, one.severity))
    return found
