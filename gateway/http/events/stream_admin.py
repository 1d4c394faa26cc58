"""Live streams as resources: ``/v1/{vhost}/streams/{id}``; presence: ``.../subscriptions``."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.authenticator import NO_NODES
from gateway.http.access.principal import MONITORS, Principal
from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.events import openapi as described
from gateway.http.events.presence import Presence, PresenceStream
from gateway.http.events.source_changes import apply_at_upstream, apply_here, read_change
from gateway.http.events.stream import EventStream
from gateway.http.problems import Problem, of_refusal
from gateway.http.request_parameters import read_caller
from gateway.http.typed import moment

NO_STORE = {"cache-control": "no-store"}


def routes(context: Context) -> list[BaseRoute]:
    return [
        Described(
            "/v1/{vhost}/streams/{stream}",
            StreamAdmin(context).stream,
            methods=("GET", "PATCH", "DELETE"),
            operations=described.streams(),
            models=described.MODELS,
        ),
        Described(
            "/v1/{vhost}/subscriptions",
            Subscriptions(context),
            methods=("GET",),
            operations=described.subscriptions(),
        ),
    ]


class StreamAdmin:
    """Only the owner of a stream and monitoring users can find it; for others it does not exist."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.hub = context.hub

    async def stream(self, request: Request) -> Response:
        caller, vhost = await read_caller(self.context, request.scope)
        stream = self.find(vhost, request.path_params["stream"], caller)
        if request.method == "DELETE":
            stream.close("the stream was closed on request", False)
            return Response(status_code=204, headers=NO_STORE)
        if request.method == "PATCH":
            if not same_caller(caller, stream.caller):
                raise Problem(problems.FORBIDDEN, "only the user who opened a stream may renew it")
            await self.change(request, stream, caller)
        return JSONResponse(shown(stream), headers=NO_STORE)

    async def change(self, request: Request, stream: EventStream, caller: Principal) -> None:
        """Go on with this credential, and with other sources if they are named. Raises
        ``Problem`` and ``Refusal``: then nothing has changed."""
        catalogue, vhost = self.context.authenticator.catalogue, stream.vhost
        wanted = await read_change(request, lambda text: catalogue.source(vhost, text))
        if stream.finished:
            raise Problem(problems.BY_STATUS[404], f"no stream {stream.identity!r}")
        if wanted is not None and not self.context.authenticator.names_nodes(request.scope):
            add = wanted.add
            if not add.aliases.keys() >= set(add.names):
                raise Problem(problems.BY_STATUS[404], NO_NODES)
        before = stream.caller, stream.since, stream.reminded
        stream.renew(caller)
        if wanted is None:
            return
        try:
            if vhost in self.context.broker.facades:
                await apply_at_upstream(stream, wanted)
            else:
                await apply_here(stream, wanted)
        except (Problem, Refusal) as error:
            stream.caller, stream.since, stream.reminded = before
            if isinstance(error, Refusal):
                raise of_refusal(error, bool(wanted.add.aliases)) from None
            raise

    def find(self, vhost: str, identity: str, caller: Principal) -> EventStream:
        stream = self.hub.find(identity)
        if (
            isinstance(stream, EventStream)
            and stream.vhost == vhost
            and not stream.finished
            and (same_caller(caller, stream.caller) or watches(self.context, caller))
        ):
            return stream
        raise Problem(problems.BY_STATUS[404], f"no stream {identity!r}")


class Subscriptions:
    """Of what the caller may see, all listeners: a list, or a stream if one is asked for. A bare
    ASGI endpoint: a stream that was opened is the one that leaves."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.presence = Presence(context)
        self.__name__ = "subscriptions"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, broker = Request(scope, receive), self.context.broker
        caller, vhost = await read_caller(self.context, scope)
        if not broker.access.may_enter(caller.user, vhost):
            raise Problem(problems.FORBIDDEN, f"no permission in virtual host {vhost!r}")
        everything = watches(self.context, caller)
        nodes = self.context.authenticator.names_nodes(scope)
        if request.method == "GET" and "text/event-stream" in request.headers.get("accept", ""):
            stream = PresenceStream(self.presence, caller, vhost, everything, nodes)
            stream.open()
            await stream(scope, receive, send)
            return
        found, more = self.presence.shown(caller, vhost, everything, nodes)
        shown = {"subscriptions": list(found.values()), "truncated": more}
        await JSONResponse(shown, headers=NO_STORE)(scope, receive, send)


def same_caller(caller: Principal, opened: Principal) -> bool:
    """Whether both stand for the same one. Cookies and tickets keep the identity of the credential
    they were given for, so two subjects of one service user stay strangers."""
    return caller.identity == opened.identity


def watches(context: Context, caller: Principal) -> bool:
    try:
        caller.need_admin(context.broker, *MONITORS)
    except Problem:
        return False
    return True


def shown(stream: EventStream) -> dict[str, Any]:
    options, expires = stream.options, stream.caller.expires
    return {
        "stream": stream.identity,
        "user": stream.user,
        "since": moment(int(stream.opened * 1000)),
        "expires_at": None if expires is None else moment(int(expires * 1000)),
        "resume": stream.resume.name,
        "heartbeat": options.heartbeat,
        "format": options.spec.format,
        "event": options.spec.event,
        "ack": options.ack,
        "sources": [
            {
                "source": reading.shown,
                "position": reading.position,
                "behind": max(0, reading.source.journal.head - reading.position),
                "slow": reading.slow.value,
            }
            for reading in stream.readings
        ],
    }
