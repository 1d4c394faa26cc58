"""Drawings in SVG, without scripts. Colours are classes, which the page's style gives for light and
dark. All text is escaped here."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

CHARACTER = 7.0
"""Width of a character of 13 px, about."""
THINNEST = 1.5
"""Of a ribbon, in pixels: what is there can be seen."""


def text(value: object) -> str:
    """Text of a message or a peer, for a page."""
    shown = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value))
    return escape(shown, quote=True)


def cut(value: str, width: float) -> str:
    """As much of a text as the width has room for, with its end: names differ there."""
    most = max(4, int(width / CHARACTER))
    if len(value) <= most:
        return value
    end = most // 3
    return f"{value[: most - end - 1]}…{value[-end:]}"


def svg(width: float, height: float, label: str, body: Iterable[str], name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return (
        f'<svg{kind} viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        f' role="img" aria-label="{text(label)}">{"".join(body)}</svg>'
    )


# --- flows ----------------------------------------------------------------------------------------


class Stream(NamedTuple):
    """Messages from a client (``source``) in a version (``via``) to an address (``target``)."""

    source: str
    via: str
    target: str
    messages: int
    severity: str


class Node:
    """A bar of the drawing, at which ribbons end on both sides."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages = 0
        self.height = self.y = 0.0

    def add(self, stream: Stream, height: float) -> None:
        self.messages += stream.messages
        self.height += height


class Layout(NamedTuple):
    """Places in the drawing. ``above``: names stand above their bars, not beside them."""

    width: float
    bar: float
    sides: float
    """Room for names on each side."""
    gap: float
    tall: float
    """Height of all ribbons."""
    above: bool


HEAD, ROOM = 52.0, 6.0
"""Height of the words over the drawing, and the least of a node."""
WIDE = Layout(1080, 12, 270, 16, 360, False)
NARROW = Layout(360, 10, 0, 30, 300, True)


def merged(streams: Sequence[Stream], sources: int, targets: int) -> list[Stream]:
    """The largest clients and addresses; the others as one."""
    found: dict[tuple[str, str, str, str], int] = {}
    other_sources = others([(one.source, one.messages) for one in streams], sources)
    other_targets = others([(one.target, one.messages) for one in streams], targets)
    for one in streams:
        source = other_sources.get(one.source, one.source)
        target = other_targets.get(one.target, one.target)
        key = source, one.via, target, one.severity
        found[key] = found.get(key, 0) + one.messages
    made = [Stream(a, b, c, count, severity) for (a, b, c, severity), count in found.items()]
    return sorted(made, key=lambda one: (-one.messages, one))


def others(pairs: Iterable[tuple[str, int]], most: int) -> dict[str, str]:
    """Other names for those that are not among the largest."""
    counts: dict[str, int] = {}
    for name, count in pairs:
        counts[name] = counts.get(name, 0) + count
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    small = ordered[most - 1 :] if len(ordered) > most else []
    return dict.fromkeys(small, f"{len(small)} others")


class Ribbons:
    """The nodes of the drawing in three columns, and where the ribbons between them end."""

    def __init__(self, streams: Sequence[Stream], layout: Layout) -> None:
        self.layout = layout
        total = sum(one.messages for one in streams) or 1
        self.heights = {one: max(THINNEST, one.messages / total * layout.tall) for one in streams}
        found: list[dict[str, Node]] = [{}, {}, {}]
        for one in streams:
            for nodes, name in zip(found, (one.source, one.via, one.target), strict=True):
                nodes.setdefault(name, Node(name)).add(one, self.heights[one])
        self.columns = [
            sorted(nodes.values(), key=lambda node: (-node.messages, node.name)) for nodes in found
        ]
        self.low = self._stack()
        rank = [{node.name: at for at, node in enumerate(nodes)} for nodes in self.columns]

        def source(one: Stream) -> int:
            return rank[0][one.source]

        def via(one: Stream) -> int:
            return rank[1][one.via]

        def target(one: Stream) -> int:
            return rank[2][one.target]

        first = sorted(streams, key=lambda one: (via(one), target(one)))
        self.source = self._ends(first, lambda one: found[0][one.source])
        into = sorted(streams, key=lambda one: (source(one), target(one)))
        self.into = self._ends(into, lambda one: found[1][one.via])
        out = sorted(streams, key=lambda one: (target(one), source(one)))
        self.out = self._ends(out, lambda one: found[1][one.via])
        last = sorted(streams, key=lambda one: (via(one), source(one)))
        self.target = self._ends(last, lambda one: found[2][one.target])

    def _stack(self) -> float:
        """Give each node its place; the lowest point of all."""
        layout = self.layout
        rooms = [[max(node.height, ROOM) + layout.gap for node in nodes] for nodes in self.columns]
        tall = max(map(sum, rooms))
        for nodes, used in zip(self.columns, rooms, strict=True):
            y = HEAD + (tall - sum(used)) / 2
            for node, room in zip(nodes, used, strict=True):
                node.y = y + (room - node.height) / 2
                y += room
        return HEAD + tall

    def _ends(
        self, streams: Sequence[Stream], node_of: Callable[[Stream], Node]
    ) -> dict[Stream, float]:
        """Where the ribbons end at their nodes, from above, in this order."""
        used: dict[str, float] = {}
        found = {}
        for one in streams:
            node = node_of(one)
            found[one] = used.get(node.name, node.y)
            used[node.name] = found[one] + self.heights[one]
        return found


