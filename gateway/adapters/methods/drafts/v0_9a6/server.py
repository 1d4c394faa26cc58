"""Requests of a client of 0-9a6, and our replies."""

from typing import Any

from gateway.adapters.methods.contents.methods import OutgoingMethod, group_of
from gateway.adapters.methods.contents.pacing import pace_of
from gateway.adapters.methods.drafts import shared_methods
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.shared_methods import (
    ACKNOWLEDGED,
    check_in_band,
    consume_ok,
    content_of,
    end_session,
    enter_realm,
    layout,
    select_branches,
)
from gateway.adapters.methods.drafts.v0_9a6.messages import published_file
from gateway.adapters.methods.drafts.v0_9a6.names import (
    BUILT_IN,
    GROUPS,
    KEYED,
    OURS,
    RIGHTS,
    THEIRS,
    TYPES,
    queue_name,
)
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.adapters.record import Record
from gateway.errors import Condition
from gateway.message import Table
from gateway.operations import (
    DRAFT_LEVELS,
    STREAMS,
    BeginSession,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Fetch,
    Fetched,
    FindQueue,
    Open,
    Operation,
    Prefetch,
    PurgeQueue,
    QueueState,
    Rollback,
    Select,
    Subscribe,
    Unsubscribe,
)
from gateway.operations.rules import EARLY


def _open(channel: Channel, m: w.ChannelOpen, pending: PendingReply) -> list[Operation]:
    """The virtual host comes here; all channels of a connection use one."""
    engine: Any = channel.engine
    check_in_band(channel, m.out_of_band)
    begin = BeginSession(channel.number, pending)
    vhost = m.virtual_host or "/"
    if engine.vhost:
        if engine.vhost != vhost:
            raise channel.error(
                Condition.NOT_ALLOWED, f"this connection uses the virtual host '{engine.vhost}'"
            )
        return [begin]
    engine.vhost = vhost
    connection = engine.connection
    method = engine.table.by_name["connection.open"]
    opening = PendingReply(method, w.ConnectionOpen())
    return [Open(opening, vhost, connection.user, connection.peer, rules=EARLY), begin]


def _declare_exchange(
    channel: Channel, m: w.ExchangeDeclare, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket)
    kind = TYPES.get(m.class_, m.class_ if m.class_.startswith("x-") else "")
    if not kind and not (m.passive and not m.class_):
        raise channel.error(
            Condition.COMMAND_INVALID, f"exchange class '{m.class_[:80]}' is unknown"
        )
    name = OURS.get(m.exchange, m.exchange)
    built_in = BUILT_IN.get(name)
    if built_in is not None:
        if kind and kind != built_in:
            raise channel.error(Condition.NOT_ALLOWED, f"exchange '{m.exchange}' is no {m.class_}")
        return [DeclareExchange(channel.number, pending, name, passive=True)]
    if kind:
        channel.classes[name] = kind
    return [
        DeclareExchange(
            channel.number, pending, name, kind, m.passive, m.durable, m.auto_delete, m.internal
        )
    ]


def _bind(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket)
    source = OURS.get(m.bind_to, m.bind_to)
    try:
        arguments = tables.read_arguments(m.arguments, False)
    except ValueError as error:
        raise channel.error(Condition.COMMAND_INVALID, str(error)) from error
    key = _key(channel, source, arguments)
    to_exchange = isinstance(m, w.ExchangeBind)
    target = OURS.get(m.exchange, m.exchange) if to_exchange else queue_name(m.domain, m.queue)
    return [
        Bind(channel.number, pending, target, source, key, arguments, to_exchange, lasting=True)
    ]


def _key(channel: Channel, source: str, arguments: Table) -> str:
    """A binding's ``destination``, taken out of its arguments, unless headers are asked for: there
    it is the name of one."""
    kind = BUILT_IN.get(source) or channel.classes.get(source, "")
    if kind == "headers":
        return ""
    key = arguments.pop("destination", None)
    if key is None and kind in KEYED:
        raise channel.error(Condition.COMMAND_INVALID, "the binding has no destination")
    return "" if key is None else str(key)


def _delete_exchange(
    channel: Channel, m: w.ExchangeDelete, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket)
    return [DeleteExchange(channel.number, pending, OURS.get(m.exchange, m.exchange), m.if_unused)]


def _declare_queue(channel: Channel, m: w.QueueDeclare, pending: PendingReply) -> list[Operation]:
    """A declaration of an existing queue need not have the same arguments."""
    channel.ticket(m.ticket)
    name = queue_name(m.domain, m.queue) if m.queue else ""
    number = channel.number
    there = DeclareQueue(number, pending, name, passive=True)
    if m.passive:
        return [there]
    made = DeclareQueue(
        number, pending, name, False, m.durable, m.private, m.auto_delete, levels=DRAFT_LEVELS,
        template=m.template,
    )  # fmt: skip
    if not name:
        return [made]
    found = pending._replace(then=lambda state: [made if state is None else there])
    return [FindQueue(number, found, name)]


