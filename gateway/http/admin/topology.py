"""Virtual hosts, exchanges, queues and bindings, changed with the permissions of the caller."""

import hashlib
from base64 import urlsafe_b64encode

from starlette.responses import Response

from gateway.broker.counters import (
    BindingSnapshot,
    ExchangeSnapshot,
    QueueSnapshot,
    VhostSnapshot,
)
from gateway.broker.limits import read_queue_arguments
from gateway.broker.plain import fingerprint
from gateway.broker.snapshots import VhostCount, exchange_snapshot, queue_snapshot
from gateway.broker.unsupported import without_effect
from gateway.http import problems
from gateway.http.admin.admin_endpoints import (
    Call,
    Endpoint,
    Input,
    Rank,
    listed,
    precondition,
    respond,
)
from gateway.http.admin.tables import read_table, write_table
from gateway.http.admin.views import (
    BindingInput,
    BindingList,
    BindingView,
    ExchangeInput,
    ExchangeList,
    ExchangeView,
    QueueDetail,
    QueueDetailList,
    QueueInput,
    Removed,
    VhostList,
    VhostView,
)
from gateway.http.portions import spread, stepped
from gateway.http.problems import Problem

BASE = "/v1/admin/vhosts"
HOST = BASE + "/{vhost}"
EXCHANGE = HOST + "/exchanges/{exchange}"
QUEUE = HOST + "/queues/{queue}"
BINDINGS = HOST + "/bindings"


class IfUnused(Input):
    if_unused: bool = False


class IfUnusedOrEmpty(IfUnused):
    if_empty: bool = False


# --- virtual hosts --------------------------------------------------------------------------------


def show_vhost(vhost: VhostSnapshot) -> VhostView:
    return VhostView(
        name=vhost.name,
        queues=vhost.queues,
        exchanges=vhost.exchanges,
        consumers=vhost.consumers,
        clients=vhost.clients,
        ready=vhost.ready,
        unacknowledged=vhost.unsettled,
        published=vhost.totals.published,
        delivered=vhost.totals.delivered,
        acked=vhost.totals.acked,
    )


def readable(call: Call, vhost: str) -> bool:
    access = call.context.broker.access
    return access.may_enter(call.user, vhost) or call.tagged({"administrator", "monitoring"})


async def list_vhosts(call: Call) -> VhostList:
    broker = call.context.broker
    names = [name for name in broker.vhosts if readable(call, name)]
    found = await stepped(broker.vhosts_counting(names))
    return VhostList(vhosts=[show_vhost(one) for one in found])


async def show_one_vhost(call: Call) -> VhostView:
    return show_vhost(await stepped(VhostCount(call.context.broker.vhosts[call.vhost]).steps()))


async def make_vhost(call: Call) -> bool:
    """Whether it is new: then its creator gets all permissions in it."""
    broker, name = call.context.broker, call.vhost
    new = name not in broker.vhosts

    def make() -> None:
        broker.create_vhost(name)
        if new:
            broker.access.set_permissions(call.user, name, ".*", ".*", ".*")

    await call.act(make)
    return new


async def put_vhost(call: Call) -> Response:
    new = await make_vhost(call)
    return respond(await show_one_vhost(call), 201 if new else 200)


async def delete_vhost(call: Call) -> None:
    context, name = call.context, call.vhost
    if name not in context.broker.vhosts:
        raise problems.no_vhost(name)

    def remove() -> None:
        for one in context.dependencies.connections():
            if one.vhost == name:
                context.dependencies.close_connection(one.id, f"vhost '{name}' was deleted")
        context.broker.delete_vhost(name)

    await call.act(remove)


# --- exchanges ------------------------------------------------------------------------------------


def show_exchange(one: ExchangeSnapshot) -> ExchangeView:
    return ExchangeView(**one._asdict() | {"arguments": write_table(one.arguments)})


async def list_exchanges(call: Call) -> Response:
    found = call.context.broker.each_exchange(call.vhost)
    return listed("exchanges", (show_exchange(one) for one in found))


def find_exchange(call: Call) -> ExchangeView:
    name = call.names["exchange"]
    found = call.context.broker.vhosts[call.vhost].exchanges.get(name)
    if found is not None:
        return show_exchange(exchange_snapshot(call.vhost, found))
    raise Problem(problems.NOT_FOUND, f"no exchange '{name}' in vhost '{call.vhost}'")


async def show_one_exchange(call: Call) -> ExchangeView:
    return find_exchange(call)


