"""Descriptions of frames: readable when good, and never an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.trace import Reader
from gateway.adapters.methods.wire import layouts as w
from gateway.message import Properties
from tests.pair import VERSIONS
from tests.talk import body, frame, header, method


@pytest.mark.parametrize("version", VERSIONS)
def test_a_publish(version: str) -> None:
    table = fields.write_table({"x-max-length": 5})
    properties = BASIC.write(Properties(content_type="text/plain", application={"a": "b"}))
    data = (
        b"AMQP\x00\x00\x09\x01"
        + method(version, 1, w.QueueDeclare(queue="q", durable=True, arguments=table))
        + method(version, 1, w.BasicPublish(0, "x", "k", True))
        + header(1, 5, properties)
        + body(1, b"hello")
        + body(1, b"\0\xff")
        + frame(8, 0, b"")
    )
    lines = list(Reader(version).frames(data))
    assert [line.kind for line in lines] == [
        "protocol header", "method", "method", "header", "body", "body", "heartbeat",
    ]  # fmt: skip
    texts = [line.text for line in lines]
    assert texts[0] == "AMQP 0.0.9.1"
    assert texts[1] == "queue.declare queue='q' durable=True arguments={'x-max-length': 5}"
    assert texts[2] == "basic.publish exchange='x' routing_key='k' mandatory=True"
    assert texts[3] == "basic, body of 5 octets content_type='text/plain' headers={'a': 'b'}"
    assert texts[4:6] == ["5 octets: 'hello'", "2 octets: 00 ff"]
    assert sum(line.size for line in lines) == len(data)
    assert str(lines[1]).split()[:3] == ["8", "1", "method"]


def test_secrets_stay_secret() -> None:
    record = w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0secret", "en_US")
    (line,) = Reader("0-9-1").frames(method("0-9-1", 0, record))
    assert "secret" not in line.text and "<13 octets>" in line.text


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\0",
        frame(1, 1, b"abc")[:-1],
        frame(1, 1, b"abc", end=0),
        frame(9, 1, b"abc"),
        frame(1, 1, b"\0\x32\0\x0a"),
        header(1, 5, b"\x80\0"),
        method("0-9-1", 1, w.QueueDeclare(arguments=b"\x01aZ")),
        frame(1, 1, b"\0\x63\0\x63abc"),
        header(1, 5, group=99),
    ],
)
def test_broken_frames(data: bytes) -> None:
    (line,) = Reader("0-9-1").frames(data)
    assert line.size == len(data)
    assert line.kind in ("broken", "cut", "unknown", "method", "header") and line.text


@given(some.binary(max_size=300), some.sampled_from(VERSIONS))
def test_anything(data: bytes, version: str) -> None:
    assert sum(line.size for line in Reader(version).frames(data)) >= len(data) or data == b""