def flow(streams: Sequence[Stream], layout: Layout, name: str, label: str) -> str:
    """Clients on the left, versions within the gateway, addresses on the right."""
    made = Ribbons(streams, layout)
    bar = layout.bar
    edge = layout.sides, (layout.width - bar) / 2, layout.width - layout.sides - bar
    parts = [gateway_box(layout, made.columns[1], edge[1])]
    for one in sorted(streams, key=lambda one: -made.heights[one]):
        title = (
            f"{one.source} to {one.target} in {one.via}: {one.messages:,} messages, {one.severity}"
        )
        high = made.heights[one]
        path = ribbon(edge[0] + bar, made.source[one], edge[1], made.into[one], high)
        path += ribbon(edge[1] + bar, made.out[one], edge[2], made.target[one], high)
        parts.append(
            f'<path class="ribbon f-{one.severity}" d="{path}"><title>{text(title)}</title></path>'
        )
    for at, nodes in enumerate(made.columns):
        parts += [bar_of(layout, at, edge[at], node) for node in nodes]
    parts.append(
        f'<text class="head" x="{0 if layout.above else edge[0] + bar:g}" y="20"'
        f' text-anchor="{"start" if layout.above else "end"}">clients</text>'
        f'<text class="head" x="{layout.width if layout.above else edge[2]:g}" y="20"'
        f' text-anchor="{"end" if layout.above else "start"}">addresses</text>'
    )
    return svg(layout.width, made.low + 20, label, parts, name)


def gateway_box(layout: Layout, versions: Sequence[Node], x: float) -> str:
    wide = 132.0 if not layout.above else 96.0
    top_ = versions[0].y - (34 if layout.above else 30)
    low = max(node.y + node.height for node in versions) + 16
    left = x + layout.bar / 2 - wide / 2
    return (
        f'<rect class="house" x="{left:g}" y="{top_:g}" width="{wide:g}" height="{low - top_:g}"'
        f' rx="12"/><text class="head" x="{left + wide / 2:g}" y="{top_ - 8:g}"'
        ' text-anchor="middle">gateway</text>'
    )


def bar_of(layout: Layout, column: int, x: float, node: Node) -> str:
    title = f"<title>{text(node.name)}: {node.messages:,} messages</title>"
    bar = (
        f'<rect class="bar" x="{x:g}" y="{node.y:.1f}" width="{layout.bar:g}"'
        f' height="{max(node.height, 2):.1f}" rx="2">{title}</rect>'
    )
    middle = node.y + node.height / 2 + 4.5
    over = f'y="{node.y - 6:.1f}"'
    if column == 1:
        label, x = text(node.name.removeprefix("amqp-")), x + layout.bar / 2
        return f'{bar}<text class="via" x="{x:g}" {over} text-anchor="middle">{label}</text>'
    if layout.above:
        at, anchor = (0.0, "start") if column == 0 else (layout.width, "end")
        shown = f"{text(cut(node.name, 128))}{title}"
        return f'{bar}<text x="{at:g}" {over} text-anchor="{anchor}">{shown}</text>'
    at, anchor = (x - 10, "end") if column == 0 else (x + layout.bar + 10, "start")
    count = f" {short(node.messages)}"
    name = cut(node.name, layout.sides - 20 - CHARACTER * len(count))
    return bar + (
        f'<text x="{at:g}" y="{middle:.1f}" text-anchor="{anchor}">{text(name)}'
        f'<tspan class="soft">{text(count)}</tspan>{title}</text>'
    )


