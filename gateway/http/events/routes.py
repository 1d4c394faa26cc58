"""Server-sent events: the routes of streams, and the JavaScript client."""

from starlette.routing import BaseRoute

from gateway.http.client.served import CLIENT_ROUTE, serve_client
from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.events import described
from gateway.http.events.endpoint import METHODS, EventsEndpoint
from gateway.http.events.stream_admin import StreamAdmin, Subscriptions

EVENTS_ROUTE = "/v1/{vhost}/events"


def routes(context: Context) -> list[BaseRoute]:
    stream_admin = StreamAdmin(context)
    return [
        Described(
            EVENTS_ROUTE,
            EventsEndpoint(context),
            methods=METHODS,
            operations=described.opening("stream_events", described.SOURCE, described.BINDING),
        ),
        Described(
            "/v1/{vhost}/queues/{queue}/events",
            EventsEndpoint(context, "queue"),
            methods=METHODS,
            operations=described.opening("stream_queue_events", described.QUEUE),
        ),
        Described(
            "/v1/{vhost}/exchanges/{exchange}/events",
            EventsEndpoint(context, "exchange"),
            methods=METHODS,
            operations=described.opening(
                "stream_exchange_events", described.EXCHANGE, described.BINDING
            ),
        ),
        Described(
            "/v1/{vhost}/routes/{route}/events",
            EventsEndpoint(context, "route"),
            methods=METHODS,
            operations=described.opening("stream_route_events", described.ROUTE),
        ),
        Described(
            "/v1/{vhost}/streams/{stream}",
            stream_admin.stream,
            methods=("GET", "PATCH", "DELETE"),
            operations=described.streams(),
            models=described.MODELS,
        ),
        Described(
            "/v1/{vhost}/subscriptions",
            Subscriptions(stream_admin),
            methods=("GET",),
            operations=described.subscriptions(),
        ),
        Described(CLIENT_ROUTE, serve_client, methods=("GET",), operations=None),
    ]
