"""The class test: both sides must answer it (0-9a0 §4.12, 0-9a6 and 0-8 likewise).

Text is added by joining it; the least and the greatest of texts are by their octets. A table's
integers and strings are taken from all its fields, nested ones left out. The checksum of a content
is the sum of the octets of its body, modulo 2 to the 32nd.
"""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import adler32

from gateway.adapters.methods.contents.methods import Content, OutgoingMethod
from gateway.adapters.methods.geometry import Method
from gateway.bodies import Body
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Table

ADD, LEAST, GREATEST = 1, 2, 3

Read = Callable[[bytes], Table]


def _reduced(operation: int, values: Sequence[Any], nothing: Any) -> Any:
    if operation not in (ADD, LEAST, GREATEST):
        text = f"test operation {operation} is unknown"
        raise PeerError(Condition.COMMAND_INVALID, text, Lost.SESSION)
    if not values:
        return nothing
    if operation == ADD:
        return b"".join(values) if isinstance(nothing, bytes) else sum(values) % (1 << 64)
    return min(values) if operation == LEAST else max(values)


def _integer(layouts: Any, m: Any, read: Read, longest: int) -> Any:
    values = (m.integer_1, m.integer_2, m.integer_3, m.integer_4)
    return layouts.TestIntegerOk(_reduced(m.operation, values, 0))


def _string(layouts: Any, m: Any, read: Read, longest: int) -> Any:
    values = (m.string_1.encode("utf-8", "surrogateescape"), m.string_2)
    return layouts.TestStringOk(_fitting(_reduced(m.operation, values, b""), longest))


def _table(layouts: Any, m: Any, read: Read, longest: int) -> Any:
    fields = read(m.table).values()
    integers = [int(value) for value in fields if isinstance(value, int)]
    texts = [v.encode("utf-8", "surrogateescape") for v in fields if isinstance(v, str)]
    number = _reduced(m.integer_op, integers, 0) % (1 << 64)
    return layouts.TestTableOk(number, _fitting(_reduced(m.string_op, texts, b""), longest))


def _fitting(octets: bytes, longest: int) -> bytes:
    if len(octets) > longest:
        raise PeerError(Condition.RESOURCE_ERROR, "the result does not fit", Lost.SESSION)
    return octets


REQUESTS: dict[str, Callable[[Any, Any, Read, int], Any]] = {
    "test.integer": _integer,
    "test.string": _string,
    "test.table": _table,
}
"""Layouts, record, reader of tables, octets of the longest text -> the answer. All raise
``PeerError``, and ``FieldError`` for a table."""
CONTENT = "test.content"


def echoed(layouts: Any, method: Method, header: bytes, body: Body) -> OutgoingMethod:
    """The answer to ``test.content``: the same content, and its checksum."""
    number = method.number >> 16
    record = layouts.TestContentOk(checksum(body) & 0xFFFF_FFFF)
    return OutgoingMethod(record, Content(number, header, body))


def checksum(body: Body) -> int:
    """The sum of all octets. The low half of an Adler-32 that begins with 0 is that, modulo 65521,
    which 256 octets do not reach: five times as fast as adding them up."""
    total = 0
    for piece in [body] if isinstance(body, bytes) else body.chunks():
        view = memoryview(piece)
        total += sum(adler32(view[at : at + 256], 0) & 0xFFFF for at in range(0, len(view), 256))
    return total
