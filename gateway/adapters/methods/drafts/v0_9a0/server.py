"""Requests of a client of 0-9a0, and our replies."""

import secrets
from collections.abc import Callable
from typing import Any

from gateway.adapters.methods import states
from gateway.adapters.methods.contents.methods import OutgoingMethod, group_of
from gateway.adapters.methods.contents.pacing import pace_of
from gateway.adapters.methods.drafts import shared_methods
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.shared_methods import (
    check_in_band,
    consume_ok,
    content_of,
    end_session,
    enter_realm,
    select_branches,
)
from gateway.adapters.methods.drafts.v0_9a0.messages import service
from gateway.adapters.methods.drafts.v0_9a0.names import (
    DISTRIBUTED,
    GROUPS,
    OWNER,
    OWNING_USER,
    QUEUE,
    REGEXP,
    RIGHTS,
    SIMPLE,
    STANDARD,
    SUBSCRIPTION,
    TOPIC,
    TOPICS,
    TPATH,
)
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.wire import layouts_0_9a0 as w
from gateway.adapters.record import Record
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Table
from gateway.operations import (
    DRAFT_LEVELS,
    STREAMS,
    BeginSession,
    Bind,
    CancelTopic,
    DeclareQueue,
    DeleteQueue,
    Fetch,
    Fetched,
    FindQueue,
    FoundQueue,
    Operation,
    Prefetch,
    PurgeQueue,
    PurgeTopic,
    QueueState,
    Rollback,
    Select,
    SessionLost,
    Subscribe,
    Unsubscribe,
)
from gateway.selector import (
    Expression,
    ExpressionError,
    NoExpressions,
    Selector,
    SelectorError,
)


def _send(channel: Channel, record: Any) -> list[Operation]:
    """A reply at once."""
    channel.send(record)
    return []


def _open_channel(channel: Channel, m: w.ChannelOpen, pending: PendingReply) -> list[Operation]:
    check_in_band(channel, m.out_of_band)
    if m.tx_mode > DISTRIBUTED:
        raise channel.error(Condition.COMMAND_INVALID, f"transaction mode {m.tx_mode} is unknown")
    found: list[Operation] = [BeginSession(channel.number, pending)]
    channel.prefetch_max = m.prefetch_max
    found += _windows(channel)
    if m.tx_mode == STANDARD:
        channel.transacted = True
        found.append(Select(channel.number, None))
    elif m.tx_mode == DISTRIBUTED:
        found += select_branches(channel, None)
    return found


