"""Connections, consumers, and the figures of the gateway."""

from dataclasses import asdict

from starlette.responses import Response

from gateway import __version__
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.topology import HOST, readable
from gateway.http.admin.views import ConsumerList, ConsumerView, Overview, ReloadView
from gateway.http.portions import stepped
from gateway.http.problems import Problem
from gateway.http.schemas import ConnectionList, ConnectionView

CONNECTIONS = "/v1/admin/connections"
ONE = CONNECTIONS + "/{connection}"


async def list_admin_connections(call: Call) -> Response:
    found = call.context.dependencies.connections()
    return listed("connections", (ConnectionView(**one._asdict()) for one in found))


def find_connection(call: Call) -> ConnectionView:
    for one in call.context.dependencies.connections():
        if str(one.id) == call.names["connection"]:
            return ConnectionView(**one._asdict())
    raise Problem(problems.NOT_FOUND, "no connection with this id")


async def show_one_connection(call: Call) -> ConnectionView:
    return find_connection(call)


async def close_connection(call: Call) -> None:
    found = find_connection(call)
    reason = f"closed by {call.user} over HTTP"
    if not await call.act(lambda: call.context.dependencies.close_connection(found.id, reason)):
        raise Problem(problems.NOT_FOUND, "no connection with this id")


async def list_consumers(call: Call) -> Response:
    found = call.context.broker.each_consumer()
    mine = (ConsumerView(**one._asdict()) for one in found if readable(call, one.vhost))
    return listed("consumers", mine)


async def list_consumers_of(call: Call) -> Response:
    found = call.context.broker.each_consumer(call.vhost)
    return listed("consumers", (ConsumerView(**one._asdict()) for one in found))


async def show_overview(call: Call) -> Overview:
    context = call.context
    whole = await stepped(context.broker.counting())
    totals = whole.totals
    return Overview(
        version=__version__,
        vhosts=len(whole.vhosts),
        connections=len(context.dependencies.connections()),
        clients=whole.clients,
        channels=whole.channels,
        queues=whole.queues,
        exchanges=whole.exchanges,
        consumers=whole.consumers,
        ready=whole.ready,
        unacknowledged=whole.unsettled,
        octets=whole.octets,
        blocked=whole.blocked,
        event_streams=len(context.hub.streams),
        settings=ReloadView(**asdict(context.dependencies.last_reload())),
        **totals._asdict(),
    )


MISSING = (problems.NOT_FOUND,)

ENDPOINTS = [
    Endpoint("GET", "/v1/admin/overview", show_overview, "Show overall figures", Rank.MONITOR,
             gives=Overview),
    Endpoint("GET", CONNECTIONS, list_admin_connections, "AMQP connections", Rank.MONITOR,
             gives=ConnectionList),
    Endpoint("GET", ONE, show_one_connection, "One AMQP connection", Rank.MONITOR,
             gives=ConnectionView, refusals=MISSING),
    Endpoint("DELETE", ONE, close_connection, "Close an AMQP connection", Rank.ADMINISTRATOR,
             status=204, refusals=MISSING,
             text="The client receives `CONNECTION_FORCED` with the reason."),
    Endpoint("GET", "/v1/admin/consumers", list_consumers, "Consumers", Rank.USER,
             gives=ConsumerList, text="Consumers of the virtual hosts that the caller may use."),
    Endpoint("GET", HOST + "/consumers", list_consumers_of, "Consumers of a virtual host",
             Rank.GUEST, gives=ConsumerList, refusals=MISSING),
]  # fmt: skip
