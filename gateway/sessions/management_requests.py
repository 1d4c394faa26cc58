"""Requests to the management node: queues, exchanges and bindings (RabbitMQ 4's paths)."""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from gateway.adapters.performatives.decoding import read_value
from gateway.broker.channel import Channel
from gateway.broker.exchanges import Binding
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.message import Message, Table
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    Unbind,
)
from gateway.values import Array, ULong

STATUS = {
    Condition.NOT_FOUND: 404,
    Condition.ACCESS_REFUSED: 403,
    Condition.RESOURCE_LOCKED: 409,
    Condition.PRECONDITION_FAILED: 409,
    Condition.NOT_IMPLEMENTED: 501,
}
BAD_REQUEST = 400

NODE = "amqp-gateway"
"""Name of the only cluster node, for clients of RabbitMQ."""

STRING = 0xA1
"""Constructor of strings: some clients require an array of them."""


class Response(NamedTuple):
    """``body`` is a value of AMQP 1.0, ``None`` for none."""

    status: int
    body: Any = None


Handler = Callable[[Channel, str, Any, str], Response]
"""Channel, second segment of the path as it came, body, query."""


def respond(channel: Channel, request: Message) -> Response:
    """The response to a request. Errors are its status; nothing is raised."""
    try:
        properties = request.properties
        method, target = properties.subject or "", properties.to or ""
        body = read_body(request)
    except ValueError as error:
        return Response(BAD_REQUEST, f"the request cannot be read: {error}")
    path, _, query = target.partition("?")
    segments = path.strip("/").split("/")
    shape = (method, segments[0], len(segments), segments[2] if len(segments) > 2 else "")
    handler = HANDLERS.get(shape)
    if handler is None:
        known = any(there[1:] == shape[1:] for there in HANDLERS)
        return Response(405 if known else 404, f"{method[:20]} {target[:200]} is nothing here")
    try:
        return handler(channel, segments[1] if len(segments) > 1 else "", body, query)
    except UnicodeDecodeError:
        return Response(BAD_REQUEST, "the path is not percent-encoded UTF-8")
    except Refusal as refusal:
        return Response(STATUS.get(refusal.condition, BAD_REQUEST), refusal.text)


def read_body(request: Message) -> Any:
    """The decoded value of the body; ``None`` for an empty body."""
    if request.properties.body_kind != "value":
        return None
    body = request.body
    return read_value(body[:], 3, len(body))[0]


def members(body: Any, **kinds: type[Any]) -> dict[str, Any]:
    """Members of a map, checked. Absent ones are left out."""
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise Refusal(Condition.SYNTAX_ERROR, "the body is not a map")
    found: dict[str, Any] = {}
    for key, value in body.items():
        kind = kinds.get(str(key))
        if kind is None or value is None:
            continue
        if not isinstance(value, kind):
            raise Refusal(Condition.SYNTAX_ERROR, f"'{key}' is not of type {kind.__name__}")
        found[str(key)] = {str(k): v for k, v in value.items()} if kind is dict else value
    return found


def named(segment: str) -> str:
    name = unquote(segment, errors="strict")
    if not name:
        raise Refusal(Condition.SYNTAX_ERROR, "the path has an empty name")
    return name


# --- queues -------------------------------------------------------------------------------------


def put_queue(channel: Channel, segment: str, body: Any, _: str) -> Response:
    name = named(segment)
    there = name in channel.vhost.queues
    asked = members(body, durable=bool, exclusive=bool, auto_delete=bool, arguments=dict)
    asked.setdefault("durable", True)
    channel.topology.declare_queue(DeclareQueue(channel.number, None, name, **asked))
    return Response(200 if there else 201, described(channel, channel.vhost.queues[name]))


def get_queue(channel: Channel, segment: str, _: Any, __: str) -> Response:
    return Response(200, described(channel, channel.vhost.queue(named(segment), channel.client)))


def delete_queue(channel: Channel, segment: str, _: Any, __: str) -> Response:
    gone = channel.topology.delete_queue(DeleteQueue(channel.number, None, named(segment)))
    return Response(200, {"message_count": ULong(gone)})


def purge_queue(channel: Channel, segment: str, _: Any, __: str) -> Response:
    gone = channel.topology.purge_queue(PurgeQueue(channel.number, None, named(segment)))
    return Response(200, {"message_count": ULong(gone)})


def described(channel: Channel, queue: Queue) -> Table:
    """A queue as RabbitMQ describes it. Its leader is the only node; it has no replicas."""
    return {
        "name": queue.name,
        "vhost": channel.vhost.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "type": str(queue.arguments.get("x-queue-type", "classic")),
        "arguments": dict(queue.arguments),
        "leader": NODE,
        "replicas": Array([NODE], STRING),
        "message_count": ULong(queue.depth),
        "consumer_count": ULong(len(queue.consumers)),
    }


# --- exchanges and bindings ---------------------------------------------------------------------


