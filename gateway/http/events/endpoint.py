"""The endpoints of streams: ``/v1/{vhost}/events`` and ``.../queues/{queue}/events``,
``.../exchanges/{exchange}/events``, ``.../routes/{route}/events``, by GET, or by POST or QUERY
with the parameters as JSON."""

from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.catalogue import PARAMETER, Filled
from gateway.http.access.gate import NO_NODES, PRINCIPAL
from gateway.http.access.principal import Principal
from gateway.http.access.tickets import Claim, Terms, bad_ticket
from gateway.http.context import Context
from gateway.http.events.cursor import END
from gateway.http.events.leased import open_leased
from gateway.http.events.opening import headers_of, jittered, open_stream
from gateway.http.events.rendering import control
from gateway.http.events.sources import Name
from gateway.http.events.stream import EventStream
from gateway.http.events.stream_request import (
    REPEATED,
    SINGLE,
    Pairs,
    Start,
    StreamRequest,
    invalid,
    read_document,
    read_pairs,
    read_stream_request,
)
from gateway.http.problems import Problem, of_refusal
from gateway.http.request_parameters import authenticate, read_limited, vhost_of
from gateway.http.segments import decode_segment

BODY_OCTETS = 64 * 1024
METHODS = ("GET", "POST", "QUERY")
"""The last two read the parameters from the body; QUERY says that it changes nothing."""
INBAND = ("errors", "inband")
PROXIED = frozenset({b"via", b"forwarded", b"x-forwarded-for"})
REFUSED_RETRY_MS = 30_000


class Over(Exception):
    """The client was told that its stream is over and asks again, as browsers do."""


class Attempt:
    """A request for a stream, as far as it has come."""

    __slots__ = ("pairs", "ticket", "hidden")

    def __init__(self) -> None:
        self.pairs: Pairs = []
        self.ticket: Claim | None = None
        self.hidden = False
        """The caller knows but declared routes."""


