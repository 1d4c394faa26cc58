"""The gateway's own queue at an upstream, which an event stream from an exchange reads."""

from typing import Any, cast

import pytest

from gateway.broker.answers import Answer
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.feed_queue import UpstreamPort
from gateway.errors import AwaitsUpstream, Condition, Refusal
from tests.broker.fakes import House


class Upstream:
    """Keeps requests, until the test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Answer]] = []

    def ask(self, operation: Any) -> Answer:
        answer = Answer()
        self.asked.append((operation, answer))
        return answer


@pytest.mark.parametrize("refused", (0, 1), ids=("declaration", "binding"))
def test_a_refusal_is_told_once_and_the_next_stream_asks_again(refused: int) -> None:
    upstream = Upstream()
    host = FacadeVirtualHost("up", House().broker.state, cast(UpstreamPort, upstream))

    with pytest.raises(AwaitsUpstream):
        host.private_queue("news", "all")
    for number, (_, answer) in enumerate(upstream.asked):
        refusal = Refusal(Condition.RESOURCE_ERROR, "the upstream is away")
        answer.resolve(None, refusal if number == refused else None)
    with pytest.raises(Refusal, match="the upstream is away"):
        host.private_queue("news", "all")

    with pytest.raises(AwaitsUpstream):
        host.private_queue("news", "all")
    declaration, binding = (operation for operation, _ in upstream.asked[2:])
    for _, answer in upstream.asked[2:]:
        answer.resolve(None)
    queue = host.private_queue("news", "all")
    assert queue.name == declaration.name == binding.destination
    assert queue.restore == [declaration, binding]
