"""AMQP connections and their channels under RabbitMQ's paths.

A connection is named ``PEER:PORT -> LOCAL:PORT``, and a channel adds its number in parentheses, as
in RabbitMQ: clients find their own connection and close it to test their recovery.
"""

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call
from gateway.http.admin.rabbit_answers import NODE, answer_list, missing
from gateway.http.admin.tables import write_table
from gateway.http.admin.topology import readable
from gateway.http.dependencies import ChannelInfo, ConnectionInfo
from gateway.http.portions import spread
from gateway.http.problems import Problem

MOST_REASON = 200
CLOSED = "Closed via management plugin"


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


def name_of(one: ConnectionInfo) -> str:
    return f"{one.address} -> {one.local or NODE}"


def connection_view(one: ConnectionInfo) -> dict[str, Any]:
    peer_host, peer_port = host_and_port(one.address)
    host, port = host_and_port(one.local)
    return {
        "auth_mechanism": one.mechanism,
        "channels": one.channels,
        "client_properties": write_table(one.properties)
        or {
            "product": one.product,
            "version": one.product_version,
            "platform": one.platform,
        },
        "connected_at": one.since,
        "host": host,
        "name": name_of(one),
        "node": NODE,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "port": port,
        "protocol": f"AMQP {one.version}",
        "recv_oct": one.octets_in,
        "recv_oct_details": {"rate": 0.0},
        "send_oct": one.octets_out,
        "send_oct_details": {"rate": 0.0},
        "state": "running" if one.state == "open" else one.state,
        "type": "network",
        "user": one.user,
        "user_provided_name": one.name or None,
        "user_who_performed_action": one.user,
        "vhost": one.vhost,
    }


def channel_view(one: ChannelInfo, connection: ConnectionInfo) -> dict[str, Any]:
    name = name_of(connection)
    host, port = host_and_port(connection.address)
    return {
        "confirm": one.confirm,
        "connection_details": {"name": name, "peer_host": host, "peer_port": port},
        "consumer_count": one.consumers,
        "global_prefetch_count": one.global_prefetch,
        "messages_unacknowledged": one.unacknowledged,
        "name": f"{name} ({one.number})",
        "node": NODE,
        "number": one.number,
        "prefetch_count": one.prefetch,
        "state": "running",
        "transactional": one.transactional,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
    }


def seen(call: Call) -> Iterator[ConnectionInfo]:
    """The connections that the caller may see, of one virtual host if the path names it."""
    wanted = call.names.get("vhost")
    for one in call.context.dependencies.connections():
        if one.vhost == wanted or (wanted is None and readable(call, one.vhost)):
            yield one


def found(call: Call) -> ConnectionInfo:
    for one in seen(call):
        if name_of(one) == call.names["connection_name"]:
            return one
    raise missing()


def channels_of(call: Call, shown: Iterator[ConnectionInfo]) -> Iterator[dict[str, Any]]:
    by_id = {one.id: one for one in shown}
    for one in call.context.dependencies.channels():
        if one.connection in by_id:
            yield channel_view(one, by_id[one.connection])


async def rabbit_connections(call: Call) -> Any:
    return answer_list(connection_view(one) for one in seen(call))


async def rabbit_connections_of(call: Call) -> Any:
    mine = [one for one in seen(call) if one.user == call.names["user"]]
    return [
        {"name": name_of(one), "vhost": one.vhost, "user": one.user, "node": NODE} for one in mine
    ]


async def rabbit_connection(call: Call) -> Any:
    return connection_view(found(call))


async def rabbit_close_connection(call: Call) -> Response:
    """Close a connection: one's own, or any as an administrator. The client gets ``X-Reason``."""
    one = found(call)
    if one.user != call.user and not call.tagged({"administrator"}):
        raise Problem(problems.FORBIDDEN, "Access refused.")
    reason = call.request.headers.get("x-reason", "")[:MOST_REASON] or CLOSED
    if not await call.act(lambda: call.context.dependencies.close_connection(one.id, reason)):
        raise missing()
    return Response(status_code=204)


async def rabbit_channels(call: Call) -> Any:
    return answer_list(channels_of(call, seen(call)))


async def rabbit_connection_channels(call: Call) -> Any:
    return answer_list(channels_of(call, iter([found(call)])))


async def rabbit_channel(call: Call) -> Any:
    async for one in spread(channels_of(call, seen(call))):
        if one["name"] == call.names["channel"]:
            return {"consumer_details": []} | one
    raise missing()
