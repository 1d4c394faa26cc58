"""RabbitMQ's management paths under ``/api`` that common tools use.

Same paths, same answers as RabbitMQ 3.10, errors included; queries such as ``columns`` and
``page`` are ignored. The metrics count the uses by route.
"""

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from gateway.broker.local import LocalChannel
from gateway.broker.snapshots import exchange_snapshot, queue_snapshot
from gateway.definitions import Definitions
from gateway.http import problems
from gateway.http.access.principal import Action
from gateway.http.admin import policies
from gateway.http.admin import rabbit_changes as changes
from gateway.http.admin import rabbit_connections as connections
from gateway.http.admin import rabbit_topics as topics
from gateway.http.admin import rabbit_views as views
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.admin.definition_export import export_in_portions
from gateway.http.admin.definition_import import Import
from gateway.http.admin.rabbit_answers import NODE, answer, answer_list, missing, rabbit_error
from gateway.http.admin.rabbit_bodies import (
    EXAMPLES,
    GET,
    GET_BODY,
    PUBLISH,
    PUBLISH_BODY,
    SCHEMAS,
    RabbitMessage,
    RabbitRouted,
)
from gateway.http.admin.rabbit_messages import rabbit_get, rabbit_publish, read_large_publish
from gateway.http.admin.rabbit_topics import TOPIC_PERMISSION
from gateway.http.admin.rabbit_views import rabbit_nodes, rabbit_overview
from gateway.http.admin.topology import readable
from gateway.http.portions import spread, stepped
from gateway.http.problems import Problem
from gateway.http.schemas import JsonObject
from gateway.message import DIALECTS, Message, Properties

Json = Any
ALIVE = "aliveness-test"
NOTHING = problems.NOT_FOUND


def vhosts_of(call: Call) -> list[str]:
    if "vhost" in call.names:
        return [call.vhost]
    return [name for name in call.context.broker.vhosts if readable(call, name)]


# --- reading --------------------------------------------------------------------------------------


async def rabbit_queues(call: Call) -> Json:
    broker = call.context.broker
    await call.context.rates.look(broker)
    return answer_list(
        views.queue_view(call, one) for name in vhosts_of(call) for one in broker.each_queue(name)
    )


async def rabbit_queue(call: Call) -> Json:
    broker = call.context.broker
    await call.context.rates.look(broker)
    queue = broker.vhosts[call.vhost].queues.get(call.names["queue"])
    if queue is None:
        raise missing()
    return {"consumer_details": []} | views.queue_view(call, queue_snapshot(queue))


async def rabbit_exchanges(call: Call) -> Json:
    broker = call.context.broker
    return answer_list(
        views.exchange_view(one) for name in vhosts_of(call) for one in broker.each_exchange(name)
    )


async def rabbit_exchange(call: Call) -> Json:
    name = changes.source_of(call)
    found = call.context.broker.vhosts[call.vhost].exchanges.get(name)
    if found is None:
        raise missing()
    return views.exchange_view(exchange_snapshot(call.vhost, found))


async def rabbit_bindings(call: Call) -> Json:
    return answer_list(one for name in vhosts_of(call) for one in views.binding_views(call, name))


async def bindings_where(call: Call, **wanted: str) -> list[dict[str, Any]]:
    return [
        one
        async for one in spread(views.binding_views(call, call.vhost))
        if all(one[name] == value for name, value in wanted.items())
    ]


async def bindings_between(call: Call) -> list[dict[str, Any]]:
    kind, name = changes.destination_of(call)
    source = changes.source_of(call)
    return await bindings_where(call, source=source, destination=name, destination_type=kind)


async def rabbit_bindings_between(call: Call) -> Json:
    return answer_list(await bindings_between(call))


async def rabbit_binding(call: Call) -> Json:
    for one in await bindings_between(call):
        if changes.is_named(call, one):
            return one
    raise missing()


async def rabbit_bindings_from(call: Call) -> Json:
    """Of an exchange as their source."""
    return answer_list(await bindings_where(call, source=changes.source_of(call)))


