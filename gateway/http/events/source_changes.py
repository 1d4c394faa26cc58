"""Sources that come to a live stream or leave it. Its cursor stays exact: it always holds the
positions of the current sources, and a cursor is sent at once."""

from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request

from gateway.bridge.waiting import know, until_answered
from gateway.http import problems
from gateway.http.events.control_events import SourcesEvent
from gateway.http.events.opening import (
    NO_PLACES,
    check_count,
    complete,
    look_back,
    open_cursor,
    read_sources,
    report_gaps,
    source_opened,
)
from gateway.http.events.rendering import control
from gateway.http.events.sources import Place, SourceName
from gateway.http.events.stream import EventStream
from gateway.http.events.stream_places import find_places
from gateway.http.events.stream_request import (
    Find,
    Sources,
    Start,
    StreamChange,
    check_kinds,
    invalid,
    read_object,
    read_start,
    validated,
)
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
        raise problems.not_json(kind)
    asked = validated(StreamChange, read_object(body, MEMBERS))
    add = Sources(find)
    for source in asked.add:
        add.read(source)
    return Change(
        add, frozenset(asked.remove), read_start(asked.start), asked.last_event_id or None
    )


async def apply_at_upstream(stream: EventStream, asked: Change) -> None:
    """Likewise in a facade."""
    hub, vhost, add = stream.hub, stream.vhost, asked.add
    for name in add.names:
        await know(hub.broker, hub.turn, vhost, name.kind, name.name)
    known = open_cursor(hub, asked.cursor)
    aliases = dict(add.aliases)
    asking = EventStream(hub, stream.caller, vhost, stream.options, aliases=aliases)
    places = await find_places(asking, add.names, asked.start, known)
    stream.recalled = await look_back(asking, add.names, None, asked.start, known)
    await until_answered(hub.turn, lambda: apply(stream, asked, places))


async def apply_here(stream: EventStream, asked: Change) -> None:
    """Likewise in a virtual host of the gateway."""
    known = open_cursor(stream.hub, asked.cursor)
    aliases = dict(asked.add.aliases)
    asking = EventStream(stream.hub, stream.caller, stream.vhost, stream.options, aliases=aliases)
    stream.recalled = await look_back(asking, asked.add.names, None, asked.start, known)
    if stream.finished:
        raise Problem(problems.BY_STATUS[404], f"no stream {stream.identity!r}")
    apply(stream, asked)


def apply(
    stream: EventStream, asked: Change, places: Mapping[SourceName, Place] = NO_PLACES
) -> None:
    """All of it, or nothing. ``places`` are those in added stream queues. Raises ``Problem`` and
    ``Refusal``."""
    if not stream.readings:
        raise invalid("a stream of presence, or with ack=explicit, keeps its sources")
    hub, options = stream.hub, stream.options
    known = open_cursor(hub, asked.cursor)
    check_kinds(options.slow, options.ack, asked.add.names)
    before = dict(stream.aliases)
    try:
        names = complete(stream, asked.add.names, asked.add.aliases, None, places)
        new = [name for name in names if name not in stream.names()]
        labels = {stream.label(name) for name in names}
        if labels & asked.remove:
            raise invalid("a source is added and removed at once")
        gone = [one for one in stream.readings if one.shown in asked.remove]
        count = len(stream.readings) - len(gone) + len(new)
        if count < 1:
            raise invalid("a stream reads something; DELETE ends it")
        check_count(count, hub.settings)
        for name in new:
            alias = stream.aliases.get(name)
            if alias is not None and alias not in before.values():
                hub.admit_to((stream.vhost, alias.route.name), alias.route.quota.streams)
        heads = {name: hub.head(stream.vhost, name) for name in new}
        sources = hub.join(stream, stream.vhost, new, returning=known is not None)
    except BaseException:
        stream.aliases = before
        raise
    added = read_sources(stream, sources, asked.start, known, heads)
    for reading in gone:
        stream.readings.remove(reading)
        reading.source.release(reading.view)
        stream.aliases.pop(reading.source.name, None)
        with hub.turn():
            hub.leave_source(stream, reading.source)
    stream.update_direct()
    hub.count(stream, stream.vhost)
    told = SourcesEvent(added=list(map(source_opened, added)), removed=[one.shown for one in gone])
    gaps, cursor = report_gaps(stream, added)
    stream.pending += [control(told, cursor), *gaps]
    stream.wake()
