"""Reads a specification file into the intermediate model and refuses contradictions.

Nothing is guessed: an unknown element, attribute, type or reply, a number or name given twice, a
condition without a constant are errors that name the file and the element.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from specs.codegen import ir
from specs.codegen.ir import SpecError
from specs.codegen.revisions import revise
from specs.codegen.symbols import symbolic_row
from specs.codegen.vocabulary import CHOICES, SHAPES

NUMERIC = ("number", "code")
SESSION_ERRORS, CONNECTION_ERRORS = "execution.error-code", "connection.close-code"
"""The domains of 0-10 whose values are error codes."""


def load(path: Path, revision: str = "") -> ir.Protocol:
    """One file, checked. ``revision`` names the one that is wanted, if the file has several."""
    return parse(path.read_bytes(), path.name, revision)


def parse(text: bytes | str, where: str = "<text>", revision: str = "") -> ir.Protocol:
    """The same from text, for fragments in tests."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise SpecError(f"{where}: not well-formed XML: {error}") from None
    if root.tag != "protocol":
        raise SpecError(f"{where}: the root element is <{root.tag}>, expected <protocol>")
    return Loader(root, where, revision).protocol()


def numbers(domain: ir.Domain | None) -> dict[str, int]:
    """The values of an enumerated domain of numbers."""
    return {v.name: int(v.value) for v in domain.values} if domain is not None else {}


def describe(element: ET.Element) -> str:
    name = element.get("name")
    return f'<{element.tag} name="{name}">' if name else f"<{element.tag}>"