async def rabbit_bindings_of_exchange(call: Call) -> Json:
    """Of an exchange as their destination."""
    name = changes.source_of(call)
    return answer_list(await bindings_where(call, destination=name, destination_type="exchange"))


async def rabbit_bindings_of_queue(call: Call) -> Json:
    name = call.names["queue"]
    return answer_list(await bindings_where(call, destination=name, destination_type="queue"))


async def rabbit_vhosts(call: Call) -> Json:
    names = vhosts_of(call)
    return [
        {
            "name": one.name,
            "messages": one.ready + one.unsettled,
            "messages_ready": one.ready,
            "messages_unacknowledged": one.unsettled,
            "cluster_state": {NODE: "running"},
            "tracing": False,
        }
        for one in await stepped(call.context.broker.vhosts_counting(names))
    ]


async def rabbit_vhost(call: Call) -> Json:
    return (await rabbit_vhosts(call))[0]


async def rabbit_users(call: Call) -> Json:
    return answer_list(user_view(one) for one in call.context.broker.access.list_users())


def user_view(one: Any) -> dict[str, Any]:
    return {"name": one.name, "tags": list(one.tags), "limits": {}}


async def rabbit_user(call: Call) -> Json:
    known = call.context.broker.access.user(call.names["user"])
    if known is None:
        raise missing()
    return user_view(known)


def permissions_where(call: Call, **wanted: str) -> Json:
    return [
        {"user": user, **one._asdict()}
        for user, one in call.context.broker.access.list_permissions()
        if wanted.get("user", user) == user and wanted.get("vhost", one.vhost) == one.vhost
    ]


async def rabbit_permissions(call: Call) -> Json:
    return answer_list(permissions_where(call))


async def rabbit_permissions_in(call: Call) -> Json:
    return permissions_where(call, vhost=call.vhost)


async def rabbit_permissions_of(call: Call) -> Json:
    await rabbit_user(call)
    return permissions_where(call, user=call.names["user"])


async def rabbit_permission(call: Call) -> Json:
    await rabbit_user(call)
    for one in permissions_where(call, vhost=call.vhost, user=call.names["user"]):
        return one
    raise missing()


async def rabbit_whoami(call: Call) -> Json:
    known = call.context.broker.access.user(call.user)
    return {"name": call.user, "tags": list(known.tags) if known else []}


async def rabbit_cluster_name(call: Call) -> Json:
    return {"name": NODE}


async def rabbit_consumers(call: Call) -> Json:
    names = {
        f"{one.address} #{one.id}": connections.name_of(one)
        for one in call.context.dependencies.connections()
    }
    return answer_list(
        {
            "queue": {"vhost": one.vhost, "name": one.queue},
            "consumer_tag": one.tag,
            "ack_required": not one.no_ack,
            "exclusive": one.exclusive,
            "prefetch_count": one.prefetch,
            "active": one.active,
            "channel_details": {"connection_name": names.get(one.client, one.client)},
        }
        for name in vhosts_of(call)
        for one in call.context.broker.each_consumer(name)
    )


# --- health ---------------------------------------------------------------------------------------


async def rabbit_aliveness(call: Call) -> Json:
    """Declare a queue, publish to it and get it back, as RabbitMQ does. The queue stays."""

    def prove(channel: LocalChannel) -> bool:
        channel.declare_queue(ALIVE)
        dialect = DIALECTS["0-9-1"]
        header = dialect.write(Properties())
        essentials = dialect.essentials(header)
        channel.publish_unconfirmed(
            Message(dialect, header, b"test_message", "", ALIVE, essentials)
        )
        return channel.fetch(ALIVE, True) is not None

    if not await call.on_channel(prove):
        raise Problem(problems.INTERNAL, "the message did not come back")
    return {"status": "ok"}


