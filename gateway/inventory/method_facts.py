"""Facts in methods of the class-and-method family about their client and its nodes.

Versions share names of methods and fields; where one has another word, the handler knows both.
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain, islice
from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.methods.drafts.connection import plain_response
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.inventory.contents import content_of
from gateway.inventory.counts import Remembered, Share
from gateway.inventory.inventory import NodeEntry
from gateway.inventory.observer import (
    ADDRESS,
    EXCHANGE,
    MOST_ARGUMENTS,
    QUEUE,
    Content,
    Observer,
)
from gateway.message import Table

QUEUES_0_9A6 = "queue"
"""The exchange of 0-9a6 that routes to queues by their names, as that without a name does later."""

QUEUE_ARGUMENTS = {
    "x-message-ttl": "queue-message-ttl", "x-expires": "queue-expires",
    "x-dead-letter-exchange": "dead-letter-exchange",
    "x-dead-letter-routing-key": "dead-letter-exchange", "x-max-length": "queue-length-limit",
    "x-max-length-bytes": "queue-length-limit", "x-overflow": "queue-overflow",
    "x-max-priority": "priority-queue", "x-queue-mode": "lazy-queue",
    "x-queue-master-locator": "queue-master-locator", "x-ha-policy": "mirrored-queue",
    "x-single-active-consumer": "single-active-consumer", "x-delivery-limit": "delivery-limit",
    "x-queue-leader-locator": "quorum-or-stream-queue",
    "qpid.last_value_queue": "last-value-queue", "qpid.last_value_queue_key": "last-value-queue",
    "qpid.last_value_queue_no_browse": "last-value-queue",
    "qpid.priorities": "priority-queue", "x-qpid-priorities": "priority-queue",
    "qpid.group_header_key": "message-group", "qpid.shared_msg_group": "message-group",
    "qpid.max_count": "queue-length-limit", "qpid.max_size": "queue-length-limit",
    "qpid.auto_delete_timeout": "queue-expires", "x-qpid-maximum-message-count":
    "queue-length-limit", "qpid.browse-only": "browse",
}  # fmt: skip
CONSUMER_ARGUMENTS = {
    "x-priority": "consumer-priority", "x-stream-offset": "stream-offset",
    "x-stream-filter": "stream-filter", "x-filter-jms-selector": "selector",
    "x-cancel-on-ha-failover": "mirrored-queue",
}  # fmt: skip
STANDARD_TYPES = frozenset(["direct", "fanout", "topic"])


def queue_arguments(arguments: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """The features that arguments of a queue mean, with details."""
    found = []
    for name, value in islice(arguments.items(), MOST_ARGUMENTS):
        if name == "x-queue-type":
            if value in ("quorum", "stream"):
                found.append(("quorum-or-stream-queue", str(value)))
        elif name == "qpid.policy_type":
            kind = "ring-queue" if str(value).startswith("ring") else "queue-overflow"
            found.append((kind, str(value)))
        else:
            known = QUEUE_ARGUMENTS.get(name) if isinstance(name, str) else None
            found.append((known or "queue-argument-other", str(name)))
    return found


@cache
def contents_of(version: str, group: str) -> BoundedCache[bytes, Content]:
    """Counted facts of properties, by their octets, for all connections of a version."""
    return BoundedCache(1_024)


class Consumers:
    """The nodes of a connection's consumers, by channel and tag."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._channels: dict[int, Remembered[str, NodeEntry]] = {}

    def add(self, channel: int, tag: str, node: NodeEntry) -> None:
        tags = self._channels.get(channel)
        if tags is None:
            if not self._share.take():
                return
            tags = self._channels[channel] = Remembered(self._share)
        tags.put(tag, node)

    def get(self, channel: int, tag: str) -> NodeEntry | None:
        tags = self._channels.get(channel)
        return None if tags is None else tags.get(tag)

    def remove(self, channel: int, tag: str) -> NodeEntry | None:
        tags = self._channels.get(channel)
        return None if tags is None else tags.drop(tag)

    def close(self, channel: int) -> None:
        tags = self._channels.pop(channel, None)
        if tags is not None:
            tags.drop_all()
            self._share.give()


