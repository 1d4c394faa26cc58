"""First octets: every prefix waits or decides, and nothing else comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.performatives.wire.tables import HEADER as PLAIN_1_0
from gateway.adapters.performatives.wire.tables import SASL_HEADER as SASL_1_0
from gateway.adapters.performatives.wire.tables import TLS_HEADER as TLS_1_0
from gateway.adapters.registry import header_meanings
from gateway.adapters.sniff import FALLBACK, Detected, detect

DRAFT = header_meanings(["0-9a6"])
HEADER_0_10, HEADER_99_0 = b"AMQP\x01\x01\x00\x0a", b"AMQP\x01\x01\x63\x00"

HEADERS = {
    b"AMQP\x00\x00\x09\x01": "0-9-1",
    b"AMQP\x01\x01\x00\x09": "0-9",
    b"AMQP\x01\x01\x08\x00": "0-8",
    b"AMQP\x01\x01\x09\x01": "0-8",
    b"AMQP\x00\x01\x00\x00": "1.0",
    b"AMQP\x03\x01\x00\x00": "1.0",
}


@pytest.mark.parametrize(("header", "version"), HEADERS.items())
def test_amqp(header: bytes, version: str) -> None:
    for size in range(8):
        assert detect(header[:size]) is None
    assert detect(header) == detect(header + b"more") == Detected("amqp", version)


def test_versions_of_the_header_of_0_9() -> None:
    assert detect(b"AMQP\x01\x01\x00\x09", DRAFT) == Detected("amqp", "0-9a6")
    assert detect(b"AMQP\x00\x00\x09\x01", DRAFT) == Detected("amqp", "0-9-1")


@pytest.mark.parametrize("version", ["0-10-07-24", "0-10-07-27"])
@pytest.mark.parametrize("header", [HEADER_0_10, HEADER_99_0])
def test_the_transitional_0_10_has_to_be_chosen(header: bytes, version: str) -> None:
    if header == HEADER_0_10:
        assert detect(header) == detect(header, DRAFT) == Detected("amqp", "0-10")
    else:
        assert detect(header) == Detected("unknown", "", FALLBACK)
        assert detect(header, DRAFT) == Detected("unknown")
    chosen = header_meanings(["0-9a6", version])
    for size in range(8):
        assert detect(header[:size], chosen) is None
    assert detect(header, chosen) == detect(header + b"\x09", chosen) == Detected("amqp", version)
    assert detect(b"AMQP\x01\x01\x00\x09", chosen) == Detected("amqp", "0-9a6")
    assert detect(b"AMQP\x00\x00\x09\x01", chosen) == Detected("amqp", "0-9-1")


def test_commands() -> None:
    """0.8a2 has two octets; other versions get no answer (§3.2.2)."""
    assert detect(b"\x80") is None
    assert detect(b"\x80\x01") == detect(b"\x80\x01more") == Detected("amqp", "0.8a2")
    assert detect(b"\x80\x02") == detect(b"\x80\xff") == Detected("amqp", "0.8a2")
    assert detect(b"\x80\x00") == Detected("unknown")


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x03\x00\x00\x00", b"AMQP\x09\x09\x09\x09",
        b"AMQP\x01\x01\x63\x00", b"AMQP\x01\x01\x09\x00", b"AMQP\x00\x00\x09\x02",
        b"junk", b"\0",
    ],
)  # fmt: skip
def test_not_ours(header: bytes) -> None:
    assert detect(header) == Detected("unknown", "", FALLBACK)


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (b"AMQP\x00\x01\x01\x00", PLAIN_1_0),
        (b"AMQP\x00\x02\x00\x00", PLAIN_1_0),
        (b"AMQP\x03\x01\x00\x01", SASL_1_0),
        (TLS_1_0, SASL_1_0),
    ],
)
def test_other_versions_and_layers_of_1_0(header: bytes, answer: bytes) -> None:
    """1.0 §2.2: the nearest version, or another layer; one that we would speak."""
    assert detect(header) == Detected("unknown", "", answer)


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


def test_command_frames() -> None:
    """0.8a2 §3.2.2: two octets, and no answer to other versions."""
    assert detect(b"\x80") is None
    assert detect(b"\x80\x01") == Detected("amqp", "0.8a2")
    assert detect(b"\x80\x01\x00\x09") == Detected("amqp", "0.8a2")
    assert detect(b"\x80\x00") == Detected("unknown")


@pytest.mark.parametrize("header", [b"AMQP\x01\x01\x08\x01", b"AMQP\x01\x01\x00\x0b", b"nothing!"])
def test_a_listener_for_drafts_does_not_answer_unknown_headers(header: bytes) -> None:
    """0-9a0 §3.2.2, 0-9a6 "Protocol and Version": closed without any response."""
    assert detect(header, DRAFT) == Detected("unknown")
    found = detect(header)
    assert found is not None and found.answer


def test_a_listener_for_drafts_answers_later_versions_as_they_expect() -> None:
    found = detect(b"AMQP\x00\x02\x00\x00", DRAFT)
    assert found is not None and found.answer
    assert detect(b"AMQP\x00\x00\x09\x01", DRAFT) == Detected("amqp", "0-9-1")