async def rabbit_healthcheck(call: Call) -> Json:
    if call.context.broker.blocked is not None:
        return answer(503, {"status": "failed", "reason": call.context.broker.blocked})
    bad = [name for name, well in call.context.dependencies.ready().items() if not well]
    if bad:
        return answer(503, {"status": "failed", "reason": f"not ready: {', '.join(bad)}"})
    return {"status": "ok"}


async def none(call: Call) -> Json:
    """For objects that do not exist here, such as parameters."""
    return []


# --- definitions ---------------------------------------------------------------------------------


async def rabbit_definitions(call: Call) -> Json:
    return await export_in_portions(call.context.broker)


async def rabbit_definitions_in(call: Call) -> Json:
    return await export_in_portions(call.context.broker, call.vhost, people=False)


async def rabbit_import(call: Call) -> Response:
    """204 as RabbitMQ, unless something was not applied or a user cannot log in: 200 says it."""
    made = await Import(call.context, call.user, call.body, call.names.get("vhost")).run()
    quiet = not made.not_applied and all(one.login != "locked" for one in made.users)
    return changes.done(False) if quiet else answer(200, made.model_dump())


# --- the table ------------------------------------------------------------------------------------

GUEST, USER, ADMIN, MONITOR = Rank.GUEST, Rank.USER, Rank.ADMINISTRATOR, Rank.MONITOR
QUEUE, EXCHANGE = "/queues/{vhost}/{queue}", "/exchanges/{vhost}/{exchange}"
BINDINGS = "/bindings/{vhost}/e/{exchange}/q/{queue}"
TO_EXCHANGE = "/bindings/{vhost}/e/{exchange}/e/{destination}"
POLICY, OPERATOR_POLICY = "/policies/{vhost}/{policy}", "/operator-policies/{vhost}/{policy}"
ONE_CONNECTION, OF_USER = "/connections/{connection_name}", "/connections/username/{user}"
READ: tuple[tuple[Any, ...], ...] = (
    # path, handler, rank, and the name of the operation if it is not the handler's
    ("/overview", rabbit_overview, USER), ("/nodes", rabbit_nodes, USER),
    ("/whoami", rabbit_whoami, USER), ("/cluster-name", rabbit_cluster_name, USER),
    ("/extensions", none, USER, "rabbit_extensions"),
    ("/connections", connections.rabbit_connections, USER),
    (OF_USER, connections.rabbit_connections_of, USER),
    (ONE_CONNECTION, connections.rabbit_connection, USER),
    (ONE_CONNECTION + "/channels", connections.rabbit_connection_channels, USER),
    ("/vhosts/{vhost}/connections", connections.rabbit_connections, GUEST,
     "rabbit_connections_in"),
    ("/channels", connections.rabbit_channels, USER),
    ("/channels/{channel}", connections.rabbit_channel, USER),
    ("/vhosts/{vhost}/channels", connections.rabbit_channels, GUEST, "rabbit_channels_in"),
    ("/consumers", rabbit_consumers, USER),
    ("/consumers/{vhost}", rabbit_consumers, GUEST, "rabbit_consumers_in"),
    ("/vhosts", rabbit_vhosts, USER), ("/vhosts/{vhost}/permissions", rabbit_permissions_in, ADMIN),
    ("/vhosts/{vhost}", rabbit_vhost, GUEST), ("/queues", rabbit_queues, USER),
    ("/queues/{vhost}", rabbit_queues, GUEST, "rabbit_queues_in"), (QUEUE, rabbit_queue, GUEST),
    ("/exchanges", rabbit_exchanges, USER),
    ("/exchanges/{vhost}", rabbit_exchanges, GUEST, "rabbit_exchanges_in"),
    (EXCHANGE, rabbit_exchange, GUEST), ("/bindings", rabbit_bindings, USER),
    ("/bindings/{vhost}", rabbit_bindings, GUEST, "rabbit_bindings_in"),
    (BINDINGS, rabbit_bindings_between, GUEST),
    (BINDINGS + "/{properties_key}", rabbit_binding, GUEST),
    (TO_EXCHANGE, rabbit_bindings_between, GUEST, "rabbit_bindings_to_exchange"),
    (TO_EXCHANGE + "/{properties_key}", rabbit_binding, GUEST, "rabbit_binding_to_exchange"),
    (EXCHANGE + "/bindings/source", rabbit_bindings_from, GUEST),
    (EXCHANGE + "/bindings/destination", rabbit_bindings_of_exchange, GUEST),
    (QUEUE + "/bindings", rabbit_bindings_of_queue, GUEST),
    ("/users", rabbit_users, ADMIN), ("/users/{user}", rabbit_user, ADMIN),
    ("/users/{user}/permissions", rabbit_permissions_of, ADMIN),
    ("/permissions", rabbit_permissions, ADMIN),
    ("/permissions/{vhost}/{user}", rabbit_permission, ADMIN),
    ("/users/{user}/topic-permissions", topics.rabbit_topic_permissions_of, ADMIN),
    ("/vhosts/{vhost}/topic-permissions", topics.rabbit_topic_permissions_in, ADMIN),
    ("/topic-permissions", topics.rabbit_topic_permissions, ADMIN),
    (TOPIC_PERMISSION, topics.rabbit_topic_permissions_at, ADMIN),
    ("/definitions", rabbit_definitions, ADMIN),
    ("/definitions/{vhost}", rabbit_definitions_in, ADMIN),
    ("/aliveness-test/{vhost}", rabbit_aliveness, GUEST),
    ("/policies", policies.rabbit_policies, USER),
    ("/policies/{vhost}", policies.rabbit_policies, GUEST, "rabbit_policies_in"),
    (POLICY, policies.rabbit_policy, GUEST),
    ("/operator-policies", policies.rabbit_policies, USER, "rabbit_operator_policies"),
    ("/operator-policies/{vhost}", policies.rabbit_policies, GUEST, "rabbit_operator_policies_in"),
    (OPERATOR_POLICY, policies.rabbit_policy, GUEST, "rabbit_operator_policy"),
    ("/parameters", none, USER, "rabbit_parameters"),
    ("/vhost-limits", none, USER, "rabbit_vhost_limits"),
)  # fmt: skip
CHECKS = ("/healthchecks/node", "/health/checks/alarms", "/health/checks/local-alarms",
          "/health/checks/virtual-hosts", "/health/checks/node-is-quorum-critical")  # fmt: skip
