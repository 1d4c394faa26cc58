"""Every recorded frame is the control, command or header that the recording says, with these
fields, and is written again octet by octet."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.content import received, sent
from gateway.adapters.segments.essentials import arrived
from gateway.adapters.segments.frame_format import HEAD
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire.tables import OPERATIONS, STRUCTS
from tests.adapters.segments import recorded
from tests.adapters.segments.receiving import Heard
from tests.adapters.segments.recorded import described, frames, rewritten


def test_recordings_are_here() -> None:
    assert len(recorded.NAMES) == 14
    assert sum(len(frames(name)) for name in recorded.NAMES) == 672


@pytest.mark.parametrize("name", recorded.NAMES)
def test_frames(name: str) -> None:
    ids: dict[tuple[str, bool, int], int] = {}
    for frame in frames(name):
        octets = frame.octets
        if not octets or octets.startswith(b"AMQP"):
            continue
        flags, size, track, channel = HEAD.unpack_from(octets)
        payload = octets[12:]
        assert size == len(octets) and track == flags & 1 | (flags & 0xFF > 1)
        assert HEAD.pack(flags, size, track, channel) == octets[:12]
        text = frame.meaning.removeprefix(f"channel {channel} ")
        key = frame.connection, frame.from_client, channel
        if flags & 0xFF == 3:
            assert text.startswith(f"body segment, {len(payload)} octet")
            continue
        if flags & 0xFF == 2:
            said, again = [], b""
            for code, at, end in ops.structs(payload):
                record = ops.read_fields(STRUCTS[code], payload, at, end)
                said.append(f"{{{record.NAME}: {described(record)}}}")
                again += ops.coded(code, rewritten(record))
            assert text.startswith(f"header segment [{', '.join(said)}]")
            assert again == payload
            arrived(payload)
            continue
        kind = OPERATIONS[int.from_bytes(payload[:2], "big")]
        start = 2 if kind.control else 4
        record = ops.read_fields(kind, payload, start, len(payload))
        assert payload[:start] + rewritten(record) == payload
        if kind.control:
            if kind.name == "session.command-point":
                ids[key] = record.command_id
            assert text == f"control {kind.name} {described(record)}"
            assert control(channel, ops.write_control(record)) == octets
        else:
            code, sync = ops.read_command_start(payload, 0, len(payload))
            assert code == kind.code
            number = f"command id {ids[key]}, {'sync, ' if sync else ''}"
            ids[key] += 1
            assert text.startswith(f"command {kind.name}, {number}{described(record)} [")
            if flags == 0x0F01:
                assert command(channel, ops.write_command(record, sync)) == octets


@pytest.mark.parametrize("name", recorded.NAMES)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_conversations(name: str, step: int) -> None:
    """The frame loop takes both sides of each connection, however they are cut."""
    sides: dict[tuple[str, bool], list[bytes]] = {}
    for frame in frames(name):
        if frame.octets and not frame.octets.startswith(b"AMQP"):
            sides.setdefault((frame.connection, frame.from_client), []).append(frame.octets)
    for said in sides.values():
        octets = b"".join(said)
        heard = Heard()
        heard.feed(*(octets[at : at + step] for at in range(0, len(octets), step)))
        assert heard.violation is None and heard.frames.held == 0
        beginnings = sum(octets[0] & 8 > 0 and octets[0] & 2 > 0 for octets in said)
        assert len(heard.heard) == beginnings


class Reading(Heard):
    """Reads everything that comes, as an engine would; only ``FieldError`` is expected."""

    def feed(self, *pieces: bytes) -> list[Any]:
        for each in super().feed(*pieces):
            if not isinstance(each[1], int):
                continue
            kind = OPERATIONS.get(each[1])
            octets = each[2] if len(each) == 3 else each[3]
            with suppress(FieldError):
                if kind is not None:
                    record = ops.read_fields(kind, octets, 0, len(octets))
                    assert ops.write_fields(kind, record) == octets
            with suppress(FieldError):
                if len(each) == 6:
                    message = received(arrived(each[4]), each[5], "e")
                    sent(message)
                    message.properties  # noqa: B018
        return self.heard


OCTETS = {
    (name, side): b"".join(f.octets for f in frames(name) if f.from_client is side)[8:]
    for name in recorded.NAMES
    for side in (True, False)
    if "large" not in name
}


@given(
    some.sampled_from(sorted(OCTETS)),
    some.lists(some.tuples(some.integers(0, 6000), some.integers(0, 255)), max_size=4),
    some.integers(0, 40),
)
def test_conversations_with_faults(
    which: tuple[str, bool], faults: list[tuple[int, int]], cut: int
) -> None:
    """Octets that were changed on the way: never an exception, and at most one violation."""
    octets = bytearray(OCTETS[which])
    for place, octet in faults:
        octets[place % len(octets)] = octet
    Reading().feed(bytes(octets[cut:]))
    Reading().feed(bytes(octets[: -cut or None]))
