"""``/v1/session``, ``/v1/stream-tickets`` and the metadata of token issuers (RFC 9728)."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from fastapi.openapi.models import Example
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Message

from gateway.http import problems
from gateway.http.access.authenticator import (
    HOST_COOKIE,
    NO_NODES,
    PLAIN_COOKIE,
    PRINCIPAL,
    plain_allowed,
)
from gateway.http.access.principal import Principal
from gateway.http.access.rights import DETAILS_TYPE, Action
from gateway.http.access.tickets import Terms, node_of
from gateway.http.context import Context
from gateway.http.filters import SelectorText
from gateway.http.injected import Caller, ContextIn
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.http.request_parameters import read_limited

MOST_SOURCES = 64
MOST_FILTERS = 16
NO_STORE = {"cache-control": "no-store"}

BODY_OCTETS = 64 * 1024


class Bounded(APIRoute):
    """A route that reads its body within a limit, which FastAPI does not have."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            body = await read_limited(request.scope, request.receive, BODY_OCTETS)

            async def receive() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            return await handle(Request(request.scope, receive))

        return bounded


router = APIRouter(tags=["access"], route_class=Bounded)


class Permissions(BaseModel):
    """Regular expressions, searched for anywhere in a name; an empty one matches nothing."""

    vhost: str
    configure: str
    write: str
    read: str


class Session(BaseModel):
    """The authenticated user."""

    user: str
    scheme: str = Field(examples=["cookie"])
    expires_at: str | None
    rights: list[list[list[str] | str | bool]] | None = Field(
        default=None,
        description="limits of the credential within the user's permissions; null: none. Each has "
        "its actions, the virtual host, the kind and the name of what they are for, and whether "
        "the name is meant literally",
    )
    tags: list[str] | None = Field(
        default=None,
        description="of the user; null for a credential with limits",
        examples=[["monitoring"]],
    )
    permissions: list[Permissions] | None = Field(
        default=None, description="of the user; null for a credential with limits"
    )


class TicketRequest(BaseModel):
    """The sources of the stream."""

    model_config = ConfigDict(extra="forbid")

    vhost: str = Field(default="/", max_length=255)
    sources: list[str] = Field(
        min_length=1, max_length=MOST_SOURCES, examples=[["queue:orders", "route:prices"]]
    )
    ack: Literal["none", "on-next", "explicit"] = Field(
        default="none", description="acknowledgement mode of the stream"
    )
    filter: list[Annotated[str, Field(max_length=1024)]] = Field(
        default=[],
        max_length=MOST_FILTERS,
        description="filters that the stream must have; it may have more",
    )
    selector: SelectorText | None = Field(
        default=None, description="selector that the stream must have"
    )
    journal: Literal["memory", "durable"] | None = Field(
        default=None, description="journal that the stream may request for exchanges"
    )
    ttl: float | None = Field(
        default=None, gt=0, description="seconds to the first use; 60 by default and at most"
    )
    origin: str | None = Field(
        default=None,
        max_length=255,
        description="origin of the page that will open the stream, if it is not the requesting one",
    )


TICKET_EXAMPLES = {
    "a queue": Example(value={"vhost": "/", "sources": ["queue:orders"]}),
    "an exchange": Example(value={"sources": ["exchange:amq.topic?binding=prices.%23"], "ttl": 30}),
    "a selector": Example(value={"sources": ["queue:orders"], "selector": "kind = 'invoice'"}),
}


class Ticket(BaseModel):
    """``url`` is for ``new EventSource(url)``; parameters may be added."""

    ticket: str
    url: str
    expires_at: str = Field(description="time by which the ticket must be used")