def put_exchange(channel: Channel, segment: str, body: Any, _: str) -> Response:
    asked = members(body, durable=bool, auto_delete=bool, internal=bool, type=str, arguments=dict)
    asked.setdefault("durable", True)
    channel.topology.declare_exchange(
        DeclareExchange(channel.number, None, named(segment), **asked)
    )
    return Response(204)


def delete_exchange(channel: Channel, segment: str, _: Any, __: str) -> Response:
    channel.topology.delete_exchange(DeleteExchange(channel.number, None, named(segment)))
    return Response(204)


def post_binding(channel: Channel, _: str, body: Any, __: str) -> Response:
    asked = members(
        body,
        source=str,
        destination_queue=str,
        destination_exchange=str,
        binding_key=str,
        arguments=dict,
    )
    queue, exchange = asked.get("destination_queue"), asked.get("destination_exchange")
    if "source" not in asked or (queue is None) == (exchange is None):
        raise Refusal(Condition.SYNTAX_ERROR, "a binding has a source and one destination")
    channel.topology.bind(
        Bind(
            channel.number,
            None,
            queue or exchange or "",
            asked["source"],
            asked.get("binding_key", ""),
            asked.get("arguments", {}),
            queue is None,
        )
    )
    return Response(204)


def get_bindings(channel: Channel, _: str, __: Any, query: str) -> Response:
    """Bindings between one source and one destination, with one key: ``?src=x&dstq=q&key=k``."""
    asked = {name: values[0] for name, values in parse_qs(query, True).items()}
    to_exchange = "dste" in asked
    if "src" not in asked or ("dstq" in asked) == to_exchange:
        raise Refusal(Condition.SYNTAX_ERROR, "give src, key, and dstq or dste")
    target = asked["dste" if to_exchange else "dstq"]
    source = channel.vhost.exchange(asked["src"])
    channel.permissions.need("read", "exchange", source.name)
    found = [
        shown(binding)
        for binding in source.bindings
        if binding.to_exchange == to_exchange
        and not binding.severed
        and binding.destination.name == target
        and ("key" not in asked or binding.key == asked["key"])
    ]
    return Response(200, found)


def shown(binding: Binding) -> Table:
    kind = "destination_exchange" if binding.to_exchange else "destination_queue"
    return {
        "source": binding.source.name,
        kind: binding.destination.name,
        "binding_key": binding.key,
        "arguments": dict(binding.arguments),
        "location": location(binding),
    }


def location(binding: Binding) -> str:
    """The path by which a binding with arguments is deleted."""
    kind = "dste" if binding.to_exchange else "dstq"
    names = (binding.source.name, binding.destination.name, binding.key)
    source, to, key = (quote(name, safe="") for name in names)
    digest = binding.identity[3]
    return f"/bindings/src={source};{kind}={to};key={key};args={quote(digest, safe='')}"


def delete_binding(channel: Channel, segment: str, _: Any, __: str) -> Response:
    """``/bindings/src=x;dstq=q;key=k;args=``, each name percent-encoded. Deleting a binding that
    does not exist succeeds."""
    asked = dict(part.partition("=")[::2] for part in segment.split(";"))
    found = {name: unquote(value, errors="strict") for name, value in asked.items()}
    to_exchange = "dste" in found
    if "src" not in found or ("dstq" in found) == to_exchange:
        raise Refusal(Condition.SYNTAX_ERROR, "a binding is src, dstq or dste, key and args")
    target = found["dste" if to_exchange else "dstq"]
    exchange = channel.vhost.exchanges.get(found["src"])
    wanted = (to_exchange, target, found.get("key", ""), found.get("args", ""))
    for binding in list(exchange.bindings) if exchange is not None else ():
        here = (binding.to_exchange, binding.destination.name, binding.key, binding.identity[3])
        if here == wanted:
            arguments = binding.arguments
            number, name = channel.number, found["src"]
            channel.topology.unbind(
                Unbind(number, None, target, name, binding.key, arguments, to_exchange)
            )
    return Response(204)


def put_token(channel: Channel, _: str, body: Any, __: str) -> Response:
    """New secret of the user of the connection: passwords do not expire, nothing is renewed."""
    if not isinstance(body, bytes):
        raise Refusal(Condition.SYNTAX_ERROR, "the body is not binary")
    if channel.broker.access.user(channel.client.user) is None:
        raise Refusal(Condition.ACCESS_REFUSED, "there is no such user any more")
    return Response(204)


HANDLERS: dict[tuple[str, str, int, str], Handler] = {
    ("PUT", "queues", 2, ""): put_queue,
    ("GET", "queues", 2, ""): get_queue,
    ("DELETE", "queues", 2, ""): delete_queue,
    ("DELETE", "queues", 3, "messages"): purge_queue,
    ("PUT", "exchanges", 2, ""): put_exchange,
    ("DELETE", "exchanges", 2, ""): delete_exchange,
    ("POST", "bindings", 1, ""): post_binding,
    ("GET", "bindings", 1, ""): get_bindings,
    ("DELETE", "bindings", 2, ""): delete_binding,
    ("PUT", "auth", 2, ""): put_token,
}
