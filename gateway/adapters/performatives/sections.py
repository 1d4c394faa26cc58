"""The sections of a message (3.2): where each stands, without decoding any.

A message is stored as a header and a body. The body is the payload of its data sections; the header
is all the rest, as it came: the sections before the body, and in front of them the unusual parts:

* a footer, as it came;
* the form of a body that is not one data section in its smallest encoding. It is written as a body
  section itself: ``data`` with a list (octets before each payload, length of each payload) or null
  (no body at all); ``amqp-sequence`` or ``amqp-value`` with null: the body holds these sections.

So an ordinary message has nothing but its own octets in its header, and either form is made of the
other by slicing and joining.
"""

import struct
from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.performatives.decoding import READERS, FieldError, read_value, skip
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire.layouts import read_header as read_transport
from gateway.adapters.performatives.wire.layouts import read_properties
from gateway.adapters.performatives.wire.tables import SECTIONS
from gateway.bodies import Body, cut
from gateway.values import Symbol, ULong

HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)

_I = Struct(">I")
_BY_SYMBOL = {symbol: code for code, (_, symbol) in SECTIONS.items()}

DATA_BEGIN = b"\x00\x53\x75"
DATA_8, DATA_32 = DATA_BEGIN + b"\xa0", DATA_BEGIN + b"\xb0"
NO_BODY, RAW_SEQUENCE, RAW_VALUE = (
    b"\x00\x53" + bytes((code, 0x40)) for code in (0x75, 0x76, 0x77)
)

Span = tuple[int, int, int]
"""Where a section begins, where its value begins (behind the descriptor), where it ends."""


class Misplaced(FieldError):
    """A section stands where it should not."""


class Sections(NamedTuple):
    """Sections by descriptor; body sections in order. ``body`` holds (code, span)."""

    single: dict[int, Span]
    body: list[tuple[int, Span]]


def section_at(buf: bytes, at: int, end: int) -> tuple[int, int]:
    """The code of the section at ``at`` and where its value begins. Raises ``FieldError``."""
    if buf[at : at + 2] == b"\x00\x53" and at + 2 < end:
        code = buf[at + 2]
        if code in SECTIONS:
            return code, at + 3
    if buf[at] != 0:
        raise FieldError(f"a section begins with {buf[at]:#04x}")
    descriptor, start = read_value(buf, at + 1, end)
    if type(descriptor) is ULong and descriptor in SECTIONS:
        return int(descriptor), start
    if type(descriptor) is Symbol and descriptor in _BY_SYMBOL:
        return _BY_SYMBOL[descriptor], start
    raise FieldError(f"{str(descriptor)[:60]!r} describes no section")


ANY = range(256)
_LISTS, _MAPS = frozenset(b"\x45\xc0\xd0"), frozenset(b"\xc1\xd1")
_ALLOWED = {
    HEADER: _LISTS, PROPERTIES: _LISTS, SEQUENCE: _LISTS, DATA: frozenset(b"\xa0\xb0"),
    DELIVERY: _MAPS, ANNOTATIONS: _MAPS, APPLICATION: _MAPS, FOOTER: _MAPS,
}  # fmt: skip


_SHORT = [-1] * 256
"""By section, the constructor whose size is the next octet, if it may have that."""
for _code, _octet in (
    (HEADER, 0xC0), (DELIVERY, 0xC1), (ANNOTATIONS, 0xC1), (PROPERTIES, 0xC0),
    (APPLICATION, 0xC1), (DATA, 0xA0),
):  # fmt: skip
    _SHORT[_code] = _octet


def section(buf: bytes, at: int, end: int, form: bool = False) -> tuple[int, int, int]:
    """Code, where the value begins, where it ends. Warm: most sections are short and plain. A
    ``form`` of a body may hold other constructors than the body itself."""
    start = at + 3
    if start + 1 < end and buf[at] == 0 and buf[at + 1] == 0x53:
        code = buf[at + 2]
        if _SHORT[code] == buf[start]:
            stop = start + 2 + buf[start + 1]
            if stop <= end:
                return code, start, stop
    code, start = section_at(buf, at, end)
    stop = skip(buf, start, end)
    if not (form and DATA <= code <= VALUE) and buf[start] not in _ALLOWED.get(code, ANY):
        raise FieldError(f"section {SECTIONS[code][0]} holds constructor {buf[start]:#04x}")
    return code, start, stop


