"""Observe mode: the proxies, and their inventories."""

from starlette.responses import Response

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.views import ObserverList, ObserverView
from gateway.http.portions import Portioned
from gateway.http.problems import Problem
from gateway.http.schemas import JsonObject

OBSERVERS = "/v1/admin/inventory"


async def list_observers(call: Call) -> Response:
    found = call.context.dependencies.observers
    return listed("observers", (ObserverView(**one.info()._asdict()) for one in found))


async def show_inventory(call: Call) -> Response:
    name = call.names["observer"]
    found = (one for one in call.context.dependencies.observers if one.plan.name == name)
    observer = next(found, None)
    if observer is None:
        raise Problem(problems.NOT_FOUND, "no observer of this name")
    parts = (piece.encode() for piece in observer.inventory.pieces())
    return Portioned(parts, {"cache-control": "no-store"})


ENDPOINTS = [
    Endpoint("GET", OBSERVERS, list_observers, "Observing proxies", Rank.MONITOR,
             gives=ObserverList),
    Endpoint("GET", OBSERVERS + "/{observer}", show_inventory, "One inventory",
             Rank.MONITOR, gives=JsonObject, refusals=(problems.NOT_FOUND,),
             text="Clients, nodes and features that were seen, as in the file that `amqp-gateway "
             "inventory report` reads."),
]  # fmt: skip
