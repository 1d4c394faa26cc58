"""Files as values: JSON and XML with limits, and without entities that make them grow.

XML is read with expat. A document type declaration is refused before any of it is read, so there
are no entities that multiply and none that name a file. Both readers call back into Python for each
object or element, so that a thread which reads a large file lets others work.
"""

import json
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from gateway.importing.findings import ImportFailed
from gateway.strict_json import deeper, once, refuse

MOST_OCTETS = 64 * 1024 * 1024
MOST_DEPTH = 32
MOST_ELEMENTS = 1_000_000
PIECE = 64 * 1024
"""Octets of XML that are parsed at once."""
MOST_TAG = 1024 * 1024
"""Octets of one tag or comment: expat reads it from its beginning again with each piece."""


def read_text(octets: bytes) -> str:
    """Raises ``ImportFailed``."""
    if len(octets) > MOST_OCTETS:
        raise ImportFailed(f"the file has more than {MOST_OCTETS} octets")
    try:
        return octets.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFailed(f"not UTF-8: {error.reason} at octet {error.start}") from None


def read_json(octets: bytes) -> Any:
    """Raises ``ImportFailed``."""
    try:
        value = json.loads(read_text(octets), parse_constant=refuse, object_pairs_hook=once)
    except RecursionError:
        raise ImportFailed(f"the JSON is nested more than {MOST_DEPTH} deep") from None
    except ValueError as error:
        raise ImportFailed(f"not JSON: {error}") from None
    if deeper(value, MOST_DEPTH):
        raise ImportFailed(f"the JSON is nested more than {MOST_DEPTH} deep")
    return value


class Element:
    """An element without its name space. ``line`` is where it begins."""

    __slots__ = ("name", "attributes", "children", "pieces", "line")

    def __init__(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.name = name
        self.attributes = attributes
        self.line = line
        self.children: list[Element] = []
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    @property
    def place(self) -> str:
        return f"line {self.line}"

    def each(self, *names: str) -> Iterator["Element"]:
        """Children of these names."""
        return (one for one in self.children if one.name in names)

    def child(self, name: str) -> "Element | None":
        return next(self.each(name), None)

    def get(self, name: str, default: str = "") -> str:
        """The attribute of this name, or the text of the child."""
        if name in self.attributes:
            return self.attributes[name]
        child = self.child(name)
        return default if child is None else child.text


def read_xml(octets: bytes) -> Element:
    """The root. Raises ``ImportFailed``."""
    if len(octets) > MOST_OCTETS:
        raise ImportFailed(f"the file has more than {MOST_OCTETS} octets")
    parser = expat.ParserCreate(namespace_separator="}")
    reader = Reader(parser)
    try:
        for start in range(0, len(octets), PIECE):
            parser.Parse(octets[start : start + PIECE], False)
            # At the beginning of a tag that goes on it stays at the end of the last one.
            if start + PIECE - max(parser.CurrentByteIndex, 0) > MOST_TAG + PIECE:
                told = f"a tag or comment has more than {MOST_TAG} octets"
                raise ImportFailed(f"{told}, line {parser.CurrentLineNumber}")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        text = expat.ErrorString(error.code)
        raise ImportFailed(f"not XML: {text}, line {error.lineno}") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, ImportFailed):
            raise
        raise ImportFailed(f"not XML: {error}") from None
    assert reader.root is not None  # expat refuses a document without one
    return reader.root


class Reader:
    """Builds elements from the events of a parser."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.StartDoctypeDeclHandler = self.doctype
        parser.EntityDeclHandler = self.doctype

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise ImportFailed(f"the XML has more than {MOST_ELEMENTS} elements")
        if len(self.open) >= MOST_DEPTH:
            raise ImportFailed(f"the XML is nested more than {MOST_DEPTH} deep")
        plain = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        element = Element(name.rpartition("}")[2], plain, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, name: str) -> None:
        self.open.pop()

    def characters(self, data: str) -> None:
        if self.open:
            self.open[-1].pieces.append(data)

    def doctype(self, *given: Any) -> None:
        raise ImportFailed("a document type declaration is refused: it could declare entities")
