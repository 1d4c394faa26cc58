"""Reads messages to publish: one from a request, or many from one document."""

import hashlib
import json
from collections.abc import Iterable
from email.message import Message as MimeHeader
from typing import Any, NamedTuple

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser

from gateway.bodies import Body
from gateway.crossing.bodies import holds
from gateway.http import problems
from gateway.http.fields import READERS, BadField, identifier, read_properties, string
from gateway.http.portions import spread
from gateway.http.problems import Problem
from gateway.http.publish import cloudevents
from gateway.http.publish.addresses import Target, read_address
from gateway.http.publish.form_reader import FORM, read_form
from gateway.http.publish.preferences import ORDERING
from gateway.http.publish.results import shown_id
from gateway.http.publish.shared_forms import read_shared
from gateway.http.publish.templates import Prepared, prepare_properties
from gateway.http.typed_json import BadForm, loads, strange
from gateway.message import Properties

BATCH = "application/vnd.amqp-gateway.batch+json"
LINES = "application/vnd.amqp-gateway.messages+ndjson"
MULTIPART = "multipart/mixed"
DOCUMENTS = frozenset({FORM, BATCH, LINES, MULTIPART, cloudevents.ONE, cloudevents.BATCH})
"""Media types that are parsed."""

Pairs = list[tuple[bytes, bytes]]


class Item(NamedTuple):
    """A message to publish. ``name`` identifies it within its batch."""

    target: Target
    prepared: Prepared
    body: Body
    fingerprint: str
    name: str | None = None
    ordering: str | None = None

    def again(self, message_id: str) -> "Item":
        """With the id that an earlier attempt had, as ``Amqp-Message-Id`` writes it."""
        properties = self.prepared.properties()
        properties.message_id = identifier("amqp-message-id", message_id.encode())
        return self._replace(prepared=prepare_properties(properties, 0))


class Batch(NamedTuple):
    """``items``: name and item, or its problem. ``stop``: at the first that fails."""

    items: list[tuple[str | None, Item | Problem]]
    atomic: bool = False
    stop: bool = False


class Maker(NamedTuple):
    """Makes items of one request. ``target`` is ``None`` where each item says its own ``to``.
    ``keyed``: fingerprints are wanted."""

    target: Target | None
    now: int
    view: str = "simple"
    keyed: bool = False

    def find(self, properties: Properties, key: str | None) -> Target:
        if self.target is not None:
            return self.target.with_key(key)
        if not properties.to:
            raise Problem(problems.INVALID, "the message has no target (property to)")
        return read_address(properties.to).with_key(key)

    def from_headers(self, headers: Pairs, body: Body, name: str | None = None) -> Item:
        """A raw body, or a CloudEvent in binary mode. Raises ``BadField`` and ``Problem``."""
        significant = [
            (field, value)
            for field, value in headers
            if field != ORDERING and (field in READERS or field.startswith((b"amqp-", b"ce-")))
        ]
        properties = read_properties(pair for pair in significant if not pair[0].startswith(b"ce-"))
        attributes = cloudevents.read_attributes(headers)
        if attributes:
            properties.application = {**attributes, **(properties.application or {})}
        elif any(field.startswith(b"ce-") for field, _ in significant):
            significant = [pair for pair in significant if not pair[0].startswith(b"ce-")]
        target = self.find(properties, None)
        said = b"\n".join(b"%b:%b" % pair for pair in sorted(significant))
        return Item(
            target,
            prepare_properties(properties, self.now),
            body,
            fingerprint(target, said, body) if self.keyed else "",
            name,
            ordering_of(headers),
        )

    def from_event(self, headers: Pairs, event: Any, octets: Body, name: str | None) -> Item:
        """A CloudEvent in structured mode. Raises ``BadForm`` and more."""
        cloudevents.check_event(event)
        kept = [pair for pair in headers if pair[0] not in (b"content-type", b"amqp-message-id")]
        kept.append((b"content-type", b"application/cloudevents+json; charset=utf-8"))
        return self.from_headers(kept, octets, name)

    def from_form(self, found: Any, body: Body | None = None) -> Item:
        """A message in JSON. ``body`` is that of a large one, for which another stands in
        ``found``. Raises ``BadForm`` and ``Problem``."""
        if body is None and self.target is not None and self.view == "simple" and not self.keyed:
            shared = read_shared(found, self.now)
            if shared is not None:
                target = self.target.with_key(shared.key)
                return Item(target, shared.prepared, shared.body, "", shared.name)
        ordering = None
        if isinstance(found, dict) and "ordering_key" in found:
            ordering = found["ordering_key"]
            if not isinstance(ordering, str) or not 0 < len(ordering) <= 255:
                raise BadForm("/ordering_key", "must be text of 1 to 255 characters")
        form = read_form(
            {k: v for k, v in found.items() if k != "ordering_key"} if ordering else found,
            self.view,
        )
        target = self.find(form.properties, form.key)
        mark = ""
        if self.keyed:
            said = json.dumps(found, sort_keys=True).encode()
            mark = fingerprint(target, said, b"" if body is None else body)
        given = form.properties.message_id
        name = None if given is None else shown_id(given)
        kind = form.properties.body_kind
        if kind in ("value", "sequence") and not holds(form.body, kind):
            raise BadForm("/body/base64", f"must be encoded amqp-{kind} sections (1.0 3.2)")
        prepared = prepare_properties(form.properties, self.now)
        return Item(target, prepared, form.body if body is None else body, mark, name, ordering)


