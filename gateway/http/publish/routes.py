"""All ways in: the routes of publishing."""

from typing import Any

from starlette.routing import BaseRoute

from gateway.http.access.declared_routes import Declared
from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.publish import described
from gateway.http.publish.addresses import (
    address_of_path,
    by_route,
    exchange_of_path,
    nowhere,
    queue_of_path,
)
from gateway.http.publish.bodies import Budget
from gateway.http.publish.full_publish import Finder, FullPublish
from gateway.http.publish.messages import PublishEndpoint
from gateway.http.publish.operation_endpoints import OperationEndpoints
from gateway.http.publish.replays.routes import routes as replay_routes
from gateway.http.publish.sending import Sender

QUEUE_ROUTE = "/v1/{vhost}/queues/{queue}/messages"
EXCHANGE_ROUTE = "/v1/{vhost}/exchanges/{exchange}/messages"
ADDRESS_ROUTE = "/v1/{vhost}/addresses/{address}/messages"
ANYWHERE_ROUTE = "/v1/{vhost}/messages"
DECLARED_ROUTE = "/v1/{vhost}/routes/{route}/messages"
OPERATION_ROUTE = "/v1/{vhost}/operations/{id}"


def routes(context: Context) -> list[BaseRoute]:
    endpoints = OperationEndpoints(context)
    settings = context.settings
    budget = Budget(settings.max_inflight_octets)
    context.on_reload.append(lambda: budget.allow(settings.max_inflight_octets))
    sender = Sender(context)
    full_publish = FullPublish(context, sender, context.operations, budget)

    def publish(path: str, name: str, summary: str, find: Finder) -> BaseRoute:
        endpoint: Any = PublishEndpoint(context, full_publish, name, find, find is not nowhere)
        if path == DECLARED_ROUTE:
            endpoint = Declared(context.authenticator, endpoint)
        parameters = {
            QUEUE_ROUTE: described.QUEUE,
            EXCHANGE_ROUTE: described.EXCHANGE,
            ADDRESS_ROUTE: described.ADDRESS,
            DECLARED_ROUTE: described.ROUTE,
        }.get(path, [])
        return Described(
            path,
            endpoint,
            methods=["POST"],
            operations={"post": described.publish(name, summary, parameters)},
            models=described.MODELS,
        )

    return [
        publish(QUEUE_ROUTE, "publish_message", "Publish to a queue", queue_of_path),
        publish(EXCHANGE_ROUTE, "publish_to_exchange", "Publish to an exchange", exchange_of_path),
        publish(ADDRESS_ROUTE, "publish_to_address", "Publish to an address", address_of_path),
        publish(
            DECLARED_ROUTE,
            "publish_by_route",
            "Publish through a declared route",
            by_route(context.authenticator.catalogue),
        ),
        publish(
            ANYWHERE_ROUTE,
            "publish_anywhere",
            "Publish to the address in each message (`to`)",
            nowhere,
        ),
        Described(
            OPERATION_ROUTE,
            endpoints.show_operation,
            methods=["GET"],
            operations={"get": described.operation("get")},
            models=described.MODELS,
        ),
        Described(
            OPERATION_ROUTE,
            endpoints.delete_operation,
            methods=["DELETE"],
            operations={"delete": described.operation("delete")},
        ),
        *replay_routes(context, sender, budget),
    ]
