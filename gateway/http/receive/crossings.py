"""A message as readers of other versions get it: its form there, and the content of a capsule."""

from collections.abc import Iterator
from typing import Any

from gateway.crossing.crossing import Crossing, with_body
from gateway.crossing.legacy_forms import form_of
from gateway.http.message_json import compact
from gateway.http.octets import Octets
from gateway.http.receive.views import ODD, with_message
from gateway.message import DIALECTS, UNFORESEEN, Message

READERS = {
    "0.8a2": "0.8a2",
    "0-9a0": "0-9a0-jms",
    "0-9a6": "0-9a6-jms",
    "0-8, 0-9, 0-9-1": "0-9-1",
    "0-10": "0-10",
    "1.0": "1.0",
}
"""The dialect of each version; those that share one are one reader."""
SHOWN_OCTETS = 64 * 1024
"""A larger body is left out."""

Seen = tuple[dict[str, Any], Message | None]


def seen_as(message: Message, crossing: Crossing) -> Iterator[Seen]:
    """For each version whose form is another one than the message's: its ``version``, the
    ``fidelity`` of the conversion and the names of ``inexact`` properties, and the message in that
    form without the capsule; or why there is none (``declined``)."""
    if len(message.body) > SHOWN_OCTETS:
        message = with_body(message, b"")
    for version, name in READERS.items():
        dialect = DIALECTS[name]
        if dialect is message.dialect:
            continue
        try:
            crossed = crossing.cross(message, dialect)
            header = form_of(dialect).without_capsule(crossed.header)
            found = Message(
                dialect, header, crossed.body, message.exchange, message.key,
                dialect.essentials(header), message.added_headers,
            )  # fmt: skip
        except (*UNFORESEEN, *ODD) as error:
            yield {"version": version, "declined": str(error)}, None
            continue
        known = {"version": version, "fidelity": crossed.fidelity.value}
        yield {**known, "inexact": list(crossed.inexact)}, found


def crossings_json(
    message: Message, crossing: Crossing, view: str, payload: str, deliveries: int
) -> list[Octets]:
    """The same as a JSON array."""
    parts: list[Octets] = []
    for known, found in seen_as(message, crossing):
        shown = (
            [compact(known)]
            if found is None
            else with_message(known, found, view, payload, deliveries)
        )
        parts += [b"," if parts else b"[", *shown]
    return [*(parts or [b"["]), b"]"]
