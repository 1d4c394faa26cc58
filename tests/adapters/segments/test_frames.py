"""Frames, segments and assemblies: split anywhere, interleaved, broken and too large."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.core.large_bodies import DeferredOutput
from gateway.adapters.segments import assembly, frames
from gateway.adapters.segments.frame_format import HEAD
from gateway.adapters.segments.frames import (
    LargeBodyFrames,
    command,
    control,
    frames_of,
    opening_frames,
)
from gateway.bodies import Spool
from gateway.errors import Condition, Lost
from tests.adapters.segments.receiving import Heard

ACCEPT = bytes.fromhex("040201000100") + bytes.fromhex("00080000000000000003")
TRANSFER = bytes.fromhex("0401010101000a") + b"amq.direct"
COMPLETED = bytes.fromhex("020a0100") + bytes.fromhex("00080000000000000003")
HEADER = bytes.fromhex("00000006040108000700")


def transfer(sync: bool, header: bytes | None, body: bytes | None, channel: int = 1) -> Any:
    return channel, 0x0401, sync, TRANSFER[4:], header, body


def frame(flags: int, kind: int, payload: bytes, channel: int = 1, track: int = 1) -> bytes:
    return HEAD.pack(flags << 8 | kind, len(payload) + 12, track, channel) + payload


Said = tuple[int, bytes, bytes | None, bytes | None]
SEGMENTS = some.one_of(
    some.tuples(some.integers(0, 3), some.just(ACCEPT), some.none(), some.none()),
    some.tuples(
        some.integers(0, 3),
        some.just(TRANSFER),
        some.none() | some.binary(max_size=60),
        some.none() | some.binary(max_size=120),
    ),
    some.tuples(some.integers(0, 3), some.just(b""), some.none(), some.none()),
)


def written(said: Said, limit: int) -> bytes:
    channel, segment, header, body = said
    if not segment:
        return control(channel, COMPLETED, limit)
    return command(channel, segment, header, body, limit)


def expected(said: Said) -> Any:
    channel, segment, header, body = said
    if not segment:
        return channel, 0x020A, COMPLETED[2:]
    code = segment[0] << 8 | segment[1]
    return channel, code, segment[3] == 1, segment[4:], header, body


@given(
    some.lists(SEGMENTS, max_size=6),
    some.sampled_from([13, 20, 40, 4096]),
    some.lists(some.integers(1, 90), max_size=12),
)
def test_any_split_gives_the_same(said: list[Said], limit: int, cuts: list[int]) -> None:
    octets = b"".join(written(each, limit) for each in said)
    heard = Heard(limit=limit)
    for cut in cuts:
        heard.feed(octets[:cut])
        octets = octets[cut:]
    assert heard.feed(octets) == [expected(each) for each in said]
    assert heard.violation is None and heard.frames.held == 0


@given(some.lists(SEGMENTS, min_size=1, max_size=3), some.data())
def test_channels_are_interleaved(said: list[Said], data: Any) -> None:
    """Frames of one channel and track stay in order, others stand between them."""
    said = [(number, *rest) for number, (_, *rest) in enumerate(said)]  # type: ignore[misc]
    split = [list(pieces(written(each, 20))) for each in said]
    octets = b""
    while any(split):
        octets += data.draw(some.sampled_from([each for each in split if each])).pop(0)
    assert sorted(Heard(limit=20).feed(octets), key=repr) == sorted(map(expected, said), key=repr)


def pieces(octets: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(octets):
        size = HEAD.unpack_from(octets, at)[1]
        found.append(octets[at : at + size])
        at += size
    return found


@given(some.binary(max_size=100), some.integers(0, 15), some.integers(0, 3))
def test_any_octets(octets: bytes, flags: int, kind: int) -> None:
    """Never an exception."""
    Heard().feed(octets)
    Heard().feed(frame(flags, kind, octets[:20]) + octets[20:])
    Heard().feed(frame(11, 1, TRANSFER) + frame(flags, kind, octets[:50]), frame(3, 2, octets[50:]))


def test_absent_body_and_empty_body() -> None:
    heard = Heard()
    heard.feed(command(1, TRANSFER, HEADER, None) + command(1, TRANSFER, HEADER, b""))
    heard.feed(command(1, TRANSFER, None, None) + command(1, TRANSFER, None, b"x"))
    assert heard.heard == [
        transfer(True, HEADER, None), transfer(True, HEADER, b""),
        transfer(True, None, None), transfer(True, None, b"x"),
    ]  # fmt: skip
    assert pieces(command(1, TRANSFER, HEADER, b""))[2] == frame(7, 3, b"")


def test_frames_as_recorded() -> None:
    """Flags of the recordings: 0f alone; 0b 03 07; 0b 07; a body in 06 04 05."""
    found = [p[:2].hex() for p in pieces(command(1, TRANSFER, HEADER, b"x" * 40, 30))]
    assert found == ["0b01", "0302", "0603", "0403", "0503"]
    assert [p[:2].hex() for p in pieces(command(1, TRANSFER, HEADER, None))] == ["0b01", "0702"]
    assert command(1, ACCEPT)[:2].hex() == "0f01" and command(1, ACCEPT)[4:6] == b"\0\1"
    assert control(1, COMPLETED)[:6].hex() == "0f00001a0000"
    long = control(0, bytes(50), 40)
    assert [p[:2].hex() for p in pieces(long)] == ["0e00", "0d00"]


def test_other_tracks() -> None:
    """A track orders frames and means nothing else."""
    octets = frame(15, 0, COMPLETED, 1, 1) + frame(11, 1, TRANSFER, 1, 3)
    octets += frame(15, 0, COMPLETED, 1, 0) + frame(7, 2, HEADER, 1, 3)
    assert Heard().feed(octets) == [
        (1, 0x020A, COMPLETED[2:]), (1, 0x020A, COMPLETED[2:]), transfer(True, HEADER, None),
    ]  # fmt: skip


BROKEN = {
    "version": (b"\x4f" + frame(15, 0, COMPLETED)[1:], "reserved bits"),
    "reserved flags": (b"\x1f" + frame(15, 0, COMPLETED)[1:], "reserved bits"),
    "reserved octet": (HEAD.pack(0x0F00, 12, 0x0101, 1), "reserved bits"),
    "reserved track": (HEAD.pack(0x0F00, 12, 0x10, 1), "reserved bits"),
    "type": (HEAD.pack(0x0F04, 12, 0, 1), "segment type 4"),
    "short": (HEAD.pack(0x0F00, 11, 0, 1), "shorter than its header"),
    "long": (HEAD.pack(0x0F00, 4097, 0, 1), "4097 octets, where 4096"),
    "no opening": (frame(3, 2, HEADER), "what has not begun"),
    "no first frame": (frame(13, 1, TRANSFER), "what has not begun"),
    "header first": (frame(15, 2, HEADER), "begins with a control or a command"),
    "opened twice": (frame(11, 1, TRANSFER) + frame(11, 1, TRANSFER), "before the last segment"),
    "body, then header": (
        frame(11, 1, TRANSFER) + frame(3, 3, b"x") + frame(7, 2, HEADER), "type 2 behind one of",
    ),
    "two bodies": (
        frame(11, 1, TRANSFER) + frame(3, 3, b"x") + frame(7, 3, b"x"), "type 3 behind one of",
    ),
    "other type inside": (frame(10, 1, TRANSFER) + frame(5, 2, HEADER), "that is not open"),
    "begun inside": (frame(10, 1, TRANSFER) + frame(3, 2, HEADER), "before the last frame"),
    "another place": (frame(10, 1, TRANSFER) + frame(13, 1, b""), "differ in its place"),
    "control with content": (frame(11, 0, COMPLETED) + frame(7, 2, HEADER), "behind one of type 0"),
    "no class": (frame(15, 0, b"\1"), "without class and code"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_framing_errors(name: str) -> None:
    octets, text = BROKEN[name]
    heard = Heard(limit=4096)
    heard.feed(command(1, ACCEPT) + octets, command(1, ACCEPT))
    assert heard.violation is not None and text in heard.violation.text
    assert heard.violation.code == 501 and heard.violation.lost is Lost.CONNECTION
    assert len(heard.heard) == 1, "what was good before counts, and nothing behind it"
    byte_by_byte = Heard(limit=4096)
    byte_by_byte.feed(*(octets[at : at + 1] for at in range(len(octets))))
    assert byte_by_byte.violation == heard.violation


def test_commands_that_are_none() -> None:
    heard = Heard()
    for segment in (b"\4", b"\4\1\1", b"\4\1\2\0", b"\4\1\1\2", b"\4\2\0\0"):
        heard.feed(command(1, segment), command(1, segment, HEADER, b"x"))
    assert heard.heard == [(1, "command-invalid")] * 10 and heard.violation is None


def test_channel_without_a_session() -> None:
    heard = Heard(channels=2)
    octets = command(3, TRANSFER, HEADER, b"x" * 100, 40)
    heard.feed(octets + command(1, ACCEPT) + command(3, ACCEPT))
    assert [each[:2] for each in heard.heard] == [(3, "unattached"), (1, 0x0402), (3, "unattached")]
    heard.frames.channels = 3
    heard.feed(command(3, ACCEPT))
    assert heard.violation is not None and heard.violation.code == 501


def test_a_transfer_without_the_end_of_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken in one step when the rest is here; what comes behind it is not joined to it."""
    monkeypatch.setattr(frames, "Assembly", None)
    octets = command(1, TRANSFER, HEADER, b"x" * 1000)
    for cut in range(len(octets) - 999, len(octets)):
        heard = Heard()
        heard.feed(octets * 2 + octets[:cut])
        assert heard.frames.held == cut
        heard.feed(octets[cut:-1])
        assert heard.frames.held == len(octets) - 1
        heard.feed(octets[-1:] + octets)
        assert heard.heard == [transfer(True, HEADER, b"x" * 1000)] * 4
        assert heard.frames.held == 0


