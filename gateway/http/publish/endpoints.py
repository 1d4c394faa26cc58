"""The endpoints of publishing, by the template of their route; ``routes.py`` describes them."""

from typing import Any, NamedTuple

from starlette.types import ASGIApp

from gateway.http.access.declared_routes import Declared
from gateway.http.context import Context
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
from gateway.http.publish.sending import Sender

QUEUE_ROUTE = "/v1/{vhost}/queues/{queue}/messages"
EXCHANGE_ROUTE = "/v1/{vhost}/exchanges/{exchange}/messages"
ADDRESS_ROUTE = "/v1/{vhost}/addresses/{address}/messages"
ANYWHERE_ROUTE = "/v1/{vhost}/messages"
DECLARED_ROUTE = "/v1/{vhost}/routes/{route}/messages"


class Publishing(NamedTuple):
    """What the routes of publishing share. ``declared`` is the endpoint of declared routes."""

    sender: Sender
    budget: Budget
    endpoints: dict[str, PublishEndpoint]
    declared: Declared

    def of(self, template: str) -> ASGIApp:
        return self.declared if template == DECLARED_ROUTE else self.endpoints[template]

    def labels(self) -> dict[Any, str]:
        """The templates by endpoint, as metrics show them."""
        return {each: path for path, each in self.endpoints.items()} | {
            self.declared: DECLARED_ROUTE
        }


def publishing(context: Context) -> Publishing:
    settings = context.settings
    budget = Budget(settings.max_inflight_octets)
    context.on_reload.append(lambda: budget.allow(settings.max_inflight_octets))
    sender = Sender(context)
    full_publish = FullPublish(context, sender, context.operations, budget)

    def endpoint(name: str, find: Finder) -> PublishEndpoint:
        return PublishEndpoint(context, full_publish, name, find, find is not nowhere)

    by_catalogue = by_route(context.authenticator.catalogue)
    return Publishing(
        sender,
        budget,
        {
            QUEUE_ROUTE: endpoint("publish_message", queue_of_path),
            EXCHANGE_ROUTE: endpoint("publish_to_exchange", exchange_of_path),
            ADDRESS_ROUTE: endpoint("publish_to_address", address_of_path),
            ANYWHERE_ROUTE: endpoint("publish_anywhere", nowhere),
        },
        Declared(context.authenticator, endpoint("publish_by_route", by_catalogue)),
    )
