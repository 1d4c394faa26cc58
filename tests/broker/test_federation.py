"""The exchange type that RabbitMQ's federation plugin declares at its upstream."""

from typing import Any

import pytest

from gateway.errors import Condition
from tests.broker.fakes import House, bind, declare, exchange, fetch_all, message, refused

TYPE = "x-federation-upstream"
DOWNSTREAM = {"x-max-hops": 2, "x-downstream-name": "b", "x-downstream-vhost": "/"}


def hop(cluster: str, vhost: str = "/") -> dict[str, str]:
    return {"cluster-name": cluster, "vhost": vhost, "exchange": "x"}


@pytest.mark.parametrize("arguments", [{}, {"x-max-hops": "2"}, {"x-max-hops": True}])
def test_it_wants_a_number_of_hops(house: House, arguments: dict[str, Any]) -> None:
    channel, _ = house.channel()
    with refused(Condition.PRECONDITION_FAILED):
        exchange(channel, "x", TYPE, arguments=arguments)


def test_messages_do_not_go_in_a_circle(house: House) -> None:
    """Not those with as many hops as are allowed, nor those of the broker that takes from it; and
    so after a restart."""
    channel, _ = house.channel()
    exchange(channel, "x", TYPE, durable=True, arguments=DOWNSTREAM)
    exchange(channel, "unnamed", TYPE, durable=True, arguments={"x-max-hops": 2})
    for name in ("q", "filtered", "unnamed"):
        declare(channel, name, durable=True)
    bind(channel, "q", "x", "k")
    bind(channel, "filtered", "x", arguments={"x-selector": "n = 1"})
    bind(channel, "unnamed", "unnamed")
    house.commit()
    for _ in range(2):
        for place in ("x", "unnamed"):
            for body, headers in (
                ("new", {"n": 1}),
                ("one hop", {"x-received-from": [hop("a")]}),
                ("two hops", {"x-received-from": [hop("a"), hop("c")]}),
                ("own", {"n": 1, "x-received-from": [hop("b")]}),
                ("other vhost", {"x-received-from": [hop("b", "v")]}),
                ("nothing told", {"x-received-from": [{}]}),
                ("text", {"x-received-from": "b"}),
                ("texts", {"x-received-from": ["b"]}),
            ):
                channel.publish(message(body, "any", place, application=headers))
        passed = ["new", "one hop", "other vhost", "nothing told", "text", "texts"]
        assert fetch_all(channel, "q") == passed
        assert fetch_all(channel, "filtered") == ["new"]
        assert fetch_all(channel, "unnamed") == [*passed[:2], "own", *passed[2:]]
        house.commit()
        house = house.restart()
        channel, _ = house.channel()
