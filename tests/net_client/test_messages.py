"""What is published comes back: every property, every kind of table value, every size of body."""

from typing import Any

import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import Publish, Returned, SessionLost
from gateway.values import (
    Byte,
    Float,
    Int,
    Scaled,
    Seconds,
    Short,
    UByte,
    UInt,
    UShort,
)
from tests.net_client.places import Talk

pytestmark = pytest.mark.interop

VALUES: dict[str, Any] = {
    "boolean": True,
    "no": False,
    "byte": Byte(-128),
    "ubyte": UByte(255),
    "short": Short(-32768),
    "ushort": UShort(65535),
    "int": Int(-(1 << 31)),
    "uint": UInt((1 << 32) - 1),
    "long": -(1 << 63),
    "float": Float(0.5),
    "double": 1e300,
    "decimal": Scaled(2, 12345),
    "text": "grün ✓",
    "empty": "",
    "octets": b"\x00\xff\xfe",
    "time": Seconds(1_700_000_000),
    "void": None,
    "table": {"inner": {"deep": Int(1)}, "list": [1, "two", None]},
    "array": [True, Int(1), "x", {"k": b"v"}, [], {}],
    "none": {},
}

PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain; charset=utf-8",
    "content_encoding": "gzip",
    "application": {"a": "b"},
    "durable": True,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "replies",
    "ttl": 3_600_000,
    "message_id": "m-1",
    "creation_time": 1_700_000_000_000,
    "type": "kind",
    "user_id": b"guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


def same(received: Message, sent: Message) -> None:
    assert received.header == sent.header
    assert received.properties == sent.properties
    assert received.body == sent.body
    assert (received.exchange, received.key) == (sent.exchange, sent.key)


async def there_and_back(talk: Talk, **properties: Any) -> Message:
    """Publish, and take it back by delivery and by get."""
    queue = await talk.queue()
    sent = talk.publish(queue, b"body", **properties)
    tag = await talk.subscribe(queue, no_ack=True)
    delivered = await talk.delivery()
    assert (delivered.consumer, delivered.redelivered) == (tag, False)
    same(delivered.message, sent)
    await talk.reopen()
    talk.remote.send(Publish(1, sent, False, False))
    await talk.settled(queue, 1)
    fetched = await talk.fetch(queue)
    assert fetched is not None and fetched.remaining == 0
    same(fetched.message, sent)
    return delivered.message


@pytest.mark.parametrize("name", sorted(VALUES))
async def test_header_value(talk: Talk, name: str) -> None:
    await talk.open()
    found = await there_and_back(talk, application={name: VALUES[name]})
    value = (found.properties.application or {})[name]
    assert value == VALUES[name] and type(value) is type(VALUES[name])


async def test_all_values_at_once(talk: Talk) -> None:
    await talk.open()
    found = await there_and_back(talk, application=VALUES)
    assert found.properties.application == VALUES


@pytest.mark.parametrize("name", sorted(PROPERTIES))
async def test_one_property(talk: Talk, name: str) -> None:
    await talk.open()
    found = await there_and_back(talk, **{name: PROPERTIES[name]})
    assert found.properties == Properties(**{name: PROPERTIES[name]})


async def test_all_properties_at_once(talk: Talk) -> None:
    await talk.open()
    found = await there_and_back(talk, **PROPERTIES)
    assert found.properties == Properties(**PROPERTIES)


async def test_large_headers(talk: Talk) -> None:
    await talk.open()
    await there_and_back(talk, application={f"k{n}": "v" * 100 for n in range(1000)})


@pytest.mark.parametrize("tags", ["spec-0-9-1", "qpid-java"])
async def test_headers_of_other_dialects_pass_untouched(talk: Talk, tags: str) -> None:
    """We carry octets; RabbitMQ reads and writes them anew, which not all tags survive."""
    await talk.open()
    queue = await talk.queue()
    headers = fields.write_table({"n": 5, "s": Short(3)}, fields.DIALECTS[tags])
    if tags == "spec-0-9-1":
        headers = headers.replace(b"U\x00\x03", b"s\x00\x03")
    header = write_basic_properties(BasicProperties(headers=headers))
    sent = Message(BASIC, header, b"x", "", queue, BASIC.essentials(header))
    talk.remote.send(Publish(1, sent, False, False))
    await talk.settled(queue, 1)
    found = await talk.fetch(queue)
    assert found is not None
    assert (found.message.properties.application or {})["n"] == 5


SIZES = (0, 1, 131_063, 131_064, 131_065, 131_072, 2 * 131_064, 2 * 131_064 + 1, 1 << 20)


@pytest.mark.parametrize("size", [*SIZES, 10 << 20])
async def test_body(talk: Talk, size: int) -> None:
    await talk.open()
    queue = await talk.queue()
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    talk.publish(queue, body)
    await talk.remote.drain()
    talk.publish(queue, b"the next one")
    await talk.subscribe(queue, no_ack=True)
    first, second = await talk.delivery(), await talk.delivery()
    assert first.message.body == body
    assert second.message.body == b"the next one"


async def test_mandatory_comes_back(talk: Talk) -> None:
    await talk.open()
    sent = talk.publish("nobody", b"body", "amq.direct", mandatory=True, **PROPERTIES)
    back = await talk.next(Returned)
    assert (back.channel, back.condition) == (1, Condition.NO_ROUTE)
    assert back.text == "NO_ROUTE"
    same(back.message, sent)
    queue = await talk.queue()
    talk.publish(queue, b"routed", mandatory=True)
    await talk.settled(queue, 1)


async def test_wrong_user_id_is_refused(talk: Talk) -> None:
    await talk.open()
    talk.publish("k", b"x", user_id=b"somebody")
    lost = await talk.next(SessionLost)
    assert lost.condition is Condition.PRECONDITION_FAILED
    assert "user_id property set to 'somebody'" in lost.text
    await talk.reopen(ended=True)


async def test_many_small_ones(talk: Talk) -> None:
    """Ten thousand through a window that holds a few of them."""
    await talk.open(window=64 * 1024)
    queue = await talk.queue()
    await talk.subscribe(queue, no_ack=True)
    for number in range(10_000):
        talk.publish(queue, b"%d" % number)
        await talk.remote.drain()
    for number in range(10_000):
        assert (await talk.delivery()).message.body == b"%d" % number