def _purge(channel: Channel, m: w.QueuePurge, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket)
    return [PurgeQueue(channel.number, pending, queue_name(m.domain, m.queue))]


def _delete_queue(channel: Channel, m: w.QueueDelete, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket)
    name = queue_name(m.domain, m.queue)
    return [DeleteQueue(channel.number, pending, name, m.if_unused, m.if_empty)]


def _consume(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "read")
    group = group_of(pending.method)
    number = channel.next_tag()
    tag = str(number)
    pace = pace_of(m)
    channel.consume(Consumer(group, m.queue, number, tag, domain=m.domain, pace=pace))
    no_ack = group not in ACKNOWLEDGED or m.auto_ack
    count, size = getattr(m, "prefetch_count", 0), getattr(m, "prefetch_size", 0)
    name = queue_name(m.domain, m.queue)
    return [
        Prefetch(channel.number, None, count, size),
        Subscribe(
            channel.number,
            pending,
            name,
            tag,
            no_ack,
            m.exclusive,
            m.no_local,
            {STREAMS: True} if group == "stream" else {},
            credit=1 if pace else None,
        ),
    ]


def _cancel(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    return [Unsubscribe(channel.number, pending, str(m.consumer_tag))]


def _browse(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "read")
    return [
        Fetch(channel.number, pending, queue_name(m.domain, m.queue), getattr(m, "auto_ack", True))
    ]


def open_file(channel: Channel, m: w.FileOpen, pending: PendingReply) -> list[Operation]:
    engine: Any = channel.engine
    owner = ("0-9a6", engine.vhost, engine.connection.user)
    channel.send(channel.files.opened(owner, m))
    return []


def file_opened(channel: Channel, m: w.FileOpenOk, pending: PendingReply) -> list[Operation]:
    for method in channel.files.accepted(m):
        channel.send(*method)
    return []


def _publish_file(channel: Channel, m: w.FilePublish, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "write")
    staged = channel.files.taken(m.identifier)
    return [published_file(channel, m, channel.dialect("file"), staged.header, staged.body)]


def _select(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.transacted = True
    return [Select(channel.number, pending)]


REQUEST_HANDLERS: dict[str, Any] = {
    **shared_methods.REQUEST_HANDLERS,
    "channel.open": _open,
    "channel.close": lambda channel, m, pending: end_session(channel, pending),
    "access.request": lambda channel, m, pending: enter_realm(
        channel, m, pending, RIGHTS, w.AccessRequestOk
    ),
    "exchange.declare": _declare_exchange,
    "exchange.bind": _bind,
    "exchange.delete": _delete_exchange,
    "queue.declare": _declare_queue,
    "queue.bind": _bind,
    "queue.purge": _purge,
    "queue.delete": _delete_queue,
    **{f"{group}.consume": _consume for group in GROUPS},
    **{f"{group}.cancel": _cancel for group in GROUPS},
    "basic.browse": _browse,
    "jms.browse": _browse,
    "file.open": open_file,
    "file.open-ok": file_opened,
    "file.publish": _publish_file,
    "tx.select": _select,
    "dtx.select": lambda channel, m, pending: select_branches(channel, pending),
    "tx.rollback": lambda channel, m, pending: [Rollback(channel.number, pending)],
}


def _declared(channel: Channel, m: w.QueueDeclare, state: QueueState) -> Record:
    name = state.name.removeprefix(f"{m.domain}:") if m.domain and m.queue else state.name
    return w.QueueDeclareOk(name, "", state.messages, state.consumers)


def _cancel_ok(channel: Channel, m: Any, tag: Any) -> Record:
    channel.consumers.pop(str(m.consumer_tag), None)
    return layout(channel, m.NAME.partition(".")[0], "CancelOk")()  # type: ignore[no-any-return]


def _browsed(channel: Channel, m: Any, fetched: Fetched | None) -> Record | OutgoingMethod:
    plain = isinstance(m, w.BasicBrowse)
    if fetched is None:
        return w.BasicBrowseEmpty() if plain else w.JmsBrowseEmpty()
    message = fetched.message
    exchange = THEIRS.get(message.exchange, message.exchange)
    if plain:
        record: Any = w.BasicBrowseOk(exchange, fetched.remaining)
    else:
        record = w.JmsBrowseOk(fetched.delivery, fetched.redelivered, exchange, fetched.remaining)
    return OutgoingMethod(record, content_of(channel, "basic" if plain else "jms", message))


REPLY_ENCODERS: dict[str, Any] = {
    "queue.declare": _declared,
    "queue.purge": lambda channel, m, count: w.QueuePurgeOk(count or 0),
    "queue.delete": lambda channel, m, count: w.QueueDeleteOk(count or 0),
    **{f"{group}.consume": consume_ok for group in GROUPS},
    **{f"{group}.cancel": _cancel_ok for group in GROUPS},
    "basic.browse": _browsed,
    "jms.browse": _browsed,
}