def ribbon(x: float, y: float, to_x: float, to_y: float, high: float) -> str:
    half = (x + to_x) / 2
    return (
        f"M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        f"V{to_y + high:.1f}C{half:.1f} {to_y + high:.1f} {half:.1f} {y + high:.1f} {x:.1f}"
        f" {y + high:.1f}Z"
    )


def short(number: float) -> str:
    """A number in a few characters."""
    for unit in ("", "k", "M"):
        if number < 1000:
            rounded = f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")
            return rounded + unit
        number /= 1000
    return f"{number:.1f}G"


# --- times ----------------------------------------------------------------------------------------


def stacked(
    bands: Sequence[tuple[str, Sequence[int]]], marks: Sequence[str], width: float, height: float,
    name: str, label: str,
) -> str:  # fmt: skip
    """Bands over each other, the first at the bottom. ``marks``: the periods in words. Few periods
    are columns."""
    count = len(marks)
    sums = [sum(band[at] for _, band in bands) for at in range(count)]
    most = nice(max(sums, default=1) or 1)
    left, right, top_, low = 46.0, 8.0, 12.0, 26.0
    wide, tall = width - left - right, height - top_ - low

    def y(value: float) -> float:
        return top_ + tall * (1 - value / most)

    parts = []
    for part in range(5):
        value = most * part / 4
        parts.append(
            f'<line class="grid" x1="{left:g}" x2="{width - right:g}" y1="{y(value):.1f}"'
            f' y2="{y(value):.1f}"/><text class="tick" x="{left - 6:g}" y="{y(value) + 4:.1f}"'
            f' text-anchor="end">{short(value)}</text>'
        )
    base = [0] * count
    columns = count <= 60
    step = wide / max(1, count if columns else count - 1)
    for number, (what, band) in enumerate(bands):
        title = f"<title>{text(what)}: {sum(band):,} messages</title>"
        above = [low_ + value for low_, value in zip(base, band, strict=True)]
        if columns:
            thick = max(1.0, step * 0.82)
            shapes = [
                f'<rect x="{left + at * step + (step - thick) / 2:.1f}" y="{y(above[at]):.1f}"'
                f' width="{thick:.1f}" height="{y(base[at]) - y(above[at]):.1f}">'
                f"<title>{text(what)}, {text(marks[at])}: {band[at]:,} messages</title></rect>"
                for at in range(count)
                if band[at]
            ]
            parts.append(f'<g class="band p{number % 8}">{"".join(shapes)}</g>')
        else:
            over = [f"{left + at * step:.1f} {y(v):.1f}" for at, v in enumerate(above)]
            under = [f"{left + at * step:.1f} {y(v):.1f}" for at, v in enumerate(base)]
            path = f"M{'L'.join(over)}L{'L'.join(reversed(under))}Z"
            parts.append(f'<path class="band p{number % 8}" d="{path}">{title}</path>')
        base = above
    most_ticks = max(2, int(wide // 120))
    every = max(1, -(-count // most_ticks))
    for at in range(0, count, every):
        x = left + at * step + (step / 2 if columns else 0)
        anchor = "start" if at == 0 and not columns else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8:g}" text-anchor="{anchor}">'
            f"{text(marks[at])}</text>"
        )
    return svg(width, height, label, parts, name)


def nice(value: float) -> float:
    """The next round number, which four parts of are round too."""
    size = 4
    while size < value:
        for factor in (4, 6, 8, 12, 16, 20, 24, 32, 40):
            if size // 4 * factor >= value:
                return size // 4 * factor
        size *= 10
    return size


def sparkline(values: Sequence[int], label: str) -> str:
    width, height = 120.0, 26.0
    most = max(values, default=0) or 1
    if len(values) == 1:
        values = [values[0], values[0]]
    step = width / max(1, len(values) - 1)
    points = [
        f"{at * step:.1f} {height - 2 - value / most * (height - 4):.1f}"
        for at, value in enumerate(values)
    ]
    line = "L".join(points)
    return svg(
        width, height, label,
        (f'<path class="under" d="M0 {height:g}L{line}L{width:g} {height:g}Z"/>',
         f'<path class="line" d="M{line}"/>', f"<title>{text(label)}</title>"),
        "spark",
    )  # fmt: skip


# --- shares ---------------------------------------------------------------------------------------


def ring(counts: Sequence[tuple[str, int]], middle: str, below: str, label: str) -> str:
    """Shares of a whole as a ring. ``counts``: severity and number."""
    total = sum(count for _, count in counts) or 1
    radius = 78.0
    around = 2 * 3.141592653589793 * radius
    parts = [f'<circle class="track" cx="100" cy="100" r="{radius:g}"/>']
    at = 0.0
    for severity, count in counts:
        if not count:
            continue
        long = count / total * around
        gap = 2.0 if long > 6 and count < total else 0.0
        parts.append(
            f'<circle class="arc l-{severity}" cx="100" cy="100" r="{radius:g}"'
            f' stroke-dasharray="{max(long - gap, 1):.2f} {around:.2f}"'
            f' stroke-dashoffset="{-at:.2f}" transform="rotate(-90 100 100)">'
            f"<title>{severity}: {count:,} messages</title></circle>"
        )
        at += long
    parts.append(f'<text class="big" x="100" y="104" text-anchor="middle">{text(middle)}</text>')
    parts.append(f'<text class="soft" x="100" y="126" text-anchor="middle">{text(below)}</text>')
    return svg(200, 200, label, parts, "ring")


def columns_of(rows: Sequence[tuple[str, int]], label: str) -> str:
    """A histogram."""
    width, height, low = 520.0, 190.0, 24.0
    most = max((count for _, count in rows), default=1) or 1
    step = width / max(1, len(rows))
    parts = []
    for at, (name, count) in enumerate(rows):
        high = count / most * (height - low - 24)
        x, thick = at * step + step * 0.1, step * 0.8
        y = height - low - high
        parts.append(
            f'<rect class="hist" x="{x:.1f}" y="{y:.1f}" width="{thick:.1f}" height="{high:.1f}"'
            f' rx="2"><title>{text(name)}: {count:,} messages</title></rect>'
            f'<text class="tick" x="{x + thick / 2:.1f}" y="{y - 6:.1f}" text-anchor="middle">'
            f"{short(count)}</text>"
            f'<text class="tick" x="{x + thick / 2:.1f}" y="{height - 6:g}" text-anchor="middle">'
            f"{text(name)}</text>"
        )
    return svg(width, height, label, parts, "wide")


def ranges(rows: Sequence[tuple[str, float, float, float, str]], label: str) -> str:
    """A line for each name, from the first value over the second to the third, with words. An axis
    of powers: values differ much."""
    width, row, side = 520.0, 46.0, 150.0
    low = max(1.0, min((first for _, first, *_ in rows), default=1))
    most = max(low * 10, max((last for *_, last, _ in rows), default=1))

    def place(value: float) -> float:
        return side + math.log(max(value, low) / low) / math.log(most / low) * (width - side - 8)

    parts = []
    for at, (name, *values, words) in enumerate(rows):
        y = at * row + 18
        x = list(map(place, values))
        parts.append(
            f'<text x="0" y="{y + 4:g}">{text(cut(name, side - 10))}</text>'
            f'<line class="track" x1="{side:g}" x2="{width:g}" y1="{y:g}" y2="{y:g}"/>'
            f'<line class="thin" x1="{x[0]:.1f}" x2="{x[2]:.1f}" y1="{y:g}" y2="{y:g}"/>'
            f'<line class="thick" x1="{x[0]:.1f}" x2="{max(x[1], x[0] + 2):.1f}" y1="{y:g}"'
            f' y2="{y:g}"><title>{text(name)}: {text(words)}</title></line>'
            f'<text class="tick" x="{side:g}" y="{y + 20:g}">{text(words)}</text>'
        )
    return svg(width, len(rows) * row + 6, label, parts, "wide")
