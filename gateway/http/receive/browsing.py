"""Browsing: the messages of a queue, or of a dead-letter queue, are shown and stay there."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.broker.browsing import Place, Seen
from gateway.http import prepared_bodies
from gateway.http.access.principal import Action
from gateway.http.octets import Octets, concatenated
from gateway.http.portions import Whole, spread
from gateway.http.receive.crossings import crossings_json
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import PageQuery
from gateway.http.receive.views import with_message
from gateway.http.request_parameters import read_query
from gateway.http.typed import moment

NO_STORE = {"cache-control": "no-store"}


def read_place(position: str) -> Place:
    """``priority-position``."""
    priority, _, number = position.partition("-")
    return Place(int(priority), int(number))


def write_place(place: Place) -> str:
    return f"{place.priority}-{place.position}"


class BrowseEndpoints:
    """``GET .../queues/{queue}/messages`` and ``GET .../dead-letters/{queue}``."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.dependencies = receiver.dependencies

    async def on_browse(self, request: Request) -> Response:
        """A page of the ready messages. A dead letter is shown as one in any queue."""
        principal, vhost, queue = await self.receiver.authorize(request.scope, Action.BROWSE)
        page = read_query(request.scope["query_string"], PageQuery)
        after = read_place(page.after) if page.after else None
        octets = self.dependencies.settings.receive_octets
        with (
            self.dependencies.turn(),
            self.receiver.reading(vhost, principal.user) as channel,
        ):
            ready = channel.readable(queue).depth
            seen = channel.browse(queue, after, page.limit, octets)
        parts: list[Octets] = []
        view, payload = page.view, page.payload
        async with prepared_bodies.ready([one.message for one in seen], view, payload == "base64"):
            async for one in spread(seen):
                parts += [b"," if parts else b"", *self.show(one, view, payload, page.crossings)]
        # A page that was cut by its octets is followed by another one, too.
        last = f'"{write_place(seen[-1].place)}"' if seen else "null"
        head, tail = b'{"ready":%d,"messages":[' % ready, b'],"next":%b}' % last.encode()
        return Whole(concatenated(head, *parts, tail), NO_STORE)

    async def on_letters(self, request: Request) -> Response:
        """The same; the console and metrics tell them apart."""
        return await self.on_browse(request)

    def show(self, seen: Seen, view: str, payload: str, crossings: bool) -> list[Octets]:
        known: dict[str, Any] = {"position": write_place(seen.place), "deliveries": seen.deliveries}
        if seen.expires is not None:
            known["expires"] = moment(seen.expires)
        crossing = self.dependencies.crossing
        if not crossings or crossing is None:
            return with_message(known, seen.message, view, payload, seen.deliveries + 1)
        known["came_as"] = seen.message.dialect.name
        shown = with_message(known, seen.message, view, payload, seen.deliveries + 1)
        others = crossings_json(seen.message, crossing, view, payload, seen.deliveries + 1)
        return [*shown[:-1], b',"seen_as":', *others, b"}"]
