"""The receive loop: three carriers, cut anywhere, bounded; only ``PeerError`` escapes."""

import random
import struct
from typing import Any

import pytest

from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.transitional.versions import REVISIONS, Carried
from gateway.errors import PeerError
from tests.adapters.methods.transitional.recorded import NAMES, octets, version_of

LIMIT = 6000
TABLE = REVISIONS["0-10-07-24"]
FLUSH = TABLE.by_name["execution.flush"].prefix


class Heard:
    """Keeps the frames that are complete."""

    def __init__(self) -> None:
        self.frames = Frames(TABLE, self, LIMIT)
        self.heard: list[tuple[Any, ...]] = []
        self.pause = False

    def on_method(
        self, channel: int, carried: Carried | None, buf: bytes, at: int, end: int, found: Any
    ) -> None:
        self.heard.append((channel, carried, buf[at:end]))
        self.frames.waiting = self.pause

    def on_header(self, channel: int, buf: bytes, at: int, end: int, found: Any) -> None:
        self.heard.append((channel, "header", buf[at:end]))

    def on_body(self, channel: int, buf: bytes, at: int, end: int, found: Any) -> None:
        self.heard.append((channel, "body", buf[at:end]))

    def feed(self, data: bytes, size: int = 1 << 20) -> None:
        for at in range(0, len(data), size):
            self.frames.feed(data[at : at + size], [])


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def test_a_method_in_each_of_the_carriers() -> None:
    heard = Heard()
    heads = [None, Carried(False, 3, 2, 0), Carried(True, 4, 7, 2)]
    written = [heard.frames.method_frame(5, head, FLUSH) for head in heads]
    assert [octets[0] for octets in written] == [1, 9, 10]
    assert written[2][7:27] == bytes.fromhex("0000000000000004 0000000000000007 00000002")
    heard.feed(b"".join(written))
    assert heard.heard == [(5, head, FLUSH) for head in heads]


def test_heartbeats_stand_on_channel_zero() -> None:
    heard = Heard()
    heard.feed(TABLE.geometry.heartbeat * 2)
    assert not heard.heard
    with pytest.raises(PeerError, match="heartbeat on a channel"):
        heard.feed(frame(8, 1, b""))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (frame(1, 0, b"abc"), "without a method"),
        (frame(9, 0, bytes(23)), "without a method"),
        (frame(10, 0, bytes(19)), "without a method"),
        (frame(2, 1, bytes(11)), "content header is cut short"),
        (frame(3, 1, b"abc", b"\0"), "end octet"),
        (frame(4, 1, b""), "frame type 4 is unknown"),
        (frame(11, 1, b""), "frame type 11 is unknown"),
        (frame(3, 1, bytes(LIMIT + 1))[:7], "6001 octets, 6000 are allowed"),
    ],
)
def test_invalid_frames(data: bytes, text: str) -> None:
    for size in (1, 1 << 20):
        heard = Heard()
        with pytest.raises(PeerError, match=text):
            heard.feed(frame(3, 1, b"before") + data, size)
        assert heard.heard == [(1, "body", b"before")]
        assert heard.frames.held <= LIMIT


def test_an_unfinished_frame_is_held_and_forgotten() -> None:
    heard = Heard()
    heard.feed(frame(3, 1, bytes(LIMIT))[:-1], 100)
    assert heard.frames.held == 7 + LIMIT and not heard.heard
    heard.frames.stop()
    assert heard.frames.held == 0
    heard.feed(frame(3, 1, b"new"))
    assert heard.heard == [(1, "body", b"new")]


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_nothing_is_read_while_waiting(size: int) -> None:
    heard = Heard()
    heard.pause = True
    heard.feed(frame(1, 1, FLUSH) + frame(3, 1, b"later") + frame(3, 1, b"cut")[:-2], size)
    assert heard.heard == [(1, None, FLUSH)]
    heard.frames.resume([])
    assert heard.heard[1:] == [(1, "body", b"later")] and heard.frames.held == 9
    heard.feed(frame(3, 1, b"cut")[-2:])
    assert heard.heard[2:] == [(1, "body", b"cut")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("from_client", [True, False])
def test_mutated_recordings(name: str, from_client: bool) -> None:
    chance = random.Random(f"{name}{from_client}")
    whole = octets(name, from_client)[8 if from_client else 0 :]
    table = REVISIONS[version_of(name)]
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(data))
            if chance.random() < 0.6:
                data[at] = chance.choice([0, 1, 9, 10, 0xCE, 0xFF, chance.randrange(256)])
            else:
                data[at : at + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 9))
        heard = Heard()
        try:
            heard.feed(bytes(data), chance.choice([1, 50, 1 << 20]))
        except PeerError:
            continue
        finally:
            assert heard.frames.held <= LIMIT + 8
        for _, _, payload in heard.heard:
            assert len(payload) <= LIMIT
            method = table.methods.get(int.from_bytes(payload[:4], "big"))
            if method is not None:
                try:
                    method.read(payload, 4)
                except (ValueError, IndexError, struct.error):
                    continue
