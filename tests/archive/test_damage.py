"""Octets that were damaged, cut or never captured: the rest comes out, and the counts add up."""

import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.frames import frame as frame_1_0
from gateway.adapters.performatives.wire import layouts as w10
from gateway.archive.methods import MethodSide
from gateway.archive.performatives import PerformativeSide
from gateway.archive.side import DELIVERED, MOST_SHOWN, PUBLISHED, Bad, Found, Side
from gateway.message import Properties
from tests.archive.recorded import Read, document, form_of, frames, plainly, read
from tests.talk import body, header, method

V = "0-9-1"
OPEN = b"AMQP\0\0\x09\x01"


def publish(number: int, channel: int = 1, size: int = 300) -> list[bytes]:
    """The frames of one message."""
    properties = BASIC.write(Properties(message_id=f"m-{number}", application={"n": number}))
    octets = (f"{number:08d}" * (size // 8 + 1)).encode()[:size]
    return [
        method(V, channel, w.BasicPublish(0, "orders", f"key-{number}", False, False)),
        header(channel, size, properties),
        body(channel, octets[: size // 2]),
        body(channel, octets[size // 2 :]),
    ]


def fed(side: Side, pieces: list[bytes]) -> tuple[list[Found], list[Bad]]:
    for piece in pieces:
        side.feed(piece)
    side.end()
    assert side.messages + side.unreadable == len(side.items)
    found = [one for one in side.items if isinstance(one, Found)]
    return found, [one for one in side.items if isinstance(one, Bad)]


def methods(pieces: list[bytes]) -> tuple[list[Found], list[Bad]]:
    return fed(MethodSide(V, True), pieces)


def kinds_of_damage(draw: random.Random, octets: bytes, ended: bool = True) -> bytes:
    """A frame that is no longer one, in one of many ways. Not ``ended``: its last octet tells
    nothing."""
    at = draw.randrange(len(octets))
    match draw.choice(range(6) if ended else (0, 2, 4, 5)):
        case 0:
            return octets[:at]
        case 1:
            return octets[:-1] + bytes([octets[-1] ^ 0x55])
        case 2:
            return bytes([0x77]) + octets[1:]
        case 3:
            return octets[:3] + b"\x7f\xff\xff\xff" + octets[7:]
        case 4:
            return draw.randbytes(len(octets))
        case _:
            return b""


@pytest.mark.parametrize("seed", range(8))
def test_one_frame_of_a_hundred_is_damaged(seed: int) -> None:
    draw = random.Random(seed)
    messages = [publish(number) for number in range(1_000)]
    damaged = set()
    pieces = [OPEN]
    for number, some in enumerate(messages):
        for one in some:
            if draw.random() < 0.01:
                damaged.add(number)
                one = kinds_of_damage(draw, one)
            pieces.append(one)
    found, bad = methods(pieces)
    whole, expected = plainly(found), plainly(methods([OPEN, *sum(messages, [])])[0])
    assert set(whole) <= set(expected), "a message came out that was never sent"
    # A message next to a damaged one may be lost with it, if no frame end is there to tell.
    near = {number + step for number in damaged for step in (-1, 0, 1)}
    for number, message in enumerate(expected):
        assert message in whole or number in near
    assert len(damaged) <= len(bad) <= 4 * len(damaged)
    octets = b"".join(pieces)
    for error in bad:
        assert error.code and error.text and error.direction == PUBLISHED
        assert 0 <= error.offset <= error.position <= len(octets)
        assert len(error.wire) <= MOST_SHOWN


@pytest.mark.parametrize("cut", range(0, 1_000, 37))
def test_a_stream_that_begins_and_ends_anywhere(cut: int) -> None:
    octets = OPEN + b"".join(sum((publish(number) for number in range(40)), []))
    late, _ = fed(MethodSide(V, True), [octets[cut:]])
    assert len(late) >= 36
    early, bad = fed(MethodSide(V, True), [octets[: len(octets) - cut]])
    assert len(early) >= 37 and (not cut or bad)


def test_channels_may_be_interleaved() -> None:
    some = [publish(number, channel=number + 1) for number in range(20)]
    mixed = [one for step in zip(*some, strict=True) for one in step]
    found, bad = methods([OPEN, *mixed])
    assert not bad and len(found) == 20
    assert {one.key for one in found} == {f"key-{number}" for number in range(20)}


def test_a_method_instead_of_the_rest_of_a_content() -> None:
    first, second = publish(1), publish(2)
    found, bad = methods([OPEN, *first[:3], *second])
    assert [one.key for one in found] == ["key-2"]
    assert [(one.code, one.offset) for one in bad] == [("message-incomplete", len(OPEN))]


def test_a_content_without_its_method_is_one_error() -> None:
    found, bad = methods([*publish(1)[1:], *publish(2)])
    assert [one.key for one in found] == ["key-2"]
    assert [one.code for one in bad] == ["message-beginning-missing"]


def deep(levels: int) -> bytes:
    """Headers of tables in tables."""
    table = b""
    for _ in range(levels):
        table = b"\x01t" + b"F" + struct.pack(">I", len(table)) + table
    return table


def bomb(entries: int) -> bytes:
    """Headers of very many values in few octets."""
    listed = b"V" * entries
    return b"\x01a" + b"A" + struct.pack(">I", len(listed)) + listed


@pytest.mark.parametrize(
    ("name", "headers"),
    [("deep", deep(5_000)), ("many", bomb(5_000_000)), ("long", b"\x01s" + b"S\xff\xff\xff\xff")],
)
def test_hostile_headers(name: str, headers: bytes) -> None:
    properties = b"\x20\x00" + struct.pack(">I", len(headers)) + headers
    pieces = [publish(1)[0], header(1, 3, properties), body(1, b"abc"), *publish(2)]
    found, bad = methods([OPEN, *pieces])
    assert [one.key for one in found] == ["key-2"]
    assert [one.code for one in bad] == ["content-broken"]


@pytest.mark.parametrize("size", [1 << 28, 1 << 40, (1 << 64) - 1])
def test_a_body_that_is_announced_as_enormous_takes_no_memory(size: int) -> None:
    tracemalloc.start()
    try:
        pieces = [publish(1)[0], header(1, size), body(1, b"abc"), *publish(2)]
        found, bad = methods([OPEN, *pieces])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert [one.key for one in found] == ["key-2"]
    assert [one.code for one in bad] == ["message-too-large"]


def test_a_frame_that_says_it_is_enormous() -> None:
    large = b"\x03\0\x01\xff\xff\xff\xf0" + b"x" * 100 + b"\xce"
    found, bad = methods([OPEN, large, *publish(2)])
    assert [one.key for one in found] == ["key-2"]
    assert bad[0].code == "frame-too-large" and bad[0].position == len(OPEN)


def test_noise_is_passed_over_in_steps_that_do_not_grow() -> None:
    """The places that are looked at are counted: not more than a few for each octet."""
    looked = 0

    class Counting(MethodSide):
        def size(self, buf: bytes, at: int) -> int | None:
            nonlocal looked
            looked += 1
            return super().size(buf, at)

    noise = random.Random(5).randbytes(1 << 20)
    side = Counting(V, True)
    for at in range(0, len(noise), 4096):
        side.feed(noise[at : at + 4096])
    side.end()
    assert looked < len(noise)


# --- other versions -------------------------------------------------------------------------------


def transfers() -> list[bytes]:
    found = [b"AMQP\0\1\0\0", frame_1_0(0, write(w10.Open("c")))]
    found.append(frame_1_0(0, write(w10.Begin(None, 0, 100, 100))))
    target = w10.Target(address="/queues/orders")
    found.append(frame_1_0(0, write(w10.Attach("l", 0, False, target=target))))
    for number in range(100):
        octets = b"\0Su\xb0" + struct.pack(">I", 200) + bytes([number]) * 200
        for at, more in ((0, True), (100, False)):
            record = w10.Transfer(0, number if not at else None, b"t%d" % number, 0, more=more)
            found.append(frame_1_0(0, write(record) + octets[at : at + 100 if more else None]))
    return found


def test_transfers_of_1_0_are_put_together() -> None:
    found, bad = fed(PerformativeSide(False), transfers())
    assert not bad and [one.body[:1][0] for one in found] == list(range(100))
    assert {(one.direction, one.key) for one in found} == {(DELIVERED, "")}
    found, bad = fed(PerformativeSide(True), transfers())
    assert {(one.direction, one.key) for one in found} == {(PUBLISHED, "/queues/orders")}


@pytest.mark.parametrize("seed", range(8))
def test_damaged_transfers_of_1_0(seed: int) -> None:
    draw = random.Random(seed)
    pieces = transfers()
    whole = plainly(fed(PerformativeSide(True), pieces)[0])
    for at in draw.sample(range(4, len(pieces)), 6):
        pieces[at] = kinds_of_damage(draw, pieces[at], False)
    found, bad = fed(PerformativeSide(True), pieces)
    assert set(plainly(found)) <= set(whole) and len(found) >= 70 and bad


def recorded() -> Iterator[tuple[str, str]]:
    yield "0.8a2", "pair-java-serial-fragmented"
    yield "0-9a6", "consume"
    yield "0-10-07", "0-10-07-24-message"
    yield "0-10-07", "0-10-07-27-large"
    yield "0-10", "cpp-settle"
    yield "0-10", "java-large"


@pytest.mark.parametrize(("family", "name"), list(recorded()))
@pytest.mark.parametrize("seed", range(6))
def test_damaged_recordings(family: str, name: str, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    listed = frames(family, name)
    whole = _read(listed, family, name, tmp_path)
    for at in draw.sample(range(2, len(listed)), max(1, len(listed) // 50)):
        octets = kinds_of_damage(draw, listed[at].octets)
        listed[at] = listed[at]._replace(octets=octets or b"\0")
    got = _read(listed, family, name, tmp_path)
    assert got.adds_up and (got.bad or set(plainly(got.found)) == set(plainly(whole.found)))


def _read(listed: Any, family: str, name: str, folder: Path) -> Read:
    path = folder / "one.json"
    path.write_text(document(listed, **form_of(family, name)))
    return read(path, {"0-10-07": name[:10], "0.8a2": "0.8a2"}.get(family, family))
