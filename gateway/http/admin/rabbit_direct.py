"""RabbitMQ's ``publish`` answered within the read that brought it (``gateway/http/direct.py``).

The calls that are not good, and those that need steps, are answered by the endpoint of the path.
"""

import json
from functools import lru_cache
from typing import Any

from gateway.errors import Refusal
from gateway.http.access.principal import Action, Principal
from gateway.http.admin.admin_endpoints import AT_ONCE, parse
from gateway.http.admin.rabbit_answers import rabbit_error
from gateway.http.admin.rabbit_messages import (
    encoded_properties,
    exchange_named,
    read_key,
    read_properties,
    read_small_payload,
    routed,
)
from gateway.http.context import Context
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Node, Target
from gateway.http.publish.messages import Published, message_of
from gateway.http.publish.results import Answer, answer_of
from gateway.http.publish.templates import Pairs

PATH = "/api/exchanges/{vhost}/{exchange}/publish"
SURROGATES = (rb"\ud", rb"\uD")
"""How an escape begins that may be half a character: the endpoint has it checked."""


@lru_cache(4096)
def read_rabbit_node(raw: bytes) -> Node | None:
    """The exchange that a path publishes to; ``None`` for any other path, and any mistake in it."""
    path = raw.decode("ascii", "replace")
    parts = path.split("/")
    if len(parts) != 6 or parts[:3] != ["", "api", "exchanges"] or parts[5] != "publish":
        return None
    try:
        vhost, exchange = decode_segment(parts[3]), exchange_named(decode_segment(parts[4]))
    except Problem:
        return None
    if not (parts[3] and parts[4]):
        return None
    return Node(path, "rabbit", vhost, Target(exchange, "", not exchange))


class RabbitPublish:
    """As ``PublishEndpoint``, for ``DirectPublish``."""

    def __init__(self, context: Context) -> None:
        self.broker = context.broker
        self.publisher = context.publisher

    def publish_now(
        self, node: Node, principal: Principal, given: Pairs, body: bytes
    ) -> Published | None:
        """``None``: nothing was published, and the endpoint says why. Hot."""
        broker, publisher, vhost = self.broker, self.publisher, node.vhost
        if len(body) > AT_ONCE or any(mark in body for mark in SURROGATES):
            return None
        exchange, user = node.target.exchange, principal.user
        if vhost not in broker.vhosts or not broker.access.may_enter(user, vhost):
            return None
        try:
            principal.need(broker, Action.PUBLISH, vhost, "exchange", exchange or "amq.default")
            publisher.check_open()
            found: Any = parse(body)
            if not isinstance(found, dict):
                return None
            target = node.target._replace(key=read_key(found))
            payload = read_small_payload(found["payload"], found["payload_encoding"])
            prepared = encoded_properties(read_properties(found["properties"]))
            pending = publisher.publish(vhost, user, message_of(prepared, target, payload))
        except (Problem, Refusal):
            return None
        return Published(pending, prepared, vhost, target)

    def answer_now(self, published: Published, path: str) -> Answer:
        """The answer to a publish whose outcome is known, or will not be waited for."""
        try:
            made = routed(published.pending)
        except Problem as error:
            response = rabbit_error(error)
            return Answer(response.status_code, response.raw_headers, bytes(response.body))
        return answer_of(200, "application/json", json.dumps(made).encode())
