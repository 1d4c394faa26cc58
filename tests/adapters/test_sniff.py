"""First octets: every prefix waits or decides, and nothing else comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.sniff import PREFERRED, UNKNOWN, Detected, detect

HEADERS = {
    b"AMQP\x00\x00\x09\x01": "0-9-1",
    b"AMQP\x01\x01\x00\x09": "0-9",
    b"AMQP\x01\x01\x08\x00": "0-8",
    b"AMQP\x01\x01\x09\x01": "0-8",
}


@pytest.mark.parametrize(("header", "version"), HEADERS.items())
def test_amqp(header: bytes, version: str) -> None:
    for size in range(8):
        assert detect(header[:size]) is None
    assert detect(header) == detect(header + b"more") == Detected("amqp", version)


def test_what_0_9_stands_for() -> None:
    assert detect(b"AMQP\x01\x01\x00\x09", "0-9a6") == Detected("amqp", "0-9a6")
    assert detect(b"AMQP\x00\x00\x09\x01", "0-9a6") == Detected("amqp", "0-9-1")


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00",
        b"AMQP\x01\x01\x00\x0a", b"AMQP\x01\x01\x09\x00", b"AMQP\x00\x00\x09\x02", b"\x80\x01",
        b"junk", b"\0",
    ],
)  # fmt: skip
def test_not_ours(header: bytes) -> None:
    found = detect(header)
    assert found == UNKNOWN and found is not None and found.answer == PREFERRED


@pytest.mark.parametrize("method", [b"GET /", b"POST /x", b"DELETE /", b"PRI * HTTP/2.0\r\n"])
def test_http(method: bytes) -> None:
    assert detect(method) == Detected("http")
    assert detect(method[:2]) is None


def test_tls() -> None:
    assert detect(b"\x16\x03\x01") == Detected("tls")


@given(some.binary(max_size=20))
def test_anything(data: bytes) -> None:
    found = detect(data)
    if found is None:
        assert len(data) < 12
    else:
        assert found.protocol in ("amqp", "tls", "http", "unknown")
