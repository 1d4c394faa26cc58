"""Views of RabbitMQ's management API, with the members that common tools read."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

from gateway import __version__
from gateway.broker.counters import BindingSnapshot, ExchangeSnapshot, QueueSnapshot
from gateway.broker.exchange_types import EXCHANGE_TYPES
from gateway.broker.unsupported import without_effect
from gateway.http.admin.admin_endpoints import Call
from gateway.http.admin.definition_export import RABBITMQ
from gateway.http.admin.rabbit_answers import NODE
from gateway.http.admin.tables import write_table
from gateway.http.admin.topology import binding_id, readable
from gateway.http.portions import stepped


def rate(value: float = 0.0) -> dict[str, float]:
    return {"rate": value}


def queue_view(call: Call, one: QueueSnapshot) -> dict[str, Any]:
    speed = call.context.rates.of(one)
    messages = one.ready + one.unsettled
    return {
        "arguments": write_table(one.arguments),
        "auto_delete": one.auto_delete,
        "consumers": one.consumers,
        "durable": one.durable,
        "effective_policy_definition": one.policy.definition,
        "exclusive": one.exclusive,
        "memory": one.octets,
        "message_bytes": one.octets,
        "message_bytes_ready": one.octets,
        "message_stats": {
            "publish": one.published,
            "publish_details": rate(speed.published),
            "deliver_get": one.delivered,
            "deliver_get_details": rate(speed.delivered),
            "ack": one.acked,
            "ack_details": rate(),
            "redeliver": one.redelivered,
            "redeliver_details": rate(),
        },
        "messages": messages,
        "messages_details": rate(),
        "messages_paged_out": one.paged,
        "messages_ready": one.ready,
        "messages_ready_details": rate(),
        "messages_unacknowledged": one.unsettled,
        "messages_unacknowledged_details": rate(),
        "name": one.name,
        "node": NODE,
        "operator_policy": one.policy.operator or None,
        "policy": one.policy.policy or None,
        "priority_levels": one.priority_levels,
        "state": "running",
        "type": "classic",
        "vhost": one.vhost,
        "warnings": without_effect(one.arguments),
    }


def exchange_view(one: ExchangeSnapshot) -> dict[str, Any]:
    return {
        "arguments": write_table(one.arguments),
        "auto_delete": one.auto_delete,
        "durable": one.durable,
        "internal": one.internal,
        "name": one.name,
        "type": one.type,
        "vhost": one.vhost,
        **({"policy": one.policy.policy} if one.policy.policy else {}),
    }


def quoted(key: str) -> str:
    """Percent-encode a key, including the tilde, which alone stands for the empty key."""
    return quote_plus(key.encode("utf-8", "surrogatepass")).replace("~", "%7E")


def properties_key(one: BindingSnapshot) -> str:
    """The name of a binding in paths: its key, quoted twice as in RabbitMQ."""
    key = quoted(one.key) or "~"
    return f"{key}~{binding_id(one)}" if one.arguments else key


def binding_views(call: Call, vhost: str) -> Iterator[dict[str, Any]]:
    """The bindings, including those of the default exchange, which RabbitMQ shows for every queue.
    The ``properties_key`` of a binding with arguments has our own form, since clients treat it as
    opaque."""
    broker = call.context.broker
    for queue in broker.each_queue(vhost):
        yield {
            "source": "",
            "vhost": vhost,
            "destination": queue.name,
            "destination_type": "queue",
            "routing_key": queue.name,
            "arguments": {},
            "properties_key": quoted(queue.name),
        }
    for one in broker.each_binding(vhost):
        yield {
            "source": one.source,
            "vhost": vhost,
            "destination": one.destination,
            "destination_type": "exchange" if one.to_exchange else "queue",
            "routing_key": one.key,
            "arguments": write_table(one.arguments),
            "properties_key": properties_key(one),
        }


async def rabbit_overview(call: Call) -> dict[str, Any]:
    context = call.context
    seen = await stepped(
        context.broker.vhosts_counting([n for n in context.broker.vhosts if readable(call, n)])
    )
    ready = sum(one.ready for one in seen)
    unsettled = sum(one.unsettled for one in seen)
    stats: dict[str, Any] = {}
    for name, value in (
        ("publish", sum(one.totals.published for one in seen)),
        ("deliver_get", sum(one.totals.delivered for one in seen)),
        ("ack", sum(one.totals.acked for one in seen)),
        ("redeliver", sum(one.totals.redelivered for one in seen)),
        ("drop_unroutable", sum(one.totals.unrouted for one in seen)),
    ):
        stats[name] = value
        stats[name + "_details"] = rate()
    connections = [one for one in context.dependencies.connections() if readable(call, one.vhost)]
    return {
        "management_version": RABBITMQ,
        "rates_mode": "basic",
        "exchange_types": [
            {"name": name, "description": f"AMQP {name} exchange", "enabled": True}
            for name in EXCHANGE_TYPES
        ],
        "product_version": __version__,
        "product_name": "amqp-gateway",
        "rabbitmq_version": RABBITMQ,
        "cluster_name": NODE,
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": stats,
        "queue_totals": {
            "messages": ready + unsettled,
            "messages_details": rate(),
            "messages_ready": ready,
            "messages_ready_details": rate(),
            "messages_unacknowledged": unsettled,
            "messages_unacknowledged_details": rate(),
        },
        "object_totals": {
            "channels": sum(one.channels for one in connections),
            "connections": len(connections),
            "consumers": sum(one.consumers for one in seen),
            "exchanges": sum(one.exchanges for one in seen),
            "queues": sum(one.queues for one in seen),
        },
        "node": NODE,
        "listeners": [],
        "contexts": [],
    }


async def rabbit_nodes(call: Call) -> list[dict[str, Any]]:
    dependencies = call.context.dependencies
    figures = dependencies.figures()
    blocked = call.context.broker.blocked or ""
    return [
        {
            "name": NODE,
            "type": "disc",
            "running": True,
            "mem_used": int(figures.get("memory_octets", 0)),
            "mem_limit": int(figures.get("memory_limit_octets", 0)),
            "mem_alarm": "memory" in blocked,
            "disk_free_alarm": "disk" in blocked,
            "sockets_used": len(dependencies.connections()),
            "partitions": [],
            "rates_mode": "basic",
        }
    ]
