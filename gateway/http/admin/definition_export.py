"""Export of definitions in RabbitMQ's JSON, with the verifiers of users."""

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from starlette.responses import Response

from gateway import __version__
from gateway.broker.access import RABBIT_SHA256, User, user_record
from gateway.broker.broker import Broker
from gateway.broker.exchanges import Exchange
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.http.admin.policies import export_operator_policies, export_policies
from gateway.http.admin.tables import write_table
from gateway.http.events.durable import PREFIX as JOURNAL_PREFIX

RABBITMQ = "3.10.8"
SCRAM = "scram_sha_256"
ITEMS_PER_TURN = 100


def members(broker: Broker, vhost: str | None, people: bool) -> Iterator[tuple[str, Any]]:
    """The members of the document: all but exclusive queues and those of event journals, as
    RabbitMQ writes it; of one virtual host without users. Lists that may be long are iterators
    over the present state, so that the document can be written in portions."""
    yield "rabbit_version", RABBITMQ
    yield "rabbitmq_version", RABBITMQ
    yield "product_name", "amqp-gateway"
    yield "product_version", __version__
    if people:
        access = broker.access
        yield "users", map(export_user, access.list_users())
        yield "vhosts", [{"name": name} for name in broker.vhosts]
        yield (
            "permissions",
            ({"user": name, **one._asdict()} for name, one in access.list_permissions()),
        )
        yield "topic_permissions", (one._asdict() for one in access.topics.all())
        yield "global_parameters", []
    hosts = [host for name, host in broker.vhosts.items() if vhost in (None, name)]
    whole = vhost is None
    yield "parameters", export_operator_policies(hosts, whole)
    yield "policies", export_policies(hosts, whole)
    yield "queues", export_queues(hosts, whole)
    yield "exchanges", export_exchanges(hosts, whole)
    yield "bindings", export_bindings(hosts, whole)


def export_queues(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for one in list(host.queues.values()):
            if not own(one):
                yield (
                    named(whole, host.name, one.name)
                    | {
                        "durable": one.durable,
                        "auto_delete": one.auto_delete,
                        "arguments": write_table(one.arguments),
                    }
                    | own_levels(one)
                )


def own_levels(queue: Queue) -> dict[str, int]:
    """Levels of priority that no argument says."""
    levels = queue.backlog.levels
    said = "x-priority-levels" in queue.arguments
    return {} if said or not levels else {"priority_levels": levels}


def export_exchanges(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for one in list(host.exchanges.values()):
            if one.name and not one.name.startswith("amq."):
                yield named(whole, host.name, one.name) | {
                    "type": one.type,
                    "durable": one.durable,
                    "auto_delete": one.auto_delete,
                    "internal": one.internal,
                    "arguments": write_table(one.arguments),
                }


def export_bindings(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for exchange in list(host.exchanges.values()):
            for one in list(exchange.bindings):
                to = one.destination
                if not one.severed and (isinstance(to, Exchange) or not own(to)):
                    yield ({"vhost": host.name} if whole else {}) | {
                        "source": exchange.name,
                        "destination": to.name,
                        "destination_type": "exchange" if one.to_exchange else "queue",
                        "routing_key": one.key,
                        "arguments": write_table(one.arguments),
                    }


async def export_in_portions(
    broker: Broker, vhost: str | None = None, people: bool = True
) -> Response:
    """The document as JSON, a few entries per turn, so that other requests are served in
    between."""
    pieces: list[str] = []
    for name, told in members(broker, vhost, people):
        pieces.append(f'{"," if pieces else "{"}"{name}":')
        if not isinstance(told, Iterator):
            pieces.append(json.dumps(told))
            continue
        before = "["
        while portion := list(islice(told, ITEMS_PER_TURN)):
            pieces += (before, json.dumps(portion)[1:-1])
            before = ","
            await asyncio.sleep(0)
        pieces.append("]" if before == "," else "[]")
    pieces.append("}")
    headers = {"cache-control": "no-store"}
    return Response("".join(pieces), 200, headers, "application/json")


def own(queue: Queue) -> bool:
    """Whether a queue belongs to a connection or to the gateway itself."""
    return queue.owner is not None or queue.name.startswith(JOURNAL_PREFIX)


def named(whole: bool, vhost: str, name: str) -> dict[str, Any]:
    return {"name": name, "vhost": vhost} if whole else {"name": name}


def export_user(user: User) -> dict[str, Any]:
    """``password_hash`` is that of RabbitMQ, or empty: RabbitMQ then makes a user who cannot log in
    by password."""
    record = user_record(user)
    exported = {
        "name": user.name,
        "password_hash": record.get("password_hash", ""),
        "hashing_algorithm": record.get("hashing_algorithm", RABBIT_SHA256),
        "tags": list(user.tags),
        "limits": {},
        "loopback_only": user.loopback_only,
    }
    if user.rabbit_hash is None:
        keys = ("salt", "stored_key", "server_key", "iterations")
        exported[SCRAM] = {key: record[key] for key in keys}
    return exported
