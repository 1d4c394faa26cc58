"""The report as one page: no script, no other host, everything inside."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib.resources import files
from typing import Any

from gateway.inventory.knowledge import SEVERITIES, Severity
from gateway.inventory.report import severity_order
from pyspark_amqp.readiness.document import DAY, READY, Document
from pyspark_amqp.readiness.drawing import (
    NARROW,
    WIDE,
    Stream,
    columns_of,
    flow,
    merged,
    ranges,
    ring,
    short,
    sparkline,
    stacked,
    text,
)
from pyspark_amqp.readiness.forms import (
    NOT_RECORDED,
    WORDS,
    micros,
    notes,
    octets,
    plural,
    share,
    verdict,
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
WHO = {
    "nothing": "nobody has to act",
    "gateway": "the gateway does it",
    "topology": "for the operator of the target",
    "client": "for the programmers of the client",
}
"""Who acts, in words."""
MEANINGS = {
    "none": "nothing is lost",
    "minor": "a difference that few notice",
    "major": "fails or is lost if nobody acts",
    "blocking": "blocks the move",
}
"""Severities of a feature, in words."""
MOST_LINES, MOST_COLUMNS, MOST_NAMED = 60, 16, 3
"""Lines of a table, columns of the heat map, and names in a sentence."""
MOST_BANDS = 8


def as_html(document: Document, version: str) -> str:
    """``version`` of the program that made it."""
    return "".join(parts_of(document, version))


def parts_of(document: Document, version: str) -> Iterator[str]:
    style = (files("pyspark_amqp.readiness") / "style.css").read_text("utf-8")
    title = f"Migration readiness for {document['target_title']}"
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="referrer" content="no-referrer"><title>{text(title)}</title>'
        f"<style>{style}</style></head><body><main>"
    )
    yield from head(document, title)
    if document["total"]["messages"]:
        yield from todo(document)
        yield from talk(document)
        yield from trend(document)
        yield from heat(document)
        yield from table(document, "clients", "client", "Clients")
        yield from table(document, "addresses", "address", "Addresses")
        yield '<div class="two">'
        yield from table(document, "users", "user", "Users", brief=True)
        yield from table(document, "protocols", "protocol", "Versions", brief=True)
        yield from sizes(document)
        yield from hops(document)
        yield "</div>"
        yield from losses(document)
        yield from needs(document)
    yield section("How this was counted", "", [
        '<ul class="notes">', *(f"<li>{text(line)}</li>" for line in notes(document)),
        f"</ul><p class=\"soft\">Made by amqp-gateway {text(version)}.</p>",
    ])  # fmt: skip
    yield "</main></body></html>\n"


def section(title: str, lead: str, parts: Iterable[str], kind: str = "") -> str:
    name = "".join(one if one.isalnum() else "-" for one in title.lower())
    said = f'<p class="lead">{lead}</p>' if lead else ""
    classes = f' class="{kind}"' if kind else ""
    return (
        f'<section{classes} aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{said}'
        f"{''.join(parts)}</section>"
    )


def scroll(label: str, body: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">{body}</div>'


def badge(severity: str) -> str:
    return f'<span class="badge c-{severity}">{WORDS[severity]}</span>'


def day(moment: str) -> str:
    """A time in a few characters."""
    return moment.replace("T", " ")[:16]


# --- the verdict ----------------------------------------------------------------------------------


def head(document: Document, title: str) -> Iterator[str]:
    total, found = document["total"], document["readiness"]
    ready = sum(found[name]["messages"] for name in READY)
    part = share(ready, total["messages"])
    counts = [(name, found[name]["messages"]) for name in SEVERITIES]
    label = ", ".join(f"{WORDS[name]}: {share(n, total['messages'])}" for name, n in counts)
    facts = {
        "messages": f"{total['messages']:,}",
        "volume": octets(total["octets"]),
        "clients": f"{len(document['clients']):,}",
        "addresses": f"{len(document['addresses']):,}",
        "from": day(document["first"]) or "-",
        "to": day(document["last"]) or "-",
    }
    yield f'<header><h1>{text(title)}</h1></header><section class="top" aria-label="Verdict">'
    yield ring(counts, part, "of messages", f"Messages by readiness: {label}")
    yield f'<div><p class="verdict"><strong>{text(verdict(document))}</strong></p>'
    yield '<ul class="classes">'
    for name in reversed(SEVERITIES):
        one = found[name]
        if one["clients"] or one["messages"]:
            yield (
                f'<li class="c-{name}"><strong>{plural(one["clients"], "client")}</strong>'
                f"{WORDS[name]}<br>{share(one['messages'], total['messages'])} of messages</li>"
            )
    yield '</ul></div></section><dl class="facts">'
    yield "".join(
        f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items()
    )
    yield "</dl>"


def todo(document: Document) -> Iterator[str]:
    if not document["actions"]:
        return
    total = document["total"]["messages"]
    estimated = document["sample"]["looked"] < document["sample"]["of"]
    items = []
    for one in document["actions"]:
        about = "about " if estimated and "property" in one else ""
        items.append(
            f'<li class="c-{one["severity"]}"><div><h3>{text(one["title"])}</h3>'
            f"<p>{text(one['text'])}</p>"
            f"<p>{badge(one['severity'])} {text(WHO[one['need']])} · {text(some(one['clients']))}"
            "</p></div>"
            f'<p class="much"><b>{about}{share(one["messages"], total)}</b>'
            f" {about}{one['messages']:,} messages</p></li>"
        )
    lead = "What is worse comes before what is more."
    yield section("To do first", lead, ['<ol class="todo">', *items, "</ol>"])


def some(names: list[str]) -> str:
    """A few names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# --- drawings -------------------------------------------------------------------------------------


