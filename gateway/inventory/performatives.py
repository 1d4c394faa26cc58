"""Frames of 1.0: the performatives of both sides, and the sections of messages that tell how they
are made. Bodies are not kept."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.performatives import sections
from gateway.adapters.performatives.composites import read_performative
from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.frames import HEAD
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import FRAME_SASL, TLS_HEADER
from gateway.inventory.contents import MOST_HEADERS, content_of
from gateway.inventory.counts import Remembered, Share, clipped
from gateway.inventory.cutting import LARGEST, Cut, Frames, Undecodable
from gateway.inventory.inventory import NodeEntry
from gateway.inventory.observer import ADDRESS, PLAIN, Content, Observer

BEGINNING = 16 << 10
"""Octets of a transfer that are looked at: the performative and, as a rule, all before the body."""
TRANSFER = b"\x00\x53\x14"

ADDRESSES = (
    ("/queues/", "v2-address"), ("/exchanges/", "v2-address"), ("/queue/", "v1-address"),
    ("/exchange/", "v1-address"), ("/topic/", "v1-address"), ("/amq/queue/", "v1-address"),
    ("/temp-queue/", "v1-address"), ("/reply-queue/", "v1-address"),
    ("$management", "management-node"), ("/management", "management-node"),
    ("$cbs", "claims-based-security"),
)  # fmt: skip
FILTERS = (
    ("selector", "filter-selector"), ("no-local", "filter-no-local"),
    ("legacy-amqp", "filter-legacy-binding"), ("stream", "stream-offset"),
    ("sql", "filter-sql"), ("properties", "filter-properties"),
)  # fmt: skip
ANNOTATIONS = {
    "x-opt-delivery-time": "delayed-message", "x-opt-delivery-delay": "delayed-message",
    "x-opt-jms-msg-type": "jms-annotations", "x-opt-jms-dest": "jms-annotations",
    "x-opt-jms-reply-to": "jms-annotations", "x-opt-partition-key": "partition-key",
}  # fmt: skip


class Link:
    """A link of one direction: its node, and the message whose transfers are coming."""

    __slots__ = ("node", "size", "content")

    def __init__(self, node: NodeEntry | None) -> None:
        self.node = node
        self.size = 0
        self.content: Content | None = None


class Links:
    """The links of one direction, by session and handle."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._sessions: dict[int, Remembered[int, Link]] = {}

    def add(self, channel: int, handle: int, link: Link) -> None:
        handles = self._sessions.get(channel)
        if handles is None:
            if not self._share.take():
                return
            handles = self._sessions[channel] = Remembered(self._share)
        handles.put(handle, link)

    def get(self, channel: int, handle: int) -> Link | None:
        handles = self._sessions.get(channel)
        return None if handles is None else handles.get(handle)

    def remove(self, channel: int, handle: int) -> None:
        handles = self._sessions.get(channel)
        if handles is not None:
            handles.drop(handle)

    def end(self, channel: int) -> None:
        handles = self._sessions.pop(channel, None)
        if handles is not None:
            handles.drop_all()
            self._share.give()