class MethodFacts:
    """Both directions of one connection."""

    def __init__(
        self, observer: Observer, read_table: Callable[[bytes], Table], version: str
    ) -> None:
        self._observer = observer
        self._read_table = read_table
        self._version = version
        self.share = share = observer.share
        self._named_by_broker: Remembered[int, None] = Remembered(share)
        """Channels on which a queue without a name is being declared."""
        self._last_queue: Remembered[int, str] = Remembered(share)
        self._consumers = Consumers(share)
        self._polled: Remembered[int, NodeEntry] = Remembered(share)
        self._prefetch: Remembered[int, None] = Remembered(share)
        """Channels with a prefetch limit."""

    def too_large(self, kind: str) -> None:
        """A frame that is not decoded because of its size."""
        self._observer.feature("frame-too-large-to-decode", detail=kind)

    def unknown(self, group: int, number: int) -> None:
        """A method that the version does not have."""
        self._observer.feature("unknown-method", detail=f"{self._version} {group},{number}")

    def method(self, from_client: bool, channel: int, name: str, record: Any) -> None:
        handlers = FROM_CLIENT if from_client else FROM_SERVER
        handler = handlers.get(name)
        if handler is not None:
            handler(self, channel, record)
        elif from_client:
            group = name.partition(".")[0]
            feature = METHOD_FEATURES.get(name) or CLASS_FEATURES.get(group)
            if feature is not None:
                self._observer.feature(feature, detail=name)

    # --- the connection ---------------------------------------------------------------------------

    def table(self, record: Any, name: str = "arguments") -> Table:
        """A table in a method, which some versions do not have."""
        octets = getattr(record, name, b"")
        return self._read_table(octets) if octets else {}

    def start_ok(self, channel: int, record: Any) -> None:
        self._observer.properties(self.table(record, "client_properties"))
        response = getattr(record, "response", b"")
        self._observer.mechanism(record.mechanism, self._response(response))

    def secure_ok(self, channel: int, record: Any) -> None:
        self._observer.response(self._response(record.response))

    def _response(self, response: bytes) -> bytes:
        """A response, in the drafts from the forms that are theirs."""
        if self._version not in DRAFTS:
            return response
        return plain_response(response, is_0_9a0(self._version))

    def open(self, channel: int, record: Any) -> None:
        """connection.open, with the names that the versions have for a virtual host."""
        who = self._observer.who
        for field in ("virtual_host", "virtual_path", "context_key"):
            who.vhost = who.vhost or getattr(record, field, "")
        self._observer.name(getattr(record, "client_id", ""))
        self._observer.known()

    def update_secret(self, channel: int, record: Any) -> None:
        self._observer.feature("update-secret")

    # --- topology ---------------------------------------------------------------------------------

    def declare_queue(self, channel: int, record: Any) -> None:
        observer, name = self._observer, record.queue
        if not name:
            observer.feature("server-named-queue")
            self._named_by_broker.put(channel, None)
        private = getattr(record, "private", False)
        exclusive = bool(getattr(record, "exclusive", private))
        if getattr(record, "passive", False):
            observer.feature("passive-declare")
            return
        node = observer.node(QUEUE, name) if name else None
        arguments = self.table(record)
        if exclusive:
            observer.feature("exclusive-queue", node)
        if record.auto_delete:
            observer.feature("auto-delete-queue", node)
        if not record.durable and not exclusive:
            observer.feature("transient-queue", node)
        for feature, detail in queue_arguments(arguments):
            observer.feature(feature, node, detail)
        if node is not None:
            self._last_queue.put(channel, name)
            flags = {
                "durable": record.durable, "exclusive": exclusive,
                "auto-delete": record.auto_delete,
            }  # fmt: skip
            observer.declared(node, (flag for flag, given in flags.items() if given), arguments)

    def queue_declared(self, channel: int, record: Any) -> None:
        if channel in self._named_by_broker:
            self._named_by_broker.drop(channel)
            self._observer.generated(record.queue)
            self._last_queue.put(channel, record.queue)

    def declare_exchange(self, channel: int, record: Any) -> None:
        observer = self._observer
        if getattr(record, "passive", False):
            observer.feature("passive-declare")
            return
        node = observer.node(EXCHANGE, record.exchange)
        arguments = self.table(record)
        kind = getattr(record, "type", "") or getattr(record, "class_", "")
        if kind == "headers":
            observer.feature("headers-exchange", node)
        elif kind == "x-delayed-message":
            observer.feature("delayed-message", node)
        elif kind not in STANDARD_TYPES:
            observer.feature("other-exchange-type", node, kind)
        if getattr(record, "auto_delete", False):
            observer.feature("auto-delete-exchange", node)
        if getattr(record, "internal", False):
            observer.feature("internal-exchange", node)
        alternate = getattr(record, "alternate_exchange", None)
        if alternate or "alternate-exchange" in arguments:
            observer.feature("alternate-exchange", node)
        flags = [f"type={kind}", *(["durable"] if record.durable else [])]
        observer.declared(node, flags, arguments)

    def bind_queue(self, channel: int, record: Any) -> None:
        queue = record.queue or self._last_queue.get(channel, "")
        exchange = getattr(record, "exchange", "") or getattr(record, "bind_to", "")
        node = self._observer.node(EXCHANGE, exchange)
        arguments = self.table(record)
        if arguments:
            self._observer.feature("binding-arguments", node)
        key = getattr(record, "routing_key", "")
        self._observer.bound(self._observer.node(QUEUE, queue), f"{exchange} {key}".strip())

    def bind_exchange(self, channel: int, record: Any) -> None:
        target = getattr(record, "destination", "") or getattr(record, "exchange", "")
        source = getattr(record, "source", "") or getattr(record, "bind_to", "")
        node = self._observer.node(EXCHANGE, target)
        self._observer.feature("exchange-to-exchange-binding", node)
        key = getattr(record, "routing_key", "")
        self._observer.bound(node, f"{source} {key}".strip())

    # --- messages ---------------------------------------------------------------------------------

    def target(self, record: Any, destination: str = "") -> NodeEntry:
        """The node that a message is published to: without an exchange, the queue of its key, which
        0-9a6 has as the destination in the header."""
        exchange = getattr(record, "exchange", None)
        if exchange is None:
            return self._observer.node(ADDRESS, getattr(record, "destination", ""))
        key = getattr(record, "routing_key", destination)
        if exchange and not (self._version == "0-9a6" and exchange == QUEUES_0_9A6):
            return self._observer.node(EXCHANGE, exchange)
        return self._observer.node(QUEUE, key)

    def publish(self, channel: int, record: Any) -> None:
        if getattr(record, "mandatory", False) or getattr(record, "reject_unroutable", False):
            self._observer.feature("mandatory", self.target(record))
        if getattr(record, "immediate", False):
            self._observer.feature("immediate", self.target(record))

    def source(self, channel: int, record: Any) -> NodeEntry:
        """The node that a client reads from."""
        if hasattr(record, "queue"):
            queue = record.queue or self._last_queue.get(channel, "")
            return self._observer.node(QUEUE, queue)
        return self._observer.node(ADDRESS, record.destination or record.subscription)

    def consume(self, channel: int, record: Any) -> None:
        observer = self._observer
        if getattr(record, "queue", "").startswith("amq.rabbitmq.reply-to"):
            observer.feature("direct-reply-to")
            return
        node = self.source(channel, record)
        observer.consumes(node)
        no_ack = getattr(record, "no_ack", getattr(record, "auto_ack", False))
        flags = {
            "consumer-without-ack": no_ack, "exclusive-consumer": record.exclusive,
            "no-local": record.no_local,
            "unlimited-prefetch": not no_ack and not self._limited(channel, record),
            "selector": getattr(record, "message_selector", ""),
        }  # fmt: skip
        for feature, used in flags.items():
            if used:
                observer.feature(feature, node)
        arguments = chain(self.table(record), self.table(record, "filter"))
        for name in islice(arguments, MOST_ARGUMENTS):
            known = CONSUMER_ARGUMENTS.get(name) if isinstance(name, str) else None
            observer.feature(known or "consumer-argument-other", node, str(name))
        tag = getattr(record, "consumer_tag", getattr(record, "destination", ""))
        # A tag that the broker chooses comes with consume-ok; until then it is empty.
        self._consumers.add(channel, tag, node)

    def _limited(self, channel: int, record: Any) -> bool:
        limits = self._prefetch
        return 0 in limits or channel in limits or getattr(record, "prefetch_count", 0) > 0

    def consume_ok(self, channel: int, record: Any) -> None:
        node = self._consumers.remove(channel, "")
        if node is not None:
            self._consumers.add(channel, record.consumer_tag, node)

    def cancel(self, channel: int, record: Any) -> None:
        tag = getattr(record, "consumer_tag", getattr(record, "destination", ""))
        self._consumers.remove(channel, tag)

    def get(self, channel: int, record: Any) -> None:
        node = self.source(channel, record)
        self._observer.feature("basic-get", node)
        self._observer.consumes(node)
        self._polled.put(channel, node)

    def qos(self, channel: int, record: Any) -> None:
        if record.global_:
            self._observer.feature("global-qos", detail=str(record.prefetch_count))
        if record.prefetch_size:
            self._observer.feature("prefetch-size", detail=str(record.prefetch_size))
        if record.prefetch_count:
            self._prefetch.put(channel, None)
            self._observer.feature("prefetch", detail=str(record.prefetch_count))

    def close_channel(self, channel: int, record: Any) -> None:
        self._prefetch.drop(channel)
        self._named_by_broker.drop(channel)
        self._last_queue.drop(channel)
        self._polled.drop(channel)
        self._consumers.close(channel)

    def returned(self, channel: int, record: Any) -> None:
        self._observer.feature("returned-message", self.target(record))

    def transfer_in(self, channel: int, record: Any) -> None:
        """message.transfer of the client (transitional 0-10), a message in one method."""
        self.publish(channel, record)
        self._observer.published(self.target(record), len(record.body), self._transferred(record))

    def transfer_out(self, channel: int, record: Any) -> None:
        node = self._consumers.get(channel, record.destination)
        self._observer.delivered(node, len(record.body), self._transferred(record))

    def _transferred(self, record: Any) -> Content:
        return self.content_of(record, self.table(record, "application_headers"))

    def content(
        self,
        from_client: bool,
        channel: int,
        name: str,
        record: Any,
        size: int,
        octets: bytes,
        read: Callable[[], Any],
    ) -> None:
        """The header of a message, whose method came before."""
        known = contents_of(self._version, name.partition(".")[0])
        content = known.get(octets)
        if content is None:
            properties = read()
            content = self.content_of(properties, self.table(properties, "headers"))
            known.keep(octets, content)
        if from_client:
            self._observer.published(self.target(record, content.destination), size, content)
        elif name.endswith(".return"):
            pass
        elif name.endswith((".get-ok", ".browse-ok")):
            self._observer.delivered(self._polled.get(channel), size, content)
        else:
            tag = getattr(record, "consumer_tag", "")
            node = self._consumers.get(channel, tag)
            if node is None and hasattr(record, "queue"):
                node = self._observer.node(QUEUE, record.queue)
            self._observer.delivered(node, size, content)

    def content_of(self, properties: Any, headers: Table) -> Content:
        def given(name: str) -> Any:
            return getattr(properties, name, None)

        content = content_of(
            headers,
            durable=given("delivery_mode") == 2,
            priority=given("priority") or 0,
            expires=bool(given("expiration") or given("ttl")),
            content_type=given("content_type"),
            content_encoding=given("content_encoding"),
            reply_to=given("reply_to") or "",
            others={
                "user-id": given("user_id"),
                "app-id": given("app_id"),
                "message-type": given("type"),
                "cluster-id": given("cluster_id"),
                "timestamp": given("timestamp"),
            },
        )
        destination = given("destination")
        return content._replace(destination=destination) if destination else content