def _windows(channel: Channel, leaving: bool = False) -> list[Operation]:
    """Prefetch of each channel: its own limit, and its share of the client's limit for the
    connection. Shares are of a power of two, so that they seldom change."""
    connection, channels = channel.engine.connection, channel.engine.channels
    whole: int = connection.prefetch_max
    count, shares = len(channels) - leaving, connection.shares
    while connection.shares < count:
        connection.shares *= 2
    while connection.shares > max(1, 4 * count):
        connection.shares //= 2
    changed = [] if leaving else [channel]
    if whole and connection.shares != shares:
        changed += [c for c in channels.values() if c is not channel and c.state is states.OPEN]
    share = max(1, whole // connection.shares) if whole else 0
    found: list[Operation] = []
    for one in changed:
        limits = [limit for limit in (one.prefetch_max, share) if limit]
        if limits:
            found.append(Prefetch(one.number, None, 0, min(limits), True))
    return found


def _close_channel(channel: Channel, m: w.ChannelClose, pending: PendingReply) -> list[Operation]:
    return [*_windows(channel, leaving=True), *end_session(channel, pending)]


def _queue_or_topic(
    channel: Channel,
    pending: PendingReply,
    queue: Callable[[PendingReply], list[Operation]],
    topic: Callable[[PendingReply], list[Operation]],
) -> list[Operation]:
    """The operations for a queue or for a topic, by service type; "fuzzy" looks for the queue."""
    m = pending.record
    kind, name, subscription = m.service_type, m.destination, getattr(m, "subscription", "")
    if service(channel, kind) == QUEUE and subscription:
        raise channel.error(Condition.COMMAND_INVALID, "a queue has no subscriptions")
    if not name and not (kind == TOPIC and subscription):
        raise channel.error(Condition.COMMAND_INVALID, "the destination is empty")
    if kind == QUEUE:
        return queue(pending)
    if kind == TOPIC:
        return topic(pending)
    found = pending._replace(then=lambda state: (topic if state is None else queue)(pending))
    return [FindQueue(channel.number, found, name)]


def _unless_foreign(
    channel: Channel, pending: PendingReply, name: str, wanted: Callable[[], list[Operation]]
) -> list[Operation]:
    """The operations ``wanted`` on a queue, unless it is another client's private one."""

    def then(state: FoundQueue | None) -> list[Operation]:
        trouble = None if state is None else _ownership_error(channel, state)
        return wanted() if trouble is None else _failed(channel, pending, trouble)

    return [FindQueue(channel.number, pending._replace(then=then), name)]


def _ownership_error(channel: Channel, state: FoundQueue) -> PeerError | None:
    """The error if a queue is another client's private one."""
    owner, connection = state.arguments.get(OWNER), channel.engine.connection
    user = state.arguments.get(OWNING_USER, connection.user)
    if owner is None or (owner == connection.client_id and user == connection.user):
        return None
    return channel.error(Condition.ACCESS_REFUSED, f"'{state.name[:80]}' is another client's")


def _failed(channel: Channel, pending: PendingReply, error: PeerError) -> list[Operation]:
    """A request turns out to be wrong only when something has been found out about it."""
    channel.mark_failed()
    token = pending._replace(then=None)
    return [SessionLost(channel.number, error.condition, error.text, token)]


def _declaration(
    channel: Channel,
    token: PendingReply | None,
    name: str,
    private: bool,
    auto_cancel: bool,
    template: str = "",
) -> DeclareQueue:
    """A queue for a destination or subscription. One that is private belongs to the client's
    identifier and outlives the connection, unless it is temporary."""
    if private and auto_cancel:
        return DeclareQueue(
            channel.number, token, name, exclusive=True, auto_delete=True, levels=DRAFT_LEVELS,
            template=template,
        )  # fmt: skip
    connection = channel.engine.connection
    owner = {OWNER: connection.client_id, OWNING_USER: connection.user} if private else {}
    return DeclareQueue(
        channel.number, token, name, durable=True, auto_delete=auto_cancel, arguments=owner,
        levels=DRAFT_LEVELS, template=template,
    )  # fmt: skip


def _define(channel: Channel, m: w.DestinationDefine, pending: PendingReply) -> list[Operation]:
    """An existing destination stays as it is (destination.define)."""
    channel.ticket(m.ticket, "dynamic")
    number, name = channel.number, m.destination
    if service(channel, m.service_type, (QUEUE, TOPIC)) == TOPIC:
        return _send(channel, w.DestinationDefineOk(name or f"topic-{secrets.token_hex(8)}", 0))
    made = _declaration(channel, pending, name, m.private, m.auto_cancel, m.template)
    if not name:
        return [made]

    def then(state: FoundQueue | None) -> list[Operation]:
        if state is None:
            return [made]
        trouble = _ownership_error(channel, state) if m.private else None
        if trouble is not None:
            return _failed(channel, pending, trouble)
        return [DeclareQueue(number, pending, name, passive=True)]

    return [FindQueue(number, pending._replace(then=then), name)]


def _query(channel: Channel, m: w.DestinationQuery, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket)
    return _queue_or_topic(
        channel,
        pending,
        lambda token: [DeclareQueue(channel.number, token, m.destination, passive=True)],
        lambda token: _send(channel, w.DestinationQueryOk(TOPIC, m.destination, 0, 0, 0)),
    )


def _purge(channel: Channel, m: w.DestinationPurge, pending: PendingReply) -> list[Operation]:
    """A topic holds nothing, but its subscriptions do (§4.5.5)."""
    channel.ticket(m.ticket, "purge")
    return _queue_or_topic(
        channel,
        pending,
        lambda token: [PurgeQueue(channel.number, token, m.destination)],
        lambda token: [PurgeTopic(channel.number, token, m.destination)],
    )


def _cancel_destination(
    channel: Channel, m: w.DestinationCancel, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket, "dynamic", "purge")
    return _queue_or_topic(
        channel,
        pending,
        lambda token: _deleted(channel, token, m.destination, m.ifempty),
        lambda token: [CancelTopic(channel.number, token, m.destination, m.ifempty)],
    )


def _deleted(channel: Channel, pending: PendingReply, name: str, if_empty: bool) -> list[Operation]:
    """Cancelling a missing destination costs the connection (§4.5.7, §4.6.7)."""

    def then(state: FoundQueue | None) -> list[Operation]:
        if state is None:
            number, text = pending.method.number, f"'{name[:80]}' is not there"
            error = PeerError(Condition.NOT_FOUND, text, Lost.CONNECTION, number)
            return channel.engine.life.violated(error)
        return [DeleteQueue(channel.number, pending, name, False, if_empty)]

    return [FindQueue(channel.number, pending._replace(then=then), name)]


def _bound(channel: Channel, m: w.SubscriptionDefine) -> tuple[str, Table]:
    """Key and arguments of a new subscription's binding to ``amq.topic``. May raise."""
    text, kind = m.topic_selector, m.topic_seltype
    arguments: Table = {}
    if not text:
        raise channel.error(Condition.COMMAND_INVALID, "the topic selector is empty")
    if kind == REGEXP:
        try:
            Expression(text)
        except NoExpressions as error:
            raise channel.error(Condition.NOT_IMPLEMENTED, str(error)) from error
        except ExpressionError as error:
            raise channel.error(Condition.COMMAND_INVALID, f"topic selector: {error}") from error
        arguments["x-regexp"] = True
    elif kind not in (0, SIMPLE, TPATH):
        raise channel.error(Condition.COMMAND_INVALID, f"topic selector type {kind} is unknown")
    wanted = _selector(channel, m.message_selector, m.message_seltype)
    if wanted is not None:
        arguments["x-selector"] = wanted.text
    return text.replace("/", ".") if kind == TPATH else text, arguments


def _defined(m: w.SubscriptionDefine, state: FoundQueue) -> None:
    """The answer tells the topic selector that there is."""
    for source, key, arguments in state.bindings:
        if source == TOPICS:
            m.topic_selector = key
            m.topic_seltype = REGEXP if arguments.get("x-regexp") is True else SIMPLE
            return


def _selector(channel: Channel, text: bytes, kind: int) -> Selector | None:
    """A message selector. Both types are conditions as JMS has them: the simple one, which every
    server should have, is described nowhere."""
    if not text:
        return None
    if kind not in (1, 2):
        raise channel.error(Condition.COMMAND_INVALID, f"message selector type {kind} is unknown")
    try:
        return Selector(text.decode("utf-8", "replace"))
    except SelectorError as error:
        raise channel.error(Condition.COMMAND_INVALID, f"message selector: {error}") from error


def _subscribe(channel: Channel, m: w.SubscriptionDefine, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "subscribe", "dynamic")
    number = channel.number
    name = m.subscription or f"~{secrets.token_hex(8)}"
    queue = SUBSCRIPTION + name
    m.subscription = name
    try:
        key, arguments = _bound(channel, m)
        wrong = None
    except PeerError as error:
        wrong = error  # which does not matter if the subscription is there

    def then(state: FoundQueue | None) -> list[Operation]:
        trouble = wrong
        if state is not None:
            trouble = _ownership_error(channel, state) if m.private else None
        if trouble is not None:
            return _failed(channel, pending, trouble)
        if state is not None:
            _defined(m, state)
            return [DeclareQueue(number, pending, queue, passive=True)]
        return [
            _declaration(channel, None, queue, m.private, m.auto_cancel, m.template),
            Bind(number, pending, queue, TOPICS, key, arguments),
        ]

    return [FindQueue(number, pending._replace(then=then), queue)]


def _query_subscription(
    channel: Channel, m: w.SubscriptionQuery, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket)
    return [DeclareQueue(channel.number, pending, SUBSCRIPTION + m.subscription, passive=True)]


def _purge_subscription(
    channel: Channel, m: w.SubscriptionPurge, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket, "purge")
    return [PurgeQueue(channel.number, pending, SUBSCRIPTION + m.subscription)]


def _cancel_subscription(
    channel: Channel, m: w.SubscriptionCancel, pending: PendingReply
) -> list[Operation]:
    channel.ticket(m.ticket, "dynamic", "purge")
    return _deleted(channel, pending, SUBSCRIPTION + m.subscription, m.ifempty)


def _consume(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "consume", "subscribe")
    group, number = group_of(pending.method), channel.number
    # "The server MUST ignore the message-selector field when a client consumes from a
    # subscription" (§4.7.1).
    text = b"" if m.subscription else getattr(m, "message_selector", b"")
    wanted = _selector(channel, text, getattr(m, "message_seltype", 0))
    arguments: Table = {STREAMS: True} if group == "stream" else {}
    no_ack = getattr(m, "auto_ack", True)
    pace = pace_of(m)
    credit = 1 if pace else getattr(m, "auto_cancel", 0) or None
    tag = channel.next_tag()

    def started(token: PendingReply, queue: str, name: str, keyed: bool) -> list[Operation]:
        channel.consume(Consumer(group, name, tag, str(tag), keyed, pace=pace))
        matches = None if keyed or wanted is None else wanted.matches
        limit = Prefetch(number, None, m.prefetch_count, m.prefetch_size)
        subscribe = Subscribe(
            number, token, queue, str(tag), no_ack, m.exclusive, m.no_local, arguments,
            filter=matches, credit=credit,
        )  # fmt: skip
        return [limit, subscribe]

    def queue(token: PendingReply) -> list[Operation]:
        name = m.destination
        return _unless_foreign(channel, token, name, lambda: started(token, name, name, False))

    def topic(token: PendingReply) -> list[Operation]:
        if m.subscription:
            name = SUBSCRIPTION + m.subscription
            return _unless_foreign(
                channel, token, name, lambda: started(token, name, m.subscription, True)
            )
        name = f"{SUBSCRIPTION}~{secrets.token_hex(8)}"
        chosen = {} if wanted is None else {"x-selector": wanted.text}
        return [
            _declaration(channel, None, name, True, True),
            Bind(number, None, name, TOPICS, m.destination, chosen),
            *started(token, name, m.destination, True),
        ]

    return _queue_or_topic(channel, pending, queue, topic)


def _cancel(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    tag = str(m.consumer_tag)
    channel.consumers.pop(tag, None)
    return [Unsubscribe(channel.number, None, tag)]


def _browse(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    channel.ticket(m.ticket, "consume", "subscribe")
    empty = w.JmsBrowseEmpty if group_of(pending.method) == "jms" else w.FileBrowseEmpty

    def taken(token: PendingReply, name: str) -> list[Operation]:
        fetch = Fetch(channel.number, token, name, m.auto_ack)
        return _unless_foreign(channel, token, name, lambda: [fetch])

    def topic(token: PendingReply) -> list[Operation]:
        if not m.subscription:
            return _send(channel, empty())
        return taken(token, SUBSCRIPTION + m.subscription)

    return _queue_or_topic(channel, pending, lambda token: taken(token, m.destination), topic)


REQUEST_HANDLERS: dict[str, Any] = {
    **shared_methods.REQUEST_HANDLERS,
    "channel.open": _open_channel,
    "channel.close": _close_channel,
    "access.grant": lambda channel, m, pending: enter_realm(
        channel, m, pending, RIGHTS, w.AccessGrantOk
    ),
    "destination.define": _define,
    "destination.query": _query,
    "destination.purge": _purge,
    "destination.cancel": _cancel_destination,
    "subscription.define": _subscribe,
    "subscription.query": _query_subscription,
    "subscription.purge": _purge_subscription,
    "subscription.cancel": _cancel_subscription,
    **{f"{group}.consume": _consume for group in GROUPS},
    **{f"{group}.cancel": _cancel for group in GROUPS},
    **{f"{group}.browse": _browse for group in ("jms", "file")},
    "tx.abort": lambda channel, m, pending: [Rollback(channel.number, pending)],
}


def _browsed(channel: Channel, m: Any, fetched: Fetched | None) -> Record | OutgoingMethod:
    jms = isinstance(m, w.JmsBrowse)
    if fetched is None:
        return w.JmsBrowseEmpty() if jms else w.FileBrowseEmpty()
    message = fetched.message
    name = message.key if m.subscription else m.destination
    record: Any = w.JmsBrowseOk if jms else w.FileBrowseOk
    method = record(fetched.delivery, fetched.redelivered, name, fetched.remaining)
    return OutgoingMethod(method, content_of(channel, "jms" if jms else "file", message))


REPLY_ENCODERS: dict[str, Any] = {
    "destination.define": lambda channel, m, state: w.DestinationDefineOk(
        state.name, state.messages
    ),
    "destination.query": lambda channel, m, state: w.DestinationQueryOk(
        QUEUE, state.name, state.messages, state.consumers, 0
    ),
    "destination.purge": lambda channel, m, count: w.DestinationPurgeOk(count or 0),
    "destination.cancel": lambda channel, m, count: w.DestinationCancelOk(count or 0),
    "subscription.define": lambda channel, m, state: w.SubscriptionDefineOk(
        m.subscription,
        m.topic_selector,
        m.topic_seltype,
        state.messages if isinstance(state, QueueState) else 0,
    ),
    "subscription.query": lambda channel, m, state: w.SubscriptionQueryOk(
        m.subscription, state.messages, state.consumers
    ),
    "subscription.purge": lambda channel, m, count: w.SubscriptionPurgeOk(count or 0),
    "subscription.cancel": lambda channel, m, count: w.SubscriptionCancelOk(count or 0),
    **{f"{group}.consume": consume_ok for group in GROUPS},
    "jms.browse": _browsed,
    "file.browse": _browsed,
}
