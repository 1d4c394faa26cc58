"""RabbitMQ's two message calls, ``publish`` and ``get``, with RabbitMQ's answers.

They are for existing tools. New programs have better alternatives (``/v1/.../messages``, deliveries
with leases): an unroutable publish is lost here unless the caller checks ``routed``, and
a get that acknowledges loses the messages of an answer that is lost.
"""

import base64
import binascii
from typing import Any, NamedTuple

from starlette.responses import Response

from gateway import values
from gateway.bodies import Body, cut
from gateway.broker.local import LocalChannel
from gateway.errors import Condition, Refusal
from gateway.http import prepared_bodies, problems
from gateway.http.access.principal import Action
from gateway.http.admin.admin_endpoints import Call, parse
from gateway.http.admin.rabbit_answers import Bad, Missing, need_keys
from gateway.http.admin.tables import write_table
from gateway.http.json_check import Span
from gateway.http.message_json import BodyForm, body_shown
from gateway.http.octets import LARGEST_SHOWN, Octets, chunks_of, concatenated, trimmed
from gateway.http.portions import Whole, encoded, spread
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Target
from gateway.http.publish.documents import STRING, Document, open_document
from gateway.http.publish.messages import message_of
from gateway.http.publish.publisher import PendingPublish
from gateway.http.publish.templates import Prepared
from gateway.http.typed_json import BadForm
from gateway.message import DIALECTS, Message, Properties, Table
from gateway.operations import Fetched, Outcome

DIALECT = "0-9-1"
MOST_GOT = 16 << 20
"""Octets after which ``get`` takes no more messages: RabbitMQ has no bound."""

SHOWN_OF_WRONG = 64
"""Octets of a large payload that is not base64, in the answer."""

MOST_VALUES = 8192
"""Most values in the headers of a message; writing them takes some milliseconds."""

MOST_AROUND = 256 * 1024
"""Most octets of the members beside a large payload; reading them takes some milliseconds."""

TEXTS = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type",
    "app_id", "cluster_id",
)  # fmt: skip
NUMBERS = ("delivery_mode", "priority", "timestamp")


def read_value(value: Any) -> Any:
    """A header as RabbitMQ types it."""
    if value is None:
        raise Bad("null_not_allowed")
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise Bad("integer_out_of_range")
        return value
    if isinstance(value, list):
        return [read_value(each) for each in value]
    if isinstance(value, dict):
        return {key: read_value(each) for key, each in value.items()}
    return value


def more_than(most: int, value: Any) -> bool:
    """Whether a value and all that stands in it are more values than that."""
    waiting = [value]
    while waiting and most >= 0:
        one = waiting.pop()
        most -= 1
        if isinstance(one, dict | list):
            if len(one) > most:
                return True
            waiting += one.values() if isinstance(one, dict) else one
    return most < 0


def read_properties(given: Any) -> Properties:
    """Raises ``Bad``. An empty list is an empty table, as RabbitMQ itself writes it."""
    given = {} if given == [] else given
    if not isinstance(given, dict):
        raise Bad("not_object")
    for name in NUMBERS:
        value = given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Bad(["not_int", name])
    for name in (*TEXTS, "expiration", "user_id"):
        value = given.get(name, "")
        if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > 255:
            raise Bad(["not_string", name])
    found = Properties(**{name: given[name] for name in TEXTS if name in given})
    if "delivery_mode" in given:
        found.durable = given["delivery_mode"] == 2
    if "priority" in given:
        if not 0 <= given["priority"] <= 255:
            raise Bad(["not_int", "priority"])
        found.priority = given["priority"]
    if "timestamp" in given:
        if not 0 <= given["timestamp"] < 2**53:
            raise Bad(["not_int", "timestamp"])
        found.creation_time = values.Seconds(given["timestamp"]) * 1000
    if "expiration" in given:
        text = given["expiration"]
        if not text.isdecimal() or not text.isascii() or int(text) >= 2**32:
            raise Bad(f"invalid expiration '{text}'")
        found.ttl = int(text)
    if "user_id" in given:
        found.user_id = given["user_id"].encode()
    headers = given.get("headers", {}) or {}
    if not isinstance(headers, dict):
        raise Bad(["not_object", "headers"])
    if headers:
        if more_than(MOST_VALUES, headers):
            raise Bad(f"headers hold more than {MOST_VALUES} values")
        found.application = read_value(headers)
    return found


