"""consume-rate: so many octets a second, for messages of any size."""

from typing import Any

import pytest

from gateway.adapters.methods.contents.pacing import MOST, Pace
from gateway.adapters.methods.wire import layouts_0_9a0 as first
from gateway.adapters.methods.wire import layouts_0_9a6 as second
from gateway.message import Message, Properties
from gateway.operations import Credit, Operation, Subscribe
from tests.adapters.methods.drafts.talking import VERSIONS, Both


class Source:
    """An endless queue with one consumer, as the broker treats its credit."""

    def __init__(self, both: Both, rate: int, size: int) -> None:
        self.both = both
        w: Any = second if both.server.version == "0-9a6" else first
        consume: dict[str, Any] = {"queue": "q"} if w is second else {"destination": "q"}
        if w is first:
            consume["service_type"] = 1
        record = w.StreamConsume(consume_rate=rate, **consume)
        both.perform(both.server.receive(both.client.encoded(1, record)))
        (subscribe,) = (o for o in both.asked if isinstance(o, Subscribe))
        self.credit, self.tag = subscribe.credit, subscribe.tag
        self.sent = 0
        dialect = both.server.channel(1).dialect("stream")
        header = dialect.write(Properties())
        self.message = Message(
            dialect, header, bytes(size - len(header)), "", "q", dialect.essentials(header)
        )

    def run(self, most: int = 1 << 20) -> None:
        """Deliver while there is credit."""
        while self.credit and self.sent < most:
            self.credit -= 1
            self.sent += 1
            self.both.server.outlet(1).deliver(self.tag, self.sent, False, self.message)
            self.take(self.both.server.found())

    def take(self, found: list[Operation]) -> None:
        for operation in found:
            assert isinstance(operation, Credit) and operation.tag == self.tag
            assert self.credit == 0 and 0 < (operation.count or 0) <= MOST
            self.credit = operation.count


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [100, 999, 25_000])
def test_about_so_many_octets_a_second(version: str, size: int) -> None:
    both = Both(version).opened()
    rate, seconds = 10_000, 60
    both.server.tick(5.0)
    source = Source(both, rate, size)
    source.run()
    for second_ in range(1, seconds):
        source.take(both.server.tick(5.0 + second_))
        source.run()
    assert abs(source.sent * size - rate * seconds) <= max(size, rate)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_rate_is_no_limit(version: str) -> None:
    both = Both(version).opened()
    source = Source(both, 0, 100)
    assert source.credit is None
    both.server.outlet(1).deliver(source.tag, 1, False, source.message)
    assert not both.server.found() and not both.server.tick(9.0)


def test_what_is_not_used_is_not_saved_up() -> None:
    pace = Pace(1000)
    assert pace.sent(100) == 9 and pace.replenish(3600.0) == 0
    for _ in range(8):
        assert pace.sent(100) == 0
    assert pace.sent(100) == 1 and pace.sent(100) == 0 and pace.left == 0


def test_one_that_is_too_large_is_paid_for_later() -> None:
    pace = Pace(1000)
    assert pace.sent(3500) == 0
    assert [pace.replenish(1.0) for _ in range(3)] == [0, 0, 1]
    assert Pace(1).sent(0) == 1