def ordering_of(headers: Pairs) -> str | None:
    for name, value in headers:
        if name == ORDERING:
            return string(name.decode(), value)
    return None


def fingerprint(target: Target, said: bytes, body: Body) -> str:
    """Distinguishes messages under the same idempotency key."""
    digest = hashlib.sha256(f"{target.scope}\n{target.key}\n".encode("utf-8", "surrogateescape"))
    digest.update(hashlib.sha256(said).digest())
    octets = hashlib.sha256()
    for piece in (body,) if isinstance(body, bytes) else body.chunks():
        octets.update(piece)
    digest.update(octets.digest())
    return digest.hexdigest()


# --- many ---------------------------------------------------------------------------------------


def attempt(make: Any, *arguments: Any) -> Item | Problem:
    """An item, or its problem: the others of its batch may be good."""
    try:
        item: Item = make(*arguments)
    except (BadField, BadForm, Problem) as error:
        return as_problem(error)
    return item


def as_problem(error: BadField | BadForm | Problem) -> Problem:
    if isinstance(error, BadField):
        return Problem(problems.INVALID_FIELD, str(error), field=error.name)
    if isinstance(error, BadForm):
        errors = [{"pointer": error.pointer, "detail": error.text}]
        return Problem(problems.SCHEMA, str(error), errors=errors)
    return error


def read_document(body: bytes) -> Any:
    """Raises ``Problem`` (400)."""
    try:
        return loads(body)
    except BadForm as error:
        raise Problem(problems.INVALID, f"the body {error.text}") from None


def batch_head(found: Any) -> tuple[bool, bool]:
    """Whether a batch is atomic, and stops at the first that fails: ``{"messages": [...], "atomic":
    false, "on_error": "continue"}``. Raises ``BadForm``."""
    if not isinstance(found, dict):
        raise BadForm("", "must be an object")
    odd = found.keys() - {"messages", "atomic", "on_error"}
    if odd:
        raise strange(min(odd))
    messages = found.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadForm("/messages", "must be an array that is not empty")
    atomic, on_error = found.get("atomic", False), found.get("on_error", "continue")
    if not isinstance(atomic, bool):
        raise BadForm("/atomic", "must be true or false")
    if on_error not in ("continue", "stop"):
        raise BadForm("/on_error", "must be continue or stop")
    return atomic, on_error == "stop"


async def read_batch(body: bytes, maker: Maker, most: int) -> Batch:
    """Reads the batch in steps. Raises ``Problem``."""
    found = read_document(body)
    try:
        atomic, stop = batch_head(found)
    except BadForm as error:
        raise as_problem(error) from None
    messages = found["messages"]
    check_count(len(messages), most)
    made = [named(attempt(maker.from_form, each)) async for each in spread(messages)]
    return Batch(made, atomic, stop)


