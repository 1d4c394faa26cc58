"""The endpoints of streams: ``/v1/{vhost}/events``, ``.../queues/{queue}/events`` and
``.../exchanges/{exchange}/events``, by GET, or by POST with the parameters as JSON."""

from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.deps import authenticate, decode_segment, vhost_of
from gateway.http.events.asking import Asked, Pairs, invalid, read_asked, read_document, read_pairs
from gateway.http.events.cursor import END
from gateway.http.events.leased import open_leased
from gateway.http.events.opening import headers_of, jittered, open_stream
from gateway.http.events.rendering import control
from gateway.http.events.sources import Name
from gateway.http.events.stream import EventStream
from gateway.http.problems import Problem, of_refusal

BODY_OCTETS = 64 * 1024
INBAND = ("errors", "inband")
PROXIED = frozenset({b"via", b"forwarded", b"x-forwarded-for"})
REFUSED_RETRY_MS = 30_000


class Over(Exception):
    """The client was told that its stream is over and asks again, as browsers do."""


class EventsEndpoint:
    """A bare ASGI endpoint, so that a stream that has joined is always the one that leaves.
    ``kind``: what the path names, "" for nothing."""

    def __init__(self, context: Context, kind: str = "") -> None:
        self.context = context
        self.doors = context.doors
        self.hub = context.hub
        self.kind = kind
        self.__name__ = f"stream_{kind}_events" if kind else "stream_events"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: list[Pairs] = []
        try:
            stream = await self.open(scope, receive, asked)
        except (Problem, Refusal) as error:
            problem = of_refusal(error) if isinstance(error, Refusal) else error
            if self.wants_inband(scope, asked):
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
        await stream(scope, receive, send)

    def wants_inband(self, scope: Scope, asked: list[Pairs]) -> bool:
        """What is wrong may be that the parameters cannot be read; this one still counts."""
        if asked:
            return INBAND in asked[0]
        return b"errors=inband" in scope["query_string"].split(b"&")

    async def refuse_inband(
        self, problem: Problem, scope: Scope, send: Send, retry_ms: int | None = None
    ) -> None:
        """A page learns nothing of an ``EventSource`` that was refused with another status than
        200. Where asking again is of no use it is told so, and gets 204 when it asks again."""
        document = problem.document(scope["path"])
        again = bool(document["safe_to_retry"]) or retry_ms is not None
        wait = retry_ms if retry_ms is not None else jittered(self.hub)
        reason = {"reason": problem.detail, "reconnect": again}
        body = b"retry: %d\n: refused\n\n" % wait
        body += control("bridge.error", {"problem": document})
        body += control("bridge.close", reason, None if again else END.encode())
        headers = [pair for pair in headers_of("", "") if pair[1]]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def open(self, scope: Scope, receive: Receive, asked: list[Pairs]) -> EventStream:
        if scope["method"] not in ("GET", "POST"):
            allow = {"allow": "GET, POST"}
            raise Problem(problems.BY_STATUS[405], "a stream has no HEAD", headers=allow)
        broker = self.doors.broker
        caller = await authenticate(self.context, scope)
        vhost = vhost_of(broker, scope["path_params"]["vhost"])
        header: str | None = None
        for name, value in scope["headers"]:
            if name == b"last-event-id":
                header = value.decode("latin-1")
        pairs = await self.read_pairs(scope, receive)
        asked.append(pairs)
        settings = self.doors.settings
        wanted = read_asked(
            pairs,
            header,
            settings.heartbeat_seconds,
            self.implied(scope),
            min(1000, settings.queue_prefetch // 2),
        )
        if wanted.cursor == END:
            raise Over
        return self.admit(scope, vhost, caller, wanted)

    def admit(self, scope: Scope, vhost: str, caller: Principal, asked: Asked) -> EventStream:
        settings = self.doors.settings
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

    def implied(self, scope: Scope) -> Name | None:
        if not self.kind:
            return None
        name = decode_segment(scope["path_params"][self.kind])
        if not name:
            raise invalid("the default exchange has no events of its own")
        return Name(self.kind, name)

    async def read_pairs(self, scope: Scope, receive: Receive) -> Pairs:
        pairs = read_pairs(scope["query_string"])
        if scope["method"] == "GET":
            return pairs
        kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Problem(problems.UNSUPPORTED_MEDIA, "the parameters of a stream come as JSON")
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise invalid("the body is incomplete")
            body += message.get("body", b"")
            if len(body) > BODY_OCTETS:
                raise Problem(
                    problems.TOO_LARGE,
                    f"the parameters of a stream take at most {BODY_OCTETS} octets",
                    headers={"connection": "close"},
                )
            if not message.get("more_body", False):
                return pairs + read_document(body)


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
