"""Octets of the programs of July 2007: read as they were recorded, and written again."""

from typing import Any

import pytest

from gateway.adapters.methods.geometry import Content, Version
from gateway.adapters.methods.trace import SETS, TABLES, Reader
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.transitional.versions import REVISIONS, Carried
from gateway.operations import Operation
from gateway.values import Int
from specs.codegen.__main__ import ROOT, TRANSITIONAL
from specs.codegen.layouts import snake
from specs.codegen.load import load
from tests.adapters.methods.transitional.recorded import NAMES, Frame, frames, octets, version_of

LARGEST = 1 << 16
SPELLED = {
    name: {
        f"{class_.name}.{operation.name}": {snake(f.name): f.spelled for f in operation.fields}
        for class_ in load(ROOT / "specs" / TRANSITIONAL, name).classes
        for operation in class_.operations
    }
    for name in REVISIONS
}
"""Fields by their names in records, as the definition spells them."""

recordings = pytest.mark.parametrize("name", NAMES)


class Described:
    """Describes frames in the words of the recordings, and writes each of them again."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.table: Version = REVISIONS[version]
        self.frames = Frames(self.table, self, LARGEST)
        self.said: list[str] = []
        self.written: list[bytes] = []

    def on_method(
        self, channel: int, carried: Carried | None, buf: bytes, at: int, end: int, found: Any
    ) -> None:
        method = self.table.methods[int.from_bytes(buf[at : at + 4], "big")]
        record, stop = method.read(buf, at + 4)
        assert stop == end
        if carried is None:
            how = "method"
        elif carried.is_response:
            how = f"response {carried.identifier} to request {carried.other}"
            how += f" (batch offset {carried.batch})"
        else:
            how = f"request {carried.identifier} (response mark {carried.other})"
            assert not carried.batch
        spelled = SPELLED[self.version][method.name]
        # 24 July: a set is a placeholder, which no record has.
        fields = ", ".join(
            f"{spelled[name]}: {value(name, getattr(record, name, b''))}" for name in spelled
        )
        self.said.append(f"channel {channel} {how} {method.name} {{{fields}}}")
        payload = method.prefix + method.write(record)
        self.written.append(self.frames.method_frame(channel, carried, payload))

    def on_header(self, channel: int, buf: bytes, at: int, end: int, found: Any) -> None:
        layout = self.table.geometry.content
        group, weight, size = layout.unpack_from(buf, at)
        content: Content = self.table.contents[group]
        record, stop = content.read(buf, at + layout.size)
        assert stop == end
        given = {
            name: getattr(record, name)
            for name in record.defaults()
            if getattr(record, name) is not None
        }
        fields = ", ".join(
            f"{name.replace('_', '-')}: {value(name, given[name])}" for name in given
        )
        self.said.append(
            f"channel {channel} content header class {content.name}, weight {weight}, "
            f"body size {size}, {{{fields}}}"
        )
        header = content.write(record)
        self.written.append(self.frames.content_header(channel, group, header, size))

    def on_body(self, channel: int, buf: bytes, at: int, end: int, found: Any) -> None:
        self.said.append(f"channel {channel} content body, {end - at} octets")
        self.written.append(self.frames.frame(self.frames.body, channel, buf[at:end]))


def value(name: str, found: Any) -> str:
    """A value as the recordings describe it."""
    if isinstance(found, bool):
        return str(found).lower()
    if name in TABLES:
        entries = types.read_table(found).items()
        shown = ", ".join(f"{key}: [{letter(item)}, {item}]" for key, item in entries)
        return f"{{{shown}}}"
    if name in SETS:
        assert found == b""
        return "[]"
    if name == "body":
        body = types.read_body(found)
        assert types.write_body(body) == found
        way = "reference" if body.is_reference else "inline"
        return f"{{{way}: {body.octets.decode()}}}"
    return found.decode() if isinstance(found, bytes) else str(found)


def letter(found: Any) -> str:
    return {str: "S", Int: "I"}[type(found)]


@recordings
@pytest.mark.parametrize("size", [1, 11, 1 << 20])
def test_every_frame_is_read_as_recorded_and_written_again(name: str, size: int) -> None:
    for from_client in (True, False):
        recorded = [f for f in frames(name) if f.from_client == from_client]
        if from_client:
            header, *recorded = recorded
            assert header.octets == REVISIONS[version_of(name)].header
        described = Described(version_of(name))
        found: list[Operation] = []
        data = b"".join(frame.octets for frame in recorded)
        for at in range(0, len(data), size):
            described.frames.feed(data[at : at + size], found)
        assert described.said == [frame.meaning for frame in recorded]
        assert described.written == [frame.octets for frame in recorded]
        assert not described.frames.held


@recordings
def test_tables_are_written_with_the_octets_that_were_read(name: str) -> None:
    table = REVISIONS[version_of(name)]
    count = 0
    for frame in methods(name):
        method, payload = method_of(table, frame)
        record, _ = method.read(payload, 4)
        for field in TABLES & set(record.__slots__):
            entries = getattr(record, field)
            assert types.write_table(types.read_table(entries)) == entries
            count += 1
    assert count


def methods(name: str) -> list[Frame]:
    return [f for f in frames(name) if f.octets[0] in (1, 9, 10)]


def method_of(table: Version, frame: Frame) -> tuple[Any, bytes]:
    payload = frame.octets[7 if frame.octets[0] == 1 else 27 : -1]
    return table.methods[int.from_bytes(payload[:4], "big")], payload


@recordings
def test_the_trace_has_a_line_for_every_frame_and_no_password(name: str) -> None:
    version = version_of(name)
    for from_client in (True, False):
        lines = list(Reader(version).frames(octets(name, from_client)))
        recorded = [f for f in frames(name) if f.from_client == from_client]
        assert [line.size for line in lines] == [len(frame.octets) for frame in recorded]
        kinds = {1: "method", 2: "header", 3: "body", 9: "request", 10: "response"}
        for line, frame in zip(lines, recorded, strict=True):
            assert line.kind == kinds.get(frame.octets[0], "protocol header")
            assert "guest" not in line.text
            if frame.octets[0] in (1, 9, 10):
                method, _ = method_of(REVISIONS[version], frame)
                assert line.text.startswith(method.name)
    carried = "".join(line.text for line in lines)
    assert ("(request 1, response mark 0)" in carried) == (version == "0-10-07-24")