def split(buf: bytes, at: int = 0, end: int | None = None) -> Sections:
    """Where the sections of a whole message are. Raises ``FieldError`` unless each occurs once and
    in order, and the body is one of the three kinds. Only delivery annotations may also stand at
    the end, where Azure's clients put them."""
    end = len(buf) if end is None else end
    single: dict[int, Span] = {}
    body: list[tuple[int, Span]] = []
    last = 0
    while at < end:
        code, start, stop = section(buf, at, end)
        if code == DELIVERY and body and DELIVERY not in single:
            single[code], at = (at, start, stop), stop
            continue
        if code < last or (code == last and code not in (DATA, SEQUENCE)):
            raise Misplaced(f"section {SECTIONS[code][0]} is repeated or out of order")
        if DATA <= code <= VALUE:
            if body and body[0][0] != code:
                raise FieldError("a body is made of sections of one kind")
            body.append((code, (at, start, stop)))
        else:
            single[code] = (at, start, stop)
        last, at = code, stop
    return Sections(single, body)


def split_header(header: bytes) -> Sections:
    """The same for the stored header: form of the body and footer stand first, if they do."""
    single: dict[int, Span] = {}
    body: list[tuple[int, Span]] = []
    at, end, last = 0, len(header), 0
    while at < end:
        code, start, stop = section(header, at, end, True)
        if DATA <= code <= VALUE and not last and not body and not single:
            body.append((code, (at, start, stop)))
        elif code == FOOTER and not last:
            single[code] = (at, start, stop)
            last = 1
        elif last < code < DATA:
            single[code] = (at, start, stop)
            last = code
        else:
            raise FieldError(f"section {SECTIONS[code][0]} is repeated or out of order")
        at = stop
    return Sections(single, body)


# --- message <-> header and body ----------------------------------------------------------------


def part(octets: bytes, first: int = 0) -> tuple[bytes, bytes]:
    """A whole message, which begins at ``first``, as stored header and body. Raises
    ``FieldError``."""
    at = _plain_body(octets, first)
    if at:
        return octets[first:at], octets[at + (5 if octets[at + 3] == 0xA0 else 8) :]
    try:
        sections = split(octets, first)
    except Misplaced:
        return part(_arranged(octets, first))
    found = sections.body
    late = sections.single.get(DELIVERY)
    if late and found and late[0] > found[0][1][0]:
        octets = octets[first:]
        return part(_in_order(octets, split(octets)))
    footer = sections.single.get(FOOTER)
    if len(found) == 1 and found[0][0] == DATA:
        at, start, stop = found[0][1]
        prefix = 2 if octets[start] == 0xA0 else 5
        smallest = prefix == 2 or stop - start - 5 > 255
        if start == at + 3 and octets[at + 1] == 0x53 and smallest:
            header, body = octets[first:at], octets[start + prefix : stop]
            return (octets[footer[0] : footer[2]] + header if footer else header), body
    tail = octets[footer[0] : footer[2]] if footer else b""
    before = found[0][1][0] if found else footer[0] if footer else len(octets)
    form, body = _form(octets, found)
    return form + tail + octets[first:before], body


def _plain_body(octets: bytes, at: int) -> int:
    """Where the body begins, if that is one data section in its smallest encoding behind short
    sections in order; else 0. Hot: most messages are like that."""
    end, last = len(octets), 0
    try:
        while octets[at] == 0 and octets[at + 1] == 0x53:
            code, kind = octets[at + 2], octets[at + 3]
            if code == DATA:
                if kind == 0xA0:
                    return at if at + 5 + octets[at + 4] == end else 0
                if kind == 0xB0 and end - at > 263:
                    return at if at + 8 + _I.unpack_from(octets, at + 4)[0] == end else 0
                return 0
            if not last < code < DATA or kind != _SHORT[code]:
                return 0
            last = code
            at += 5 + octets[at + 4]
    except IndexError:
        pass
    return 0


def _arranged(octets: bytes, at: int) -> bytes:
    """Sections in the order of §3.2, for a message that has them in another (clients made of
    Proton's encoder put an empty body first). Raises ``FieldError`` if one is repeated."""
    found: list[tuple[int, bytes]] = []
    end = len(octets)
    while at < end:
        code, _, stop = section(octets, at, end)
        found.append((code, octets[at:stop]))
        at = stop
    codes = [code for code, _ in found]
    for code in codes:
        if code not in (DATA, SEQUENCE) and codes.count(code) > 1:
            raise FieldError(f"section {SECTIONS[code][0]} is repeated")
    return b"".join(piece for _, piece in sorted(found, key=lambda one: one[0]))


