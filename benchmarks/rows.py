"""One line of the table, and how repeats become one."""

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Row:
    """`ours` and `theirs` are medians in `unit`; the ratio is taken pair by pair."""

    group: str
    name: str
    unit: str = ""
    ours: float | None = None
    theirs: float | None = None
    against: str = ""
    ratios: list[float] = field(default_factory=list)
    aim: float | None = None
    ceiling: float | None = None  # for figures of ours alone, where less is better
    note: str = ""
    others: float | None = None  # processors that third parties kept busy meanwhile
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Was the aim reached? None when there is no aim or no figure."""
        if self.ceiling is not None and self.ours is not None:
            return self.ours <= self.ceiling
        if self.aim is not None and self.ratio is not None:
            return self.ratio >= self.aim
        return None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def compare(row: Row, ours: list[float], theirs: list[float]) -> Row:
    """Fill in medians and the pairwise ratios; either side may be empty."""
    row.ours = statistics.median(ours) if ours else None
    row.theirs = statistics.median(theirs) if theirs else None
    row.ratios = [a / b for a, b in zip(ours, theirs, strict=False) if b]
    return row


def human(value: float | None, unit: str) -> str:
    """A figure as a person would say it."""
    if value is None:
        return "-"
    if unit == "B":
        for limit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if value >= limit:
                return f"{value / limit:.2f} {name}"
        return f"{value:.0f} B"
    if value >= 1000:
        return f"{value:,.0f} {unit}".strip()
    return f"{value:.3g} {unit}".strip()