class Facts:
    """Both directions of one connection."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._sources: Remembered[tuple[int, str], NodeEntry] = Remembered(observer.share)
        """Nodes that the client asked to receive from, by session and name of the link."""
        self.sessions: Remembered[int, int] = Remembered(observer.share)
        """The client's channel by that of the broker."""

    def performative(self, from_client: bool, channel: int, record: Any, links: "Links") -> None:
        observer = self.observer
        if isinstance(record, w.Attach):
            self._attach(from_client, channel, record, links)
        elif isinstance(record, w.Begin):
            remote = record.remote_channel
            if not from_client and remote is not None:
                self.sessions.put(channel, remote)
        elif isinstance(record, w.End):
            links.end(channel)
        elif isinstance(record, w.Detach):
            links.remove(channel, record.handle)
        elif not from_client:
            return
        elif isinstance(record, w.SaslInit):
            observer.mechanism(record.mechanism, record.initial_response)
        elif isinstance(record, w.SaslResponse):
            observer.response(record.response)
        elif isinstance(record, w.Open):
            observer.name(record.container_id)
            host = record.hostname or ""
            observer.who.vhost = host[6:] if host.startswith("vhost:") else ""
            observer.properties(record.properties or {})
            observer.known()
        elif isinstance(record, w.Flow):
            if record.drain:
                observer.feature("drain")
        elif isinstance(record, w.Disposition):
            self._disposition(record)

    def _disposition(self, record: w.Disposition) -> None:
        state = record.state
        if isinstance(state, w.TransactionalState):
            self.observer.feature("transactions")
            state = state.outcome
        if isinstance(state, w.Modified):
            self.observer.feature("modified-outcome")
        elif isinstance(state, w.Rejected):
            self.observer.feature("reject")

    def _attach(self, from_client: bool, channel: int, record: w.Attach, links: "Links") -> None:
        sends = not record.role
        session = channel if from_client else self.sessions.get(channel, channel)
        key = session, record.name[:256]
        if from_client:
            node = self._requested(record, sends)
            if not sends and node is not None:
                self._sources.put(key, node)
        elif sends:
            node = self._sources.drop(key)
        else:
            return
        if sends:
            links.add(channel, record.handle, Link(node))

    def _requested(self, record: w.Attach, sends: bool) -> NodeEntry | None:
        """The node of a link that the client attaches, and its demands."""
        observer = self.observer
        terminus = record.target if sends else record.source
        if isinstance(terminus, w.Coordinator):
            observer.feature("transactions")
            return None
        address = getattr(terminus, "address", None)
        dynamic = bool(getattr(terminus, "dynamic", False))
        if address is None:
            feature = "dynamic-node" if dynamic else "anonymous-relay" if sends else "null-address"
            observer.feature(feature)
            if dynamic:
                return observer.node(ADDRESS, "(named by the broker)")
            return observer.node(ADDRESS, "(named in each message)") if sends else None
        address = clipped(address)
        node = observer.node(ADDRESS, address)
        for beginning, feature in ADDRESSES:
            if address.startswith(beginning):
                observer.feature(feature, node)
                break
        self._terminus(record, terminus, node)
        if not sends:
            observer.consumes(node)
        return node

    def _terminus(self, record: w.Attach, terminus: Any, node: NodeEntry) -> None:
        observer = self.observer
        capabilities = [str(one) for one in (terminus.capabilities or ())[:16]]
        observer.declared(node, (f"capability={clipped(one)}" for one in capabilities), {})
        if "shared" in capabilities:
            observer.feature("shared-subscription", node)
        if terminus.durable:
            observer.feature("link-durability", node, str(terminus.durable))
        if terminus.expiry_policy == "never" and terminus.durable:
            observer.feature("durable-subscription", node)
        if record.unsettled:
            observer.feature("link-recovery", node)
        if record.rcv_settle_mode:
            observer.feature("receiver-settles-second", node)
        if record.snd_settle_mode == 1:
            observer.feature("presettled", node)
        if getattr(terminus, "distribution_mode", None) == "copy":
            observer.feature("browse", node)
        for name, value in islice((getattr(terminus, "filter", None) or {}).items(), 16):
            kind = f"{name} {getattr(value, 'descriptor', '')}"
            found = (feature for part, feature in FILTERS if part in kind)
            observer.feature(next(found, "filter-other"), node, clipped(kind))

    def transfer(self, from_client: bool, link: Link, record: w.Transfer, octets: bytes, size: int
    ) -> None:  # fmt: skip
        """A transfer with ``size`` octets of payload, of which the beginning is here."""
        if record.aborted:
            link.size, link.content = 0, None
            return
        if link.content is None:
            link.content, before = self._content(octets)
            link.size = -before
            if from_client and isinstance(record.state, w.TransactionalState):
                self.observer.feature("transactions", link.node)
            if record.message_format:
                self.observer.feature("message-format", link.node, str(record.message_format))
        link.size += size
        if record.more:
            return
        content, size = link.content, max(0, link.size)
        link.content = None
        if not from_client:
            self.observer.delivered(link.node, size, content)
        elif link.node is not None:
            self.observer.published(link.node, size, content)

    def _content(self, octets: bytes) -> tuple[Content, int]:
        """Facts in the sections before the body, and where the body begins."""
        found: dict[str, Any] = {}
        headers: Mapping[Any, Any] = {}
        others: dict[str, Any] = {}
        at, end = 0, len(octets)
        try:
            while at < end:
                code, start = sections.section_at(octets, at, end)
                if sections.DATA <= code <= sections.VALUE:
                    others["body-sequence"] = code == sections.SEQUENCE
                    others["body-value"] = code == sections.VALUE
                    # Behind the descriptor, and the constructor and size of one binary.
                    at = start + {0xA0: 2, 0xB0: 5}.get(octets[start], 0)
                    break
                code, start, stop = sections.section(octets, at, end)
                at = stop
                if code == sections.HEADER:
                    header = w.read_header(octets, start)[0]
                    found.update(
                        durable=bool(header.durable), expires=header.ttl is not None,
                        priority=0 if header.priority in (None, 4) else header.priority,
                    )  # fmt: skip
                elif code == sections.PROPERTIES:
                    said = w.read_properties(octets, start)[0]
                    found.update(
                        content_type=said.content_type, content_encoding=said.content_encoding,
                        reply_to=said.reply_to if isinstance(said.reply_to, str) else "",
                    )  # fmt: skip
                    others["user-id"] = said.user_id
                    others["message-group"] = said.group_id
                    others["expiration"] = said.absolute_expiry_time
                elif code == sections.APPLICATION:
                    headers = read_value(octets, start, stop)[0]
                elif code == sections.ANNOTATIONS:
                    for name in islice(read_value(octets, start, stop)[0], MOST_HEADERS):
                        others[ANNOTATIONS.get(name, "message-annotations")] = True
                elif code == sections.FOOTER:
                    others["footer"] = True
        except (FieldError, IndexError, TypeError):
            pass  # the beginning ends in a section that is long
        if not (found or headers or any(others.values())):
            return PLAIN, at
        return content_of(headers, **found, others=others), at


