"""Documents that are too large to be read at once: messages, events, and batches, in JSON.

``json.loads`` of some megabytes blocks the loop, even in a thread. So the octets are scanned in
portions, nothing large is built, and only the members beside a body are read as JSON: the body
itself is cut out, decoded piece by piece, and goes to a file when it is large. A body in JSON is
carried unchanged.
"""

import asyncio
import binascii
import json
from collections.abc import Awaitable, Iterable, Iterator
from typing import Any

from gateway.bodies import Body, Spool, incoming_body
from gateway.http import problems
from gateway.http.fields import BadField
from gateway.http.json_check import (
    ARRAY,
    OBJECT,
    PIECE,
    WINDOW,
    Outline,
    Span,
    outline_steps,
    utf8_steps,
)
from gateway.http.octets import LARGEST_SHOWN, octets_of
from gateway.http.portions import spread, stepped
from gateway.http.problems import Problem
from gateway.http.publish.items import (
    Batch,
    Item,
    Maker,
    Pairs,
    as_problem,
    attempt,
    batch_head,
    check_count,
    name_of,
    named,
    read_document,
)
from gateway.http.typed_json import BadForm

WHOLE = 64 * 1024
"""Most octets of a document that is read at once, and of the members beside the body of a larger
one."""
MOST_MEMBERS = 1000
STAND_INS: dict[str, Any] = {"text": "", "json": None, "base64": ""}
"""In place of large bodies, while the members beside them are read."""
ESCAPE = 6
"""Octets of an escape of four digits."""

STRING = b'"'[0]
HIGH = (b"d8", b"d9", b"da", b"db")
"""How the first of two surrogates begins."""
DATA = frozenset({"data", "data_base64"})

Spans = dict[str, Span]
Made = tuple[str | None, Item | Problem]


