"""Frames of 0-10: controls, commands, and the headers of messages. Bodies are counted."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.assembly import FIRST_FRAME, LAST_FRAME, LAST_SEGMENT
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.frame_format import HEAD, HEAD_OCTETS, MOST_TRACKS
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import OPERATIONS, STRUCTS, SegmentType
from gateway.inventory.contents import content_of
from gateway.inventory.counts import GENERATED, Remembered
from gateway.inventory.cutting import Cut, Frames, Undecodable
from gateway.inventory.inventory import NodeEntry
from gateway.inventory.method_facts import STANDARD_TYPES, queue_arguments
from gateway.inventory.observer import EXCHANGE, PLAIN, QUEUE, Content, Observer

MOST_GATHERED = 256 << 10
"""Octets of split segments of one direction that are held."""
MOST_BYTES = 0xFFFFFFFF
"""Credit without a limit."""
FEATURES: dict[type[Any], str] = {
    w.TxSelect: "transactions", w.TxRollback: "transaction-rollback",
    w.DtxSelect: "distributed-transaction", w.DtxStart: "distributed-transaction",
    w.MessageAcquire: "acquire", w.MessageResume: "message-resume", w.MessageReject: "reject",
    w.ExchangeQuery: "topology-query", w.QueueQuery: "topology-query",
    w.ExchangeBound: "topology-query", w.QueueDelete: "topology-deletion",
    w.ExchangeDelete: "topology-deletion", w.QueuePurge: "queue-purge",
}  # fmt: skip


class Facts:
    """Both directions of one connection."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._subscriptions: Remembered[tuple[int, str], NodeEntry] = Remembered(observer.share)

    def operation(self, channel: int, record: Any) -> None:
        """A control or command of the client."""
        observer = self.observer
        feature = FEATURES.get(record.__class__)
        if feature is not None:
            observer.feature(feature)
        elif (handler := HANDLERS.get(record.__class__)) is not None:
            handler(self, channel, record)
        elif record.NAME.startswith(("file.", "stream.")):
            observer.feature(f"{record.NAME.partition('.')[0]}-class", detail=record.NAME)

    def start_ok(self, channel: int, record: Any) -> None:
        self.observer.properties(table(record.client_properties))
        self.observer.mechanism(record.mechanism or "", record.response)

    def secure_ok(self, channel: int, record: Any) -> None:
        self.observer.response(record.response or b"")

    def open(self, channel: int, record: Any) -> None:
        self.observer.who.vhost = record.virtual_host or ""
        self.observer.known()

    def attach(self, channel: int, record: Any) -> None:
        name = (record.name or b"").decode(errors="replace")
        if name and not GENERATED.search(name):
            self.observer.feature("named-session", detail=name)

    def request_timeout(self, channel: int, record: Any) -> None:
        if record.timeout:
            self.observer.feature("session-outlives-connection", detail=f"{record.timeout} s")

    def declare_queue(self, channel: int, record: Any) -> None:
        observer = self.observer
        if record.passive:
            observer.feature("passive-declare")
            return
        node = observer.node(QUEUE, record.queue or "")
        arguments = table(record.arguments)
        flags = {
            "durable": record.durable, "exclusive": record.exclusive,
            "auto-delete": record.auto_delete,
        }  # fmt: skip
        for flag in ("exclusive", "auto-delete"):
            if flags[flag]:
                observer.feature(f"{flag}-queue", node)
        if not record.durable and not record.exclusive:
            observer.feature("transient-queue", node)
        if record.alternate_exchange:
            observer.feature("dead-letter-exchange", node)
        for feature, detail in queue_arguments(arguments):
            observer.feature(feature, node, detail)
        observer.declared(node, (flag for flag, given in flags.items() if given), arguments)

    def declare_exchange(self, channel: int, record: Any) -> None:
        observer = self.observer
        if record.passive:
            observer.feature("passive-declare")
            return
        node = observer.node(EXCHANGE, record.exchange or "")
        kind = record.type or ""
        if kind == "headers":
            observer.feature("headers-exchange", node)
        elif kind not in STANDARD_TYPES:
            observer.feature("other-exchange-type", node, kind)
        if record.auto_delete:
            observer.feature("auto-delete-exchange", node)
        if record.alternate_exchange:
            observer.feature("alternate-exchange", node)
        flags = [f"type={kind}", *(["durable"] if record.durable else [])]
        observer.declared(node, flags, table(record.arguments))

    def bind(self, channel: int, record: Any) -> None:
        node = self.observer.node(EXCHANGE, record.exchange or "")
        if table(record.arguments):
            self.observer.feature("binding-arguments", node)
        text = f"{record.exchange or ''} {record.binding_key or ''}".strip()
        self.observer.bound(self.observer.node(QUEUE, record.queue or ""), text)

    def subscribe(self, channel: int, record: Any) -> None:
        observer = self.observer
        node = observer.node(QUEUE, record.queue or "")
        observer.consumes(node)
        arguments = table(record.arguments)
        flags = {
            "exclusive-consumer": record.exclusive, "browse": record.acquire_mode == 1,
            "consumer-without-ack": record.accept_mode == 1,
            "selector": any("selector" in str(name) for name in arguments),
        }  # fmt: skip
        for feature, used in flags.items():
            if used:
                observer.feature(feature, node)
        self._subscriptions.put((channel, record.destination or ""), node)

    def cancel(self, channel: int, record: Any) -> None:
        self._subscriptions.drop((channel, record.destination or ""))

    def set_flow_mode(self, channel: int, record: Any) -> None:
        if record.flow_mode == 1:
            self.observer.feature("window-flow-mode")

    def flow(self, channel: int, record: Any) -> None:
        if record.unit == 1 and record.value != MOST_BYTES:
            self.observer.feature("byte-credit", detail=str(record.value))

    def message(
        self, from_client: bool, channel: int, record: Any, said: tuple[Any, Content], size: int
    ) -> None:
        """A message.transfer whose last frame came."""
        observer = self.observer
        delivery, content = said
        if not from_client:
            node = self._subscriptions.get((channel, record.destination or ""))
            observer.delivered(node, size, content)
            return
        exchange = record.destination or ""
        key = "" if delivery is None else delivery.routing_key or ""
        node = observer.node(EXCHANGE, exchange) if exchange else observer.node(QUEUE, key)
        if delivery is not None and delivery.immediate:
            observer.feature("immediate", node)
        if exchange.startswith(("qpid.management", "qmf.")):
            observer.feature("management-node", node)
        observer.published(node, size, content)


