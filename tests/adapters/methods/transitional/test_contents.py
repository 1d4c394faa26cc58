"""Properties of a transfer: those that no other version has go through the queue as they came."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.splicing import with_headers
from gateway.adapters.methods.transitional import content as messages
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.crossing import Crossing
from gateway.message import Message
from tests.adapters.methods.transitional.test_server import both, consuming, inline, ready

HEADERS = types.write_table({"z": "last", "a": 1, "t": {"y": "x"}, "m": b"\0\xff"})
EXTRA: dict[str, Any] = {
    "content_length": 4, "transaction_id": "tx-\xe9", "security_token": b"\0\xfftoken",
}  # fmt: skip


def passed(m: w.MessageTransfer, *added: dict[str, Any]) -> w.MessageTransfer:
    """The transfer that a consumer gets of a published one. ``added``: headers of others."""
    header, essentials = messages.header_of(m)
    for headers in added:
        header = with_headers(header, headers)
    message = Message(BASIC, header, b"body", "x", "k", essentials)
    record, body = messages.transfer_of(message, "d", False)
    assert body == b"body" and (record.exchange, record.routing_key) == ("x", "k")
    return record


def properties(m: w.MessageTransfer) -> dict[str, Any]:
    addressed = ("ticket", "destination", "exchange", "routing_key", "body")
    return {name: getattr(m, name) for name in m.__slots__ if name not in addressed}


text = st.text(max_size=60)
wide = st.integers(0, 2**64 - 1) | st.just(0)
tables = st.dictionaries(text, text | st.integers(-(2**31), 2**31 - 1) | st.binary(), max_size=4)


@given(
    st.builds(
        w.MessageTransfer,
        ttl=wide | st.integers(1, 10**11),
        priority=st.integers(0, 255),
        timestamp=wide,
        delivery_mode=st.integers(0, 255),
        expiration=st.just(0) | st.integers(1, 10**12) | wide,
        message_id=text,
        correlation_id=text,
        reply_to=text,
        content_type=text,
        content_encoding=text,
        content_length=wide,
        type=text,
        user_id=text,
        app_id=text,
        transaction_id=text,
        security_token=st.binary(max_size=1000),
        application_headers=tables.map(types.write_table),
    )
)
def test_all_properties_arrive_as_they_were_published(m: w.MessageTransfer) -> None:
    assert properties(passed(m)) == properties(m)


@both
@pytest.mark.parametrize("expiration", [0, 77, 1_900_000_000])
@pytest.mark.parametrize("by_reference", [True, False])
def test_through_a_queue(version: str, expiration: int, by_reference: bool) -> None:
    client = ready(version)
    sent = w.MessageTransfer(
        routing_key="q", ttl=60_000, expiration=expiration, type="jms", application_headers=HEADERS,
        body=inline(b"body"), **EXTRA,
    )  # fmt: skip
    if by_reference:
        sent.body = types.write_body(types.Body(True, b"r"))
        client.say(1, w.MessageOpen(b"r"))
        client.say(1, w.MessageAppend(b"r", b"body"))
    client.say(1, sent)
    if by_reference:
        client.say(1, w.MessageClose(b"r"))
    (got,) = consuming(client, no_ack=True)
    assert properties(got.record) == {**properties(sent), "ttl": got.record.ttl}
    assert got.record.ttl <= 60_000 and types.read_body(got.record.body).octets == b"body"


@both
def test_numbers_as_large_as_a_field(version: str) -> None:
    client = ready(version)
    most = 2**64 - 1
    sent = w.MessageTransfer(
        routing_key="q", ttl=most, timestamp=most, expiration=most, content_length=most,
        body=inline(b""),
    )  # fmt: skip
    client.say(1, sent)
    (got,) = consuming(client, no_ack=True)
    assert properties(got.record) == properties(sent)


def test_readers_of_other_versions_see_them_among_the_headers() -> None:
    m = w.MessageTransfer(expiration=5, application_headers=HEADERS, **EXTRA)
    found = BASIC.read(messages.header_of(m)[0]).application
    assert found == {
        **types.read_table(HEADERS),
        "x-amqp09-expiration": "5",
        "x-amqp09-content-length": "4",
        "x-amqp09-transaction-id": EXTRA["transaction_id"],
        "x-amqp09-security-token": EXTRA["security_token"],
    }


def test_they_come_back_from_1_0() -> None:
    m = w.MessageTransfer(ttl=1000, priority=3, application_headers=HEADERS, **EXTRA)
    header, essentials = messages.header_of(m)
    message = Message(BASIC, header, b"body", "", "q", essentials)
    crossing = Crossing(b"k" * 32)
    there, body = crossing(message, SECTIONS)
    abroad = Message(SECTIONS, there, body, "", "q", SECTIONS.essentials(there))
    back, octets = crossing(abroad, BASIC)
    assert (BASIC.read(back), octets) == (BASIC.read(header), b"body")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amqp09-content-length": "no number"},
        {"x-amqp09-content-length": str(1 << 64)},
        {"x-amqp09-expiration": 7},
        {"x-amqp09-transaction-id": "x" * 256},
        {"x-amqp09-security-token": "text"},
        {"x-amqp09-other": "x"},
    ],
)
def test_headers_that_are_none_of_ours_stay(headers: dict[str, Any]) -> None:
    got = passed(w.MessageTransfer(), headers)
    assert types.read_table(got.application_headers) == headers
    assert properties(got) == {
        **properties(w.MessageTransfer()),
        "application_headers": got.application_headers,
    }