class Document:
    """The octets of one document. All that reads it may raise ``Problem`` and ``BadForm``."""

    def __init__(self, octets: bytes, spool: Spool) -> None:
        self.octets = octets
        self.spool = spool

    # --- where things stand ---------------------------------------------------------------------

    async def outline(self, span: Span, opening: int, most: int) -> list[Span]:
        """The members of an object, or the items of an array, unless it is none."""
        found = Outline(most)
        good = await stepped(outline_steps(self.octets, span.start, span.stop, found))
        if found.over:
            if opening == OBJECT:
                raise BadForm("", f"has more than {most} members")
            check_count(most + 1, most)
        if not good:
            raise Problem(problems.INVALID, "the body is not JSON")
        if found.opening != opening:
            raise BadForm("", "must be an object" if opening == OBJECT else "must be an array")
        return found.spans

    async def members(self, span: Span) -> Spans:
        """Those of an object by name."""
        found: Spans = {}
        for one in await self.outline(span, OBJECT, MOST_MEMBERS):
            name = json.loads(self.octets[one.key : one.colon])
            if name in found:
                raise Problem(problems.INVALID, "the body is not JSON: a member is there twice")
            found[name] = one
        return found

    def value(self, spans: Spans) -> Any:
        """Those members as an object."""
        return read_document(self.beside(spans, WHOLE))

    def beside(self, spans: Spans, most: int) -> bytes:
        """Those members as the octets of an object, if they are not too many octets."""
        if sum(one.stop - one.key for one in spans.values()) > most:
            raise Problem(
                problems.TOO_LARGE,
                f"the members of a document beside its body have at most {most} octets",
                limit_octets=most,
            )
        inner = b",".join(self.octets[one.key : one.stop] for one in spans.values())
        return b"{%b}" % inner

    @property
    def all(self) -> Span:
        return Span(0, 0, 0, len(self.octets))

    # --- messages and events --------------------------------------------------------------------

    async def form(self, maker: Maker, span: Span) -> Item:
        """A message in JSON."""
        if span.stop - span.start <= WHOLE:
            return maker.from_form(read_document(self.octets[span.start : span.stop]))
        members = await self.members(span)
        body = members.pop("body", None)
        found = self.value(members)
        if body is None:
            return maker.from_form(found)
        if body.stop - body.start <= WHOLE:
            found["body"] = read_document(self.octets[body.start : body.stop])
            return maker.from_form(found)
        way, shown = "text", dict[str, Any]()
        if self.octets[body.start] != STRING:
            ways = await self.members_of_body(body)
            way, shown = await self.way_of(ways)
            body = ways[way]
        found["body"] = {**shown, way: STAND_INS[way]}
        if shown.get("kind") in ("value", "sequence"):
            raise Problem(
                problems.TOO_LARGE,
                f"a {shown['kind']} has at most {WHOLE} octets in a document",
                limit_octets=WHOLE,
            )
        return maker.from_form(found, await self.body(way, body))

    async def members_of_body(self, body: Span) -> Spans:
        try:
            return await self.members(body)
        except BadForm as error:
            raise error.under("body") from None

    async def way_of(self, ways: Spans) -> tuple[str, dict[str, Any]]:
        """The member that holds a large body, and the other members of the body."""
        large = [name for name, one in ways.items() if one.stop - one.start > WHOLE]
        if len(large) != 1 or large[0] not in STAND_INS or ways.keys() - {large[0], "kind"}:
            raise BadForm("/body", "must have one of json, text and base64")
        return large[0], self.value({k: one for k, one in ways.items() if k != large[0]})

    async def body(self, way: str, span: Span, errors: str = "strict") -> Body:
        """The octets of a large body. ``errors``: treatment of lone surrogates in text."""
        if way != "json" and self.octets[span.start] != STRING:
            text = "must be text" if way == "text" else "must be base64 text"
            raise BadForm(f"/body/{way}", text)
        parts: Iterable[bytes]
        if way == "json":
            parts = self.cut(span)
        else:
            parts = self.text(span, errors)
            if way == "base64":
                parts = from_base64(parts)
        try:
            spooled = incoming_body(self.spool, span.stop - span.start)
            async for part in spread(parts):
                spooled.add(part)
            return spooled.finish()
        except OSError as error:
            text = f"there is no room for the body: {error.strerror}"
            raise Problem(problems.BACKPRESSURE, text) from error
        except BadForm as error:
            raise error.under(way).under("body") from None

    def cut(self, span: Span) -> Iterator[bytes]:
        for at in range(span.start, span.stop, WINDOW):
            yield self.octets[at : min(at + WINDOW, span.stop)]

    def text(self, span: Span, errors: str) -> Iterator[bytes]:
        """The value of a string in UTF-8."""
        octets, at, stop = self.octets, span.start + 1, span.stop - 1
        while at < stop:
            found = PIECE.match(octets, at, min(at + WINDOW, stop))
            assert found is not None
            end = found.end()
            while end < stop and octets[end] & 0xC0 == 0x80:
                end -= 1  # between two characters
            last = octets[max(at, end - ESCAPE) : end]
            if end < stop and last[:2] == b"\\u" and last[2:4].lower() in HIGH:
                end -= ESCAPE  # between two surrogates
            try:
                yield json.loads(b'"' + octets[at:end] + b'"').encode("utf-8", errors)
            except UnicodeEncodeError:
                raise BadForm("", "must be text") from None
            at = end

    async def event(self, maker: Maker, headers: Pairs, span: Span, body: Body) -> Item:
        """A CloudEvent, whose octets ``body`` are."""
        members = await self.members(span)
        found = self.value({k: v for k, v in members.items() if k not in DATA})
        found |= dict.fromkeys(members.keys() & DATA)
        return maker.from_event(headers, found, body, name_of(found))

    # --- many -----------------------------------------------------------------------------------

    async def batch(self, maker: Maker, most: int) -> Batch:
        """``{"messages": [...], ..}``."""
        try:
            members = await self.members(self.all)
            messages = members.pop("messages", None)
            found = self.value(members)
            spans = [] if messages is None else await self.items(messages, most)
            atomic, stop = batch_head({**found, "messages": spans})
        except BadForm as error:
            raise as_problem(error) from None
        made = [named(await tried(self.form(maker, span))) async for span in spread(spans)]
        return Batch(made, atomic, stop)

    async def items(self, span: Span, most: int) -> list[Span]:
        try:
            return await self.outline(span, ARRAY, most)
        except BadForm:
            raise BadForm("/messages", "must be an array that is not empty") from None

    async def events(self, maker: Maker, headers: Pairs, most: int) -> Batch:
        """A JSON array of CloudEvents."""
        try:
            spans = await self.outline(self.all, ARRAY, most)
        except BadForm as error:
            raise Problem(problems.INVALID, f"the body {error.text} of events") from None
        if not spans:
            raise Problem(problems.SCHEMA, "the batch is empty")
        made: list[Made] = []
        async for span in spread(spans):
            octets = self.octets[span.start : span.stop]
            if len(octets) <= WHOLE:
                event = read_document(octets)
                item = attempt(maker.from_event, headers, event, octets, name_of(event))
                made.append((name_of(event), item))
            else:
                item = await tried(self.event(maker, headers, span, octets))
                made.append((item.name if isinstance(item, Item) else None, item))
        return Batch(made)


def from_base64(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Raises ``BadForm``."""
    rest = b""
    try:
        for part in parts:
            rest += part
            whole = max(0, len(rest) - 4) // 4 * 4  # the last four may be padded
            if whole:
                if b"=" in rest[:whole]:
                    raise BadForm("", "is not base64")
                yield binascii.a2b_base64(rest[:whole], strict_mode=True)
                rest = rest[whole:]
        yield binascii.a2b_base64(rest, strict_mode=True)
    except (binascii.Error, ValueError):
        raise BadForm("", "is not base64") from None


async def tried(made: Awaitable[Item]) -> Item | Problem:
    """An item, or the reason why there is none."""
    try:
        return await made
    except (BadField, BadForm, Problem) as error:
        return as_problem(error)


async def open_document(body: Body, spool: Spool) -> Document:
    octets = await asyncio.to_thread(octets_of, body)
    if octets is None:
        raise Problem(problems.TOO_LARGE, f"a document has at most {LARGEST_SHOWN} octets")
    if not await stepped(utf8_steps(octets)):
        raise Problem(problems.INVALID, "the body is not UTF-8")
    return Document(octets, spool)
