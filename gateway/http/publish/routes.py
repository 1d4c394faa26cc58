"""All ways in: the routes of publishing."""

from starlette.routing import BaseRoute

from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.publish import described
from gateway.http.publish.endpoints import (
    ADDRESS_ROUTE,
    ANYWHERE_ROUTE,
    DECLARED_ROUTE,
    EXCHANGE_ROUTE,
    QUEUE_ROUTE,
    Publishing,
)
from gateway.http.publish.operation_endpoints import OperationEndpoints
from gateway.http.publish.replays.routes import routes as replay_routes

OPERATION_ROUTE = "/v1/{vhost}/operations/{id}"


def routes(context: Context, publishing: Publishing) -> list[BaseRoute]:
    endpoints = OperationEndpoints(context)

    def publish(path: str, name: str, summary: str) -> BaseRoute:
        parameters = {
            QUEUE_ROUTE: described.QUEUE,
            EXCHANGE_ROUTE: described.EXCHANGE,
            ADDRESS_ROUTE: described.ADDRESS,
            DECLARED_ROUTE: described.ROUTE,
        }.get(path, [])
        return Described(
            path,
            publishing.of(path),
            methods=["POST"],
            operations={"post": described.publish(name, summary, parameters)},
            models=described.MODELS,
        )

    return [
        publish(QUEUE_ROUTE, "publish_message", "Publish to a queue"),
        publish(EXCHANGE_ROUTE, "publish_to_exchange", "Publish to an exchange"),
        publish(ADDRESS_ROUTE, "publish_to_address", "Publish to an address"),
        publish(DECLARED_ROUTE, "publish_by_route", "Publish through a declared route"),
        publish(
            ANYWHERE_ROUTE,
            "publish_anywhere",
            "Publish to the address in each message (`to`)",
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
        *replay_routes(context, publishing.sender, publishing.budget),
    ]