class Loader:
    """Walks one file; keeps the file's name for messages and the types it has declared."""

    def __init__(self, root: ET.Element, where: str, revision: str = "") -> None:
        self.root = root
        self.where = where
        self.known: set[str] = set()
        self.inside = ""
        """The class whose elements are read: its own names need no prefix."""
        self.errors: dict[str, int] = {}
        """Error codes that exceptions of operations name (0-10)."""
        self.check_shape(root)
        revise(root, revision, where)

    def refuse(self, element: ET.Element, text: str) -> SpecError:
        return SpecError(f"{self.where}: {describe(element)}: {text}")

    # Shape: the vocabulary, before anything is interpreted.

    def check_shape(self, element: ET.Element) -> None:
        allowed = SHAPES[element.tag]
        given = set(element.attrib)
        for name in sorted(allowed.required - given):
            raise self.refuse(element, f"attribute {name!r} is missing")
        for name in sorted(given - allowed.required - allowed.optional):
            raise self.refuse(element, f"unknown attribute {name!r}")
        for name, value in element.attrib.items():
            choices = CHOICES.get((element.tag, name))
            if choices is not None and value not in choices:
                listed = ", ".join(sorted(choices))
                raise self.refuse(element, f"{name}={value!r} is not one of {listed}")
        if (element.text or "").strip() or any((c.tail or "").strip() for c in element):
            raise self.refuse(element, "holds text; the vocabulary has attributes only")
        for child in element:
            if child.tag not in allowed.children:
                raise self.refuse(element, f"unknown element <{child.tag}>")
            self.check_shape(child)

    def number(self, element: ET.Element, name: str, default: int = 0) -> int:
        text = element.get(name)
        if text is None:
            return default
        try:
            return int(text, 0)
        except ValueError:
            raise self.refuse(element, f"{name}={text!r} is not a number") from None

    def octets(self, element: ET.Element, name: str) -> bytes:
        try:
            return bytes.fromhex(element.attrib[name])
        except ValueError:
            raise self.refuse(element, f"{name} is not hexadecimal octets") from None

    def maybe(self, element: ET.Element, name: str) -> int | None:
        return self.number(element, name) if name in element.attrib else None

    def unique(self, elements: Iterable[ET.Element], *attributes: str) -> None:
        """Refuse two siblings that share a value of any of the attributes."""
        seen: dict[tuple[str, str | int], ET.Element] = {}
        for element in elements:
            for attribute in attributes:
                text = element.get(attribute)
                if text is None:
                    continue
                value = self.number(element, attribute) if attribute in NUMERIC else text
                other = seen.setdefault((attribute, value), element)
                if other is not element:
                    raise self.refuse(
                        element, f"duplicate {attribute} {text!r}, also at {describe(other)}"
                    )

    # Protocol and framing.

    def protocol(self) -> ir.Protocol:
        root = self.root
        for block in ("framing", "types", "domains", "constants", "conditions"):
            if len(root.findall(block)) > 1:
                raise self.refuse(root, f"<{block}> occurs twice")
        self.unique(root.findall("header"), "name", "octets")
        types = self.types()
        self.known |= set(types)
        composite = root.findall("struct") + root.findall("described") + root.findall("restricted")
        # A struct may name another one that is declared later, so all names come first.
        declared = root.findall("domains/domain") + composite
        self.unique(root.findall("types/type") + declared, "name")
        self.unique(root.findall("described"), "code", "symbol")
        self.unique(root.findall("types/type/encoding"), "code")
        self.known |= {element.attrib["name"] for element in declared}
        for class_ in root.findall("class"):
            nested = class_.findall("struct") + class_.findall("domain")
            self.unique(nested, "name")
            self.known |= {f"{class_.attrib['name']}.{each.attrib['name']}" for each in nested}
        domains = {d.name: d for d in map(self.domain, root.findall("domains/domain"))}
        for class_ in root.findall("class"):
            self.inside = class_.attrib["name"]
            domains |= {
                f"{self.inside}.{d.name}": d for d in map(self.domain, class_.findall("domain"))
            }
        self.inside = ""
        self.errors = numbers(domains.get(SESSION_ERRORS))
        restricted = tuple(map(self.domain, root.findall("restricted")))
        domains |= {d.name: d for d in restricted}
        constants = self.constants()
        self.unique(root.findall("class"), "name", "number")
        if root.attrib["family"] == "command-frames":
            # There the number of a command is the type of its frame, in any class.
            self.unique(root.findall("class/command"), "number")
        protocol = ir.Protocol(
            name=root.attrib["name"],
            family=cast(ir.Family, root.attrib["family"]),
            header=self.octets(root, "header"),
            major=self.number(root, "major"),
            minor=self.number(root, "minor"),
            revision=self.number(root, "revision"),
            port=self.number(root, "port"),
            framing=self.framing(),
            types=types,
            domains=domains,
            constants=constants,
            conditions=self.conditions(constants, restricted, domains),
            classes=tuple(map(self.class_, root.findall("class"))),
            structs=tuple(map(self.struct, root.findall("struct") + root.findall("described"))),
            restricted=restricted,
            other_headers={
                other.attrib["name"]: self.octets(other, "octets")
                for other in root.findall("header")
            },
        )
        self.check_domains(protocol)
        self.check_replies(protocol)
        return protocol

    def framing(self) -> ir.Framing:
        element = self.root.find("framing")
        if element is None:
            raise self.refuse(self.root, "<framing> is missing")
        parts = {name: self.parts(element.find(name)) for name in ("head", "identity")}
        if not parts["head"]:
            raise self.refuse(element, "<head> with at least one <part> is missing")
        if self.root.get("family") == "methods" and len(parts["identity"]) < 2:
            raise self.refuse(element, "<identity> with class and method is missing")
        return ir.Framing(
            size_counts=element.attrib["size-counts"],
            end=self.maybe(element, "end"),
            head=parts["head"],
            identity=parts["identity"],
            content_header=self.parts(element.find("content-header")),
            carriers=tuple(
                ir.Carrier(
                    name=carrier.attrib["name"],
                    frame_type=self.number(carrier, "frame-type"),
                    parts=self.parts(carrier),
                    nested="nested" in carrier.attrib,
                )
                for carrier in element.findall("carrier")
            ),
            pack=self.number(element, "pack"),
            command_header=" ".join(self.names(element, "command-header")),
        )

    def parts(self, element: ET.Element | None) -> tuple[ir.Part, ...]:
        if element is None:
            return ()
        self.unique(element, "name")
        return tuple(
            ir.Part(
                name=part.attrib["name"],
                width=self.number(part, "width"),
                value=self.maybe(part, "value"),
                escape=self.maybe(part, "escape"),
                escape_width=self.number(part, "escape-width"),
                unit=self.number(part, "unit", 1),
            )
            for part in element
        )

    # Types, domains, constants.

    def types(self) -> dict[str, ir.Type]:
        elements = self.root.findall("types/type")
        self.unique(elements, "name")
        return {
            element.attrib["name"]: ir.Type(
                name=element.attrib["name"],
                kind=element.attrib["kind"],
                width=self.number(element, "width"),
                length=self.number(element, "length"),
                count=self.number(element, "count"),
                code=self.maybe(element, "code"),
                of=element.get("of", ""),
                encodings=tuple(
                    ir.Encoding(
                        name=encoding.attrib["name"],
                        code=self.number(encoding, "code"),
                        category=encoding.attrib["category"],
                        width=self.number(encoding, "width"),
                    )
                    for encoding in element
                ),
            )
            for element in elements
        }

    def full(self, name: str) -> str:
        """The full name of a type, domain or struct, by which others know it."""
        nested = f"{self.inside}.{name}"
        return nested if nested in self.known else name

    def known_type(self, element: ET.Element, attribute: str) -> str:
        name = self.full(element.attrib[attribute])
        if name not in self.known:
            raise self.refuse(element, f"unknown domain or type {name!r}")
        return name

    def names(self, element: ET.Element, attribute: str) -> tuple[str, ...]:
        """Several known types in one attribute."""
        names = tuple(map(self.full, element.get(attribute, "").split()))
        for name in names:
            if name not in self.known:
                raise self.refuse(element, f"unknown struct {name!r}")
        return names

    def domain(self, element: ET.Element) -> ir.Domain:
        """A <domain>, or a <restricted> type, which is the same thing under 1.0's name."""
        attribute = "type" if element.tag == "domain" else "source"
        self.unique(element, "name")
        return ir.Domain(
            name=element.attrib["name"],
            type=self.known_type(element, attribute),
            values=tuple(ir.Value(v.attrib["name"], v.attrib["value"]) for v in element),
            provides=element.get("provides", ""),
            scope=element.get("scope", ""),
            section=element.get("section", ""),
            of=self.known_type(element, "of") if "of" in element.attrib else "",
        )

    def check_domains(self, protocol: ir.Protocol) -> None:
        for name in protocol.domains:
            seen = {name}
            target = protocol.domains[name].type
            while target in protocol.domains:
                if target in seen:
                    raise SpecError(f"{self.where}: domain {name!r} refers to itself")
                seen.add(target)
                target = protocol.domains[target].type

    def constants(self) -> dict[str, ir.Constant]:
        elements = self.root.findall("constants/constant")
        self.unique(elements, "name")
        found: dict[str, ir.Constant] = {}
        for element in elements:
            kind, scope = element.attrib["kind"], element.get("scope", "")
            if scope and kind != "reply":
                raise self.refuse(element, "only a reply code has a scope")
            name = element.attrib["name"]
            value = self.number(element, "value")
            for other in found.values():
                if (other.kind, other.value) == (kind, value) and kind != "limit":
                    raise self.refuse(element, f"duplicate {kind} {value}, also {other.name!r}")
            found[name] = ir.Constant(name, kind, value, scope, element.get("extension", ""))
        return found

    def conditions(
        self,
        constants: dict[str, ir.Constant],
        restricted: tuple[ir.Domain, ...],
        domains: dict[str, ir.Domain],
    ) -> tuple[ir.ConditionRow, ...]:
        elements = self.root.findall("conditions/condition")
        if self.root.attrib["family"] == "segments":
            self.unique(elements, "name")
            return tuple(self.scoped_row(element, domains) for element in elements)
        if self.root.attrib["family"] == "performatives":
            return tuple(symbolic_row(e.attrib, restricted, self.where) for e in elements)
        self.unique(elements, "name")
        rows = []
        for element in elements:
            name = element.get("constant", "")
            constant = constants.get(name)
            if constant is None:
                raise self.refuse(element, f"no constant {name!r}")
            if not constant.scope:
                raise self.refuse(element, f"constant {constant.name!r} is not an error code")
            rows.append(
                ir.ConditionRow(element.attrib["name"], constant.name, "nearest" in element.attrib)
            )
        return tuple(rows)

    def scoped_row(self, element: ET.Element, domains: dict[str, ir.Domain]) -> ir.ConditionRow:
        """0-10: the code is a value of one of two domains, by its scope."""
        name, scope = element.get("constant", ""), element.get("scope", "")
        codes = {"session": SESSION_ERRORS, "connection": CONNECTION_ERRORS}.get(scope)
        if codes is None:
            raise self.refuse(element, "scope is neither 'session' nor 'connection'")
        if name not in numbers(domains.get(codes)):
            raise self.refuse(element, f"{codes} has no value {name!r}")
        return ir.ConditionRow(
            element.attrib["name"], name, "nearest" in element.attrib, scope=scope
        )

    # Classes.

    def class_(self, element: ET.Element) -> ir.Class:
        operations = [e for e in element if e.tag in ("method", "command", "control")]
        for kind in ("method", "command", "control"):
            self.unique(element.findall(kind), "number")
        self.unique(element.findall("struct"), "name", "code")
        self.inside = element.attrib["name"]
        properties = element.find("properties")
        loaded = ir.Class(
            name=element.attrib["name"],
            number=self.number(element, "number"),
            operations=tuple(map(self.operation, operations)),
            properties=None if properties is None else self.fields(properties),
            presence="flags" if properties is None else properties.get("presence", "flags"),
            structs=tuple(map(self.struct, element.findall("struct"))),
            domains=tuple(map(self.domain, element.findall("domain"))),
            extension=element.get("extension", ""),
            section=element.get("section", ""),
            roles={
                role.attrib["name"]: cast(ir.Level, role.attrib["implement"])
                for role in element.findall("role")
            },
        )
        self.inside = ""
        self.unique(element.findall("role"), "name")
        names = [operation.name for operation in loaded.operations]
        for name in names:
            if names.count(name) > 1:
                raise self.refuse(element, f"duplicate name {name!r}")
        return loaded

    def operation(self, element: ET.Element) -> ir.Operation:
        senders = element.get("from", "").split()
        for sender in senders:
            if sender not in ("client", "server"):
                raise self.refuse(element, f"from={sender!r} is neither client nor server")
        if not senders and element.tag == "method":
            raise self.refuse(element, "attribute 'from' is missing")
        return ir.Operation(
            kind=cast(ir.Kind, element.tag),
            name=element.get("as", element.attrib["name"]),
            spelled=element.attrib["name"],
            number=self.number(element, "number"),
            senders=cast(tuple[ir.Role, ...], tuple(senders)),
            replies=tuple(element.get("replies", "").split()),
            fields=self.fields(element),
            content="content" in element.attrib,
            header=self.names(element, "header"),
            result=self.known_type(element, "result") if "result" in element.attrib else "",
            pack=self.number(element, "pack"),
            extension=element.get("extension", ""),
            section=element.get("section", ""),
            header_required="header-required" in element.attrib,
            handling=self.handling(element),
            exceptions=self.exceptions(element),
            errata=element.get("errata", ""),
        )

    def handling(self, element: ET.Element) -> dict[str, ir.Level]:
        """The roles that must, should or may handle an operation."""
        found: dict[str, ir.Level] = {}
        levels: tuple[ir.Level, ...] = ("must", "should", "may")
        for level in levels:
            for role in element.get(level, "").split():
                if role not in CHOICES["role", "name"]:
                    raise self.refuse(element, f"{level}={role!r} is no role")
                if role in found:
                    raise self.refuse(element, f"{level}={role!r}, but {found[role]} it as well")
                found[role] = level
        return found

    def exceptions(self, element: ET.Element) -> tuple[ir.ExceptionRow, ...]:
        """The exceptions of an operation or a field, each with a code that exists."""
        rows = []
        self.unique(element.findall("exception"), "name")
        for each in element.findall("exception"):
            error = each.attrib["error"]
            if error not in self.errors:
                raise self.refuse(each, f"{SESSION_ERRORS} has no value {error!r}")
            rows.append(ir.ExceptionRow(each.attrib["name"], error, self.errors[error]))
        return tuple(rows)

    def struct(self, element: ET.Element) -> ir.Struct:
        if element.tag == "described" and element.attrib["source"] != "*":
            self.known_type(element, "source")
        return ir.Struct(
            name=element.attrib["name"],
            fields=self.fields(element),
            code=self.maybe(element, "code"),
            size=self.number(element, "size"),
            pack=self.number(element, "pack"),
            source=element.get("source", ""),
            symbol=element.get("symbol", ""),
            provides=element.get("provides", ""),
            section=element.get("section", ""),
            errata=element.get("errata", ""),
        )

    def fields(self, element: ET.Element) -> tuple[ir.Field, ...]:
        self.unique(element.findall("field"), "name")
        return tuple(map(self.field, element.findall("field")))

    def field(self, element: ET.Element) -> ir.Field:
        # In 1.0 a field may hold any type that provides an archetype; it names that instead.
        anything = element.attrib["type"] == "*" and "requires" in element.attrib
        return ir.Field(
            name=element.get("as", element.attrib["name"]),
            spelled=element.attrib["name"],
            type="*" if anything else self.known_type(element, "type"),
            reserved="reserved" in element.attrib,
            trailing="trailing" in element.attrib,
            required="required" in element.attrib,
            multiple="multiple" in element.attrib,
            default=element.get("default", ""),
            requires=element.get("requires", ""),
            extension=element.get("extension", ""),
            of=self.known_type(element, "of") if "of" in element.attrib else "",
            exceptions=self.exceptions(element),
        )

    def check_replies(self, protocol: ir.Protocol) -> None:
        """Every reply exists, may be sent by the other side, and content has properties."""
        for class_ in protocol.classes:
            for operation in class_.operations:
                where = f"{self.where}: {class_.name}.{operation.spelled}"
                if protocol.family == "methods" and operation.content and class_.properties is None:
                    raise SpecError(f"{where}: carries content, its class has no <properties>")
                for reply in operation.replies:
                    answer = protocol.reply(class_, reply)
                    if answer is None:
                        raise SpecError(f"{where}: reply {reply!r} is missing")
                    others = {"client": "server", "server": "client"}
                    if not {others[sender] for sender in operation.senders} <= set(answer.senders):
                        raise SpecError(f"{where}: reply {reply!r} is sent by the wrong side")
