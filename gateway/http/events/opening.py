"""How a stream starts: its sources are joined at their positions, and ``bridge.open`` says so."""

from typing import Any
from uuid import uuid4

from starlette.types import Scope

from gateway.http import problems
from gateway.http.access.catalogue import Filled
from gateway.http.access.principal import Principal
from gateway.http.events.cursor import DIGEST_OCTETS, Forged, Positions
from gateway.http.events.hub import Hub
from gateway.http.events.leased import open_leased
from gateway.http.events.parameters import invalid
from gateway.http.events.rendering import control, headers_of, jittered
from gateway.http.events.sources import Name, Source
from gateway.http.events.stream import EventStream, Reading, Resume
from gateway.http.events.stream_request import Start, StreamRequest
from gateway.http.large import Octets
from gateway.http.problems import Problem
from gateway.http.typed import moment

PROXIED = frozenset({b"via", b"forwarded", b"x-forwarded-for"})
NOWHERE = -1
"""A position of which nothing is known: the stream says ``bridge.gap`` with unknown loss."""


class Crowded(Exception):
    """One stream too many for a browser. It is refused in-band whatever was asked for: a page does
    not see any other answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def browser_of(scope: Scope, caller: Principal) -> str:
    """An identity of the browser over HTTP/1.1; "" for callers without such a limit: other
    programs, later versions of HTTP, and browsers behind a proxy."""
    if not scope["http_version"].startswith("1"):
        return ""
    agent, fetched = "", False
    for name, value in scope["headers"]:
        if name in PROXIED:
            return ""
        if name == b"sec-fetch-mode":
            fetched = True
        elif name == b"user-agent":
            agent = value.decode("latin-1")
    if not fetched:
        return ""
    client = scope.get("client")
    return "\n".join((client[0] if client else "", agent, *caller.identity))


def open_for(
    hub: Hub, scope: Scope, vhost: str, caller: Principal, wanted: StreamRequest
) -> EventStream:
    """Open the stream that a request asks for. Raises ``Problem``, ``Refusal`` and ``Crowded``."""
    settings, browser = hub.settings, browser_of(scope, caller)
    most, have = settings.browser_streams_max, hub.per_browser[browser] if browser else 0
    if browser and 0 < most <= have:
        raise Crowded(
            Problem(
                problems.QUOTA,
                f"this browser has {have} streams over HTTP/1.1; it opens six connections at "
                "most, and then everything else waits",
            )
        )
    open_it = open_leased if wanted.options.ack == "explicit" else open_stream
    stream = open_it(hub, vhost, caller, wanted, browser)
    if browser and most and have + 1 >= settings.browser_streams_warn:
        told = {"type": "browser-connections", "streams": have + 1, "most": most}
        stream.pending.append(control("bridge.warn", told))
    return stream


def open_stream(
    hub: Hub, vhost: str, caller: Principal, asked: StreamRequest, browser: str = ""
) -> EventStream:
    """A stream that has joined its sources and is ready to be sent. Raises ``Problem`` and
    ``Refusal``."""
    if not asked.names:
        raise invalid("at least one source is needed")
    if len(asked.names) > hub.settings.max_sources_per_stream:
        raise invalid(f"at most {hub.settings.max_sources_per_stream} sources per stream")
    known = open_cursor(hub, asked.cursor)
    hub.admit(caller.user, vhost, asked.aliases.values())
    stream = EventStream(hub, caller, vhost, uuid4().hex, asked.options, browser)
    names = complete(stream, asked.names, asked.aliases, asked.durable)
    # Positions are taken before sources open: what a new subscription delivers at once is live.
    heads = {name: hub.head(vhost, name) for name in names}
    hub.enter(stream, vhost, names, returning=known is not None)
    resumes = []
    for source in stream.sources:
        position, resume = start(source, asked.start, known, heads[source.name])
        stream.read(source, position)
        if resume is Resume.exact:
            source.written(stream, position)
        resumes.append(resume)
    announce(stream, resumes)
    return stream


def complete(
    stream: EventStream, asked: list[Name], aliases: dict[Name, Filled], durable: bool | None
) -> list[Name]:
    """What is asked for, each once and with all that its name left open. Raises ``Problem``."""
    names: dict[Name, None] = {}
    for asked_name in asked:
        name = stream.hub.complete(stream.vhost, asked_name, durable)
        alias = aliases.get(asked_name)
        if alias is not None:
            stream.aliases[name] = alias
        names[name] = None
    return list(names)


def open_cursor(hub: Hub, text: str | None) -> Positions | None:
    """The positions of a cursor: empty for one that is unknown here, ``None`` if there is none."""
    if text is None:
        return None
    try:
        return hub.cursors.open(text) or {}
    except Forged as error:
        raise Problem(problems.INVALID_CURSOR, f"the cursor is not valid: {error}") from None


def start(
    source: Source, begin: Start, known: Positions | None, head: int | None
) -> tuple[int, Resume]:
    """Where a stream starts in a source. ``head`` is that of the journal before this stream came,
    ``None`` if there was none."""
    journal = source.journal
    if known is not None:
        position = known.get(source.key)
        if position is not None:
            return position, Resume.gap if journal.gap(position) else Resume.exact
        if not known or any(key[:DIGEST_OCTETS] == source.digest for key in known):
            # A position of another journal of this source, or of nobody knows what.
            return NOWHERE, Resume.gap
    return first_connect(source, begin, head)


def first_connect(source: Source, begin: Start, head: int | None) -> tuple[int, Resume]:
    journal = source.journal
    oldest = journal.first - 1
    if begin.kind == "earliest":
        return oldest, Resume.fresh
    if begin.kind == "offset" and begin.value - 1 <= journal.head:
        position = max(begin.value, 1) - 1
        return position, Resume.gap if journal.gap(position) else Resume.fresh
    if begin.kind in ("time", "ago"):
        now = source.hub.broker.state.now
        moment = begin.value if begin.kind == "time" else now - begin.value
        position = journal.since(moment)
        if position == oldest and oldest >= journal.born and len(journal):
            # Whether what the ring has lost was young enough cannot be known.
            return NOWHERE, Resume.gap
        return position, Resume.fresh
    latest = journal.born - 1 if head is None else head
    return max(latest, oldest), Resume.fresh


def described(reading: Reading, resume: Resume) -> dict[str, Any]:
    """One source in ``bridge.open``. ``offset``: of the next event."""
    source = reading.source
    shown: dict[str, Any] = {"source": reading.shown, "resume": resume.name}
    shown["offset"] = max(reading.position, source.journal.first - 1) + 1
    if source.name.kind == "exchange":
        shown["journal"] = "durable" if source.name.durable else "memory"
    return shown


def announce(stream: EventStream, resumes: list[Resume]) -> None:
    """Headers and the first octets: ``bridge.open`` with the reconnect time, and a gap if there is
    one. The last of them has a cursor, so that a reconnect before the first event resumes."""
    hub, options = stream.hub, stream.options
    worst = stream.resume = max(resumes)
    stream.headers = headers_of(stream.identity, worst.name)
    opened: dict[str, Any] = {
        "stream": stream.identity,
        "resume": worst.name,
        "heartbeat": options.heartbeat,
        "ack": options.ack,
        "sources": [
            described(reading, resume)
            for reading, resume in zip(stream.readings, resumes, strict=True)
        ],
    }
    if stream.caller.expires is not None:
        opened["expires_at"] = moment(int(stream.caller.expires * 1000))
    gaps: list[Octets] = []
    for reading in stream.readings:
        stream.skip_gap(reading, gaps, close=False)
    cursor = None if gaps else stream.cursor()
    wait = jittered(hub.settings.reconnect_ms)
    stream.pending = [
        control("bridge.open", opened, cursor, wait),
        *gaps,
    ]
