"""A readable trace of octets of 0.8a2, one line per command."""

from collections.abc import Iterator
from typing import Any

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import read_head
from gateway.adapters.commands.frames import head_of, read_command
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.tables import HEADER, VERSION
from gateway.adapters.core.trace_lines import Line, given_fields, preview

TABLES = frozenset(["challenges", "options", "dictionary", "headers"])
SECRETS = frozenset(["responses"])
BEGINNINGS = frozenset([43])
"""Commands whose fragment always begins with a message header."""


class Reader:
    """Describes one direction of a connection."""

    def __init__(self, version: str = VERSION) -> None:
        self._continued: dict[int, bool] = {}
        """Whether a handle's message is incomplete: only its first fragment has a header."""

    def frames(self, data: bytes) -> Iterator[Line]:
        """Describe everything in ``data``, which begins with a protocol header or a command."""
        at = 0
        if data[:1] == HEADER[:1] and data[1:2] >= HEADER[1:]:
            # The highest version of the client (§3.2.2); no frame is as large as this would say.
            at = len(HEADER)
            yield Line(0, at, 0, "protocol header", " ".join(map(str, data[:at])))
        while at < len(data):
            start = head_of(data, at)
            size = int.from_bytes(data[at + 2 : start] or data[at:start], "big") if start else 0
            if start is None or start + size > len(data):
                yield Line(at, len(data) - at, 0, "cut", "the last command is cut")
                return
            try:
                command, record = read_command(data, start, start + size)
            except Violation as violation:
                yield Line(at, len(data) - at, 0, "broken", violation.text)
                return
            end = start + size
            wanted = getattr(record, "fragment_size", 0) if command.fragment else 0
            if getattr(record, "out_of_band", False):
                wanted = 0
            if end + wanted > len(data):
                yield Line(at, len(data) - at, 0, "cut", "the last fragment is cut")
                return
            number = getattr(record, "handle_id", getattr(record, "channel_id", 0))
            try:
                kind, text = (
                    "command",
                    f"{command.name} {given_fields(record, SECRETS, field_text)}".rstrip(),
                )
            except ValueError as error:
                kind, text = "broken", f"{command.name}: {error}"
            yield Line(at, end - at, number, kind, text)
            if wanted:
                continues = self._continued.get(number, False)
                first = not continues and not getattr(record, "recovery", False)
                self._continued[number] = bool(getattr(record, "partial", False))
                octets = data[end : end + wanted]
                yield Line(
                    end, wanted, number, *fragment(octets, first or command.number in BEGINNINGS)
                )
            at = end + wanted


def fragment(octets: bytes, first: bool) -> tuple[str, str]:
    """Kind and text of the line of a fragment; the first one has the header."""
    if first:
        try:
            record, start = read_head(octets)
            header = given_fields(record, SECRETS, field_text)
        except ValueError as error:
            return "broken", f"{error}; {preview(octets)}"
        body = octets[start:]
        return "fragment", f"header {header} and {len(body)} octets: {preview(body)}"
    return "fragment", f"{len(octets)} octets: {preview(octets)}"


def field_text(name: str, value: Any) -> str:
    if name in TABLES:
        try:
            return repr(fields.read_table(value))
        except fields.FieldError as error:
            raise ValueError(f"{name} is not a table: {error}; {preview(value)}") from error
    return preview(value) if isinstance(value, bytes) else repr(value)
