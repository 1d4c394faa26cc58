"""Changes by RabbitMQ's management paths: queues, exchanges, bindings, users, permissions."""

from typing import Any
from urllib.parse import quote_plus

from starlette.responses import Response

from gateway.broker.access import TAGS
from gateway.broker.counters import BindingSnapshot
from gateway.broker.exchange_types import unknown_type
from gateway.errors import Condition, Refusal
from gateway.http.admin.admin_endpoints import Call
from gateway.http.admin.rabbit_answers import Bad, missing, need_keys
from gateway.http.admin.rabbit_views import properties_key
from gateway.http.admin.tables import read_table
from gateway.http.admin.topology import delete_vhost, make_vhost
from gateway.http.portions import spread


def table_of(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("arguments", {}) or {}
    if not isinstance(given, dict):
        raise Bad(["not_object", "arguments"])
    return read_table(given)


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    value = body.get(name, default)
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise Bad(["not_boolean", value])
    return value


def done(new: bool) -> Response:
    return Response(status_code=201 if new else 204)


async def rabbit_put_queue(call: Call) -> Response:
    name, body = call.names["queue"], call.body
    new = name not in call.context.broker.vhosts[call.vhost].queues
    options: Any = {
        "durable": flag(body, "durable"),
        "auto_delete": flag(body, "auto_delete"),
        "arguments": table_of(body),
    }
    await call.on_channel(lambda channel: channel.declare_queue(name, **options))
    return done(new)


async def rabbit_delete_queue(call: Call) -> Response:
    name, query = call.names["queue"], call.request.query_params
    if name not in call.context.broker.vhosts[call.vhost].queues:
        raise missing()
    unused, empty = query.get("if-unused") == "true", query.get("if-empty") == "true"
    await call.on_channel(lambda channel: channel.delete_queue(name, unused, empty))
    return done(False)


async def rabbit_purge_queue(call: Call) -> Response:
    name = call.names["queue"]
    if name not in call.context.broker.vhosts[call.vhost].queues:
        raise missing()
    await call.on_channel(lambda channel: channel.purge_queue(name))
    return done(False)


async def rabbit_put_exchange(call: Call) -> Response:
    name, body = call.names["exchange"], call.body
    new = name not in call.context.broker.vhosts[call.vhost].exchanges
    type_ = str(body.get("type", "direct"))
    options: Any = {
        "durable": flag(body, "durable"),
        "auto_delete": flag(body, "auto_delete"),
        "internal": flag(body, "internal"),
        "arguments": table_of(body),
    }
    try:
        await call.on_channel(lambda channel: channel.declare_exchange(name, type_, **options))
    except Refusal as refusal:
        if refusal.condition is Condition.COMMAND_INVALID:
            raise Bad(unknown_type(type_)) from None
        raise
    return done(new)


async def rabbit_delete_exchange(call: Call) -> Response:
    name = call.names["exchange"]
    if name not in call.context.broker.vhosts[call.vhost].exchanges:
        raise missing()
    unused = call.request.query_params.get("if-unused") == "true"
    await call.on_channel(lambda channel: channel.delete_exchange(name, unused))
    return done(False)


def source_of(call: Call) -> str:
    name = call.names["exchange"]
    return "" if name == "amq.default" else name


def destination_of(call: Call) -> tuple[str, str]:
    """Kind and name of the destination of a binding."""
    if "queue" in call.names:
        return "queue", call.names["queue"]
    return "exchange", call.names["destination"]


def is_named(call: Call, one: dict[str, Any]) -> bool:
    """Whether the path has the ``properties_key`` of this binding, quoted or not."""
    named = call.names["properties_key"]
    return bool(
        named == one["properties_key"] or (named == one["routing_key"] and not one["arguments"])
    )


async def rabbit_bind(call: Call) -> Response:
    key = call.body.get("routing_key", "")
    if not isinstance(key, str) or len(key.encode("utf-8", "surrogatepass")) > 255:
        raise Bad(["not_string", "routing_key"])
    kind, name = destination_of(call)
    table = table_of(call.body)
    binding = (name, source_of(call), key, table, kind == "exchange")
    await call.on_channel(lambda channel: channel.bind(*binding))
    made = BindingSnapshot(call.vhost, source_of(call), name, kind == "exchange", key, table)
    named = quote_plus(properties_key(made))
    return Response(status_code=201, headers={"location": f"{call.request.url.path}/{named}"})


async def rabbit_unbind(call: Call) -> Response:
    kind, name = destination_of(call)
    wanted = (source_of(call), name, kind == "exchange")
    named = call.names["properties_key"]
    async for one in spread(call.context.broker.each_binding(call.vhost)):
        if (one.source, one.destination, one.to_exchange) != wanted:
            continue
        if named == properties_key(one) or (named == one.key and not one.arguments):
            break
    else:
        raise missing()
    binding = (name, one.source, one.key, one.arguments, one.to_exchange)
    await call.on_channel(lambda channel: channel.unbind(*binding))
    return done(False)


async def rabbit_put_vhost(call: Call) -> Response:
    return done(await make_vhost(call))


async def rabbit_delete_vhost(call: Call) -> Response:
    await delete_vhost(call)
    return done(False)


async def rabbit_put_user(call: Call) -> Response:
    access, name, body = call.context.broker.access, call.names["user"], call.body
    if "tags" not in body:
        raise Bad("tags_not_present")
    tags = body["tags"].split(",") if isinstance(body["tags"], str) else body["tags"]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Bad("tags_not_valid")
    good = [tag.strip() for tag in tags if tag.strip() in TAGS]
    password = body.get("password")
    if not isinstance(password, str) or not password:
        raise Bad("a password is needed: hashes cannot become SCRAM verifiers")
    verifier = await call.context.authenticator.passwords.verifier(password)
    new = access.user(name) is None

    def put() -> None:
        if new:
            access.add_user(name, verifier, good)
        else:
            access.set_tags(name, good)
            access.change_password(name, verifier)

    await call.act(put)
    return done(new)


async def rabbit_delete_user(call: Call) -> Response:
    access, name = call.context.broker.access, call.names["user"]
    if access.user(name) is None:
        raise missing()
    await call.act(lambda: access.remove_user(name))
    return done(False)


async def rabbit_put_permission(call: Call) -> Response:
    access, name, body = call.context.broker.access, call.names["user"], call.body
    need_keys(body, "configure", "write", "read")
    rights = [body["configure"], body["write"], body["read"]]
    if not all(isinstance(one, str) for one in rights):
        raise Bad("not_string")
    if access.user(name) is None or call.vhost not in call.context.broker.vhosts:
        raise missing()
    new = not access.may_enter(name, call.vhost)
    await call.act(lambda: access.set_permissions(name, call.vhost, *rights))
    return done(new)


async def rabbit_delete_permission(call: Call) -> Response:
    access, name = call.context.broker.access, call.names["user"]
    if access.user(name) is None or not access.may_enter(name, call.vhost):
        raise missing()
    await call.act(lambda: access.clear_permissions(name, call.vhost))
    return done(False)
