"""Browsing: the messages of a queue, or of a dead-letter queue, are shown and stay there."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.broker.browsing import Place, Seen
from gateway.broker.local import LocalChannel, LocalClient
from gateway.http import prepared_bodies, problems
from gateway.http.access.principal import Action, Principal
from gateway.http.large import Octets, linked
from gateway.http.portions import Whole, spread
from gateway.http.problems import Problem
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import read_query
from gateway.http.receive.views import message_json
from gateway.http.request_parameters import authenticate, vhost_of
from gateway.http.segments import decode_segment
from gateway.http.typed import moment

NO_STORE = {"cache-control": "no-store"}
MOST = 1000
FEW = 50


def read_place(text: str) -> Place:
    """``priority-position``. Raises ``Problem``."""
    priority, dash, position = text.partition("-")
    digits = priority + position
    if not (dash and priority and position and digits.isascii() and digits.isdigit()):
        raise Problem(problems.INVALID, "after must be a position from an earlier answer")
    if len(priority) > 3 or len(position) > 13:
        raise Problem(problems.INVALID, "after must be a position from an earlier answer")
    return Place(int(priority), int(position))


def write_place(place: Place) -> str:
    return f"{place.priority}-{place.position}"


def read_page(query: bytes, *more: str) -> tuple[dict[str, Any], Place | None, int, str, str]:
    """The parameters of a page: all of them, after, limit, view, payload. Raises ``Problem``."""
    given = read_query(query, "after", "limit", "view", "payload", *more)
    after = read_place(given["after"]) if "after" in given else None
    limit = given.get("limit", str(FEW))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 0 < int(limit) <= MOST):
        raise Problem(problems.INVALID, f"limit is from 1 to {MOST}")
    view, payload = given.get("view", "simple"), given.get("payload", "auto")
    if view not in ("simple", "full") or payload not in ("auto", "base64"):
        raise Problem(problems.INVALID, "view is simple or full, payload auto or base64")
    return given, after, int(limit), view, payload


def open_channel(receiver: Receiver, vhost: str, user: str) -> LocalChannel:
    """For one turn; close its client. Raises ``Refusal``."""
    return LocalClient(receiver.broker, vhost, user, f"HTTP reader of {user}").channel()


class Browsing:
    """``GET .../queues/{queue}/messages`` and ``GET .../dead-letters/{queue}``."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.context = receiver.context
        self.dependencies = receiver.dependencies

    async def who(self, request: Request) -> tuple[Principal, str, str]:
        principal = await authenticate(self.context, request.scope)
        vhost = vhost_of(self.context.broker, request.path_params["vhost"])
        queue = decode_segment(request.path_params["queue"])
        principal.need(self.context.broker, Action.BROWSE, vhost, "queue", queue)
        return principal, vhost, queue

    async def on_browse(self, request: Request) -> Response:
        """A page of the ready messages. A dead letter is shown as one in any queue."""
        principal, vhost, queue = await self.who(request)
        _, after, limit, view, payload = read_page(request.scope["query_string"])
        dependencies = self.dependencies
        dependencies.begin_turn()
        try:
            channel = open_channel(self.receiver, vhost, principal.user)
            try:
                ready = channel.readable(queue).depth
                seen = channel.browse(queue, after, limit, dependencies.settings.receive_octets)
            finally:
                channel.client.close()
        finally:
            dependencies.end_turn()
        parts: list[Octets] = []
        async with prepared_bodies.ready([one.message for one in seen], view, payload == "base64"):
            async for one in spread(seen):
                parts += [b"," if parts else b"", *self.show(one, view, payload)]
        # A page that was cut by its octets is followed by another one, too.
        last = f'"{write_place(seen[-1].place)}"' if seen else "null"
        head, tail = b'{"ready":%d,"messages":[' % ready, b'],"next":%b}' % last.encode()
        return Whole(linked(head, *parts, tail), NO_STORE)

    async def on_letters(self, request: Request) -> Response:
        """The same; the console and metrics tell them apart."""
        return await self.on_browse(request)

    def show(self, seen: Seen, view: str, payload: str) -> list[Octets]:
        again = seen.deliveries > 0
        expires = (
            b"" if seen.expires is None else b',"expires":"%b"' % moment(seen.expires).encode()
        )
        place = write_place(seen.place).encode()
        head = b'{"position":"%b","deliveries":%d%b,"message":' % (place, seen.deliveries, expires)
        shown = message_json(
            seen.message, view, payload, redelivered=again, deliveries=seen.deliveries + 1
        )
        return [head, shown, b"}"]