Handler = Callable[[Facts, int, Any], None]
HANDLERS: dict[type[Any], Handler] = {
    w.ConnectionStartOk: Facts.start_ok, w.ConnectionSecureOk: Facts.secure_ok,
    w.ConnectionOpen: Facts.open, w.SessionAttach: Facts.attach,
    w.SessionRequestTimeout: Facts.request_timeout, w.QueueDeclare: Facts.declare_queue,
    w.ExchangeDeclare: Facts.declare_exchange, w.ExchangeBind: Facts.bind,
    w.MessageSubscribe: Facts.subscribe, w.MessageCancel: Facts.cancel,
    w.MessageSetFlowMode: Facts.set_flow_mode, w.MessageFlow: Facts.flow,
}  # fmt: skip


def table(octets: bytes | None) -> Mapping[Any, Any]:
    """The map of these octets; an empty one if there are none. Raises ``FieldError``."""
    return read_map(octets) if octets else {}


def content_in(header: bytes) -> tuple[Any, Content]:
    """The delivery properties of a header segment, and the counted facts of all of it."""
    delivery = properties = None
    for code, at, end in ops.structs(header):
        kind = STRUCTS.get(code)
        if kind is not None and kind.record is w.DeliveryProperties:
            delivery = ops.read_fields(kind, header, at, end)
        elif kind is not None and kind.record is w.MessageProperties:
            properties = ops.read_fields(kind, header, at, end)
    if delivery is None and properties is None:
        return None, PLAIN
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    headers: Mapping[Any, Any] = {}
    if delivery is not None:
        # 4 is the usual priority; some clients always say it.
        priority = delivery.priority or 0
        found.update(
            durable=delivery.delivery_mode == 2, priority=0 if priority == 4 else priority,
            expires=bool(delivery.ttl or delivery.expiration),
        )  # fmt: skip
        others["timestamp"] = delivery.timestamp
    if properties is not None:
        headers = table(properties.application_headers)
        reply = properties.reply_to
        found.update(
            content_type=properties.content_type, content_encoding=properties.content_encoding
        )
        others["user-id"], others["app-id"] = properties.user_id, properties.app_id
        others["reply-to-exchange"] = reply is not None and getattr(reply, "exchange", "")
        others["reply-to"] = reply is not None and not getattr(reply, "exchange", "")
    return delivery, content_of(headers, **found, others=others)