def _in_order(octets: bytes, sections: Sections) -> bytes:
    """The message with delivery annotations where they belong. They are not part of the bare
    message, which must not be changed (§3.2)."""
    at, _, stop = sections.single[DELIVERY]
    header = sections.single.get(HEADER)
    place = header[2] if header else 0
    return octets[:place] + octets[at:stop] + octets[place:at] + octets[stop:]


def _form(octets: bytes, found: list[tuple[int, Span]]) -> tuple[bytes, bytes]:
    """The form of an unusual body, and the body itself."""
    if not found:
        return NO_BODY, b""
    code = found[0][0]
    if code != DATA:
        raw = octets[found[0][1][0] : found[-1][1][2]]
        return (RAW_SEQUENCE if code == SEQUENCE else RAW_VALUE), raw
    prefixes: list[Any] = []
    payloads: list[bytes] = []
    for _, (at, start, stop) in found:
        inner = start + (2 if octets[start] == 0xA0 else 5)
        prefixes += [octets[at:inner], ULong(stop - inner)]
        payloads.append(octets[inner:stop])
    return b"\x00\x53\x75" + write_value(prefixes), b"".join(payloads)


def is_plain(header: bytes) -> bool:
    """Is the body one data section in its smallest encoding, without a footer?"""
    return not header or (header[1] == 0x53 and header[2] < DATA)


def data_prefix(size: int) -> bytes:
    """The octets before the payload of a data section."""
    return DATA_8 + bytes((size,)) if size < 256 else DATA_32 + _I.pack(size)


def pieces(header: bytes, body: Body) -> list[Body]:
    """The whole message as pieces to be joined or cut into frames. Raises ``FieldError``."""
    if is_plain(header):
        return [header, data_prefix(len(body)), body]
    sections = split_header(header)
    footer = sections.single.get(FOOTER)
    tail = header[footer[0] : footer[2]] if footer else b""
    at = max((span[2] for code, span in sections.single.items() if code == FOOTER), default=0)
    if sections.body:
        at = max(at, sections.body[0][1][2])
    return [header[at:], *body_pieces(header, sections, body), tail]


def body_pieces(header: bytes, sections: Sections, body: Body) -> list[Body]:
    """The sections of the body as pieces."""
    if not sections.body:
        return [data_prefix(len(body)), body]
    code, (_, start, stop) = sections.body[0]
    if code != DATA:
        return [body]
    listed, _ = read_value(header, start, stop)
    if listed is None and not body:
        return []
    found: list[Body] = []
    at = 0
    if isinstance(listed, list) and len(listed) % 2 == 0:
        for prefix, size in zip(listed[::2], listed[1::2], strict=True):
            if not isinstance(prefix, bytes) or not isinstance(size, int):
                raise FieldError("the form of a body is not one")
            found += [prefix, cut(body, at, at + size)]
            at += size
    # A body that was replaced has another length: then it is one data section again.
    return found if at == len(body) and found else [data_prefix(len(body)), body]


def section_value(buf: bytes, span: Span) -> Any:
    """The value of a section, decoded. Raises ``FieldError``."""
    return read_value(buf, span[1], span[2])[0]


def read_header(header: bytes) -> tuple[dict[int, Any], Span | None]:
    """The sections of a stored header, decoded, by code, and where the form of the body is, if it
    has one. Header and properties are records. Raises ``FieldError``. Warm: one pass."""
    found: dict[int, Any] = {}
    form: Span | None = None
    at, end, last = 0, len(header), 0
    try:
        while at < end:
            code, start, stop = section(header, at, end, True)
            if last < code < DATA:
                last = code
            elif DATA <= code <= VALUE and not last and form is None:
                form, at = (code, start, stop), stop
                continue
            elif code == FOOTER and not last:
                last = 1
            else:
                raise FieldError(f"section {SECTIONS[code][0]} is repeated or out of order")
            if code == PROPERTIES:
                found[code], at = read_properties(header, start)
            elif code == HEADER:
                found[code], at = read_transport(header, start)
            else:
                found[code], at = READERS[header[start]](header, start + 1, 0)
            if at != stop:
                raise FieldError("a section does not end where its value does")
    except FieldError:
        raise
    except (struct.error, IndexError) as error:
        raise FieldError("a section is cut short") from error
    except ValueError as error:
        raise FieldError(f"a section cannot be read: {error}") from error
    return found, form