def severities_key(used: Iterable[str], words: dict[str, str]) -> str:
    shown = set(used)
    items = (f'<li class="c-{one}"><i></i>{words[one]}</li>' for one in SEVERITIES if one in shown)
    return f'<ul class="key">{"".join(items)}</ul>'


def talk(document: Document) -> Iterator[str]:
    streams = [
        Stream(one["client"], one["protocol"], one["address"], count, severity)
        for one in document["flows"]
        for severity, count in one["readiness"].items()
    ]
    label = (
        f"Flows from {plural(len(document['clients']), 'client')} through the gateway to "
        f"{plural(len(document['addresses']), 'address', 'addresses')}; all are in the tables below"
    )
    yield section(
        "Who talks to whom",
        "Clients on the left, versions of AMQP in the middle, addresses on the right. The width is "
        "the number of messages, the colour their readiness.",
        [
            flow(merged(streams, 14, 16), WIDE, "wide broad", label),
            flow(merged(streams, 8, 10), NARROW, "wide narrow", label),
            severities_key((one.severity for one in streams), WORDS),
        ],
    )


def trend(document: Document) -> Iterator[str]:
    found = document["trend"]
    if not found["periods"]:
        return
    pairs = sorted(found["protocols"].items(), key=lambda one: -sum(one[1]))
    if len(pairs) > MOST_BANDS:
        rest = [
            sum(each) for each in zip(*(band for _, band in pairs[MOST_BANDS - 1 :]), strict=True)
        ]
        pairs = [*pairs[: MOST_BANDS - 1], ("others", rest)]
    days = found["step"] == DAY or len({one[:10] for one in found["periods"]}) > 3
    marks = [mark(one, found["step"] == DAY, days) for one in found["periods"]]
    each = "day" if found["step"] == DAY else "hour"
    label = f"Messages per {each} by version: " + ", ".join(
        f"{name} {sum(band):,}" for name, band in pairs
    )
    key = "".join(
        f'<li><i class="p{at}"></i>{text(name)} <span class="soft">{short(sum(band))}</span></li>'
        for at, (name, band) in enumerate(pairs)
    )
    yield section(
        "Trend",
        f"Messages per {each} (UTC), by version of the protocol.",
        [
            stacked(pairs, marks, 1080, 260, "wide broad", label),
            stacked(pairs, marks, 360, 220, "wide narrow", label),
            f'<ul class="key">{key}</ul>',
        ],
    )