async def put_exchange(call: Call) -> Response:
    name, body = call.names["exchange"], call.body
    new = name not in call.context.broker.vhosts[call.vhost].exchanges
    options = {
        "durable": body.durable,
        "auto_delete": body.auto_delete,
        "internal": body.internal,
        "arguments": read_table(body.arguments),
    }
    with precondition(problems.CONFLICT if not new else problems.ARGUMENT):
        await call.on_channel(lambda channel: channel.declare_exchange(name, body.type, **options))
    return respond(find_exchange(call), 201 if new else 200)


async def delete_exchange(call: Call) -> None:
    find_exchange(call)
    name, unused = call.names["exchange"], call.query.if_unused
    with precondition(problems.CONFLICT):
        await call.on_channel(lambda channel: channel.delete_exchange(name, unused))


# --- queues ---------------------------------------------------------------------------------------


def show_queue(call: Call, one: QueueSnapshot) -> QueueDetail:
    rate = call.context.rates.of(one)
    return QueueDetail(
        **one._asdict() | {"arguments": write_table(one.arguments), "policy": one.policy.policy},
        warnings=without_effect(one.arguments),
        operator_policy=one.policy.operator,
        effective_policy_definition=one.policy.definition,
        messages=one.ready + one.unsettled,
        unacknowledged=one.unsettled,
        publish_rate=rate.published,
        deliver_rate=rate.delivered,
    )


async def list_queues(call: Call) -> Response:
    broker = call.context.broker
    await call.context.rates.look(broker)
    return listed("queues", (show_queue(call, one) for one in broker.each_queue(call.vhost)))


def find_queue(call: Call) -> QueueDetail:
    name = call.names["queue"]
    queue = call.context.broker.vhosts[call.vhost].queues.get(name)
    if queue is None:
        raise Problem(problems.NOT_FOUND, f"no queue '{name}' in vhost '{call.vhost}'")
    return show_queue(call, queue_snapshot(queue))


async def show_one_queue(call: Call) -> QueueDetail:
    await call.context.rates.look(call.context.broker)
    return find_queue(call)


async def put_queue(call: Call) -> Response:
    name, body = call.names["queue"], call.body
    vhost = call.context.broker.vhosts[call.vhost]
    new = name not in vhost.queues
    arguments = read_table(body.arguments)
    with precondition(problems.ARGUMENT):
        read_queue_arguments(arguments, vhost.title("queue", name))
    options = {
        "durable": body.durable,
        "auto_delete": body.auto_delete,
        "arguments": arguments,
        "levels": 0 if body.priority_levels == 1 else body.priority_levels,
    }
    with precondition(problems.CONFLICT):
        await call.on_channel(lambda channel: channel.declare_queue(name, **options))
    return respond(find_queue(call), 201 if new else 200)


async def delete_queue(call: Call) -> Removed:
    find_queue(call)
    query = call.query
    name = call.names["queue"]
    with precondition(problems.CONFLICT):
        deleted = await call.on_channel(
            lambda channel: channel.delete_queue(name, query.if_unused, query.if_empty)
        )
    return Removed(messages=deleted)


async def purge_queue(call: Call) -> Removed:
    find_queue(call)
    name = call.names["queue"]
    return Removed(messages=await call.on_channel(lambda channel: channel.purge_queue(name)))


# --- bindings -------------------------------------------------------------------------------------


def binding_id(one: BindingSnapshot) -> str:
    parts = (one.vhost, one.source, one.destination, str(one.to_exchange), one.key)
    octets = "\0".join((*parts, fingerprint(one.arguments))).encode("utf-8", "surrogatepass")
    return urlsafe_b64encode(hashlib.sha256(octets).digest()[:16]).decode().rstrip("=")


def show_binding(one: BindingSnapshot) -> BindingView:
    return BindingView(
        id=binding_id(one),
        vhost=one.vhost,
        source=one.source,
        destination=one.destination,
        destination_type="exchange" if one.to_exchange else "queue",
        routing_key=one.key,
        arguments=write_table(one.arguments),
    )


async def list_bindings(call: Call) -> Response:
    found = call.context.broker.each_binding(call.vhost)
    return listed("bindings", (show_binding(one) for one in found))


async def find_binding(call: Call, wanted: str) -> BindingSnapshot | None:
    async for one in spread(call.context.broker.each_binding(call.vhost)):
        if binding_id(one) == wanted:
            return one
    return None


async def post_binding(call: Call) -> Response:
    body = call.body
    arguments = read_table(body.arguments)
    to_exchange = body.destination_type == "exchange"
    made = BindingSnapshot(
        call.vhost, body.source, body.destination, to_exchange, body.routing_key, arguments
    )
    view = show_binding(made)
    new = await find_binding(call, view.id) is None
    names = (body.destination, body.source, body.routing_key, arguments, to_exchange)
    with precondition(problems.ARGUMENT):
        await call.on_channel(lambda channel: channel.bind(*names))
    return respond(view, 201 if new else 200)


