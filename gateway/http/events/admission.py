"""Whether a caller may open a stream: by ticket, listener, consent, and the quotas of routes."""

from starlette.types import Scope

from gateway.http import problems
from gateway.http.access.gate import NO_NODES, PRINCIPAL, Gate
from gateway.http.access.tickets import Claim, Terms, bad_ticket
from gateway.http.events.parameters import Pairs, StreamParameters
from gateway.http.events.stream_request import Start, StreamRequest
from gateway.http.problems import Problem


def claim_ticket(gate: Gate, scope: Scope, given: StreamParameters) -> Claim:
    """The claim of the ticket in the query, whose user becomes the caller. Raises ``Problem``
    (401)."""
    if len(given.tickets) > 1 or scope["method"] != "GET":
        raise bad_ticket("A ticket is given once, and for GET.")
    origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
    if origin is not None and gate.origins.own(scope, origin):
        origin = None
    text = None if origin is None else origin.decode("latin-1")
    claim = gate.tickets.claim(given.tickets[0], given.names["vhost"], text)
    scope[PRINCIPAL] = claim.principal
    return claim


def admit(
    gate: Gate, scope: Scope, pairs: Pairs, claim: Claim | None, wanted: StreamRequest
) -> StreamRequest:
    """The request, as a ticket narrows it. Raises ``Problem``."""
    if claim is not None:
        wanted = use_ticket(gate, claim, wanted, pairs)
    if scope["method"] == "GET" and any(one.kind == "queue" for one in wanted.names):
        refuse_link(scope)
    gate.quotas.charge_routes(scope, [one.route for one in wanted.aliases.values()])
    return wanted


def check_nodes(gate: Gate, scope: Scope, wanted: StreamRequest) -> None:
    """Raises ``Problem`` (404) for a queue or exchange on a listener for declared routes only."""
    if not wanted.aliases.keys() >= set(wanted.names) and not gate.names_nodes(scope):
        raise Problem(problems.BY_STATUS[404], NO_NODES)


def use_ticket(gate: Gate, claim: Claim, wanted: StreamRequest, pairs: Pairs) -> StreamRequest:
    """The session of a ticket begins or goes on, and nothing before it is shown."""
    filters = [value for key, value in pairs if key == "filter"]
    journal = {True: "durable", False: "memory", None: ""}[wanted.durable]
    selector = dict(pairs).get("selector", "")
    terms = Terms(wanted.labels, filters, wanted.options.ack, journal, selector)
    cursor, resumed = gate.tickets.use(claim, terms, wanted.cursor)
    return wanted._replace(cursor=cursor, start=Start() if resumed else wanted.start)


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
