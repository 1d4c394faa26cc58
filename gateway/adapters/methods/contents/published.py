"""The dialects of file and stream in 0-8 and 0-9, which write them alike."""

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.contents.tables import PUBLISHED
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.message import DIALECTS

_DIALECTS = {
    number: ClassDialect("0-9", content, PUBLISHED)
    for number, content in VERSIONS["0-9"].contents.items()
    if content.name in ("file", "stream")
}
CONTENTS: dict[str, dict[int, ClassDialect]] = {"0-8": _DIALECTS, "0-9": _DIALECTS}
"""By version and number of the class."""

for _dialect in _DIALECTS.values():
    DIALECTS[_dialect.name] = _dialect
