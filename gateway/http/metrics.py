"""Metrics for Prometheus: a registry of its own, filled when it is read, with bounded labels.

Our own counts (``counters.py``) are plain dictionaries.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gateway.bridge.ledger import Ledger
from gateway.broker.counters import BrokerSnapshot
from gateway.http.context import Context
from gateway.http.journal.figures import Figures, figures_of
from gateway.http.portions import stepped
from gateway.http.problems import Problem

CONTENT_TYPE = CONTENT_TYPE_LATEST
PREFIX = "amqp_gateway_"
OUTCOMES = ("accepted", "unroutable", "rejected", "unknown")


class Metrics(Collector):
    """All metrics of ``/metrics``."""

    def __init__(self, context: Context) -> None:
        self.dependencies = context.dependencies
        self.hub = context.hub
        self.publisher = context.publisher
        self.journal = context.journal
        self.counters = context.counters
        self.figures: Figures | None = None
        """Of the journal, if there is one; read before its metrics are collected."""
        self.counted: BrokerSnapshot | None = None
        """The counters of the broker, added up in steps before its metrics are collected, which is
        one call; ``None`` before the first time."""
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        for one in (self, *context.collectors):
            self.registry.register(one)

    async def exposition(self) -> bytes:
        self.counted = await stepped(self.dependencies.broker.counting())
        self.figures = None
        if self.dependencies.broker.state.journal.id and self.journal.make is not None:
            with suppress(Problem):  # it cannot be read now
                self.figures = await self.journal.run(figures_of)
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        yield from self.collect_broker()
        yield from self.collect_connections()
        yield from self.collect_sessions()
        yield from self.collect_crossing()
        yield from self.collect_shovels()
        yield from self.collect_moves()
        yield from self.collect_journal()
        yield from self.collect_http()
        for name, value in self.dependencies.figures().items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(PREFIX + name, f"{name}, from the gateway.")
            family.add_metric((), value)
            yield family

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect_broker(self) -> Iterable[Metric]:
        whole = self.counted
        if whole is None:
            return
        vhosts = whole.vhosts
        for name in ("published", "delivered", "acked", "redelivered", "unrouted"):
            family = CounterMetricFamily(
                f"{PREFIX}messages_{name}", f"Messages {name}, all protocols.", labels=("vhost",)
            )
            for vhost in vhosts:
                family.add_metric((vhost.name,), getattr(vhost.totals, name))
            yield family
        for name in ("ready", "unsettled", "queues", "exchanges", "consumers", "clients"):
            gauge = GaugeMetricFamily(
                f"{PREFIX}{name}", f"Number of {name} now.", labels=("vhost",)
            )
            for vhost in vhosts:
                gauge.add_metric((vhost.name,), getattr(vhost, name))
            yield gauge
        prepared = GaugeMetricFamily(
            f"{PREFIX}branches_prepared",
            "Prepared branches of distributed transactions now.",
            labels=("vhost",),
        )
        for vhost in vhosts:
            number = self.dependencies.broker.prepared_branches(vhost.name)
            prepared.add_metric((vhost.name,), number)
        yield prepared
        yield scalar("message_octets", "Octets of messages in memory.", whole.octets)
        yield scalar("channels", "Open channels.", whole.channels)
        yield scalar("blocked", "1 while publishers are paused.", whole.blocked is not None)

    def collect_connections(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            f"{PREFIX}connections", "Open AMQP connections by version.", labels=("version",)
        )
        connections = self.dependencies.connections()
        for version, number in Counter(one.version or "none" for one in connections).items():
            family.add_metric((version,), number)
        yield family

    def collect_sessions(self) -> Iterable[Metric]:
        sessions = self.dependencies.sessions
        yield scalar("sessions_kept", "Sessions of 0-10 without a connection.", len(sessions.kept))
        text = "Octets of commands that such sessions, and those to be kept, may send again."
        yield scalar("session_replay_octets", text, sessions.room.used)
        yield total("sessions_resumed", "Sessions of 0-10 attached again.", sessions.resumed)
        text = "Sessions of 0-10 that ended while they were kept."
        yield total("sessions_expired", text, sessions.expired)

    def collect_crossing(self) -> Iterable[Metric]:
        crossing = self.dependencies.crossing
        if crossing is None:
            return
        family = CounterMetricFamily(
            f"{PREFIX}crossings",
            "Messages delivered to readers of another version, by fidelity of the conversion.",
            labels=("from", "to", "fidelity"),
        )
        for labels, number in crossing.counts.items():
            family.add_metric(labels, number)
        yield family
        yield total("crossings_refused", "Messages without a form for a reader.", crossing.refused)
        yield total("capsules_refused", "Capsules forged, or of other messages.", crossing.forged)

    def collect_shovels(self) -> Iterable[Metric]:
        bridge = self.dependencies.bridge
        if bridge is None or not bridge.shovels:
            return
        infos = [one.info() for one in bridge.shovels.values()]
        for name in Ledger.COUNTS:
            family = CounterMetricFamily(
                f"{PREFIX}shovel_messages_{name}", f"Messages {name}.", labels=("shovel",)
            )
            for info in infos:
                family.add_metric((info.name,), getattr(info, name))
            yield family
        under_way = GaugeMetricFamily(
            f"{PREFIX}shovel_under_way", "Messages without a confirm.", labels=("shovel",)
        )
        held = GaugeMetricFamily(
            f"{PREFIX}shovel_held", "Messages behind one of their key.", labels=("shovel",)
        )
        running = GaugeMetricFamily(
            f"{PREFIX}shovel_running", "1 while both ends are open.", labels=("shovel",)
        )
        for info in infos:
            under_way.add_metric((info.name,), info.under_way)
            held.add_metric((info.name,), info.held)
            running.add_metric((info.name,), info.state == "running")
        yield under_way
        yield held
        yield running

    def collect_moves(self) -> Iterable[Metric]:
        bridge = self.dependencies.bridge
        if bridge is None or bridge.moves is None or not bridge.moves.all:
            return
        infos = [one.info() for one in bridge.moves.all.values()]
        for name in ("moved", "suppressed", "flagged", "rejected"):
            family = CounterMetricFamily(
                f"{PREFIX}move_messages_{name}", f"Messages {name}.", labels=("move",)
            )
            for info in infos:
                family.add_metric((info.name,), getattr(info, name))
            yield family
        running = GaugeMetricFamily(
            f"{PREFIX}move_running", "1 while the move runs.", labels=("move",)
        )
        for info in infos:
            running.add_metric((info.name,), info.state == "running")
        yield running

    def collect_journal(self) -> Iterable[Metric]:
        figures = self.figures
        if figures is None:
            return
        whole = figures.overview
        yield total("journal_entries", "Entries since the journal began.", whole.end)
        yield scalar("journal_start_position", "The oldest position.", whole.start)
        yield scalar("journal_end_position", "The position of the next entry.", whole.end)
        yield scalar("journal_unsealed_entries", "Entries in the store.", whole.end - whole.sealed)
        yield scalar("journal_segments", "Sealed segments.", len(whole.segments))
        yield scalar("journal_segment_octets", "Octets of sealed segments.", figures.octets)
        text = "Seconds since the oldest sealed entry came."
        yield scalar("journal_oldest_seconds", text, figures.oldest)
        lag = GaugeMetricFamily(
            f"{PREFIX}journal_consumer_lag",
            "Positions that a consumer has not read, of those that were here last.",
            labels=("vhost", "consumer"),
        )
        for one in figures.consumers:
            behind = one.lag(whole.id, whole.end)
            if behind is not None:
                lag.add_metric((one.vhost, one.name), behind)
        yield lag

    def collect_http(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            f"{PREFIX}http_requests",
            "Answered HTTP requests.",
            labels=("method", "route", "status"),
        )
        for (method, route, status), number in self.counters.requests.items():
            family.add_metric((method, route, str(status)), number)
        yield family
        for name, counter in (
            ("confirmed", self.counters.published),
            ("returned", self.counters.returned),
        ):
            family = CounterMetricFamily(
                f"{PREFIX}http_messages_{name}",
                f"Messages of HTTP publishers {name}.",
                labels=("vhost",),
            )
            for vhost, number in counter.items():
                family.add_metric((vhost,), number)
            yield family
        yield from self.collect_latencies()
        hub = self.hub
        yield scalar("http_confirms_waiting", "Unconfirmed publishes.", self.publisher.waiting())
        yield scalar("sse_streams", "Open event streams.", len(hub.streams))
        yield scalar("sse_sources", "Event sources with a journal.", len(hub.sources))
        octets = sum(source.journal.octets for source in hub.sources.values())
        yield scalar("sse_journal_octets", "Octets in journals.", octets)
        yield total("sse_events", "Events journaled.", hub.events)
        yield total("sse_dropped", "Events left out for slow readers.", getattr(hub, "dropped", 0))
        yield total("sse_gaps", "Gaps reported to event readers.", hub.gaps)

    def collect_latencies(self) -> Iterable[Metric]:
        meter = self.publisher.meter
        family = CounterMetricFamily(
            f"{PREFIX}http_publish_outcomes",
            "Outcomes of messages of HTTP publishers.",
            labels=("outcome",),
        )
        for outcome in OUTCOMES:
            family.add_metric((outcome,), meter.outcomes[outcome])
        yield family
        confirms = HistogramMetricFamily(
            f"{PREFIX}http_confirm_seconds", "From the broker's hands to its confirm.", labels=()
        )
        confirms.add_metric((), meter.confirms.buckets(), meter.confirms.seconds)
        yield confirms
        answers = HistogramMetricFamily(
            f"{PREFIX}http_request_seconds",
            "Until the answer begins, by route.",
            labels=("route",),
        )
        for route, one in self.counters.durations.items():
            answers.add_metric((route,), one.buckets(), one.seconds)
        yield answers


def scalar(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def total(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)