Handler = Callable[[MethodFacts, int, Any], None]
FROM_CLIENT: dict[str, Handler] = {
    "connection.start-ok": MethodFacts.start_ok,
    "connection.secure-ok": MethodFacts.secure_ok,
    "connection.open": MethodFacts.open,
    "connection.update-secret": MethodFacts.update_secret,
    "channel.close": MethodFacts.close_channel,
    "queue.declare": MethodFacts.declare_queue,
    "exchange.declare": MethodFacts.declare_exchange,
    "queue.bind": MethodFacts.bind_queue,
    "exchange.bind": MethodFacts.bind_exchange,
    "message.transfer": MethodFacts.transfer_in,
    "message.consume": MethodFacts.consume,
    "message.cancel": MethodFacts.cancel,
    "message.get": MethodFacts.get,
    "message.qos": MethodFacts.qos,
}
FROM_SERVER: dict[str, Handler] = {
    "queue.declare-ok": MethodFacts.queue_declared,
    "channel.close": MethodFacts.close_channel,
    "message.transfer": MethodFacts.transfer_out,
}
for _group in ("basic", "jms", "file", "stream"):
    FROM_CLIENT[f"{_group}.publish"] = MethodFacts.publish
    FROM_CLIENT[f"{_group}.consume"] = MethodFacts.consume
    FROM_CLIENT[f"{_group}.cancel"] = MethodFacts.cancel
    FROM_CLIENT[f"{_group}.qos"] = MethodFacts.qos
    FROM_SERVER[f"{_group}.consume-ok"] = MethodFacts.consume_ok
    FROM_SERVER[f"{_group}.return"] = MethodFacts.returned