class LargePayload(NamedTuple):
    """A string in a document, which has not been read yet."""

    document: Document
    span: Span

    async def read(self, encoding: Any) -> Body:
        """In steps. Raises ``Bad``."""
        start = self.span.start + 1
        try:
            if encoding == "string":
                return await self.document.body("text", self.span, "surrogatepass")
            return await self.document.body("base64", self.span)
        except BadForm:
            shown = self.document.octets[start : start + SHOWN_OF_WRONG]
            raise Bad(["not_base64", shown.decode("utf-8", "replace") + "..."]) from None


async def read_large_publish(call: Call, octets: bytes) -> dict[str, Any]:
    """A large document; its payload is read later, when its encoding is known."""
    try:
        document = await open_document(octets, call.context.dependencies.spool)
        members = await document.members(document.all)
        payload = members.pop("payload", None)
    except BadForm as error:
        raise Problem(problems.SCHEMA, f"the body {error.text}") from None
    except Problem as problem:
        if problem.row is problems.INVALID:
            raise Problem(problems.INVALID, "the body is not JSON") from None
        raise
    found: dict[str, Any] = parse(document.beside(members, MOST_AROUND))
    if payload is not None:
        text = octets[payload.start] == STRING
        found["payload"] = LargePayload(document, payload) if text else None
    return found


async def read_payload(body: dict[str, Any]) -> Body:
    payload, encoding = body["payload"], body["payload_encoding"]
    if isinstance(payload, LargePayload):
        if encoding not in ("string", "base64"):
            raise Bad(["unsupported_encoding", encoding])
        return await payload.read(encoding)
    return read_small_payload(payload, encoding)


