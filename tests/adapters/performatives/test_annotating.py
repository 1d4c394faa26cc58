"""Deliveries that say where their message was published."""

import pytest

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part, pieces
from gateway.adapters.performatives.splicing import annotated
from gateway.message import Message, Properties
from gateway.operations import AttachSource, Deliver, Subscribe
from tests import in_memory
from tests.adapters.performatives.house import CHANNEL, House, message

WHOLE = Properties(
    durable=True, delivery_annotations={"d": 1}, annotations={"a": 2}, subject="s", footer={"f": 3}
)


def carried(header: bytes, body: bytes = b"body") -> Message:
    return Message(SECTIONS, header, body, "x", "k", SECTIONS.essentials(header))


@pytest.mark.parametrize(
    "properties",
    [
        Properties(), Properties(durable=True), Properties(subject="s"), WHOLE,
        Properties(footer={"f": 1}), Properties(delivery_annotations={"d": 1}, subject="s"),
    ],
)  # fmt: skip
def test_all_else_stays(properties: Properties) -> None:
    header = SECTIONS.write(properties)
    found = annotated(header, carried(header))
    read = SECTIONS.read(found)
    assert read.annotations == {
        "x-exchange": "x", "x-routing-key": "k", **(properties.annotations or {})
    }  # fmt: skip
    assert read.first_acquirer is True
    read.annotations, read.first_acquirer = properties.annotations, properties.first_acquirer
    assert read == properties
    assert part(in_memory.joined(pieces(found, b"body"))) == (found, b"body")


def test_earlier_annotations_stay() -> None:
    header = SECTIONS.write(Properties(annotations={"x-exchange": "first"}))
    read = SECTIONS.read(annotated(header, carried(header)))
    assert read.annotations == {"x-exchange": "first", "x-routing-key": "k"}


@pytest.mark.parametrize("redelivered", [False, True])
def test_deliveries(redelivered: bool) -> None:
    house = House(annotates=True)
    house.ask(Subscribe(CHANNEL, 7, "q", "tag"))
    (attach,) = house.asked(AttachSource)
    said = message(b"x", "there", "key", subject="s")
    house.server.send(Deliver(CHANNEL, attach.link, 1, redelivered, said))
    house.run()
    (heard,) = house.told(Deliver)
    assert (heard.message.exchange, heard.message.key) == ("there", "key")
    assert heard.redelivered is redelivered
    assert heard.message.properties.first_acquirer is not redelivered