def test_the_rest_of_a_read_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the sake of a transfer that it completes."""
    octets = command(1, TRANSFER, HEADER, b"x" * 1000)
    heard = Heard()
    heard.feed(octets[:-5])
    monkeypatch.setattr(heard, "on_control", lambda *_: None)
    behind = control(1, COMPLETED) * 10_000
    read = octets[-5:] + behind
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        heard.feed(read)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert most < len(behind) // 2


def test_a_session_that_ends_in_the_middle() -> None:
    heard = Heard()
    octets = pieces(command(1, TRANSFER, HEADER, b"x" * 100, 40))
    heard.feed(*octets[:3])
    assert heard.frames.held > 0
    heard.frames.forget(1)
    assert heard.frames.held == 0
    heard.feed(*octets[3:], command(1, ACCEPT))
    assert [each[1] for each in heard.heard] == [0x0402]
    heard.feed(*octets[:3])
    heard.frames.forget(1)
    heard.feed(command(1, ACCEPT))
    assert [each[1] for each in heard.heard] == [0x0402] * 2, "a new one begins at once"


def test_message_that_is_too_large() -> None:
    heard = Heard(max_body=100)
    heard.feed(command(1, TRANSFER, HEADER, b"x" * 100), command(1, TRANSFER, HEADER, b"x" * 101))
    heard.feed(command(1, TRANSFER, HEADER, b"x" * 500, 50), command(1, ACCEPT))
    assert [each[1] for each in heard.heard] == [
        0x0401, "content-too-large", "content-too-large", 0x0402,
    ]  # fmt: skip
    assert heard.violation is None and heard.frames.held == 0


def test_memory_of_unfinished_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MOST_HELD", 3 * assembly.UNFINISHED + 1000)
    heard = Heard(channels=9)
    for channel in range(9):
        octets = pieces(command(channel, TRANSFER, HEADER, b"x" * 400, 112))
        heard.feed(*octets[:5])
    refused = [each for each in heard.heard if each[1] == Condition.RESOURCE_ERROR.value]
    assert len(refused) == 9 - 3 and heard.frames.held <= 3 * assembly.UNFINISHED + 1000


def test_unfinished_messages_count_even_if_they_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MOST_HELD", 100_000)
    heard = Heard(channels=9)
    for number in range(9 * 16):
        channel, track = number // 16, number % 16
        heard.feed(*frames_of(1, 8, b"", channel, track, 4096))
    assert len(heard.heard) == 9 * 16 - 100_000 // assembly.UNFINISHED


def test_frames_without_octets_are_not_kept() -> None:
    """Nor do small frames take more memory than their octets."""
    heard = Heard()
    head, middle, last = pieces(command(1, TRANSFER, HEADER, b"aaabbbccc", 15))[-3:]
    heard.feed(*pieces(command(1, TRANSFER, HEADER, b"aaabbbccc", 15))[:-3], head)
    empty = middle[:2] + b"\0\x0c" + middle[4:12]
    tracemalloc.start()
    try:
        for _ in range(1000):
            heard.feed(20 * (empty + middle))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 200_000
    heard.feed(last)
    assert heard.heard == [transfer(True, HEADER, b"aaa" + 20_000 * b"bbb" + b"ccc")]


def test_segment_that_is_too_long() -> None:
    heard = Heard()
    octets = bytes(assembly.LONGEST_SEGMENT + 1)
    heard.feed(*opening_frames(1, TRANSFER, octets, True, 65535), command(1, ACCEPT))
    assert [each[1] for each in heard.heard] == ["resource-error", 0x0402]
    heard.feed(*frames_of(0, 12, octets, 1, 0, 65535))
    assert heard.violation is not None and heard.violation.code == 501


def test_large_bodies_go_to_a_file() -> None:
    spool = Spool(threshold=1000)
    heard = Heard(spool=spool)
    body = bytes(range(256)) * 40
    octets = pieces(command(1, TRANSFER, HEADER, body, 500))
    heard.feed(*octets[:10])
    assert spool.files == 1 and heard.frames.held < assembly.UNFINISHED + 200, (
        "the command and the header stay"
    )
    heard.feed(*octets[10:], *pieces(command(2, TRANSFER, HEADER, b"x" * 999, 500)))
    assert heard.heard == [transfer(True, HEADER, body), transfer(True, HEADER, b"x" * 999, 2)]
    heard.heard.clear()
    assert spool.octets == 0 and spool.files == 0
    heard.feed(*octets[:10])
    heard.frames.stop()
    assert spool.files == 0 and heard.frames.held == 0


def test_too_many_files() -> None:
    """What finds no file stays in memory, and goes to one that becomes free."""
    spool = Spool(threshold=1000, most_files=1)
    heard = Heard(spool=spool)
    bodies = {1: b"a" * 5000, 2: b"b" * 5000}
    split = {
        channel: pieces(command(channel, TRANSFER, HEADER, body, 500))
        for channel, body in bodies.items()
    }
    heard.feed(*split[1][:6], *split[2][:8])
    assert spool.files == 1 and heard.frames.held > 2000
    heard.feed(*split[1][6:])
    heard.feed(*split[2][8:10])
    assert spool.files == 1 and heard.frames.held < assembly.UNFINISHED + 200, (
        "the second has the file now"
    )
    heard.feed(*split[2][10:])
    assert heard.heard == [transfer(True, HEADER, bodies[n], n) for n in (1, 2)]
    assert heard.frames.held == 0


def test_no_room_on_disk() -> None:
    heard = Heard(spool=Spool(threshold=1000, most_octets=3000))
    heard.feed(command(1, TRANSFER, HEADER, b"x" * 9000, 500), command(1, ACCEPT))
    assert [each[1] for each in heard.heard] == ["content-too-large", 0x0402]
    assert heard.frames.held == 0


def test_large_bodies_going_out() -> None:
    filling = Spool().start()
    assert filling is not None
    body = b"0123456789" * 30
    filling.add(body)
    opening = list(opening_frames(1, TRANSFER, HEADER, False, 100))
    deferred, output = DeferredOutput(), list[bytes]()
    deferred += opening
    deferred.add(LargeBodyFrames(1, filling.finish(), 100))
    deferred.append(command(1, ACCEPT))
    assert not deferred.move(output, 150), "two frames are as much as there is room for"
    assert len(output) == len(opening) + 2
    assert deferred.move(output, 1000)
    assert output.pop() == command(1, ACCEPT)
    octets = b"".join(output)
    assert octets == command(1, TRANSFER, HEADER, body, 100)
    assert Heard().feed(octets) == [transfer(True, HEADER, body)]
