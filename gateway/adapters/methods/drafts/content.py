"""The dialects of the drafts, one for each class of content. Readings of 0-9a0 share theirs."""

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.message import DIALECTS

CONTENTS: dict[tuple[str, int], ClassDialect] = {}
"""By version and class."""

for _version in DRAFTS.values():
    _is_0_9a0 = is_0_9a0(_version.name)
    for _content in _version.contents.values():
        _known = CONTENTS.get(("0-9a0", _content.number)) if _is_0_9a0 else None
        _dialect = _known or ClassDialect(
            _version.name,
            _content,
            tables.field_tables(_is_0_9a0),
            routes=not _is_0_9a0,
            nests=True,
        )
        CONTENTS[_version.name, _content.number] = _dialect
        DIALECTS[_dialect.name] = _dialect
