"""Performs the operations of adapters with handles (0.8a2 §3.5), for one session.

A prefetch window is kept as credit of its consumer. An acknowledgement returns credit at once, also
before a commit, or a client with a window of one message could never reach its commit.
"""

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from gateway.broker.browsing import Place, at
from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import (
    Acknowledge,
    Browse,
    CloseDestination,
    Continue,
    EndSubscription,
    GiveBack,
    Index,
    Listen,
    Looked,
    OpenDestination,
    Outcome,
    PauseHandle,
    Prepare,
    Query,
    SendMany,
    SendTo,
    Service,
)
from gateway.selector import Selector
from gateway.selector.like import EFFORT, MOST_STEPS
from gateway.sessions.addresses import TOPICS
from gateway.sessions.context import SessionContext
from gateway.sessions.destinations import (
    as_request,
    check_name,
    delete_private,
    make_temporary,
    matching_queues,
    need_prefix,
    no_destination,
    private_queue,
    read_selector,
    subscribe,
    subscription_name,
    temporary_name,
    to_all,
)
from gateway.sessions.long_requests import LongRequests
from gateway.sessions.publishes import Publishes
from gateway.sessions.replies import Replies
from gateway.sessions.staging import StagedMessage, Staging, StagingOwner
from gateway.sessions.subscriptions import check_owner

Perform = Callable[[Channel, Any], object]

MOST_LOOKED_AT = 2048
"""The most messages that one query reads."""
LONGEST_INDEX = 1 << 16
"""The most message numbers that a handle keeps."""
MOST_CONSUMERS = 64
"""The most consumers of one handle."""
PORTION = 128
PORTION_OCTETS = 1 << 20


class Handle:
    """An open handle. ``paused_credit``: the credit of its consumers by tag while it is paused;
    ``None`` is unlimited."""

    __slots__ = (
        "channel", "service", "name", "client", "consumers", "paused", "paused_credit", "queue",
        "index", "staged", "reply_queue", "expires",
    )  # fmt: skip

    def __init__(self, channel: int, service: Service, name: str, client: str) -> None:
        self.channel = channel
        self.service = service
        self.name = name
        self.client = client
        self.consumers: dict[str, str] = {}
        """The queues of its consumers by tag."""
        self.paused = False
        self.paused_credit: dict[str, int | None] = {}
        self.queue = ""
        """The queue of ``index``."""
        self.index: list[Place] = []
        self.staged: StagedMessage | None = None
        self.expires: int | None = None
        self.reply_queue = ""
        """The private reply queue of a peer handle."""


def exchange_of(channel: Channel, handle: Handle, name: str) -> str:
    """The exchange from which a message gets to the queue or topic ``name``. Refuses (404) a queue
    that is not there."""
    if handle.service is Service.TOPIC:
        return TOPICS
    if name not in channel.vhost.queues:
        raise no_destination(name)
    return ""


class Registry(Protocol):
    """The registry of all sessions, as handles need it."""

    staging: Staging
    topics: dict[tuple[str, str], int]