async def delete_binding(call: Call) -> None:
    found = await find_binding(call, call.names["binding"])
    if found is None:
        raise Problem(problems.NOT_FOUND, "no binding with this id")
    names = (found.destination, found.source, found.key, found.arguments, found.to_exchange)
    await call.on_channel(lambda channel: channel.unbind(*names))


QUEUE_EXAMPLE = QueueDetail(
    vhost="/", name="orders", durable=True, exclusive=False, auto_delete=False, arguments={},
    warnings=[], priority_levels=1, messages=2, ready=1, unacknowledged=1, octets=12, paged=0,
    consumers=1, policy="", operator_policy="", effective_policy_definition={}, published=17,
    delivered=16, acked=15, redelivered=0, publish_rate=1.5, deliver_rate=1.0,
).model_dump()  # fmt: skip
MISSING = (problems.NOT_FOUND,)
CHANGE = (problems.NOT_FOUND, problems.CONFLICT)
DECLARE = (problems.NOT_FOUND, problems.CONFLICT, problems.LOCKED, problems.ARGUMENT)
DELETE = (problems.NOT_FOUND, problems.CONFLICT, problems.LOCKED)
ADMIN, GUEST = Rank.ADMINISTRATOR, Rank.GUEST
EXISTED = {200: "The resource existed already with the same properties"}

ENDPOINTS = [
    Endpoint("GET", BASE, list_vhosts, "Virtual hosts", Rank.USER, gives=VhostList,
             text="The virtual hosts that the caller may use; all of them for monitoring users."),
    Endpoint("GET", HOST, show_one_vhost, "One virtual host", GUEST, gives=VhostView,
             refusals=MISSING),
    Endpoint("PUT", HOST, put_vhost, "Create a virtual host", ADMIN, status=201,
             gives=VhostView, also=EXISTED, text="Its creator gets all permissions in it."),
    Endpoint("DELETE", HOST, delete_vhost, "Delete a virtual host with its contents", ADMIN,
             status=204, refusals=MISSING, text="Its connections are closed."),
    Endpoint("GET", HOST + "/exchanges", list_exchanges, "Exchanges of a virtual host", GUEST,
             gives=ExchangeList, refusals=MISSING),
    Endpoint("GET", EXCHANGE, show_one_exchange, "One exchange", GUEST, gives=ExchangeView,
             refusals=MISSING),
    Endpoint("PUT", EXCHANGE, put_exchange, "Declare an exchange", GUEST, takes=ExchangeInput,
             gives=ExchangeView, status=201, also=EXISTED, optional=True, refusals=DECLARE,
             example={"type": "topic"}, operation_id="declare_exchange"),
    Endpoint("DELETE", EXCHANGE, delete_exchange, "Delete an exchange", GUEST, query=IfUnused,
             status=204, refusals=CHANGE),
    Endpoint("GET", HOST + "/queues", list_queues, "Queues of a virtual host with details", GUEST,
             gives=QueueDetailList, refusals=MISSING, operation_id="list_queue_details",
             answer={"queues": [QUEUE_EXAMPLE]}),
    Endpoint("GET", QUEUE, show_one_queue, "One queue with details and rates", GUEST,
             gives=QueueDetail, refusals=MISSING, answer=QUEUE_EXAMPLE),
    Endpoint("PUT", QUEUE, put_queue, "Declare a queue", GUEST, takes=QueueInput,
             gives=QueueDetail, status=201, also=EXISTED, optional=True, refusals=DECLARE,
             example={"durable": True, "arguments": {}}, answer=QUEUE_EXAMPLE,
             operation_id="declare_queue"),
    Endpoint("DELETE", QUEUE, delete_queue, "Delete a queue", GUEST, query=IfUnusedOrEmpty,
             gives=Removed, refusals=DELETE),
    Endpoint("DELETE", QUEUE + "/messages", purge_queue, "Delete the ready messages of a queue",
             GUEST, gives=Removed, refusals=DELETE),
    Endpoint("GET", BINDINGS, list_bindings, "Bindings of a virtual host", GUEST,
             gives=BindingList, refusals=MISSING),
    Endpoint("POST", BINDINGS, post_binding, "Bind", GUEST, takes=BindingInput, gives=BindingView,
             status=201, also=EXISTED, refusals=DECLARE,
             example={"source": "amq.topic", "destination": "orders", "routing_key": "a.#"},
             operation_id="create_binding"),
    Endpoint("DELETE", BINDINGS + "/{binding}", delete_binding, "Unbind", GUEST, status=204,
             refusals=MISSING),
]  # fmt: skip
