"""Descriptions of frames: readable when good, and never an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.performatives.trace import Reader
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from tests.adapters.performatives.wire import PLAIN, SASL, packed


def test_a_conversation() -> None:
    data = (
        SASL_HEADER
        + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL)
        + HEADER
        + packed(w.Open("c"))
        + packed(w.Attach("l", 3, True, source=w.Source("q"), target=w.Target()), 5)
        + packed(w.Transfer(3, 0, b"\0\1"), 5, b"\x00\x53\x75\xa0\x02hi")
        + packed(None)
    )
    lines = list(Reader().frames(data))
    assert [line.kind for line in lines] == [
        "protocol header", "sasl frame", "protocol header", "frame", "frame", "frame", "heartbeat",
    ]  # fmt: skip
    texts = [line.text for line in lines]
    assert texts[0] == "AMQP 3.1.0.0"
    assert texts[1] == "sasl-init mechanism='PLAIN' initial_response=<12 octets>"
    assert texts[3] == "open container_id='c'"
    assert texts[4] == (
        "attach name='l' handle=3 role=True source=(source address='q') target=(target)"
    )
    assert texts[5] == (
        "transfer handle=3 delivery_id=0 delivery_tag=00 01 with 7 octets: 00 53 75 a0 02 68 69"
    )
    assert sum(line.size for line in lines) == len(data)
    assert lines[4].channel == 5


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"AM", "cut"),
        (b"\0\0\0", "cut"),
        (packed(w.Open("c"))[:-1], "cut"),
        (b"\0\0\0\x07\x02\0\0\0", "broken"),
        (b"\x7f\xff\xff\xff\x02\0\0\0", "broken"),
        (b"\0\0\0\x08\x02\x05\0\0", "broken"),
        (b"\0\0\0\x09\x02\0\0\0\xff", "broken"),
        (packed(w.Open("c"), kind=SASL), "broken"),
    ],
)
def test_broken_frames(data: bytes, kind: str) -> None:
    (line,) = Reader().frames(data)
    assert (line.size, line.kind) == (len(data), kind) and line.text


@given(some.binary(max_size=300))
def test_anything(data: bytes) -> None:
    assert sum(line.size for line in Reader().frames(data)) == len(data)
