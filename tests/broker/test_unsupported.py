"""Arguments that a type of queue does not have are refused as by RabbitMQ 3.10; those that mean
nothing here are accepted as there, and a warning says so."""

from typing import Any

import pytest

from gateway.errors import Condition, Refusal
from tests.broker.fakes import House, declare

QUORUM = {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    "name",
    [
        "x-delivery-limit", "x-max-age", "x-max-in-memory-length", "x-max-in-memory-bytes",
        "x-stream-max-segment-size-bytes", "x-initial-cluster-size", "x-quorum-initial-group-size",
        "x-queue-leader-locator", "x-dead-letter-strategy",
    ],
)  # fmt: skip
def test_not_for_classic_queues(house: House, name: str) -> None:
    with pytest.raises(Refusal) as caught:
        declare(house.channel()[0], durable=True, arguments={name: 1})
    expected = f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    assert (caught.value.condition, caught.value.text) == (
        Condition.PRECONDITION_FAILED,
        expected,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-max-priority", 5), ("x-queue-mode", "lazy"), ("x-max-age", "1D"),
        ("x-queue-master-locator", "min-masters"), ("x-queue-version", 2),
    ],
)  # fmt: skip
def test_not_for_quorum_queues(house: House, name: str, value: Any) -> None:
    with pytest.raises(Refusal) as caught:
        declare(house.channel()[0], durable=True, arguments={**QUORUM, name: value})
    assert caught.value.text.endswith("of queue type rabbit_quorum_queue")


def test_a_quorum_queue_does_not_go_with_its_consumers(house: House) -> None:
    with pytest.raises(Refusal) as caught:
        declare(house.channel()[0], durable=True, auto_delete=True, arguments=QUORUM)
    assert caught.value.text == "invalid property 'auto-delete' for queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("arguments", "warnings"),
    [
        ({"x-message-ttl": 1000, "x-overflow": "reject-publish"}, []),
        (
            {"x-mesage-ttl": 1},
            ["x-mesage-ttl is not known and has no effect (did you mean x-message-ttl?)"],
        ),
        ({"x-ha-policy": "all"}, ["x-ha-policy is not known and has no effect"]),
        ({"anything": 1}, []),
        (QUORUM, ["x-queue-type 'quorum': kept on this node only, without replicas"]),
        ({"x-queue-version": 2}, ["x-queue-version has no effect: there is one kind of storage"]),
    ],
)
def test_unsupported_arguments_are_reported(
    house: House, arguments: dict[str, Any], warnings: list[str]
) -> None:
    said: list[str] = []
    house.broker.state.warn = said.append
    declare(house.channel()[0], durable=True, arguments=arguments)
    declare(house.channel()[0], durable=True, arguments=arguments)
    assert said == [f"queue 'q' in vhost '/': {text}" for text in warnings]