class HandleOperations:
    """Handles of one connection. ``handlers`` by operation; ``topics`` are the temporary topics of
    all connections, and the numbers of those connections."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        long_requests: LongRequests,
        publishes: Publishes,
        registry: Registry,
    ) -> None:
        self._context = context
        self._replies = replies
        self._long_requests = long_requests
        self._publishes = publishes
        self._staging = registry.staging
        self._topics = registry.topics
        self._handles: dict[str, Handle] = {}
        self._credited: dict[int, set[int]] = {}
        """By channel: deliveries whose credit was returned, and that a rollback may make unsettled
        again."""
        self._own_topics: list[tuple[str, str]] = []
        self._anonymous_owners: set[StagingOwner] = set()
        """Owners of prepared messages that are dropped with the connection."""

    def handlers(self) -> dict[type[Any], Perform]:
        """By operation. Made anew for its caller: kept here, they would be a reference cycle."""
        return {
            OpenDestination: self._open,
            CloseDestination: self._close,
            SendTo: self._with_handle(self._send),
            SendMany: self.send_many,
            Listen: self._with_handle(self._listen),
            EndSubscription: self._with_handle(self._end_subscription),
            PauseHandle: self._with_handle(self._pause),
            Acknowledge: self._acknowledge,
            GiveBack: self._give_back,
            Query: self._with_handle(self._query),
            Browse: self._with_handle(self._browse),
            Prepare: self._with_handle(self._prepare),
            Continue: self._with_handle(self._continue),
        }

    def _with_handle(self, perform: Callable[[Channel, Any, Handle], None]) -> Perform:
        """No-op for a handle that is closed."""

        def perform_open(channel: Channel, op: Any) -> None:
            handle = self._handles.get(op.link)
            if handle is not None:
                perform(channel, op, handle)

        return perform_open

    # --- open and close -------------------------------------------------------------------------

    def _open(self, channel: Channel, op: OpenDestination) -> None:
        name = check_name(op.name)
        made = ""
        if op.temporary and op.service is Service.TOPIC:
            made = name = self._own_topic(channel, name)
        elif op.temporary:
            made = name = make_temporary(channel, name)
        elif op.service is not Service.TOPIC:
            need_prefix(channel.vhost, name)
        handle = Handle(op.channel, op.service, name, op.client)
        if op.service is Service.PEER:
            handle.reply_queue = private_queue(channel)
            tag = op.link
            channel.subscribe(handle.reply_queue, tag, no_ack=True)
            handle.consumers[tag] = handle.reply_queue
        self._handles[op.link] = handle
        then = partial(channel.start, op.link) if handle.consumers else None
        self._replies.answer_when_safe(op.channel, op.token, made, then)

    def _own_topic(self, channel: Channel, name: str) -> str:
        """Make a topic that only this connection may subscribe to."""
        name = name or temporary_name(channel.vhost)
        key = (channel.vhost.name, name)
        if self._topics.setdefault(key, self._context.number) != self._context.number:
            raise Refusal(Condition.ACCESS_REFUSED, f"'{name}' is not a topic of this client")
        if key not in self._own_topics:
            self._own_topics.append(key)
        return name

    def _close(self, channel: Channel, op: CloseDestination) -> None:
        self.drop(channel, op.link)
        self._replies.answer(op.channel, op.token)

    def drop(self, channel: Channel, link: str) -> None:
        """Drop a handle that its client or a refusal has closed."""
        handle = self._handles.pop(link, None)
        if handle is None:
            return
        for tag in handle.consumers:
            channel.unsubscribe(tag)
        if handle.reply_queue:
            delete_private(channel, handle.reply_queue)
        if handle.staged is not None:
            self._staging.leave(handle.staged)

    def channel_ended(self, number: int, channel: Channel | None) -> None:
        """Drop the handles of a closed channel; the broker ends their consumers."""
        for link in [link for link, handle in self._handles.items() if handle.channel == number]:
            handle = self._handles.pop(link)
            if handle.staged is not None:
                self._staging.leave(handle.staged)
            if handle.reply_queue and channel is not None:
                delete_private(channel, handle.reply_queue)
        self._credited.pop(number, None)

    def closed(self) -> None:
        """Drop everything of the connection."""
        for number in {handle.channel for handle in self._handles.values()}:
            self.channel_ended(number, self._context.channels.get(number))
        for key in self._own_topics:
            self._topics.pop(key, None)
        for owner in self._anonymous_owners:
            self._staging.forget(owner)

    # --- sending --------------------------------------------------------------------------------

    def _send(self, channel: Channel, op: SendTo, handle: Handle) -> None:
        self._publish(channel, handle, op.name, op.message, op.expires)
        self._sent(op, "")

    def send_many(self, channel: Channel, op: SendMany, until: float = math.inf) -> bool:
        """Send these messages, or as many as there is time for: true if some are left for another
        time slice. They are addressed in place. Refuses the first that is left with 403, 404 or
        406. Hot."""
        handle = self._handles.get(op.link)
        if handle is None:
            return False
        full = check_name(handle.name + op.name)
        messages = op.many.messages
        if handle.service is Service.PEER or not full:
            while messages:
                self._publish(channel, handle, op.name, messages.pop(0), None)
                if perf_counter() > until:
                    break
            return bool(messages)
        exchange = exchange_of(channel, handle, full)
        for message in messages:
            message.exchange, message.key = exchange, full
        return self._publishes.many(channel, op.many, until, op)

    def _sent(self, op: SendTo | Continue, result: str) -> None:
        if op.answered:
            self._replies.answer_when_safe(op.channel, op.token, result, holds=False)

    def _publish(
        self, channel: Channel, handle: Handle, name: str, message: Message, expires: int | None
    ) -> None:
        """Publish a message, which is addressed in place if it goes to one queue or topic. Refuses
        with 403, 404 or 406. Hot."""
        self._context.publisher = True
        full = check_name(handle.name + name)
        if expires is not None:
            ttl = max(0, expires - channel.broker.state.now)
            message.essentials = message.essentials._replace(ttl=ttl)
        if handle.service is Service.PEER or not full:
            self._publish_copies(channel, handle, full, message)
            return
        message.exchange, message.key = exchange_of(channel, handle, full), full
        channel.publish_path.publish(message)

    def _publish_copies(
        self, channel: Channel, handle: Handle, full: str, message: Message
    ) -> None:
        """Publish a request to a peer, or a message to all topics or queues."""
        if handle.service is Service.TOPIC:
            channel.publish(to_all(channel, message))
            return
        for queue in matching_queues(channel.vhost, full):
            posted = message.routed_as("", queue)
            if handle.service is Service.PEER:
                posted = as_request(posted, handle.reply_queue)
            channel.publish(posted)

    def _prepare(self, channel: Channel, op: Prepare, handle: Handle) -> None:
        if handle.staged is not None:
            self._staging.leave(handle.staged)
            handle.staged = None
        context = self._context
        most = channel.broker.state.limits.max_message
        if most is not None and op.size > most:
            raise Refusal(Condition.CONTENT_TOO_LARGE, f"a message has {most} octets at most")
        owner = (context.vhost, context.user, handle.client or f"#{context.number}")
        if not handle.client:
            self._anonymous_owners.add(owner)
        lasting = bool(handle.client)
        handle.staged = self._staging.begin(owner, op.message, op.size, op.digest, lasting)
        handle.expires = op.expires
        self._replies.answer(op.channel, op.token, handle.staged.item.have)

    def _continue(self, channel: Channel, op: Continue, handle: Handle) -> None:
        staged = handle.staged
        if staged is None:
            raise Refusal(Condition.COMMAND_INVALID, "nothing was prepared")
        try:
            self._staging.extend(staged, op.octets)
        except Refusal:
            handle.staged = None
            raise
        if not op.last:
            return
        handle.staged = None
        body = self._staging.finish(staged)
        if isinstance(body, str):
            self._replies.answer(op.channel, op.token, body)
            return
        old = staged.message
        message = Message(old.dialect, old.header, body, "", "", old.essentials)
        self._publish(channel, handle, op.name, message, handle.expires)
        self._sent(op, "")

    # --- receiving ------------------------------------------------------------------------------

    def _listen(self, channel: Channel, op: Listen, handle: Handle) -> None:
        if len(handle.consumers) >= MOST_CONSUMERS:
            raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST_CONSUMERS} subscriptions")
        selector = read_selector(op.selector, op.selector_type)
        full = check_name(handle.name + op.name)
        topic = handle.service is Service.TOPIC
        queue, looks = full, True
        if topic:
            queue, looks = self._subscription(channel, handle, full, op, selector)
        window = None if op.no_ack else max(1, op.window)
        channel.subscribe(
            queue,
            op.tag,
            no_ack=op.no_ack,
            no_local=topic and op.no_local,
            matches=selector.matches if looks and selector is not None else None,
            credit=0 if handle.paused else window,
        )
        handle.consumers[op.tag] = queue
        if handle.paused:
            handle.paused_credit[op.tag] = window
        # The first delivery must not overtake the answer.
        self._replies.answer(op.channel, op.token, full, partial(channel.start, op.tag))

    def _subscription(
        self, channel: Channel, handle: Handle, name: str, op: Listen, selector: Selector | None
    ) -> tuple[str, bool]:
        owner = self._topics.get((channel.vhost.name, name))
        if owner not in (None, self._context.number):
            raise Refusal(Condition.ACCESS_REFUSED, f"'{name}' is a topic of another client")
        if owner is not None and op.identifier:
            raise Refusal(Condition.NOT_ALLOWED, "no durable subscription to a temporary topic")
        return subscribe(channel, name, handle.client, op.identifier, selector)

    def _end_subscription(self, channel: Channel, op: EndSubscription, handle: Handle) -> None:
        name = subscription_name(channel, handle.client, op.identifier)
        found = channel.vhost.queues.get(name)
        if found is None:
            raise Refusal(Condition.NOT_FOUND, f"no subscription '{op.identifier}'")
        channel.permissions.need("configure", "queue", name)
        check_owner(channel, name, handle.client)
        for other in self._handles.values():
            where = self._context.channels.get(other.channel)
            for tag in [tag for tag, queue in other.consumers.items() if queue == name]:
                del other.consumers[tag]
                if where is not None:
                    where.unsubscribe(tag)
        channel.vhost.remove_queue(found)
        self._replies.answer_when_safe(op.channel, op.token)

    def _pause(self, channel: Channel, op: PauseHandle, handle: Handle) -> None:
        if op.paused is not handle.paused:
            handle.paused = op.paused
            if op.paused:
                for tag in handle.consumers:
                    consumer = channel.window.consumers.get(tag)
                    handle.paused_credit[tag] = None if consumer is None else consumer.credit
                    channel.credit(tag, 0)
        self._replies.answer(op.channel, op.token)
        if not op.paused and handle.paused_credit:
            credit, handle.paused_credit = handle.paused_credit, {}
            for tag, count in credit.items():
                channel.credit(tag, count)

    def _acknowledge(self, channel: Channel, op: Acknowledge) -> None:
        credited = self._credited.setdefault(op.channel, set())
        credited.intersection_update(channel.window.unsettled)
        last = 0
        returned: dict[str, int] = {}
        for number, entry in channel.window.unsettled.items():
            if number > op.up_to:
                break
            last = number
            if entry.consumer is not None and number not in credited:
                returned[entry.consumer.tag] = returned.get(entry.consumer.tag, 0) + 1
            if channel.transactions.own is not None:
                credited.add(number)

        def add_credit() -> None:
            for tag, count in returned.items():
                self._add_credit(channel, tag, count)

        steps = channel.settlements.settling(last, Outcome.ACCEPT) if last else None
        if steps is not None:
            self._long_requests.undertake(channel, op, steps, atomic=False, then=add_credit)
            return
        self._replies.answer(op.channel, op.token)
        add_credit()

    def _add_credit(self, channel: Channel, tag: str, count: int) -> None:
        """Give a consumer more credit."""
        handle = self._handles.get(tag.partition("/")[0])
        if handle is not None and tag in handle.paused_credit:
            have = handle.paused_credit[tag]
            handle.paused_credit[tag] = None if have is None else have + count
            return
        consumer = channel.window.consumers.get(tag)
        if consumer is not None and consumer.credit is not None:
            channel.credit(tag, consumer.credit + count)

    def _give_back(self, channel: Channel, op: GiveBack) -> None:
        """Requeue at once, also within a transaction, so that another consumer gets the message."""
        entry = channel.window.unsettled.pop(op.delivery, None)
        if entry is None:
            self._replies.answer(op.channel, op.token, False)
            return
        consumer = entry.consumer
        channel.settlements.conclude([(entry, Outcome.RELEASE)])
        self._replies.answer(op.channel, op.token, True)
        if consumer is not None and op.delivery not in self._credited.get(op.channel, ()):
            self._add_credit(channel, consumer.tag, 1)

    # --- looking --------------------------------------------------------------------------------

    def _query(self, channel: Channel, op: Query, handle: Handle) -> None:
        selector = read_selector(op.selector, op.selector_type)
        queue = check_name(handle.name + op.name)
        if handle.service is Service.TOPIC:
            # Messages of a topic are in the queue of our subscription to it.
            queue = next(iter(handle.consumers.values()), "")
        if queue != handle.queue or not op.start:
            handle.index, handle.queue = [], queue
        del handle.index[op.start :]
        found = Index([])
        if queue or handle.service is not Service.TOPIC:
            found = self._look(channel, handle, op.start, selector)
        self._replies.answer(op.channel, op.token, found)

    def _look(self, channel: Channel, handle: Handle, start: int, selector: Any) -> Index:
        channel.permissions.need("read", "queue", handle.queue)
        channel.vhost.queue(handle.queue, channel.client)
        index, numbers = handle.index, []
        end = EFFORT.steps + MOST_STEPS
        for _ in range(MOST_LOOKED_AT // PORTION):
            after = index[-1] if index else None
            seen = channel.browse(handle.queue, after, PORTION, PORTION_OCTETS)
            for message in seen:
                if len(index) >= start and (selector is None or selector.matches(message.message)):
                    numbers.append(len(index))
                message.message.forget_properties()
                index.append(message.place)
                if EFFORT.steps > end and len(index) > 1:
                    return Index(numbers, len(index) - 1)
            if not seen:
                return Index(numbers)
            if len(index) > LONGEST_INDEX:
                raise Refusal(Condition.RESOURCE_ERROR, f"more than {LONGEST_INDEX} messages")
        return Index(numbers, len(index) - 1)

    def _browse(self, channel: Channel, op: Browse, handle: Handle) -> None:
        looked = None
        queue = channel.vhost.queues.get(handle.queue)
        if queue is not None and op.number < len(handle.index):
            message = at(channel.readable(handle.queue), handle.index[op.number])
            if message is not None:
                looked = Looked(op.number, handle.queue, message)
        self._replies.answer(op.channel, op.token, looked)
