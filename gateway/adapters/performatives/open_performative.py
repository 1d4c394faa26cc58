"""The fields of an open performative, ours and the peer's (§2.7.1)."""

from typing import Any, Protocol

from gateway.adapters.options import Limits, Product
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.violation import Violation
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import MIN_MAX_FRAME_SIZE, AmqpError
from gateway.operations import Peer
from gateway.values import Symbol

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
"""Links to the anonymous terminus: each message names its own address (Anonymous Terminus 1.0)."""

LINK_PAIR = "LINK_PAIR_V1_0"
"""Two links that belong together, request and response (Link Pairing 1.0); RabbitMQ's management
asks for it."""

SHARED_SUBS = "SHARED-SUBS"
"""Subscriptions that several links share (AMQP JMS Mapping 1.0)."""

FAILED = "amqp:connection-establishment-failed"
"""A property of an open that a close with an error follows (AMQP JMS Mapping 1.0)."""

SHORTEST_IDLE = 1000
"""Shortest idle-time-out that we can keep, in milliseconds."""


class OpenSettings(Protocol):
    """The settings of the connection that our open contains."""

    server: bool
    limits: Limits
    product: Product
    name: str
    frame_max: int
    frame_out: int
    channel_max: int
    refused: bool


def our_open(owner: OpenSettings) -> w.Open:
    """Our open."""
    product, limits = owner.product, owner.limits
    properties: dict[Any, Any] = {
        Symbol("product"): product.product,
        Symbol("version"): product.version,
        Symbol("platform"): product.platform,
    }
    if product.information:
        properties[Symbol("information")] = product.information
    if product.node:
        properties[Symbol("node")] = product.node
    if product.name and not owner.server:
        properties[Symbol("connection_name")] = product.name
    if owner.refused:
        properties[Symbol(FAILED)] = True
    capabilities = (ANONYMOUS_RELAY, LINK_PAIR, SHARED_SUBS)
    record = w.Open(
        container_id=owner.name,
        max_frame_size=owner.frame_max,
        channel_max=owner.channel_max,
        idle_time_out=limits.heartbeat * 1000 or None,
        offered_capabilities=capabilities if owner.server else None,
        desired_capabilities=None if owner.server else capabilities,
        properties=properties,
    )
    if len(write(record)) + 8 > owner.frame_out:
        record.properties = {Symbol(FAILED): True} if owner.refused else None
    return record


OVERHEAD = 1 << 16
"""Octets of a frame besides a message's body, where only the message is limited."""


def largest_frame(limits: Limits) -> int:
    """Our max-frame-size."""
    return max(MIN_MAX_FRAME_SIZE, limits.frame_max or limits.max_message_octets + OVERHEAD)


def vhost_of(record: w.Open) -> str:
    """The virtual host in the peer's open; "/" by default."""
    name = record.hostname or ""
    return name[6:] if name.startswith("vhost:") and len(name) > 6 else "/"


def check_limits(record: w.Open) -> None:
    """Check the peer's limits. Raises ``Violation`` for invalid ones, or those that we cannot
    keep."""
    size, idle = record.max_frame_size, record.idle_time_out or 0
    if size is not None and size < MIN_MAX_FRAME_SIZE:
        text = f"max-frame-size {size} is below {MIN_MAX_FRAME_SIZE}"
        raise Violation(AmqpError.INVALID_FIELD, text)
    if 0 < idle < SHORTEST_IDLE:
        text = f"an idle-time-out of {idle} ms is too short, {SHORTEST_IDLE} can be kept"
        raise Violation(AmqpError.NOT_IMPLEMENTED, text)


def describe(record: w.Open, peer: Peer) -> None:
    """Fill in the peer's description of itself."""
    properties = record.properties or {}
    peer.product = _text(properties.get("product"))
    peer.product_version = _text(properties.get("version"))
    peer.platform = _text(properties.get("platform"))
    peer.name = _text(properties.get("connection_name")) or record.container_id
    peer.properties = {str(key): value for key, value in properties.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