CHANGE: tuple[tuple[Any, ...], ...] = (
    ("PUT", QUEUE, changes.rabbit_put_queue, GUEST),
    ("DELETE", QUEUE, changes.rabbit_delete_queue, GUEST),
    ("DELETE", QUEUE + "/contents", changes.rabbit_purge_queue, GUEST),
    ("PUT", EXCHANGE, changes.rabbit_put_exchange, GUEST),
    ("DELETE", EXCHANGE, changes.rabbit_delete_exchange, GUEST),
    ("POST", BINDINGS, changes.rabbit_bind, GUEST),
    ("DELETE", BINDINGS + "/{properties_key}", changes.rabbit_unbind, GUEST),
    ("POST", TO_EXCHANGE, changes.rabbit_bind, GUEST, "rabbit_bind_exchange"),
    ("DELETE", TO_EXCHANGE + "/{properties_key}", changes.rabbit_unbind, GUEST,
     "rabbit_unbind_exchange"),
    ("DELETE", ONE_CONNECTION, connections.rabbit_close_connection, USER),
    ("PUT", POLICY, policies.rabbit_put_policy, ADMIN),
    ("DELETE", POLICY, policies.rabbit_delete_policy, ADMIN),
    ("PUT", OPERATOR_POLICY, policies.rabbit_put_policy, ADMIN, "rabbit_put_operator_policy"),
    ("DELETE", OPERATOR_POLICY, policies.rabbit_delete_policy, ADMIN,
     "rabbit_delete_operator_policy"),
    ("PUT", "/vhosts/{vhost}", changes.rabbit_put_vhost, ADMIN),
    ("DELETE", "/vhosts/{vhost}", changes.rabbit_delete_vhost, ADMIN),
    ("PUT", "/users/{user}", changes.rabbit_put_user, ADMIN),
    ("DELETE", "/users/{user}", changes.rabbit_delete_user, ADMIN),
    ("PUT", "/permissions/{vhost}/{user}", changes.rabbit_put_permission, ADMIN),
    ("DELETE", "/permissions/{vhost}/{user}", changes.rabbit_delete_permission, ADMIN),
    ("PUT", TOPIC_PERMISSION, topics.rabbit_put_topic_permission, ADMIN),
    ("DELETE", TOPIC_PERMISSION, topics.rabbit_delete_topic_permissions, ADMIN),
)  # fmt: skip