def instant(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@router.post(
    "/v1/session",
    operation_id="open_session",
    status_code=201,
    summary="Exchange credentials for a session cookie",
    response_model=Session,
)
async def open_session(request: Request, context: ContextIn, caller: Caller) -> Response:
    """For browsers, whose `EventSource` sends cookies but no credentials. The cookie is
    `__Host-amqp-gateway`, HttpOnly, Secure and SameSite=Strict; the session ends with the token or
    password it was made from."""
    if caller.scheme not in ("basic", "bearer"):
        raise Problem(problems.FORBIDDEN, "a session is created from a password or a token")
    authenticator = context.authenticator
    made, session = authenticator.sessions.open(caller, authenticator.settings.session.seconds)
    assert session.expires is not None
    age = max(1, int(session.expires - authenticator.now()))
    plain = authenticator.settings.session.plain_http and plain_allowed(request.scope)
    name, secure = (PLAIN_COOKIE, "") if plain else (HOST_COOKIE, " Secure;")
    cookie = f"{name}={made}; Path=/; Max-Age={age};{secure} HttpOnly; SameSite=Strict"
    shown = session_of(context, caller, "cookie", session.expires)
    return Response(
        shown.model_dump_json(),
        201,
        media_type="application/json",
        headers={**NO_STORE, "set-cookie": cookie},
    )


def session_of(context: Context, caller: Principal, scheme: str, expires: float | None) -> Session:
    shown = Session(user=caller.user, scheme=scheme, expires_at=instant(expires))
    if caller.rights is not None:
        shown.rights = [right.record() for right in caller.rights]
        return shown
    access = context.broker.access
    known = access.user(caller.user)
    shown.tags = [] if known is None else list(known.tags)
    found = access.permissions_of(caller.user)
    shown.permissions = [Permissions(**one._asdict()) for one in found]
    return shown


@router.get("/v1/session", operation_id="show_session", summary="Show the authenticated user")
async def show_session(context: ContextIn, caller: Caller, response: Response) -> Session:
    response.headers.update(NO_STORE)
    return session_of(context, caller, caller.scheme, caller.expires)


@router.delete(
    "/v1/session", operation_id="close_session", status_code=204, summary="End the session"
)
async def close_session(request: Request, context: ContextIn, caller: Caller) -> Response:
    """Streams and tickets of the session end, too."""
    authenticator = context.authenticator
    for proof in caller.proof:
        if proof.startswith("session:"):
            authenticator.sessions.records.forget(proof.removeprefix("session:"))
    response = Response(status_code=204, headers=NO_STORE)
    for name, secure in ((HOST_COOKIE, " Secure;"), (PLAIN_COOKIE, "")):
        response.headers.append(
            "set-cookie", f"{name}=; Path=/; Max-Age=0;{secure} HttpOnly; SameSite=Strict"
        )
    return response


@router.post(
    "/v1/stream-tickets",
    operation_id="create_stream_ticket",
    status_code=201,
    summary="Issue a credential for `EventSource`",
)
async def make_ticket(
    asked: Annotated[TicketRequest, Body(openapi_examples=TICKET_EXAMPLES)],
    request: Request,
    context: ContextIn,
    caller: Caller,
    response: Response,
) -> Ticket:
    """The ticket is for these sources, filters, selector, `ack` and `journal`, this origin and this
    caller.
    After its first use it is good only to resume the stream it started."""
    authenticator = context.authenticator
    if caller.scheme == "ticket" or PRINCIPAL in request.scope:
        raise Problem(problems.FORBIDDEN, "a ticket cannot be used to issue tickets")
    vhost = asked.vhost
    if vhost not in context.broker.vhosts:
        raise problems.no_vhost(vhost)
    sources = [permitted(context, request, caller, vhost, source) for source in asked.sources]
    origin = (asked.origin or request.headers.get("origin") or "").encode("latin-1", "replace")
    if origin and authenticator.origins.own(request.scope, origin):
        origin = b""
    if origin and origin not in authenticator.origins.known:
        raise Problem(problems.INVALID, "the origin is not permitted to use this gateway")
    terms = Terms(sources, asked.filter, asked.ack, asked.journal or "", asked.selector or "")
    made, url, until = authenticator.tickets.make(
        caller, vhost, terms, origin.decode("latin-1") or None, asked.ttl
    )
    response.headers.update(NO_STORE)
    return Ticket(ticket=made, url=url, expires_at=instant(until) or "")


def permitted(
    context: Context, request: Request, caller: Principal, vhost: str, source: str
) -> str:
    """A source in the form of streams, if the caller may read it. Raises ``Problem``."""
    kind, name = node_of(source)
    if kind == "route":
        filled = context.authenticator.catalogue.source(vhost, source)
        behind = filled.route.queue or filled.route.exchange
        caller.need(context.broker, Action.STREAM, vhost, kind, name, behind)
        return filled.shown
    if not context.authenticator.names_nodes(request.scope):
        raise Problem(problems.BY_STATUS[404], NO_NODES)
    caller.need(context.broker, Action.STREAM, vhost, kind, name)
    return source


class ResourceMetadata(BaseModel):
    """Metadata of a protected resource (RFC 9728)."""

    resource: str
    authorization_servers: list[str] = Field(description="issuers of accepted tokens")
    bearer_methods_supported: list[str]
    scopes_supported: list[str]
    authorization_details_types_supported: list[str]
    resource_name: str


@router.get(
    "/.well-known/oauth-protected-resource",
    operation_id="show_token_issuers",
    summary="Issuers of accepted tokens (RFC 9728)",
)
async def resource_metadata(context: ContextIn, response: Response) -> ResourceMetadata:
    bearer = context.authenticator.settings.bearer
    if not (bearer.issuer and bearer.resource):
        raise Problem(problems.BY_STATUS[404], "this gateway accepts no tokens")
    response.headers["cache-control"] = "max-age=3600"
    return ResourceMetadata(
        resource=bearer.resource,
        authorization_servers=[bearer.issuer],
        bearer_methods_supported=["header"],
        scopes_supported=[bearer.scope_prefix + action.value for action in Action],
        authorization_details_types_supported=[DETAILS_TYPE],
        resource_name="AMQP gateway",
    )


@router.get("/.well-known/oauth-protected-resource/{path}", include_in_schema=False)
async def resource_metadata_below(
    path: str, context: ContextIn, response: Response
) -> ResourceMetadata:
    """The metadata for a resource whose URL has a path."""
    bearer = context.authenticator.settings.bearer
    if not bearer.issuer or not bearer.resource.endswith("/" + decode_segment(path)):
        raise Problem(problems.BY_STATUS[404], "no such resource")
    return await resource_metadata(context, response)
