"""The endpoints of streams: ``/v1/{vhost}/events`` and ``.../queues/{queue}/events``,
``.../exchanges/{exchange}/events``, ``.../routes/{route}/events``, by GET, or by POST or QUERY
with the parameters as JSON."""

from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.tickets import Claim
from gateway.http.context import Context
from gateway.http.events.admission import admit, check_nodes, claim_ticket
from gateway.http.events.cursor import END
from gateway.http.events.opening import Crowded, open_for
from gateway.http.events.parameters import Pairs, read_pairs, read_parameters
from gateway.http.events.refusal import Refused, refuse_for_good
from gateway.http.events.stream import EventStream
from gateway.http.events.stream_request import StreamRequests
from gateway.http.problems import Problem
from gateway.http.request_parameters import authenticate, existing_vhost, read_limited

BODY_OCTETS = 64 * 1024
METHODS = ("GET", "POST", "QUERY")
"""The last two read the parameters from the body; QUERY says that it changes nothing."""
INBAND = ("errors", "inband")


class Over(Exception):
    """The client was told that its stream is over and reconnects, as browsers do."""


class Attempt:
    """A request for a stream, as far as it has come."""

    __slots__ = ("pairs", "ticket", "hidden")

    def __init__(self) -> None:
        self.pairs: Pairs = []
        self.ticket: Claim | None = None
        self.hidden = False
        """The caller knows declared routes only."""

    def inband(self, query: bytes) -> bool:
        """Whether it is to be refused in-band, also where its parameters cannot be read."""
        return INBAND in self.pairs or b"errors=inband" in query.split(b"&")


class EventsEndpoint:
    """A bare ASGI endpoint, so that a stream that has joined is always the one that leaves.
    ``kind``: what the path names ("queue", "exchange", "route"), "" for nothing."""

    def __init__(self, context: Context, kind: str = "") -> None:
        self.context = context
        self.settings = context.settings
        self.gate = context.gate
        self.hub = context.hub
        self.kind = kind
        self.requests = StreamRequests(kind, context.gate.catalogue, context.settings)
        self.__name__ = f"stream_{kind}_events" if kind else "stream_events"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        attempt = Attempt()
        try:
            stream = await self.open(scope, receive, attempt)
        except (Problem, Refusal, Crowded) as error:
            refusal = Refused(self.settings.reconnect_ms, error, attempt.hidden)
            inband = attempt.inband(scope["query_string"])
            await refusal.answer(scope, receive, send, inband)
            return
        except Over:
            await refuse_for_good(send)
            return
        if attempt.ticket is not None:
            digest = attempt.ticket.digest
            await self.gate.tickets.run(digest, scope, receive, send, stream)
        else:
            await stream(scope, receive, send)

    async def open(self, scope: Scope, receive: Receive, attempt: Attempt) -> EventStream:
        """Parameters, then rights, then sources and positions. Raises ``Problem``, ``Refusal``,
        ``Crowded`` and ``Over``."""
        if scope["method"] not in METHODS:
            allow = {"allow": ", ".join(METHODS)}
            raise Problem(problems.BY_STATUS[405], "a stream has no HEAD", headers=allow)
        attempt.hidden = self.kind == "route"
        query = attempt.pairs = read_pairs(scope["query_string"])
        given = read_parameters(scope, query)
        if given.cursor == END:
            raise Over  # whoever it is, and whatever became of the credential meanwhile
        attempt.pairs = given.pairs
        if given.tickets:
            attempt.ticket = claim_ticket(self.gate, scope, given)
        caller = await authenticate(self.context, scope)
        vhost = existing_vhost(self.context.broker, given.names["vhost"])
        if scope["method"] != "GET":
            if given.media != b"application/json":
                text = "the parameters of a stream come as JSON"
                raise Problem(problems.UNSUPPORTED_MEDIA, text)
            body = await read_limited(scope, receive, BODY_OCTETS)
            attempt.pairs = given.pairs + self.requests.from_body(given, body)
        wanted = self.requests.from_parameters(given, attempt.pairs)
        check_nodes(self.gate, scope, wanted)
        if wanted.cursor == END:
            raise Over
        wanted = admit(self.gate, scope, attempt.pairs, attempt.ticket, wanted)
        attempt.hidden = bool(wanted.aliases)
        return open_for(self.hub, scope, vhost, caller, wanted)
