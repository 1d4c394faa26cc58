"""Opening an event stream, from its routes to the stream that is ready to be written.

``EventsEndpoint.open`` takes the steps in order: the parameters (``stream_request``), the rights of
the caller, the sources (``hub``), a position in each of them, and ``gateway.open``, the first event
of the stream (``stream``). ``refusal`` is the answer when one of the steps fails.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from gateway.bridge.waiting import know, until_answered
from gateway.config.web import HttpSettings
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.authenticator import NO_NODES, PRINCIPAL, Authenticator
from gateway.http.access.catalogue import Filled
from gateway.http.access.principal import Principal
from gateway.http.access.tickets import Claim, Terms, bad_ticket
from gateway.http.client.served import CLIENT_ROUTE, serve_client
from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.events import openapi as described
from gateway.http.events.control_events import (
    CloseEvent,
    ErrorEvent,
    SourceOpening,
    WarnEvent,
)
from gateway.http.events.cursor import DIGEST_OCTETS, ELSEWHERE, END, Forged, Positions
from gateway.http.events.hub import Hub
from gateway.http.events.leased_stream import open_leased
from gateway.http.events.rendering import STREAM_HEADERS, control, jittered
from gateway.http.events.sources import Place, Source, SourceName
from gateway.http.events.stream import EventStream, Reading, Resume
from gateway.http.events.stream_places import find_places
from gateway.http.events.stream_request import (
    Pairs,
    Start,
    StreamRequest,
    StreamRequests,
    invalid,
    read_pairs,
    read_stream_parameters,
)
from gateway.http.octets import Octets
from gateway.http.problems import Problem, of_refusal
from gateway.http.request_parameters import authenticate, existing_vhost, read_limited
from gateway.http.schemas import ProblemDocument

BODY_OCTETS = 64 * 1024
METHODS = ("GET", "POST", "QUERY")
"""The last two read the parameters from a JSON body; QUERY says that it changes nothing."""
INBAND = ("errors", "inband")
PROXIED = frozenset({b"via", b"forwarded", b"x-forwarded-for"})
CROWDED_RETRY_MS = 30_000
NO_STORE = {"cache-control": "no-store"}
NO_PLACES: Mapping[SourceName, Place] = {}
NOTHING_RECALLED: Mapping[Source, int] = {}
NOWHERE = -1
"""A position of which nothing is known: the stream says ``gateway.gap`` with unknown loss."""


def routes(context: Context) -> list[BaseRoute]:
    """The four paths of streams, and the JavaScript client."""
    source, binding = described.SOURCE, described.BINDING
    paths = (
        ("", "/v1/{vhost}/events", source, binding),
        ("queue", "/v1/{vhost}/queues/{queue}/events", described.QUEUE),
        ("exchange", "/v1/{vhost}/exchanges/{exchange}/events", described.EXCHANGE, binding),
        ("route", "/v1/{vhost}/routes/{route}/events", described.ROUTE),
    )
    made: list[BaseRoute] = []
    for kind, path, *parameters in paths:
        endpoint = EventsEndpoint(context, kind)
        operations = described.opening(endpoint.__name__, *parameters)
        made.append(Described(path, endpoint, methods=METHODS, operations=operations))
    return [*made, Described(CLIENT_ROUTE, serve_client, methods=("GET",), operations=None)]


class StreamOver(Exception):
    """The client was told that its stream is over and reconnects, as browsers do."""


@dataclass(slots=True)
class OpeningAttempt:
    """The parts of a request for a stream on which the answer to a failure depends."""

    pairs: Pairs = field(default_factory=list)
    ticket: Claim | None = None
    hidden: bool = False
    """The caller knows declared routes only."""
    crowded: bool = False
    """One stream too many for a browser. It is always refused in-band: a page does not see any
    other answer."""

    def inband(self, query: bytes) -> bool:
        """Whether a refusal is told in-band, also where the parameters cannot be read."""
        return self.crowded or INBAND in self.pairs or b"errors=inband" in query.split(b"&")


class EventsEndpoint:
    """A bare ASGI endpoint, so that a stream that has joined is always the one that leaves.
    ``kind``: the kind of the source in the path ("queue", "exchange", "route"), or ""."""

    def __init__(self, context: Context, kind: str) -> None:
        self.context = context
        self.settings = context.settings
        self.authenticator = context.authenticator
        self.hub = context.hub
        self.kind = kind
        self.requests = StreamRequests(kind, context.authenticator.catalogue, context.settings)
        self.__name__ = f"stream_{kind}_events" if kind else "stream_events"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        attempt = OpeningAttempt()
        try:
            stream = await self.open(scope, receive, attempt)
        except (Problem, Refusal) as error:
            answer = refusal(error, attempt, scope, self.settings.reconnect_ms)
            await answer(scope, receive, send)
        except StreamOver:
            # The only answer that ends the reconnects of a browser's ``EventSource``.
            await Response(status_code=204, headers=NO_STORE)(scope, receive, send)
        else:
            if attempt.ticket is None:
                await stream(scope, receive, send)
            else:
                digest = attempt.ticket.digest
                await self.authenticator.tickets.run(digest, scope, receive, send, stream)

    async def open(self, scope: Scope, receive: Receive, attempt: OpeningAttempt) -> EventStream:
        """Raises ``Problem``, ``Refusal`` and ``StreamOver``."""
        if scope["method"] not in METHODS:
            allow = {"allow": ", ".join(METHODS)}
            raise Problem(problems.BY_STATUS[405], "a stream has no HEAD", headers=allow)
        attempt.hidden = self.kind == "route"
        query = attempt.pairs = read_pairs(scope["query_string"])
        given = read_stream_parameters(scope, query)
        if given.cursor == END:
            raise StreamOver  # without a look at the credential, which may have ended meanwhile
        attempt.pairs = given.pairs

        authenticator, vhost = self.authenticator, given.names["vhost"]
        if given.tickets:
            if len(given.tickets) > 1 or scope["method"] != "GET":
                raise bad_ticket("A ticket is given once, and for GET.")
            origin = given.origin
            if origin is not None and authenticator.origins.own(scope, origin):
                origin = None
            text = None if origin is None else origin.decode("latin-1")
            attempt.ticket = authenticator.tickets.claim(given.tickets[0], vhost, text)
            scope[PRINCIPAL] = attempt.ticket.principal
        caller = await authenticate(self.context, scope)
        existing_vhost(self.context.broker, vhost)

        if scope["method"] != "GET":
            if given.media != b"application/json":
                raise problems.not_json(given.media.decode("latin-1"))
            body = await read_limited(scope, receive, BODY_OCTETS)
            attempt.pairs = given.pairs + self.requests.from_body(given, body)
        wanted = self.requests.from_parameters(given, attempt.pairs)
        if not wanted.aliases.keys() >= set(wanted.names) and not authenticator.names_nodes(scope):
            raise Problem(problems.BY_STATUS[404], NO_NODES)
        if wanted.cursor == END:
            raise StreamOver

        if attempt.ticket is not None:
            wanted = use_ticket(authenticator, attempt.ticket, wanted, attempt.pairs)
        if scope["method"] == "GET" and attempt.ticket is None:
            refuse_cut(self.hub, vhost, wanted)
        if scope["method"] == "GET" and any(one.kind == "queue" for one in wanted.names):
            refuse_link(scope)
        authenticator.quotas.charge_routes(scope, [one.route for one in wanted.aliases.values()])
        attempt.hidden = bool(wanted.aliases)

        browser = browser_of(scope, caller)
        have = self.hub.per_browser[browser] if browser else 0
        if browser and 0 < self.settings.browser_streams_max <= have:
            attempt.crowded = True
            raise Problem(
                problems.QUOTA,
                f"this browser has {have} streams over HTTP/1.1; it opens six connections at "
                "most, and then everything else waits",
            )
        if vhost in self.context.broker.facades:
            stream = await self.open_at_upstream(vhost, caller, wanted, browser)
        elif wanted.options.ack == "explicit":
            stream = open_leased(self.hub, vhost, caller, wanted, browser)
        else:
            recalled = await self.recall(vhost, caller, wanted)
            stream = open_stream(self.hub, vhost, caller, wanted, browser, recalled=recalled)
        most = self.settings.browser_streams_max
        if browser and most and have + 1 >= self.settings.browser_streams_warn:
            warned = WarnEvent(type="browser-connections", streams=have + 1, most=most)
            stream.pending.append(control(warned))
        return stream

    async def recall(
        self, vhost: str, caller: Principal, wanted: StreamRequest
    ) -> dict[Source, int]:
        """What ``look_back`` finds. Raises ``Problem``."""
        hub = self.hub
        if hub.past is None:
            return {}
        check_count(len(wanted.names), hub.settings)
        hub.admit(caller.user, vhost, wanted.aliases.values())
        asking = EventStream(hub, caller, vhost, wanted.options, aliases=dict(wanted.aliases))
        known = open_cursor(hub, wanted.cursor)
        return await look_back(asking, wanted.names, wanted.durable, wanted.start, known)

    async def open_at_upstream(
        self, vhost: str, caller: Principal, wanted: StreamRequest, browser: tuple[str, ...]
    ) -> EventStream:
        """Likewise in a facade. Raises ``Problem`` and ``Refusal``."""
        hub = self.hub
        for name in wanted.names:
            await know(self.context.broker, hub.turn, vhost, name.kind, name.name)
        check_count(len(wanted.names), hub.settings)
        hub.admit(caller.user, vhost, wanted.aliases.values())
        asking = EventStream(hub, caller, vhost, wanted.options, aliases=dict(wanted.aliases))
        known = open_cursor(hub, wanted.cursor)
        places = await find_places(asking, wanted.names, wanted.start, known)
        if wanted.options.ack == "explicit":
            return await until_answered(
                hub.turn, lambda: open_leased(hub, vhost, caller, wanted, browser)
            )
        recalled = await look_back(asking, wanted.names, wanted.durable, wanted.start, known)
        return await until_answered(
            hub.turn, lambda: open_stream(hub, vhost, caller, wanted, browser, places, recalled)
        )


def use_ticket(
    authenticator: Authenticator, claim: Claim, wanted: StreamRequest, pairs: Pairs
) -> StreamRequest:
    """The session of a ticket begins or goes on, and nothing before it is shown."""
    filters = [value for key, value in pairs if key == "filter"]
    journal = {True: "durable", False: "memory", None: ""}[wanted.durable]
    selector = dict(pairs).get("selector", "")
    terms = Terms(wanted.labels, filters, wanted.options.ack, journal, selector)
    cursor, resumed = authenticator.tickets.use(claim, terms, wanted.cursor)
    return wanted._replace(cursor=cursor, start=Start() if resumed else wanted.start)


def refuse_cut(hub: Hub, vhost: str, wanted: StreamRequest) -> None:
    """A ``#`` that is not escaped ends a URL, and what is left of a binding key of a topic exchange
    would match next to nothing. Raises ``Problem`` (400)."""
    exchanges = hub.broker.vhosts[vhost].exchanges
    for name in wanted.names:
        if name.kind != "exchange" or name.key is None or name in wanted.aliases:
            continue
        if name.key and not name.key.endswith("."):
            continue
        exchange = exchanges.get(name.name)
        if exchange is not None and exchange.type == "topic":
            raise invalid(
                f"the binding key of exchange:{name.name} ends after '{name.key}': an unescaped # "
                "ends a URL, write %23 (if this is the whole key, POST the parameters as JSON)"
            )


def refuse_link(scope: Scope) -> None:
    """Reading a queue takes its messages, so a browser that merely opens an address must not do
    it: a link, a picture or a frame is no consent. ``fetch`` and ``EventSource`` say another mode
    (Fetch Metadata); browsers say none over plain http to other machines, but then which languages
    they like, and ``EventSource`` what it expects. Raises ``Problem`` (403)."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    mode, accept = fields.get(b"sec-fetch-mode"), fields.get(b"accept", b"").lower()
    if mode is not None:
        opened = mode not in (b"cors", b"same-origin")
    else:
        browser = fields.get(b"accept-language", b"*") != b"*" and b"origin" not in fields
        opened = b"text/html" in accept or (browser and b"text/event-stream" not in accept)
    if opened:
        raise Problem(
            problems.FORBIDDEN,
            "reading a queue takes its messages, and an address that a browser opens does not; "
            "GET .../queues/QUEUE/messages shows them without taking, and a program that means to "
            "consume sends Accept: text/event-stream",
        )


