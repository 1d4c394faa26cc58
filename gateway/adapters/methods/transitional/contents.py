"""The dialects of files and streams in the transitional 0-10; both revisions write them alike."""

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.transitional.types import TABLES
from gateway.adapters.methods.transitional.versions import METHODS, REVISIONS
from gateway.message import DIALECTS

CONTENTS: dict[int, ClassDialect] = {
    number: ClassDialect("0-10-07", content, TABLES)
    for number, content in REVISIONS[METHODS].contents.items()
    if content.name in ("file", "stream")
}
"""By number of the class."""

for _dialect in CONTENTS.values():
    DIALECTS[_dialect.name] = _dialect
