"""Reject with requeue: "the server MUST NOT deliver the message to the same client within the
context of the current channel" (0-9a0 §4.7.10 and §4.8.10)."""

from typing import Any

import pytest

from gateway.adapters.methods.contents.methods import OutgoingMethod
from tests.adapters.methods.drafts.house import Guest, House, bodies, named

DRAFTS = ("0-9a0", "0-9a6")


class Reader(Guest):
    """Consumes from the queue ``q``."""

    def consume(self, **more: Any) -> list[tuple[str, Any]]:
        w = self.w
        if self.version == "0-9a0":
            return self.says(w.JmsConsume(0, 1, "q", **more))
        return self.says(w.JmsConsume(0, "", "q", **more))

    def browse(self) -> list[tuple[str, Any]]:
        w = self.w
        if self.version == "0-9a0":
            return self.says(w.JmsBrowse(0, 1, "q"))
        return self.says(w.JmsBrowse(0, "", "q"))

    def define(self) -> None:
        w = self.w
        if self.version == "0-9a0":
            self.says(w.DestinationDefine(0, 1, "q"))
        else:
            self.says(w.QueueDeclare(0, "", "q"))

    def publish(self, *texts: bytes) -> list[tuple[str, Any]]:
        w = self.w
        if self.version == "0-9a0":
            return self.says(
                *[OutgoingMethod(w.JmsPublish(0, 1, "q"), self.content(body=t)) for t in texts]
            )
        return self.says(
            *[
                OutgoingMethod(w.JmsPublish(0, "queue"), self.content(body=t, destination="q"))
                for t in texts
            ]
        )


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture(params=DRAFTS)
def guest(request: pytest.FixtureRequest, house: House) -> Reader:
    made = Reader(house, request.param)
    made.define()
    return made


def tags(heard: list[tuple[str, Any]]) -> list[int]:
    return [record.delivery_tag for record in named(heard, "jms.deliver")]


def test_it_does_not_come_back(guest: Reader, house: House) -> None:
    guest.publish(b"1", b"2")
    heard = guest.consume(prefetch_count=1)
    assert bodies(heard) == [b"1"]
    heard = guest.says(guest.w.JmsReject(tags(heard)[0], True))
    assert bodies(heard) == [b"2"]
    assert guest.says(guest.w.JmsReject(tags(heard)[0], True)) == []
    queue = house.queues["q"]
    assert (queue.depth, queue.delivered, queue.redelivered) == (2, 2, 0)
    assert bodies(guest.publish(b"3")) == [b"3"], "what is new is delivered"


def test_nor_to_another_consumer_of_the_channel_nor_by_browsing(
    guest: Reader, house: House
) -> None:
    guest.consume()
    heard = guest.publish(b"1")
    assert bodies(guest.consume()) == []
    assert guest.says(guest.w.JmsReject(tags(heard)[0], True)) == []
    assert bodies(guest.consume()) == [], "nor to one that comes later"
    assert [name for name, _ in guest.browse()] == ["jms.browse-empty"]
    guest.says(*([guest.w.JmsCancel(n) for n in (1, 2, 3)]))
    assert bodies(guest.consume()) == []
    guest.publish(b"2")
    assert house.queues["q"].depth == 1


def test_what_was_browsed_is_not_browsed_again(guest: Reader) -> None:
    guest.publish(b"1", b"2")
    (first,) = named(guest.browse(), "jms.browse-ok")
    guest.says(guest.w.JmsReject(first.delivery_tag, True))
    heard = guest.browse()
    assert bodies(heard) == [b"2"]
    (second,) = named(heard, "jms.browse-ok")
    guest.says(guest.w.JmsReject(second.delivery_tag, True))
    assert bodies(guest.browse()) == []


@pytest.mark.parametrize("other", DRAFTS)
def test_another_client_gets_it(guest: Reader, house: House, other: str) -> None:
    heard = guest.consume()
    heard = guest.publish(b"1")
    beside = Reader(house, other)
    beside.consume()
    guest.says(guest.w.JmsReject(tags(heard)[0], True))
    heard = beside.hears()
    assert bodies(heard) == [b"1"]
    assert named(heard, "jms.deliver")[0].redelivered
    beside.says(beside.w.JmsAck(tags(heard)[0]))
    assert house.queues["q"].depth == house.queues["q"].unsettled == 0
    assert not house.queues["q"].excluded


def test_another_channel_of_the_client_may_get_it(guest: Reader, house: House) -> None:
    guest.consume()
    (tag,) = tags(guest.publish(b"1"))
    guest.says(guest.w.JmsReject(tag, True))
    guest.says(guest.w.ChannelOpen(), channel=2)
    consume = {"0-9a0": (0, 1, "q"), "0-9a6": (0, "", "q")}[guest.version]
    assert bodies(guest.says(guest.w.JmsConsume(*consume), channel=2)) == [b"1"]


def test_the_next_channel_gets_it_and_nothing_is_left_behind(guest: Reader, house: House) -> None:
    guest.consume()
    (tag,) = tags(guest.publish(b"1"))
    guest.says(guest.w.JmsReject(tag, True))
    assert house.queues["q"].excluded
    guest.says(guest.w.ChannelClose())
    assert not house.queues["q"].excluded
    guest.says(guest.w.ChannelOpen())
    assert bodies(guest.consume()) == [b"1"]


def test_in_a_transaction_it_counts_when_that_is_committed(house: House) -> None:
    guest = Reader(house, "0-9a6")
    guest.define()
    guest.publish(b"1")
    w = guest.w
    guest.says(w.TxSelect())
    (tag,) = tags(guest.consume())
    assert guest.says(w.JmsReject(tag, True)) == []
    assert [name for name, _ in guest.says(w.TxCommit())] == ["tx.commit-ok"]
    assert (house.queues["q"].depth, house.queues["q"].delivered) == (1, 1)


def test_too_many_cost_the_channel(
    guest: Reader, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.broker.exclusions.MOST", 2)
    guest.consume()
    found = tags(guest.publish(b"1", b"2", b"3"))
    heard = guest.says(*[guest.w.JmsReject(tag, True) for tag in found])
    (close,) = named(heard, "channel.close")
    assert close.reply_code == 506
    assert house.queues["q"].depth == 3