class Direction(Frames):
    """One direction of a connection."""

    def __init__(self, facts: Facts, from_client: bool) -> None:
        super().__init__()
        self._facts = facts
        self._from_client = from_client
        self._links = Links(facts.observer.share)

    def cut(self, buf: bytes, at: int) -> Cut | None:
        left = len(buf) - at
        if left < HEADER_OCTETS:
            return None
        if buf[at : at + 4] == b"AMQP":
            if buf[at : at + HEADER_OCTETS] == TLS_HEADER:
                raise Undecodable("the client asked for TLS")
            return Cut(HEADER_OCTETS, HEADER_OCTETS)
        size, offset, kind, _ = HEAD.unpack_from(buf, at)
        if size < HEAD.size or offset < 2 or offset * 4 > size:
            raise Undecodable(f"no frame: {size} octets with the body at word {offset}")
        start = at + offset * 4
        if len(buf) < min(start + 3, at + size):
            return None
        most = BEGINNING if buf[start : start + 3] == TRANSFER else LARGEST
        return Cut(size, min(size, most + offset * 4))

    def take(self, buf: bytes, at: int, frame: Cut) -> None:
        if buf[at : at + 4] == b"AMQP":
            return
        _, offset, kind, channel = HEAD.unpack_from(buf, at)
        start, stop = at + offset * 4, at + frame.wanted
        if start == stop:
            return
        facts = self._facts
        try:
            record, end = read_performative(buf, start, stop, kind == FRAME_SASL)
        except FieldError:
            if frame.wanted < frame.size:
                facts.observer.feature("frame-too-large-to-decode", detail="1.0")
                return
            raise
        if record.__class__ is w.Transfer:
            link = self._links.get(channel, record.handle)
            if link is not None:
                size = at + frame.size - end
                facts.transfer(self._from_client, link, record, buf[end:stop], size)
            return
        facts.performative(self._from_client, channel, record, self._links)


def decoder(version: str, observer: Observer) -> tuple[Frames, Frames]:
    """The decoders of the client's octets and of the broker's."""
    facts = Facts(observer)
    return Direction(facts, True), Direction(facts, False)
