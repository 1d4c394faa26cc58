"""The report as one document of plain values, from which all forms of it are made."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from gateway.inventory.knowledge import SEVERITIES, Advice, Severity
from gateway.inventory.report import moment, severity_order
from pyspark_amqp.readiness.counts import Flow, Tally
from pyspark_amqp.readiness.sketch import quantile, value_of
from pyspark_amqp.readiness.weighing import LOST, Weights

Document = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)
HOUR, DAY = 3600, 86400
MOST_HOURS = 14 * 24
"""Hours in a trend; of a longer time it has days."""
SMALLEST = 64
"""Octets of the first class of sizes."""
FIRST = 5
"""Things to do that are named first."""
READY = ("none", "minor")
"""Severities with which a client can move while the gateway stands before the target."""


def document_of(flows: Mapping[Flow, Tally], weights: Weights, share: float, by: str) -> Document:
    """``share`` of the messages were to be looked at for ``lossy``; ``by``: hour, day or auto."""
    total = added(flows.values())
    step = step_of(total, by)
    periods = periods_of(total, step)
    maker = Maker(weights, step, periods)
    clients = maker.groups(flows, lambda flow: flow.client)
    rows = {
        "protocols": [
            {"protocol": key, **maker.shown(part)}
            for key, part in ranked(maker.groups(flows, lambda flow: flow.protocol))
        ],
        "clients": [
            {
                "client": str(key), "name": key.name, "product": key.product,
                "product_version": key.version, "users": names(part, lambda flow: flow.user),
                "protocols": names(part, lambda flow: flow.protocol), **maker.shown(part),
            }
            for key, part in ranked(clients)
        ],
        "users": [
            {"user": key, **maker.shown(part)}
            for key, part in ranked(maker.groups(flows, lambda flow: flow.user))
        ],
        "addresses": [
            {
                "address": place, "vhost": next(iter(part)).vhost,
                "protocols": names(part, lambda flow: flow.protocol), **maker.shown(part),
            }
            for place, part in ranked(maker.groups(flows, lambda flow: flow.place))
        ],
    }  # fmt: skip
    places = [
        (place, added(part.values()))
        for place, part in ranked(maker.groups(flows, lambda flow: flow.place))
    ]
    features = maker.findings(flows)
    losses = maker.losses(flows)
    return {
        "target": weights.target,
        "target_title": weights.title,
        "target_lacks": list(weights.lacks),
        "target_unknown": list(weights.unknown),
        "first": moment(total.first / 1e6),
        "last": moment(total.last / 1e6),
        "sample": {"share": share, "looked": total.looked, "of": total.messages},
        "total": maker.stats(total),
        "worst": worst(one["severity"] for one in rows["clients"]),
        "readiness": readiness(rows["clients"], maker.by_severity(flows)),
        "actions": actions(features, losses)[:FIRST],
        **rows,
        "flows": [
            {
                "client": str(flow.client), "user": flow.user, "protocol": flow.protocol,
                "address": flow.place, "messages": tally.messages, "octets": tally.octets,
                "severity": maker.severity({flow: tally}),
                "readiness": dict(maker.by_severity({flow: tally})),
                "first": moment(tally.first / 1e6), "last": moment(tally.last / 1e6),
            }
            for flow, tally in sorted(flows.items(), key=lambda one: (-one[1].messages, one[0]))
        ],
        "features": features,
        "losses": losses,
        "usage": [
            {"address": place, "feature": name, "messages": count, "of": tally.messages}
            for place, tally in places
            for name, count in sorted(tally.features.items())
        ],
        "sizes": [
            {"octets": octets, "messages": count} for octets, count in classes(total.sizes)
        ],
        "trend": {
            "step": step,
            "periods": [moment(at) for at in periods],
            "protocols": {
                one["protocol"]: one["trend"] for one in rows["protocols"]
            },
        },
        "hops": [
            {
                "hop": hop, "messages": sum(counts.values()),
                **{
                    f"p{round(part * 100)}_us": round(quantile(counts, part) or 0)
                    for part in (0.5, 0.95, 0.99)
                },
            }
            for hop, counts in sorted(total.hops.items())
        ],
    }  # fmt: skip


class Maker:
    """Makes parts of the document."""

    def __init__(self, weights: Weights, step: int, periods: list[int]) -> None:
        self.weights = weights
        self.step = step
        self.periods = periods

    def groups(
        self, flows: Mapping[Flow, Tally], key: Callable[[Flow], Key]
    ) -> dict[Key, dict[Flow, Tally]]:
        found: dict[Key, dict[Flow, Tally]] = {}
        for flow, tally in flows.items():
            found.setdefault(key(flow), {})[flow] = tally
        return found

    def stats(self, tally: Tally) -> Document:
        return {
            "messages": tally.messages, "octets": tally.octets, "p50": tally.size(0.5),
            "p95": tally.size(0.95), "p99": tally.size(0.99), "largest": tally.largest,
            "first": moment(tally.first / 1e6), "last": moment(tally.last / 1e6),
        }  # fmt: skip

    def shown(self, part: Mapping[Flow, Tally]) -> Document:
        """Statistics of a group, its severity, features and trend."""
        tally = added(part.values())
        hours: Counter[int] = Counter()
        for hour, count in tally.hours.items():
            hours[hour // self.step * self.step] += count
        return {
            **self.stats(tally),
            "severity": self.severity(part),
            "features": dict(sorted(tally.features.items(), key=lambda one: (-one[1], one[0]))),
            "losses": scaled(tally),
            "trend": [hours[at] for at in self.periods],
        }

    def severity(self, part: Mapping[Flow, Tally]) -> Severity:
        found: set[Severity] = {"none"}
        for flow, tally in part.items():
            found |= {self.weights.severity(flow.protocol, names) for names in tally.sets}
            found |= {LOST[kind].severity for _, kind in tally.losses if kind in LOST}
        return worst(found)

    def by_severity(self, flows: Mapping[Flow, Tally]) -> Counter[str]:
        """Messages by the worst of their features and version."""
        found: Counter[str] = Counter()
        for flow, tally in flows.items():
            for used, count in tally.sets.items():
                found[self.weights.severity(flow.protocol, used)] += count
        return found

    def findings(self, flows: Mapping[Flow, Tally]) -> list[Document]:
        """Features, with those that a version of the protocol is, the worst first."""
        parts: dict[str, dict[Flow, Tally]] = {}
        counts: Counter[str] = Counter()
        for flow, tally in flows.items():
            if flow.protocol.startswith("amqp-"):
                name = f"version-{flow.protocol.removeprefix('amqp-')}"
                parts.setdefault(name, {})[flow] = tally
                counts[name] += tally.messages
            for name, count in tally.features.items():
                parts.setdefault(name, {})[flow] = tally
                counts[name] += count
        found = [
            finding(self.weights.title_of(name), self.weights.advice(name), counts[name], part)
            | {"feature": name}
            for name, part in parts.items()
        ]
        return sorted(found, key=weight)

    def losses(self, flows: Mapping[Flow, Tally]) -> list[Document]:
        """Properties that 1.0 does not express, with the number of messages scaled from those that
        were looked at, flow by flow."""
        parts: dict[tuple[str, str], dict[Flow, Tally]] = {}
        counts: Counter[tuple[str, str]] = Counter()
        found: Counter[tuple[str, str]] = Counter()
        for flow, tally in flows.items():
            for key, count in tally.losses.items():
                parts.setdefault(key, {})[flow] = tally
                found[key] += count
                counts[key] += scale(count, tally)
        rows = [
            finding(key[0], LOST.get(key[1], LOST["warning"]), counts[key], part)
            | {"property": key[0], "seen": found[key]}
            for key, part in parts.items()
        ]
        return sorted(rows, key=weight)


def scale(count: int, tally: Tally) -> int:
    """A count of messages that were looked at, for all of them."""
    return round(count * tally.messages / tally.looked) if tally.looked else count


def scaled(tally: Tally) -> dict[str, int]:
    return {name: scale(count, tally) for (name, _), count in tally.losses.most_common()}


def finding(title: str, advice: Advice, count: int, part: Mapping[Flow, Tally]) -> Document:
    return {
        "title": title,
        "severity": advice.severity,
        "need": advice.need,
        "text": advice.text,
        "messages": count,
        "clients": names(part, lambda flow: str(flow.client)),
        "addresses": names(part, lambda flow: flow.place),
        "first": moment(min(tally.first for tally in part.values()) / 1e6),
        "last": moment(max(tally.last for tally in part.values()) / 1e6),
    }


def weight(one: Document) -> tuple[int, int, str]:
    return -severity_order(one["severity"]), -one["messages"], one["title"]


def worst(found: Iterable[Severity]) -> Severity:
    return max(found, key=severity_order, default="none")


def added(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for one in tallies:
        total.merge(one)
    return total


def names(part: Mapping[Flow, Tally], key: Callable[[Flow], str]) -> list[str]:
    """Those with the most messages first."""
    found: Counter[str] = Counter()
    for flow, tally in part.items():
        found[key(flow)] += tally.messages
    return [name for name, _ in sorted(found.items(), key=lambda one: (-one[1], one[0]))]


def ranked(groups: Mapping[Key, dict[Flow, Tally]]) -> list[tuple[Key, dict[Flow, Tally]]]:
    """Groups, those with the most messages first."""
    return sorted(
        groups.items(),
        key=lambda one: (-sum(tally.messages for tally in one[1].values()), str(one[0])),
    )


def step_of(total: Tally, by: str) -> int:
    if by != "auto":
        return HOUR if by == "hour" else DAY
    hours = (max(total.hours, default=0) - min(total.hours, default=0)) // HOUR
    return HOUR if hours <= MOST_HOURS else DAY


def periods_of(total: Tally, step: int) -> list[int]:
    """All periods from the first to the last, also those without messages."""
    if not total.hours:
        return []
    first, last = (edge(total.hours) // step * step for edge in (min, max))
    return list(range(first, last + 1, step))


def classes(sizes: Mapping[int, int]) -> list[tuple[int, int]]:
    """Messages by powers of four of their sizes: upper bound, octets, and number."""
    found: Counter[int] = Counter()
    for bucket, count in sizes.items():
        bound = SMALLEST
        while value_of(bucket) > bound:
            bound *= 4
        found[bound] += count
    return sorted(found.items())


def readiness(clients: list[Document], messages: Counter[str]) -> Document:
    """Messages and clients by severity."""
    return {
        name: {
            "messages": messages[name],
            "clients": sum(one["severity"] == name for one in clients),
        }
        for name in SEVERITIES
    }


def actions(features: list[Document], losses: list[Document]) -> list[Document]:
    """What to do first: what is worse comes before what is more. Versions that the gateway speaks
    are one thing, and come last."""
    versions = [one for one in features if one["feature"].startswith("version-")]
    old = [one for one in versions if one["need"] == "gateway"]
    found = [
        one
        for one in features
        if one["need"] != "nothing" and one["severity"] != "none" and one not in old
    ]
    found += [one | {"title": f"lost on 1.0: {one['title']}"} for one in losses]
    found.sort(key=weight)
    if old:
        clients = list(dict.fromkeys(name for one in old for name in one["clients"]))
        spoken = ", ".join(one["title"].removeprefix("speaks ") for one in old)
        found.append(
            old[0]
            | {
                "feature": "version",
                "title": f"clients that speak {spoken}",
                "messages": sum(one["messages"] for one in old),
                "clients": clients,
                "text": "The gateway speaks their versions for them. They need no gateway any more"
                " when their libraries are replaced by ones for 1.0.",
            }
        )
    return found
