"""Every recorded frame is read and written again; every recorded client talks to our server."""

from typing import Any

import pytest

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS, read_head
from gateway.adapters.commands.frames import BY_NAME, frame, head_of, read_command
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.layouts import write_message_properties
from gateway.values import Scaled
from tests.adapters.commands.differences import DIFFERENCES
from tests.adapters.commands.harness import numbered
from tests.adapters.commands.recorded import CONVERSATIONS, NAMES, Line, read
from tests.adapters.commands.replaying import Said, replay

LETTERS: dict[str, Any] = {"S": (str, bytes), "I": int, "D": Scaled, "T": int}


def same(recorded: Any, ours: Any) -> bool:
    """Whether a field has the value of the recording."""
    if isinstance(recorded, dict) and "octets" in recorded:
        return bool(len(ours.encode()) == recorded["octets"])
    if isinstance(recorded, dict):
        table = fields.read_table(ours)
        assert list(table) == list(recorded)
        for name, (letter, value) in recorded.items():
            assert isinstance(table[name], LETTERS[letter])
            assert table[name] == (tuple(value) if letter == "D" else value)
        return True
    if isinstance(recorded, str) and isinstance(ours, bytes):
        return recorded.encode() == ours
    return bool(recorded == ours)


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_read_and_written_as_recorded(name: str) -> None:
    lines = [line for line in read(name) if line.fields is not None]
    for line in lines:
        record = message(line) if line.kind == "message" else command(line)
        values = [getattr(record, slot) for slot in record.__slots__]
        assert len(values) == len(line.fields)
        for recorded, ours in zip(line.fields, values, strict=True):
            assert same(recorded, ours), (line.kind, recorded, ours)


def command(line: Line) -> Any:
    start = head_of(line.octets, 0)
    assert start is not None
    found, record = read_command(line.octets, start, len(line.octets))
    assert found.name == line.kind and found is BY_NAME[line.kind]
    assert frame(record) == line.octets
    return record


def message(line: Line) -> Any:
    record, end = read_head(line.octets)
    assert write_message_properties(record) == line.octets[:end]
    header = line.octets[SIZE_OCTETS:end]
    COMMAND.essentials(header)
    assert COMMAND.write(COMMAND.read(header)) == header
    return record


def test_there_is_something_to_read() -> None:
    assert len(NAMES) == 68
    assert sum(line.fields is not None for name in NAMES for line in read(name)) == 1285
    assert {line.kind for line in read("encoder-vectors")} >= set(BY_NAME)


@pytest.mark.parametrize("name", ["server-undecodable-frame", "server-unknown-command-type"])
def test_frames_that_cannot_be_read(name: str) -> None:
    (bad,) = [line for line in read(name) if line.kind == "other"]
    with pytest.raises(Violation) as caught:
        read_command(bad.octets, 2, len(bad.octets))
    assert caught.value.code == 501


def names(said: list[Said]) -> list[str]:
    """Commands, with the code of a close or of a reply that is no success."""
    return [
        f"{command[0]} {command[-1]}"
        if command[0].endswith(".close") or (command[0].endswith(".reply") and command[-1] != 200)
        else command[0]
        for command in said
    ]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_recorded_clients_are_answered_as_by_the_original(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(monkeypatch)
    found = {step: (names(theirs), names(ours)) for step, theirs, ours in replay(name)}
    known = DIFFERENCES.get(name, {})
    assert found == {step: known[step][:2] if step in known else () for step in found}
    assert set(found) == set(known), "a difference is no more"


def test_differences_have_reasons() -> None:
    assert set(DIFFERENCES) <= set(CONVERSATIONS)
    assert all(row[2] for steps in DIFFERENCES.values() for row in steps.values())
