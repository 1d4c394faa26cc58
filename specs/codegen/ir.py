"""The intermediate model: one set of records for all versions of AMQP.

The loader builds these records from ``specs/*.xml`` and has checked every name and number in them;
an emitter reads them and needs no XML. ``specs/README.md`` has the meaning of each element.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Family = Literal["command-frames", "methods", "segments", "performatives"]
Kind = Literal["method", "command", "control"]
Role = Literal["client", "server"]
Level = Literal["must", "should", "may"]

FAMILIES: tuple[str, ...] = ("command-frames", "methods", "segments", "performatives")


class SpecError(Exception):
    """A specification file says something the vocabulary or its own declarations do not allow."""


class NoEmitter(SpecError):
    """The file is understood, but nothing turns its family into code yet."""


@dataclass(frozen=True, slots=True)
class Part:
    """One fixed field of a frame header, of method numbers or of a content header.

    ``escape`` is the value that announces a longer form of ``escape_width`` octets; ``value`` is
    required if the field carries nothing; ``unit`` multiplies the value on the wire.
    """

    name: str
    width: int
    value: int | None = None
    escape: int | None = None
    escape_width: int = 0
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Carrier:
    """A frame type that has a header of its own: request and response frames, large frames."""

    name: str
    frame_type: int
    parts: tuple[Part, ...]
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Framing:
    """The geometry of frames: parts in wire order, the extent of the size, the end octet if any."""

    size_counts: str
    end: int | None
    head: tuple[Part, ...]
    identity: tuple[Part, ...] = ()
    content_header: tuple[Part, ...] = ()
    carriers: tuple[Carrier, ...] = ()
    pack: int = 0
    command_header: str = ""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One of several encodings of a type (1.0: ``smalluint`` of ``uint``)."""

    name: str
    code: int
    category: str
    width: int


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the wire: ``width`` octets, or a length prefix of ``length`` octets and as many.
    ``of`` is the type of the elements of a set."""

    name: str
    kind: str
    width: int = 0
    length: int = 0
    count: int = 0
    code: int | None = None
    of: str = ""
    encodings: tuple[Encoding, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A named value of an enumerated domain or restricted type."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Domain:
    """A second name for a type, with the values it may take; a restricted type of 1.0 as well.
    ``of`` is the type of the elements, if it is an array."""

    name: str
    type: str
    values: tuple[Value, ...] = ()
    provides: str = ""
    scope: str = ""
    section: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number with a name. Reply codes have a scope, which an error with the code closes."""

    name: str
    kind: str
    value: int
    scope: str = ""
    extension: str = ""


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """The constant by which this version says a neutral condition, exactly or as near as it can.

    1.0 says it with a ``symbol``; with a ``scope`` the row is for errors that lose just that. 0-10
    has two sets of error codes: ``scope`` names the one in which ``constant`` is a value.
    """

    name: str
    constant: str = ""
    nearest: bool = False
    symbol: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class ExceptionRow:
    """A named case in which an operation fails, or a field of it is refused, with its code."""

    name: str
    error: str
    code: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field; ``name`` is the family's name for it and ``spelled`` the name in this version."""

    name: str
    spelled: str
    type: str
    reserved: bool = False
    trailing: bool = False
    required: bool = False
    multiple: bool = False
    default: str = ""
    requires: str = ""
    extension: str = ""
    of: str = ""
    exceptions: tuple[ExceptionRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A method, command or control. ``handling``: how much a role is obliged to handle it."""

    kind: Kind
    name: str
    spelled: str
    number: int
    senders: tuple[Role, ...]
    replies: tuple[str, ...]
    fields: tuple[Field, ...]
    content: bool = False
    header: tuple[str, ...] = ()
    result: str = ""
    pack: int = 0
    extension: str = ""
    section: str = ""
    header_required: bool = False
    handling: Mapping[str, Level] = field(default_factory=dict)
    exceptions: tuple[ExceptionRow, ...] = ()
    errata: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A composite value: a packed struct of 0-10, a described type or performative of 1.0."""

    name: str
    fields: tuple[Field, ...]
    code: int | None = None
    size: int = 0
    pack: int = 0
    source: str = ""
    symbol: str = ""
    provides: str = ""
    section: str = ""
    errata: str = ""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of operations; ``properties`` is None if its content has no header of its own.

    ``presence`` says whether flags announce the properties or all of them always stand there.
    """

    name: str
    number: int
    operations: tuple[Operation, ...]
    properties: tuple[Field, ...] | None = None
    presence: str = "flags"
    structs: tuple[Struct, ...] = ()
    domains: tuple[Domain, ...] = ()
    extension: str = ""
    section: str = ""
    roles: Mapping[str, Level] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One version of the protocol, complete. Domains and structs of a class are known by the name
    of the class, a dot and their own."""

    name: str
    family: Family
    header: bytes
    major: int
    minor: int
    revision: int
    port: int
    framing: Framing
    types: Mapping[str, Type]
    domains: Mapping[str, Domain]
    constants: Mapping[str, Constant]
    conditions: tuple[ConditionRow, ...]
    classes: tuple[Class, ...]
    structs: tuple[Struct, ...] = ()
    restricted: tuple[Domain, ...] = ()
    other_headers: Mapping[str, bytes] = field(default_factory=dict)

    def wire_type(self, name: str) -> Type:
        """The type behind a field's type name, through any number of domains."""
        while name in self.domains:
            name = self.domains[name].type
        return self.types[name]

    def reply(self, near: Class, name: str) -> Operation | None:
        """The operation a reply names: in the same class, or as ``class.operation``."""
        prefix, _, rest = name.rpartition(".")
        for class_ in self.classes:
            if class_.name == (prefix or near.name):
                for operation in class_.operations:
                    if operation.name == rest:
                        return operation
        return None