class EventsEndpoint:
    """A bare ASGI endpoint, so that a stream that has joined is always the one that leaves.
    ``kind``: what the path names ("queue", "exchange", "route"), "" for nothing."""

    def __init__(self, context: Context, kind: str = "") -> None:
        self.context = context
        self.dependencies = context.dependencies
        self.gate = context.gate
        self.hub = context.hub
        self.kind = kind
        self.__name__ = f"stream_{kind}_events" if kind else "stream_events"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        attempt = Attempt()
        try:
            stream = await self.open(scope, receive, attempt)
        except (Problem, Refusal) as error:
            hidden = attempt.hidden
            problem = of_refusal(error, hidden) if isinstance(error, Refusal) else error
            if self.wants_inband(scope, attempt):
                await self.refuse_inband(problem, scope, send)
            else:
                await problem.response(scope["path"])(scope, receive, send)
            return
        except Crowded as crowded:
            await self.refuse_inband(crowded.problem, scope, send, REFUSED_RETRY_MS)
            return
        except Over:
            headers = [(b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        if attempt.ticket is not None:
            digest = attempt.ticket.digest
            await self.gate.tickets.run(digest, scope, receive, send, stream)
        else:
            await stream(scope, receive, send)

    def wants_inband(self, scope: Scope, attempt: Attempt) -> bool:
        """What is wrong may be that the parameters cannot be read; this one still counts."""
        return INBAND in attempt.pairs or b"errors=inband" in scope["query_string"].split(b"&")

    async def refuse_inband(
        self, problem: Problem, scope: Scope, send: Send, retry_ms: int | None = None
    ) -> None:
        """A page learns nothing of an ``EventSource`` that was refused with another status than
        200. Where asking again is of no use it is told so, and gets 204 when it asks again."""
        document = problem.document(scope["path"])
        again = bool(document["safe_to_retry"]) or retry_ms is not None
        wait = jittered(self.hub)
        if retry_ms is not None or problem.row.retry_after:
            wait = max(wait, retry_ms or problem.retry_after * 1000)
        reason = {"reason": problem.detail, "reconnect": again}
        body = control("bridge.error", {"problem": document}, retry_ms=wait)
        body += control("bridge.close", reason, None if again else END.encode())
        headers = [pair for pair in headers_of("", "") if pair[1]]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def open(self, scope: Scope, receive: Receive, attempt: Attempt) -> EventStream:
        if scope["method"] not in METHODS:
            allow = {"allow": ", ".join(METHODS)}
            raise Problem(problems.BY_STATUS[405], "a stream has no HEAD", headers=allow)
        attempt.hidden = self.kind == "route"
        query = read_pairs(scope["query_string"])
        attempt.pairs = query
        header = last_event_id(scope)
        pairs = [pair for pair in query if pair[0] != "ticket"]
        if (header or dict(pairs).get("last_event_id")) == END:
            raise Over  # whoever it is, and whatever became of the credential meanwhile
        if len(pairs) < len(query):
            attempt.ticket = self.claim(scope, query)
            scope[PRINCIPAL] = attempt.ticket.principal
        caller = await authenticate(self.context, scope)
        vhost = vhost_of(self.dependencies.broker, scope["path_params"]["vhost"])
        pairs = attempt.pairs = pairs + await self.read_body(scope, receive, vhost)
        wanted = self.read(scope, vhost, pairs, header)
        if wanted.cursor == END:
            raise Over
        if attempt.ticket is not None:
            wanted = self.use(attempt.ticket, wanted, pairs)
        if scope["method"] == "GET" and any(one.kind == "queue" for one in wanted.names):
            refuse_link(scope)
        attempt.hidden = bool(wanted.aliases)
        self.gate.quotas.charge_routes(scope, [one.route for one in wanted.aliases.values()])
        return self.admit(scope, vhost, caller, wanted)

    def claim(self, scope: Scope, query: Pairs) -> Claim:
        """Who comes with a ticket. Raises ``Problem`` (401)."""
        tickets = [value for key, value in query if key == "ticket"]
        if len(tickets) > 1 or scope["method"] != "GET":
            raise bad_ticket("A ticket is given once, and for GET.")
        gate = self.gate
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        if origin is not None and gate.origins.own(scope, origin):
            origin = None
        text = None if origin is None else origin.decode("latin-1")
        return gate.tickets.claim(tickets[0], decode_segment(scope["path_params"]["vhost"]), text)

    def use(self, claim: Claim, wanted: StreamRequest, pairs: Pairs) -> StreamRequest:
        """The session of a ticket begins or goes on, and nothing before it is shown."""
        filters = [value for key, value in pairs if key == "filter"]
        journal = {True: "durable", False: "memory", None: ""}[wanted.durable]
        selector = dict(pairs).get("selector", "")
        terms = Terms(wanted.labels, filters, wanted.options.ack, journal, selector)
        cursor, resumed = self.gate.tickets.use(claim, terms, wanted.cursor)
        return wanted._replace(cursor=cursor, start=Start() if resumed else wanted.start)

    def read(self, scope: Scope, vhost: str, pairs: Pairs, header: str | None) -> StreamRequest:
        """What the parameters say. Raises ``Problem``."""
        settings, catalogue = self.dependencies.settings, self.gate.catalogue
        implied: Name | Filled | None = None
        if self.kind == "route":
            route = catalogue.route(vhost, decode_segment(scope["path_params"]["route"]))
            names = set(PARAMETER.findall(route.key))
            given = {key: value for key, value in pairs if key in names}
            implied = catalogue.filled(vhost, route.name, given)
            pairs = [pair for pair in pairs if pair[0] not in names]
        elif self.kind:
            implied = Name(self.kind, decode_segment(scope["path_params"][self.kind]))
            if not implied.name:
                raise invalid("the default exchange has no events of its own")
        wanted = read_stream_request(
            pairs,
            header,
            settings.heartbeat_seconds,
            implied,
            min(1000, settings.queue_prefetch // 2),
            lambda text: catalogue.source(vhost, text),
        )
        if not wanted.aliases.keys() >= set(wanted.names) and not self.gate.names_nodes(scope):
            raise Problem(problems.BY_STATUS[404], NO_NODES)
        return wanted

    def admit(
        self, scope: Scope, vhost: str, caller: Principal, asked: StreamRequest
    ) -> EventStream:
        settings = self.dependencies.settings
        browser = browser_of(scope, caller)
        have = self.hub.per_browser[browser] if browser else 0
        most = settings.browser_streams_max
        if browser and 0 < most <= have:
            raise Crowded(
                Problem(
                    problems.QUOTA,
                    f"this browser has {have} streams over HTTP/1.1; it opens six connections at "
                    "most, and then everything else waits",
                )
            )
        open_it = open_leased if asked.options.ack == "explicit" else open_stream
        stream = open_it(self.hub, vhost, caller, asked, browser)
        if browser and most and have + 1 >= settings.browser_streams_warn:
            told = {"type": "browser-connections", "streams": have + 1, "most": most}
            stream.pending.append(control("bridge.warn", told))
        return stream

    def members(self, scope: Scope, vhost: str) -> frozenset[str]:
        """What the body of ``POST`` may have. Raises ``Problem``: there is no such route."""
        if not self.kind:
            return SINGLE | REPEATED | {"source"}
        if self.kind != "route":
            return SINGLE | REPEATED
        route = self.gate.catalogue.route(vhost, decode_segment(scope["path_params"]["route"]))
        return SINGLE | REPEATED | set(PARAMETER.findall(route.key))

    async def read_body(self, scope: Scope, receive: Receive, vhost: str) -> Pairs:
        if scope["method"] == "GET":
            return []
        kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Problem(problems.UNSUPPORTED_MEDIA, "the parameters of a stream come as JSON")
        body = await read_limited(scope, receive, BODY_OCTETS)
        return read_document(body, self.members(scope, vhost))


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


def last_event_id(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"last-event-id"]
    return found[-1].decode("latin-1") if found else None


class Crowded(Exception):
    """One stream too many for a browser. Told in-band whatever was asked: of any other answer the
    page would never hear."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def browser_of(scope: Scope, caller: Principal) -> str:
    """What tells one browser over HTTP/1.1 from others; "" for what has no such limit: other
    programs, later versions, and browsers behind a proxy, whose connections are not ours."""
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
