"""The recordings of original programs, in our form: who, which way, octets, command, fields.

``recordings/*.txt`` has one line for a command, a fragment, the initiation or the end of TCP. The
letter tells the connection, ``>`` is from the client. Fields stand in the order of the command, as
JSON: tables as ``{name: [type, value]}``, texts of which only the length is told
as ``{"octets": length}``.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "recordings"


class Line(NamedTuple):
    connection: str
    from_client: bool
    octets: bytes
    kind: str
    fields: Any


def read(name: str) -> list[Line]:
    found = []
    for text in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        arrow, _, rest = text.partition(" ")
        octets, _, rest = rest.partition(" ")
        kind, _, fields = rest.partition(" ")
        if octets == "end":
            octets, kind = "", "end"
        found.append(
            Line(
                arrow[0],
                arrow[1] == ">",
                bytes.fromhex(octets),
                kind,
                json.loads(fields) if fields else None,
            )
        )
    return found


NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
CONVERSATIONS = [name for name in NAMES if name != "encoder-vectors"]
