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

BASIC_NUMBER = REVISIONS[METHODS].by_name["basic.publish"].number >> 16
OTHER_CONTENTS = frozenset(REVISIONS[METHODS].contents) - {BASIC_NUMBER}
"""Numbers of the classes of content besides ``basic``."""

for _dialect in CONTENTS.values():
    DIALECTS[_dialect.name] = _dialect
