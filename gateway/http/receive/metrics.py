"""Metrics of receives, leases, redrives and requests."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.http.leases import LeaseState
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.redrive import RedriveEndpoints
from gateway.http.receive.request_reply import PendingRequests

PREFIX = "amqp_gateway_"


class ReceiveMetrics(Collector):
    """Shown beside the other metrics."""

    def __init__(
        self, receiver: Receiver, redriving: RedriveEndpoints, calls: PendingRequests
    ) -> None:
        self.receiver = receiver
        self.redriving = redriving
        self.calls = calls

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        receiver, calls = self.receiver, self.calls
        leases = receiver.leases
        ended = CounterMetricFamily(
            f"{PREFIX}leases_ended", "Leases that are over, by how.", labels=("fate",)
        )
        for fate in LeaseState:
            if fate is not LeaseState.OPEN:
                ended.add_metric((fate.value,), leases.ended[fate])
        yield ended
        waits = sum(
            receive_channel.waits for receive_channel in receiver.receive_channels.by_user.values()
        )
        for name, text, value in (
            ("leases_open", "Deliveries leased to HTTP callers.", leases.open()),
            ("receives_waiting", "Receives that wait for a message.", waits),
            ("requests_waiting", "Requests that wait for a reply.", calls.waiting.total()),
        ):
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        for name, text, value in (
            ("leases_granted", "Leases granted.", leases.granted),
            (
                "deliveries_poisoned",
                "Messages dead-lettered instead of being delivered too often.",
                receiver.receive_channels.tally.total(),
            ),
            ("receive_hang_ups", "Receives whose caller had disconnected.", receiver.hang_ups),
            ("dead_letters_redriven", "Dead letters sent back.", self.redriving.redriven),
            ("replies", "Replies given to callers.", calls.replied),
            ("replies_late", "Replies that came too late.", calls.late),
            ("reply_timeouts", "Requests whose reply did not come in time.", calls.timeouts),
        ):
            yield CounterMetricFamily(PREFIX + name, text, value=value)