def browser_of(scope: Scope, caller: Principal) -> tuple[str, ...]:
    """An identity of the browser over HTTP/1.1; () for callers without such a limit: other
    programs, later versions of HTTP, and browsers behind a proxy."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    if (
        not scope["http_version"].startswith("1")
        or b"sec-fetch-mode" not in fields
        or not PROXIED.isdisjoint(fields)
    ):
        return ()
    client = scope.get("client")
    agent = fields.get(b"user-agent", b"").decode("latin-1")
    return client[0] if client else "", agent, *caller.identity


def open_stream(
    hub: Hub,
    vhost: str,
    caller: Principal,
    asked: StreamRequest,
    browser: tuple[str, ...] = (),
    places: Mapping[SourceName, Place] = NO_PLACES,
    recalled: Mapping[Source, int] = NOTHING_RECALLED,
) -> EventStream:
    """A stream that has joined its sources and is ready to be sent. ``places`` are those in stream
    queues. Raises ``Problem`` and ``Refusal``."""
    if not asked.names:
        raise invalid("at least one source is needed")
    check_count(len(asked.names), hub.settings)
    known = open_cursor(hub, asked.cursor)
    hub.admit(caller.user, vhost, asked.aliases.values())
    stream = EventStream(hub, caller, vhost, asked.options, browser)
    stream.recalled.update(recalled)
    names = complete(stream, asked.names, asked.aliases, asked.durable, places)
    # Positions are taken before sources open: messages that a new subscription delivers at once
    # are live.
    heads = {name: hub.head(vhost, name) for name in names}
    hub.enter(stream, vhost, names, returning=known is not None)
    opened = read_sources(stream, stream.sources, asked.start, known, heads)
    shown = [source_opened(one) for one in opened]
    gaps, cursor = report_gaps(stream, opened)
    resume = max(one.resume for one in opened)
    stream.announce(resume, cursor, ack=stream.options.ack, sources=shown)
    stream.pending += gaps
    return stream


def check_count(count: int, settings: HttpSettings) -> None:
    """Raises ``Problem``."""
    if count > settings.max_sources_per_stream:
        raise invalid(f"at most {settings.max_sources_per_stream} sources per stream")


def complete(
    stream: EventStream,
    asked: list[SourceName],
    aliases: dict[SourceName, Filled],
    durable: bool | None,
    places: Mapping[SourceName, Place] = NO_PLACES,
) -> list[SourceName]:
    """The requested sources, each once and with its defaults. Raises ``Problem``."""
    names: dict[SourceName, None] = {}
    for asked_name in asked:
        name = stream.hub.complete(stream.vhost, asked_name, durable)
        if asked_name in places:
            name = name._replace(reader=stream.identity)
            stream.places[name] = places[asked_name]
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


async def look_back(
    stream: EventStream,
    names: Iterable[SourceName],
    durable: bool | None,
    begin: Start,
    known: Positions | None,
) -> dict[Source, int]:
    """Find out what can be read behind the rings of durable sources, for a stream that is about to
    read them. Returns positions to begin at by the time that it asks for; ``NOWHERE`` if events of
    that time are lost. Raises ``Problem``."""
    found: dict[Source, int] = {}
    hub, vhost = stream.hub, stream.vhost
    for asked in names:
        if asked.kind != "exchange" or hub.past is None or vhost not in hub.broker.vhosts:
            continue
        source = hub.sources.get((vhost, hub.complete(vhost, asked, durable)))
        if source is None or source.history is None:
            continue
        stream.need(vhost, asked)
        history, position = source.history, None if known is None else known.get(source.key)
        if position is not None:
            await history.has(position + 1)
        elif begin.kind == "earliest" or is_forgotten(source, known):
            await history.has(source.journal.born)
        elif begin.kind == "offset":
            await history.has(begin.value)
        elif begin.kind in ("time", "ago"):
            at = await history.since(moment_of(source, begin))
            found[source] = NOWHERE if at is None else at
    return found


def moment_of(source: Source, begin: Start) -> int:
    """The time from which on events are wanted, ms since 1970."""
    if begin.kind == "time":
        return begin.value
    return source.hub.broker.state.now - begin.value


def is_forgotten(source: Source, known: Positions | None) -> bool:
    """Whether a cursor has a position of another journal of this source, or of an unknown one."""
    if known is None or source.key in known:
        return False
    return (
        not known
        or ELSEWHERE in known
        or any(key[:DIGEST_OCTETS] == source.digest for key in known)
    )


class OpenedSource(NamedTuple):
    """A source that a stream has begun to read."""

    reading: Reading
    resume: Resume


def read_sources(
    stream: EventStream,
    joined: list[Source],
    begin: Start,
    known: Positions | None,
    heads: dict[SourceName, int | None],
) -> list[OpenedSource]:
    """Begin to read sources that the stream has joined. ``heads`` are those of their journals
    before."""
    opened = []
    for source in joined:
        place = stream.places.get(source.name)
        recalled = stream.recalled.get(source)
        position, resume = start(source, begin, known, heads[source.name], place, recalled)
        opened.append(OpenedSource(stream.read(source, position), resume))
        if resume is Resume.exact:
            source.written(stream, position)
    return opened


def start(
    source: Source,
    begin: Start,
    known: Positions | None,
    head: int | None,
    place: Place | None = None,
    recalled: int | None = None,
) -> tuple[int, Resume]:
    """Where a stream starts in a source. ``head`` is that of the journal before this stream came,
    ``None`` if there was none; ``place`` is the one in a stream queue; ``recalled`` was found by
    ``look_back``."""
    journal = source.journal
    if place is not None:
        if place.lost is None:
            return NOWHERE, Resume.gap
        fresh = Resume.gap if place.lost else Resume.fresh
        return journal.first - 1 - place.lost, Resume.exact if place.known else fresh
    if known is not None:
        position = known.get(source.key)
        if position is not None:
            return position, Resume.gap if source.gap(position) else Resume.exact
        if is_forgotten(source, known):
            return NOWHERE, Resume.gap
    return first_connect(source, begin, head, recalled)


def first_connect(
    source: Source, begin: Start, head: int | None, recalled: int | None
) -> tuple[int, Resume]:
    journal = source.journal
    oldest = source.reach - 1
    if begin.kind == "earliest":
        return oldest, Resume.fresh
    if begin.kind == "offset" and begin.value - 1 <= journal.head:
        position = max(begin.value, 1) - 1
        return position, Resume.gap if source.gap(position) else Resume.fresh
    if begin.kind in ("time", "ago"):
        position, first = journal.since(moment_of(source, begin)), journal.first
        if position == first - 1 and position >= journal.born and len(journal):
            # Events that the ring has evicted may be young enough.
            position = NOWHERE if recalled is None else recalled
            return position, Resume.gap if position == NOWHERE else Resume.fresh
        return position, Resume.fresh
    latest = journal.born - 1 if head is None else head
    return max(latest, oldest), Resume.fresh


def source_opened(opened: OpenedSource) -> SourceOpening:
    """One source in ``gateway.open``. ``offset``: of the next event."""
    reading, resume = opened
    source = reading.source
    following = max(reading.position, source.reach - 1) + 1
    shown = {"source": reading.shown, "resume": resume.name, "offset": source.offset(following)}
    if source.name.kind == "exchange":
        shown["journal"] = "durable" if source.name.durable else "memory"
    return SourceOpening(**shown)


def report_gaps(
    stream: EventStream, opened: list[OpenedSource]
) -> tuple[list[Octets], bytes | None]:
    """The gaps of these sources, and the cursor of the event before them. The last gap has it, if
    there are any, so that a reconnect before the first event resumes."""
    gaps: list[Octets] = []
    for one in opened:
        stream.skip_gap(one.reading, gaps, close=False)
    return gaps, None if gaps else stream.cursor()


def refusal(
    error: Problem | Refusal, attempt: OpeningAttempt, scope: Scope, reconnect_ms: int
) -> Response:
    """By the status of the answer, or in-band, by the events of a short stream: a page is told
    nothing of an ``EventSource`` that was refused with another status than 200. Where a retry is
    of no use the stream says so, and a reconnect gets 204."""
    problem = of_refusal(error, attempt.hidden) if isinstance(error, Refusal) else error
    if not attempt.inband(scope["query_string"]):
        return problem.response(scope["path"])
    document = problem.document(scope["path"])
    again = attempt.crowded or bool(document["safe_to_retry"])
    wait = jittered(reconnect_ms)
    if attempt.crowded:
        wait = max(wait, CROWDED_RETRY_MS)
    elif problem.row.retry_after:
        wait = max(wait, problem.retry_after * 1000)
    body = control(ErrorEvent(problem=ProblemDocument(**document)), retry_ms=wait)
    last = CloseEvent(reason=problem.detail, reconnect=again)
    body += control(last, None if again else END.encode())
    answer = Response(body, headers=STREAM_HEADERS)
    del answer.headers["content-length"]  # as of any stream
    return answer
