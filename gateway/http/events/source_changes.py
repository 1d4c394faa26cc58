"""Sources that come to a live stream or leave it. Its cursor stays exact: it always holds the
positions of the current sources, and a cursor is sent at once."""

from typing import Any, NamedTuple

from starlette.requests import Request

from gateway.http import problems
from gateway.http.events.opening import complete, open_cursor, source_opened, start
from gateway.http.events.parameters import invalid
from gateway.http.events.rendering import control
from gateway.http.events.stream import EventStream, Reading
from gateway.http.events.stream_request import (
    Find,
    Sources,
    Start,
    StreamChange,
    check_kinds,
    read_object,
    read_start,
    validated,
)
from gateway.http.octets import Octets
from gateway.http.problems import Problem
from gateway.http.request_parameters import read_limited

BODY_OCTETS = 64 * 1024
MEMBERS = frozenset({"add", "remove", "from", "last_event_id"})


class Change(NamedTuple):
    """``remove``: sources as the stream calls them. ``start`` and ``cursor`` are for added
    sources."""

    add: Sources
    remove: frozenset[str]
    start: Start
    cursor: str | None


async def read_change(request: Request, find: Find) -> Change | None:
    """``None``: there is no body, nothing is to change. Raises ``Problem``."""
    body = await read_limited(request.scope, request.receive, BODY_OCTETS)
    if not body:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(problems.UNSUPPORTED_MEDIA, "a change of a stream comes as JSON")
    asked = validated(StreamChange, read_object(body, MEMBERS))
    add = Sources(find)
    for source in asked.add:
        add.read(source)
    return Change(
        add, frozenset(asked.remove), read_start(asked.start), asked.last_event_id or None
    )


def apply(stream: EventStream, asked: Change) -> None:
    """All of it, or nothing. Raises ``Problem`` and ``Refusal``."""
    if not stream.readings:
        raise invalid("a stream of presence, or with ack=explicit, keeps its sources")
    hub, options = stream.hub, stream.options
    known = open_cursor(hub, asked.cursor)
    check_kinds(options.slow, options.ack, asked.add.names)
    before = dict(stream.aliases)
    try:
        names = complete(stream, asked.add.names, asked.add.aliases, None)
        new = [name for name in names if name not in stream.names()]
        labels = {stream.label(name) for name in names}
        if labels & asked.remove:
            raise invalid("a source is added and removed at once")
        gone = [one for one in stream.readings if one.shown in asked.remove]
        check_count(len(stream.readings) - len(gone) + len(new), hub.settings)
        for name in new:
            alias = stream.aliases.get(name)
            if alias is not None and alias not in before.values():
                hub.admit_to((stream.vhost, alias.route.name), alias.route.quota.streams)
        heads = {name: hub.head(stream.vhost, name) for name in new}
        sources = hub.join(stream, stream.vhost, new, returning=known is not None)
    except BaseException:
        stream.aliases = before
        raise
    added = []
    for source in sources:
        position, resume = start(source, asked.start, known, heads[source.name])
        reading = stream.read(source, position)
        if resume.name == "exact":
            source.written(stream, position)
        added.append((reading, source_opened(reading, resume)))
    for reading in gone:
        stream.readings.remove(reading)
        reading.source.release(reading.view)
        stream.aliases.pop(reading.source.name, None)
        hub.quit(stream, reading.source)
    stream.update_direct()
    hub.count(stream, stream.vhost)
    announce(stream, added, [one.shown for one in gone])


def check_count(count: int, settings: Any) -> None:
    if count < 1:
        raise invalid("a stream reads something; DELETE ends it")
    if count > settings.max_sources_per_stream:
        raise invalid(f"at most {settings.max_sources_per_stream} sources per stream")


def announce(
    stream: EventStream, added: list[tuple[Reading, dict[str, Any]]], removed: list[str]
) -> None:
    """The change, gaps of the added sources, and the cursor of the current sources."""
    told = {"added": [shown for _, shown in added], "removed": removed}
    gaps: list[Octets] = []
    for reading, _ in added:
        stream.skip_gap(reading, gaps, close=False)
    cursor = None if gaps else stream.cursor()
    stream.pending += [control("bridge.sources", told, cursor), *gaps]
    stream.wake()