class Content10:
    """A message.transfer of which more segments come."""

    __slots__ = ("record", "said", "size")

    def __init__(self, record: Any) -> None:
        self.record = record
        self.said: tuple[Any, Content] = (None, PLAIN)
        """Its delivery properties, and the counted facts of its header."""
        self.size = 0


class Direction(Frames):
    """One direction of a connection."""

    def __init__(self, facts: Facts, from_client: bool) -> None:
        super().__init__()
        self._facts = facts
        self._from_client = from_client
        self._split: Remembered[int, bytearray] = Remembered(facts.observer.share)
        self._gathered = 0
        self._transfers: Remembered[int, Content10] = Remembered(facts.observer.share)

    def cut(self, buf: bytes, at: int) -> Cut | None:
        if buf[at : at + 4] == b"AMQP"[: len(buf) - at]:
            return Cut(HEADER_OCTETS, HEADER_OCTETS) if len(buf) - at >= HEADER_OCTETS else None
        if len(buf) - at < HEAD_OCTETS:
            return None
        start, size, track, _ = HEAD.unpack_from(buf, at)
        if start > 0x0F03 or start & 0xFF > SegmentType.BODY or size < HEAD_OCTETS or track > 15:
            raise Undecodable(f"no frame: flags and type {start:#06x}, {size} octets")
        body = start & 0xFF == SegmentType.BODY
        return Cut(size, HEAD_OCTETS if body else size)

    def take(self, buf: bytes, at: int, frame: Cut) -> None:
        if buf[at : at + 4] == b"AMQP":
            return
        start, size, track, channel = HEAD.unpack_from(buf, at)
        flags, kind, key = start >> 8, start & 0xFF, channel * MOST_TRACKS + track
        if kind != SegmentType.BODY:
            segment = self._segment(key, flags, buf[at + HEAD_OCTETS : at + size])
            if segment is None:
                return
            if kind == SegmentType.HEADER:
                transfer = self._transfers.get(key)
                if transfer is not None:
                    transfer.said = content_in(segment)
            else:
                self._operation(key, channel, kind, segment)
        elif (transfer := self._transfers.get(key)) is not None:
            transfer.size += size - HEAD_OCTETS
        if flags & LAST_SEGMENT and flags & LAST_FRAME:
            transfer = self._transfers.drop(key)
            if transfer is not None:
                self._facts.message(
                    self._from_client, channel, transfer.record, transfer.said, transfer.size
                )

    def _segment(self, key: int, flags: int, payload: bytes) -> bytes | None:
        """A whole segment, once its last frame is here."""
        if flags & FIRST_FRAME and flags & LAST_FRAME:
            return payload
        if flags & FIRST_FRAME:
            self._forget(key)
            self._split.put(key, bytearray())
        held = self._split.get(key)
        if held is None:
            return None
        if self._gathered + len(payload) > MOST_GATHERED:
            self._forget(key)
            self._facts.observer.feature("frame-too-large-to-decode", detail="0-10")
            return None
        self._gathered += len(payload)
        held += payload
        if not flags & LAST_FRAME:
            return None
        whole = bytes(held)
        self._forget(key)
        return whole

    def _forget(self, key: int) -> None:
        self._gathered -= len(self._split.drop(key) or b"")

    def _operation(self, key: int, channel: int, kind: int, segment: bytes) -> None:
        if kind == SegmentType.CONTROL:
            code, start = int.from_bytes(segment[:2], "big"), ops.CONTROL_START
        else:
            code, _ = ops.read_command_start(segment, 0, len(segment))
            start = ops.COMMAND_START
        found = OPERATIONS.get(code)
        if found is None:
            self._facts.observer.feature("unknown-method", detail=f"0-10 {code:#06x}")
            return
        try:
            record = ops.read_fields(found, segment, start, len(segment))
        except FieldError as error:
            raise Undecodable(str(error)) from None
        if isinstance(record, w.MessageTransfer):
            self._transfers.put(key, Content10(record))
        elif self._from_client:
            self._facts.operation(channel, record)


def decoder(version: str, observer: Observer) -> tuple[Frames, Frames]:
    """The decoders of the client's octets and of the broker's."""
    facts = Facts(observer)
    return Direction(facts, True), Direction(facts, False)