def mark(moment: str, whole: bool, days: bool) -> str:
    """A period in words."""
    at = datetime.fromisoformat(moment)
    if whole or (at.hour == 0 and not days):
        return f"{at.day} {at:%b}"
    return f"{at.day} {at:%b} {at:%H}h" if days else f"{at:%H:%M}"


def heat(document: Document) -> Iterator[str]:
    known = {one["feature"]: one for one in document["features"]}
    used: dict[str, int] = {}
    cells: dict[tuple[str, str], Any] = {}
    for one in document["usage"]:
        used[one["feature"]] = used.get(one["feature"], 0) + one["messages"]
        cells[one["address"], one["feature"]] = one
    order = sorted(
        used, key=lambda name: (-severity_order(known[name]["severity"]), -used[name], name)
    )[:MOST_COLUMNS]
    if not order:
        return
    heads = "".join(
        f'<th scope="col" class="s-{known[name]["severity"]}" title="{text(known[name]["text"])}">'
        f"<span>{text(known[name]['title'])}</span></th>"
        for name in order
    )
    lines = []
    for row in document["addresses"][:MOST_LINES]:
        place = row["address"]
        shown = []
        for name in order:
            one = cells.get((place, name))
            if one is None:
                shown.append("<td></td>")
                continue
            severity = known[name]["severity"]
            title = f"{place}: {one['messages']:,} of {one['of']:,} messages, {severity}"
            shown.append(
                f'<td class="s s-{severity}" style="--part:{one["messages"] / one["of"]:.3f}"'
                f' title="{text(title)}">{share(one["messages"], one["of"])}</td>'
            )
        lines.append(f'<tr><th scope="row">{text(place)}</th>{"".join(shown)}</tr>')
    body = (
        f'<table class="heat"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
    more = len(used) - len(order)
    lead = (
        "The share of an address's messages that use a feature; the colour is what it means there."
    )
    lead += f" {plural(more, 'more feature')} in the list below." if more > 0 else ""
    yield section(
        "Features by address", lead,
        [scroll("Features by address", body),
         severities_key((known[name]["severity"] for name in order), MEANINGS)],
    )  # fmt: skip


def sizes(document: Document) -> Iterator[str]:
    rows = [(f"≤ {octets(one['octets'])}", one["messages"]) for one in document["sizes"]]
    total = document["total"]
    label = "Messages by size: " + ", ".join(f"{name} {count:,}" for name, count in rows)
    yield section(
        "Sizes",
        f"Bodies: half are at most {octets(total['p50'])}, 95 % at most {octets(total['p95'])},"
        f" 99 % at most {octets(total['p99'])}; the largest has {octets(total['largest'])}.",
        [columns_of(rows, label)],
    )


def hops(document: Document) -> Iterator[str]:
    rows = [
        (one["hop"], one["p50_us"], one["p95_us"], one["p99_us"],
         f"p50 {micros(one['p50_us'])} · p95 {micros(one['p95_us'])} · p99 {micros(one['p99_us'])}")
        for one in document["hops"]
    ]  # fmt: skip
    if rows:
        label = "; ".join(f"{row[0]}: {row[-1]}" for row in rows)
        yield section(
            "Time per hop",
            "From the median over p95 to p99, on a scale of powers of ten.",
            [ranges(rows, label)],
        )
        return
    yield section(
        "Time per hop", "",
        [f'<p class="empty">{NOT_RECORDED.capitalize()}: the rows have no times of hops.</p>'],
    )  # fmt: skip


# --- tables ---------------------------------------------------------------------------------------


def table(
    document: Document, key: str, name: str, title: str, brief: bool = False
) -> Iterator[str]:
    rows = document[key]
    columns = ["messages", "p50", "p95", "largest"] if not brief else ["messages", "p95"]
    heads = "".join(f'<th scope="col" class="n">{column}</th>' for column in columns)
    more = "" if brief else '<th scope="col">trend</th><th scope="col">seen</th>'
    last = "" if brief else '<th scope="col">features</th>'
    lines = []
    for one in rows[:MOST_LINES]:
        cells = [f'<td class="n">{one["messages"]:,}</td>']
        cells += [f'<td class="n">{octets(one[column])}</td>' for column in columns[1:]]
        if not brief:
            label = f"Trend of {one[name]}, at most {max(one['trend'], default=0):,} in a period"
            cells.append(f"<td>{sparkline(one['trend'], label)}</td>")
            cells.append(f'<td class="at">{day(one["first"])}<br>{day(one["last"])}</td>')
        cells.append(f"<td>{badge(one['severity'])}</td>")
        if not brief:
            cells.append(f'<td><div class="chips">{chips(document, one)}</div></td>')
        also = ", ".join(one.get("protocols", [])) if not brief else ""
        said = f'<br><span class="soft">{text(also)}</span>' if also else ""
        who = text(one[name] or "(none)")
        lines.append(f'<tr><th scope="row">{who}{said}</th>{"".join(cells)}</tr>')
    body = (
        f'<table><thead><tr><th scope="col">{name}</th>{heads}{more}<th scope="col">readiness</th>'
        f"{last}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
    left = len(rows) - MOST_LINES
    if left > 0:
        body += f'<p class="soft">{plural(left, "more line")} in the JSON and CSV forms.</p>'
    yield section(title, "", [scroll(title, body)], "long")


def chips(document: Document, one: Document) -> str:
    known = {each["feature"]: each for each in document["features"]}
    found = sorted(
        one["features"], key=lambda name: -severity_order(known[name]["severity"])
    )  # fmt: skip
    shown = [
        f'<span class="c-{known[name]["severity"]}" title="{text(known[name]["title"])}">'
        f"{text(name)}</span>"
        for name in found
    ]
    shown += [f'<span class="c-major">loses {text(name)}</span>' for name in one["losses"]]
    return "".join(shown) or '<span class="soft">-</span>'


def losses(document: Document) -> Iterator[str]:
    rows = document["losses"]
    sample = document["sample"]
    estimated = sample["looked"] < sample["of"]
    if not rows:
        where = "the messages that were looked at" if estimated else "any message"
        known = f"Nothing is lost on 1.0 of {where}." if sample["looked"] else "Not looked at."
        yield section("Lost on 1.0", "", [f'<p class="empty">{known}</p>'])
        return
    lines = "".join(
        f'<tr><th scope="row">{text(one["property"])}</th>'
        f'<td class="n">{"about " if estimated else ""}{one["messages"]:,}</td>'
        f"<td>{text(some(one['clients']))}</td><td>{text(some(one['addresses']))}</td>"
        f"<td>{badge(one['severity'])}</td></tr>"
        for one in rows[:MOST_LINES]
    )
    body = (
        '<table><thead><tr><th scope="col">property</th><th scope="col" class="n">messages</th>'
        '<th scope="col">clients</th><th scope="col">addresses</th><th scope="col">readiness</th>'
        f"</tr></thead><tbody>{lines}</tbody></table>"
    )
    lead = text(rows[0]["text"])
    if estimated:
        lead += (
            f" Estimated from {share(sample['looked'], sample['of'])} of the messages"
            f" ({sample['looked']:,} of {sample['of']:,})."
        )
    yield section("Lost on 1.0", lead, [scroll("Lost on 1.0", body)], "long")


def needs(document: Document) -> Iterator[str]:
    lines = "".join(
        f'<tr><th scope="row">{text(one["title"])}</th><td class="n">{one["messages"]:,}</td>'
        f"<td>{badge_of(one['severity'])}</td><td>{text(WHO[one['need']])}</td>"
        f'<td class="text">{text(one["text"])}</td><td>{text(some(one["clients"]))}</td></tr>'
        for one in document["features"]
    )
    body = (
        '<table><thead><tr><th scope="col">feature</th><th scope="col" class="n">messages</th>'
        '<th scope="col">severity</th><th scope="col">who acts</th><th scope="col">what it needs'
        f'</th><th scope="col">clients</th></tr></thead><tbody>{lines}</tbody></table>'
    )
    title = f"What each feature needs on {text(document['target_title'])}"
    yield section(title, "", [scroll("Features", body)], "long")


def badge_of(severity: Severity) -> str:
    return f'<span class="badge c-{severity}">{severity}</span>'