def read_small_payload(payload: Any, encoding: Any) -> bytes:
    """Raises ``Bad``."""
    if not isinstance(payload, str):
        raise Bad("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise Bad(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise Bad(["not_base64", payload]) from None


async def rabbit_publish(call: Call) -> dict[str, Any]:
    body: dict[str, Any] = call.body
    key = read_key(body)
    exchange = exchange_named(call.names["exchange"])
    broker = call.context.broker
    call.principal.need(broker, Action.PUBLISH, call.vhost, "exchange", exchange or "amq.default")
    publisher = call.context.publisher
    publisher.check_open()
    target = Target(exchange, key, not exchange)
    properties = read_properties(body["properties"])
    message = message_of(encoded_properties(properties), target, await read_payload(body))
    target.permit(call.principal, call.vhost, message)
    try:
        pending = publisher.publish(call.vhost, call.user, message)
        await publisher.wait(pending, publisher.seconds)
    except Refusal as refusal:
        raise Bad(as_amqp(refusal)) from None
    return routed(pending)


def read_key(body: dict[str, Any]) -> str:
    """The routing key, if nothing is missing. Raises ``Bad``."""
    need_keys(body, "routing_key", "properties", "payload", "payload_encoding")
    key = body["routing_key"]
    if isinstance(key, int | float):
        key = str(key)
    if not isinstance(key, str) or len(key.encode("utf-8", "surrogatepass")) > 255:
        raise Bad(["not_string", "routing_key"])
    return key


def exchange_named(name: str) -> str:
    return "" if name == "amq.default" else name


def encoded_properties(properties: Properties) -> Prepared:
    """Raises ``Bad``."""
    dialect = DIALECTS[DIALECT]
    try:
        header = dialect.write(properties)
        return Prepared(properties.message_id, header, dialect.essentials(header), dialect)
    except (ValueError, OverflowError) as error:
        raise Bad(f"the properties cannot be encoded: {error}") from None


def routed(pending: PendingPublish) -> dict[str, Any]:
    """RabbitMQ's answer, when the outcome is known or the time is up. Raises ``Problem``."""
    if pending.condition is not None:
        # Its confirm may still wait for earlier messages; the return is final.
        return {"routed": False}
    if pending.lost:
        raise Problem(problems.LOST, "the virtual host was deleted, or the gateway stops")
    if pending.accepted is None:
        raise Problem(problems.UNKNOWN, "no confirmation in time")
    return {"routed": pending.accepted}


CODES = {
    Condition.NOT_FOUND: "404 NOT_FOUND",
    Condition.PRECONDITION_FAILED: "406 PRECONDITION_FAILED",
    Condition.ACCESS_REFUSED: "403 ACCESS_REFUSED",
}


def as_amqp(refusal: Refusal) -> str:
    """The text with which RabbitMQ repeats a channel exception."""
    code = CODES.get(refusal.condition, refusal.condition.value)
    return f"{code} - {refusal.text}"


# --- get ------------------------------------------------------------------------------------------

AS_TEXT, AS_BASE64 = b'{"text":', b'{"base64":'
SETTLED = {
    "ack_requeue_true": Outcome.RELEASE,
    "reject_requeue_true": Outcome.RELEASE,
    "reject_requeue_false": Outcome.REJECT,
}


def read_number(value: Any) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 12:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Bad(["not_integer", value])
    return value


async def rabbit_get(call: Call) -> Response:
    body: dict[str, Any] = call.body
    need_keys(body, "ackmode", "count", "encoding")
    count = read_number(body["count"])
    truncate = read_number(body["truncate"]) if "truncate" in body else None
    mode, encoding = body["ackmode"], body["encoding"]
    if mode != "ack_requeue_false" and (not isinstance(mode, str) or mode not in SETTLED):
        raise Bad(f"unsupported ackmode '{mode}'")
    if encoding not in ("auto", "base64"):
        raise Bad("Unsupported encoding. Please use auto or base64.")
    queue = call.names["queue"]
    call.principal.need(call.context.broker, Action.RECEIVE, call.vhost, "queue", queue)

    def take(channel: LocalChannel) -> list[Fetched]:
        taken: list[Fetched] = []
        octets = 0
        while len(taken) != count and octets < MOST_GOT:
            one = channel.fetch(queue, mode == "ack_requeue_false")
            if one is None:
                break
            taken.append(one)
            octets += one.message.size
        if mode in SETTLED and taken:
            channel.settle_up_to(taken[-1].delivery, SETTLED[mode])
        return taken

    if queue not in call.context.broker.vhosts[call.vhost].queues:
        raise Missing(f"NOT_FOUND - no queue '{queue}' in vhost '{call.vhost}'")
    taken = await call.on_channel(take)
    most = LARGEST_SHOWN if truncate is None else min(max(0, truncate), LARGEST_SHOWN)
    shown: list[Octets] = []
    async for one in spread(taken):
        comma = b"," if shown else b""
        shown += [comma, *await show(one, encoding, cut(one.message.body, 0, most))]
    return Whole(concatenated(b"[", *shown, b"]"), {"cache-control": "no-cache"})


async def show(one: Fetched, encoding: str, body: Body) -> list[Octets]:
    message = one.message
    auto = encoding == "auto"
    ready = await prepared_bodies.prepare(BodyForm(id(body), text=auto), body)
    try:
        payload = body_shown(False, auto, body)
    finally:
        prepared_bodies.release([ready])
    string = chunks_of(payload)[0].startswith(AS_TEXT)
    told = {
        "payload_bytes": len(message.body),
        "redelivered": one.redelivered,
        "exchange": message.exchange,
        "routing_key": message.key,
        "message_count": one.remaining,
        "properties": show_properties(message) or [],
        "payload_encoding": "string" if string else "base64",
    }
    payload = trimmed(payload, len(AS_TEXT if string else AS_BASE64), 1)
    return [encoded(told)[:-1] + b',"payload":', payload, b"}"]


def show_properties(message: Message) -> dict[str, Any]:
    """The present properties under RabbitMQ's names."""
    try:
        given = message.properties
    except (ValueError, RecursionError):
        return {}
    finally:
        message.forget_properties()
    found: dict[str, Any] = {}
    for name in TEXTS:
        value = getattr(given, name)
        if value is not None:
            found[name] = str(value)
    if given.user_id is not None:
        found["user_id"] = given.user_id.decode("utf-8", "replace")
    if given.creation_time is not None:
        found["timestamp"] = given.creation_time // 1000
    if given.ttl is not None:
        found["expiration"] = str(given.ttl)
    if given.priority is not None:
        found["priority"] = int(given.priority)
    if given.durable is not None:
        found["delivery_mode"] = 2 if given.durable else 1
    if given.application:
        found["headers"] = plain(given.application)
    return found


def plain(table: Table) -> dict[str, Any]:
    """Headers as RabbitMQ shows them, where JSON can; octets that are no text in base64."""
    shown: dict[str, Any] = write_table(table)
    return {key: value_of(each) for key, each in shown.items()}


def value_of(value: Any) -> Any:
    if isinstance(value, dict):
        if "$type" in value and "value" in value:
            return value["value"]
        return {key: value_of(each) for key, each in value.items()}
    if isinstance(value, list):
        return [value_of(each) for each in value]
    return value
