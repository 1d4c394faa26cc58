"""Topic permissions by RabbitMQ's management paths."""

from typing import Any

from starlette.responses import Response

from gateway.broker.topic_permissions import TopicPermission
from gateway.http.admin.admin_endpoints import Call
from gateway.http.admin.rabbit_answers import Bad, missing, need_keys
from gateway.http.admin.rabbit_changes import done

Json = list[dict[str, Any]]
TOPIC_PERMISSION = "/topic-permissions/{vhost}/{user}"


def listed(call: Call, user: str | None = None, vhost: str | None = None) -> Json:
    return [one._asdict() for one in call.context.broker.access.topics.all(user, vhost)]


def known_user(call: Call) -> str:
    name = call.names["user"]
    if call.context.broker.access.user(name) is None:
        raise missing()
    return name


async def rabbit_topic_permissions(call: Call) -> Json:
    return listed(call)


async def rabbit_topic_permissions_of(call: Call) -> Json:
    return listed(call, user=known_user(call))


async def rabbit_topic_permissions_in(call: Call) -> Json:
    return listed(call, vhost=call.vhost)


async def rabbit_topic_permissions_at(call: Call) -> Json:
    found = listed(call, known_user(call), call.vhost)
    if not found:
        raise missing()
    return found


async def rabbit_put_topic_permission(call: Call) -> Response:
    body = call.body
    need_keys(body, "exchange", "write", "read")
    if not all(isinstance(body[name], str) for name in ("exchange", "write", "read")):
        raise Bad("not_string")
    if call.vhost not in call.context.broker.vhosts:
        raise missing()
    given = TopicPermission(
        known_user(call), call.vhost, body["exchange"], body["write"], body["read"]
    )
    topics = call.context.broker.access.topics
    new = not topics.all(given.user, given.vhost)
    await call.act(lambda: topics.set(given))
    return done(new)


async def rabbit_delete_topic_permissions(call: Call) -> Response:
    user = known_user(call)
    await call.act(lambda: call.context.broker.access.topics.clear(user, call.vhost))
    return done(False)
