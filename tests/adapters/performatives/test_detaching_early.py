"""Client role: a link that is detached while its attach is not answered."""

import pytest

from gateway.errors import Lost
from gateway.operations import (
    AttachSource,
    AttachTarget,
    DetachLink,
    Done,
    Operation,
    Publish,
    Refused,
    Subscribe,
    Terminus,
    Unsubscribe,
)
from tests.adapters.performatives.house import CHANNEL, House, message

PLACE = Terminus("/queues/q")


@pytest.mark.parametrize(
    ("attach", "end"),
    [
        (AttachSource(CHANNEL, 7, "s", "s", "", PLACE), DetachLink(CHANNEL, 8, "s", True)),
        (AttachTarget(CHANNEL, 7, "t", "t", "", PLACE), DetachLink(CHANNEL, 8, "t", True)),
        (AttachTarget(CHANNEL, 7, "t", "t", "", PLACE), DetachLink(CHANNEL, 8, "t")),
    ],
)
def test_only_the_link_is_lost(attach: Operation, end: Operation) -> None:
    """The attach is refused because of the detach; the session goes on."""
    house = House()
    house.client.send(attach)
    house.client.send(end)
    house.run()
    refused, done = house.told(Refused, Done)
    assert (refused.token, refused.lost, done.token) == (7, Lost.LINK, 8)
    assert refused.text == "the link was detached"
    assert not house.heard
    house.client.send(Publish(CHANNEL, message(b"m"), True, False))
    house.run()
    assert [op.message.body for op in house.asked(Publish)] == [b"m"]


def test_a_consumer_begins_before_it_ends() -> None:
    house = House()
    house.put("q", message(b"m"))
    house.client.send(Subscribe(CHANNEL, 7, "q", "c"))
    house.client.send(Unsubscribe(CHANNEL, 8, "c"))
    house.run()
    assert house.heard == [Done(CHANNEL, 7, "c"), Done(CHANNEL, 8, "c")]
    assert [link.closed for link in house.asked(DetachLink)] == [True]
