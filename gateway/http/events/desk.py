"""Live streams as resources: ``/v1/{vhost}/streams/{id}``; presence: ``.../subscriptions``."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.http import problems
from gateway.http.access.principal import MONITORS, Action, Principal
from gateway.http.context import Context
from gateway.http.deps import authenticate, vhost_of
from gateway.http.events.stream import EventStream
from gateway.http.problems import Problem
from gateway.http.typed import moment

NO_STORE = {"cache-control": "no-store"}
Sees = Callable[[str, str], bool]


class Desk:
    """Others than a stream's owner and those who may watch everything learn nothing of it, not
    even that it is there."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.hub = context.hub

    async def stream(self, request: Request) -> Response:
        caller = await authenticate(self.context, request.scope)
        vhost = vhost_of(self.context.broker, request.path_params["vhost"])
        stream = self.find(vhost, request.path_params["stream"], caller)
        if request.method == "DELETE":
            stream.close("the stream was closed on request", False)
            return Response(status_code=204, headers=NO_STORE)
        if request.method == "PATCH":
            if not same_caller(caller, stream.caller):
                raise Problem(problems.FORBIDDEN, "a stream is renewed by the one who opened it")
            stream.renew(caller)
        return JSONResponse(shown(stream), headers=NO_STORE)

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

    async def subscriptions(self, request: Request) -> Response:
        """Of the nodes that the caller may see, all listeners."""
        caller = await authenticate(self.context, request.scope)
        broker = self.context.broker
        vhost = vhost_of(broker, request.path_params["vhost"])
        if not broker.access.may_enter(caller.user, vhost):
            raise Problem(problems.FORBIDDEN, f"no permission in virtual host {vhost!r}")
        everything = watches(self.context, caller)

        def sees(kind: str, name: str) -> bool:
            return everything or (
                caller.may(Action.PRESENCE, vhost, kind, name)
                and broker.access.allows(caller.user, vhost, "read", name)
            )

        found = [*self.streams(vhost, sees), *self.consumers(vhost, sees)]
        return JSONResponse({"subscriptions": found}, headers=NO_STORE)

    def streams(self, vhost: str, sees: Sees) -> list[dict[str, Any]]:
        return [
            {
                "kind": name.kind,
                "name": name.name,
                "binding": name.key,
                "protocol": "http",
                "user": stream.user,
                "stream": stream.identity,
                "since": moment(int(stream.opened * 1000)),
            }
            for stream in self.hub.streams
            if isinstance(stream, EventStream) and stream.vhost == vhost
            for name in stream.names()
            if sees(name.kind, name.name)
        ]

    def consumers(self, vhost: str, sees: Sees) -> list[dict[str, Any]]:
        """Those of programs. Those of the gateway stand for its streams and receivers."""
        return [
            {
                "kind": "queue",
                "name": queue.name,
                "binding": None,
                "protocol": "amqp",
                "user": getattr(consumer.origin, "user", ""),
                "consumer": consumer.tag,
            }
            for queue in self.context.broker.vhosts[vhost].queues.values()
            if sees("queue", queue.name)
            for consumer in queue.consumers
            if not getattr(consumer.origin, "name", "").startswith("HTTP ")
        ]


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
                "source": str(reading.source.name),
                "position": reading.position,
                "behind": max(0, reading.source.journal.head - reading.position),
                "slow": reading.slow.value,
            }
            for reading in stream.readings
        ],
    }