ONE_OBJECT = frozenset(
    {
        rabbit_overview, rabbit_whoami, rabbit_cluster_name, rabbit_vhost, rabbit_queue,
        rabbit_exchange, rabbit_binding, rabbit_user, rabbit_permission, rabbit_definitions,
        rabbit_definitions_in, rabbit_aliveness, connections.rabbit_connection,
        connections.rabbit_channel, policies.rabbit_policy,
    }
)  # fmt: skip
"""Handlers of ``READ`` that answer with one object; all others answer with a list of objects."""
NEED_BODY = ("rabbit_put_user", "rabbit_put_permission", "rabbit_put_topic_permission",
             "rabbit_put_policy", "rabbit_put_operator_policy")  # fmt: skip


def endpoints() -> Iterable[Endpoint]:
    common: dict[str, Any] = {"tag": "RabbitMQ", "on_error": rabbit_error}
    body: dict[str, Any] = common | {"any_type": True, "takes": dict[str, Any]}
    for path, handle, rank, *names in READ:
        name = names[0] if names else handle.__name__
        gives = JsonObject if handle in ONE_OBJECT else list[JsonObject]
        yield Endpoint("GET", "/api" + path, handle, title(name), rank, gives=gives,
                       operation_id=name, **common)  # fmt: skip
    for path in CHECKS:
        yield Endpoint("GET", "/api" + path, rabbit_healthcheck, "Health", USER, gives=JsonObject,
                       **common | {"hidden": path != CHECKS[0]})  # fmt: skip
    for method, path, handle, rank, *names in CHANGE:
        name = names[0] if names else handle.__name__
        needs_body = name in NEED_BODY
        takes = body | {"optional": not needs_body} if method != "DELETE" else common
        yield Endpoint(method, "/api" + path, handle, title(name), rank, status=204,
                       also={201: "Created"}, example=EXAMPLES.get(name),
                       schema=SCHEMAS.get(name), operation_id=name, **takes)  # fmt: skip
    yield Endpoint("POST", "/api" + EXCHANGE + "/publish", rabbit_publish, "Publish", GUEST,
                   gives=RabbitRouted, action=Action.PUBLISH, example=PUBLISH,
                   schema=PUBLISH_BODY, read_large=read_large_publish,
                   limit=lambda context: context.settings.max_body_octets, **body)  # fmt: skip
    yield Endpoint("POST", "/api" + QUEUE + "/get", rabbit_get, "Get messages", GUEST,
                   gives=list[RabbitMessage], action=Action.RECEIVE, example=GET, schema=GET_BODY,
                   **body)  # fmt: skip
    given = common | {"takes": Definitions, "any_type": True, "example": {"queues": []}}
    for path, name in (("", "rabbit_import"), ("/{vhost}", "rabbit_import_in")):
        yield Endpoint("POST", "/api/definitions" + path, rabbit_import, "Apply definitions", ADMIN,
                       status=204, also={200: "Some definitions were not applied"},
                       limit=lambda context: context.settings.max_body_octets,
                       operation_id=name, **given)  # fmt: skip


def title(name: str) -> str:
    return "As RabbitMQ: " + name.removeprefix("rabbit_").replace("_", " ")


ENDPOINTS = list(endpoints())