async def read_events(body: bytes, headers: Pairs, maker: Maker, most: int) -> Batch:
    """A JSON array of CloudEvents. Raises ``Problem``."""
    try:
        events = cloudevents.split_batch(body)
    except BadForm as error:
        raise Problem(problems.INVALID, f"the body {error.text}") from None
    if not events:
        raise Problem(problems.SCHEMA, "the batch is empty")
    check_count(len(events), most)
    made = []
    async for event, octets in spread(events):
        name = name_of(event)
        made.append((name, attempt(maker.from_event, headers, event, octets, name)))
    return Batch(made)


def name_of(event: Any) -> str | None:
    """The id of an event."""
    name = event.get("id") if isinstance(event, dict) else None
    return name if isinstance(name, str) else None


async def read_parts(parts: "Parts", maker: Maker) -> Batch:
    """``multipart/mixed``: raw bodies with their own fields; ``Content-ID`` names them."""
    made: list[tuple[str | None, Item | Problem]] = []
    async for headers, body in spread(parts.found):
        raw = next((value for field, value in headers if field == b"content-id"), None)
        name = None if raw is None else raw.decode("latin-1").strip("<> ")
        made.append((name, attempt(maker.from_headers, headers, body, name)))
    if not made:
        raise Problem(problems.INVALID, "the body has no parts, or its last boundary is missing")
    return Batch(made)


def named(made: Item | Problem) -> tuple[str | None, Item | Problem]:
    return (None if isinstance(made, Problem) else made.name), made


def check_count(count: int, most: int) -> None:
    if count > most:
        raise Problem(
            problems.TOO_LARGE,
            f"a batch has at most {most} messages (http.max_batch_items); send several",
        )


class Parts:
    """Takes a multipart body apart as it comes."""

    def __init__(self, content_type: str, most: int) -> None:
        header = MimeHeader()
        header["content-type"] = content_type
        boundary = header.get_param("boundary")
        if not isinstance(boundary, str) or not 0 < len(boundary) <= 70:
            raise Problem(problems.INVALID, "multipart needs a boundary of 1 to 70 characters")
        self.most = most
        self.found: list[tuple[Pairs, bytes]] = []
        self.name, self.value = bytearray(), bytearray()
        self.headers: Pairs = []
        self.body = bytearray()
        self.ended = False
        self.parser = MultipartParser(
            boundary.encode(),
            {
                "on_part_begin": self.begin,
                "on_header_field": self.field_data,
                "on_header_value": self.value_data,
                "on_header_end": self.header_end,
                "on_part_data": self.part_data,
                "on_part_end": self.part_end,
                "on_end": self.end,
            },
        )

    def feed(self, octets: bytes) -> None:
        """Raises ``Problem``."""
        try:
            self.parser.write(octets)
        except MultipartParseError as error:
            raise Problem(problems.INVALID, f"the body is not multipart: {error}") from None

    def finish(self) -> "Parts":
        if not self.ended:
            raise Problem(problems.INVALID, "the last boundary is missing")
        return self

    def begin(self) -> None:
        check_count(len(self.found) + 1, self.most)
        self.headers, self.body = [], bytearray()

    def field_data(self, data: bytes, start: int, end: int) -> None:
        self.name += data[start:end]

    def value_data(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def header_end(self) -> None:
        self.headers.append((bytes(self.name).strip().lower(), bytes(self.value).strip()))
        self.name, self.value = bytearray(), bytearray()

    def part_data(self, data: bytes, start: int, end: int) -> None:
        self.body += data[start:end]

    def part_end(self) -> None:
        self.found.append((self.headers, bytes(self.body)))

    def end(self) -> None:
        self.ended = True


def refuse_metadata(headers: Iterable[tuple[bytes, bytes]], media: str) -> None:
    """Raises ``BadField`` for metadata in fields beside a document: nothing is ignored."""
    for name, _ in headers:
        if name == b"content-encoding":
            raise Problem(problems.UNSUPPORTED_MEDIA, "documents must be uncompressed")
        alone = media in (cloudevents.ONE, cloudevents.BATCH)  # has no place for metadata
        if name.startswith(b"amqp-") and name != ORDERING and not alone:
            raise BadField(name.decode("latin-1"), "belongs in the document, not beside it")