FROM_CLIENT["basic.get"] = MethodFacts.get

METHOD_FEATURES = {
    "tx.select": "transactions", "tx.commit": "transactions", "tx.rollback": "transaction-rollback",
    "tx.abort": "transaction-rollback",
    "confirm.select": "confirms", "basic.nack": "nack", "basic.reject": "reject",
    "jms.reject": "reject", "basic.recover": "recover", "basic.recover-async": "recover",
    "message.recover": "recover", "message.reject": "reject", "channel.flow": "channel-flow",
    "session.open": "named-session", "session.resume": "named-session",
    "access.request": "access-request", "access.grant": "access-request",
    "queue.delete": "topology-deletion", "exchange.delete": "topology-deletion",
    "queue.purge": "queue-purge", "exchange.query": "topology-query",
    "binding.query": "topology-query", "exchange.bound": "topology-query",
    "exchange.unbind": "exchange-to-exchange-binding", "basic.browse": "browse",
    "jms.browse": "browse", "file.browse": "browse", "message.open": "message-reference",
    "message.append": "message-reference", "message.resume": "message-reference",
    "destination.define": "destination-class", "subscription.define": "durable-subscription",
}  # fmt: skip
CLASS_FEATURES = {
    "file": "file-class", "stream": "stream-class", "tunnel": "tunnel-class",
    "dtx": "distributed-transaction", "dtx-demarcation": "distributed-transaction",
    "dtx-coordination": "distributed-transaction", "test": "test-class",
    "destination": "destination-class",
}  # fmt: skip
"""Features of the client's other methods, by class."""
