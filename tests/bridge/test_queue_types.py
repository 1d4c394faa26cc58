"""The texts of RabbitMQ about the arguments of a queue."""

import pytest

from gateway.bridge.queue_types import read_argument

START = "inequivalent arg '{}' for queue 'it''s' in vhost '/': received {} but current is {}"


@pytest.mark.parametrize(
    ("argument", "received", "current", "told"),
    [
        ("x-queue-type", "'?'", "'stream'", ("x-queue-type", "stream")),
        (
            "x-queue-type",
            "the value '?' of type 'longstr'",
            "the value 'quorum' of type 'longstr'",
            ("x-queue-type", "quorum"),
        ),
        ("x-queue-type", "the value '?' of type 'longstr'", "none", None),
        (
            "x-max-length-bytes",
            "none",
            "the value '40000' of type 'signedint'",
            ("x-max-length-bytes", 40000),
        ),
        ("x-max-age", "none", "the value '7' of type 'longstr'", ("x-max-age", "7")),
        ("x-single", "none", "the value 'true' of type 'bool'", ("x-single", True)),
        ("durable", "'true'", "'false'", ("durable", False)),
    ],
)
def test_an_argument_is_told(argument: str, received: str, current: str, told: object) -> None:
    assert read_argument(START.format(argument, received, current)) == told


@pytest.mark.parametrize(
    "text",
    [
        "no queue 'q' in vhost '/'",
        "invalid arg 'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type '?'\"",
    ],
)
def test_other_refusals_tell_nothing(text: str) -> None:
    assert read_argument(text) is None
