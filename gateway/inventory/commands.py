"""Frames of 0.8a2: commands, and the fragments of messages behind them."""

from typing import Any

from gateway.adapters.commands import types
from gateway.adapters.commands.content import read_head
from gateway.adapters.commands.frames import head_of, read_command
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.tables import HEADER
from gateway.inventory.contents import content_of
from gateway.inventory.counts import Remembered
from gateway.inventory.cutting import LARGEST, Cut, Frames, Undecodable
from gateway.inventory.inventory import NodeEntry
from gateway.inventory.observer import ADDRESS, PLAIN, Content, Observer, first_text

BEGINNING = 4 << 10
"""Octets of a fragment that are looked at for the header of its message."""

FEATURES = {
    "channel.commit": "transactions", "channel.rollback": "transaction-rollback",
    "handle.browse": "browse", "handle.query": "topology-query", "handle.unget": "reject",
    "handle.prepare": "prepared-message",
}  # fmt: skip


class Facts:
    """Both directions of one connection."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._handles: Remembered[int, NodeEntry] = Remembered(observer.share)

    def node(self, handle: int, name: str) -> NodeEntry | None:
        if name:
            return self.observer.node(ADDRESS, name)
        return self._handles.get(handle)

    def command(self, from_client: bool, name: str, record: Any) -> None:
        observer = self.observer
        if not from_client:
            if name == "handle.created":
                observer.generated(record.dest_name)
            return
        feature = FEATURES.get(name)
        if feature:
            observer.feature(feature)
        elif name == "connection.response":
            table = types.read_table(record.responses) if record.responses else {}
            observer.mechanism(record.mechanism.upper(), None)
            observer.user(first_text(table, "LOGIN"))
        elif name == "connection.open":
            observer.who.vhost = record.virtual_path
            observer.name(record.client_name)
            observer.properties(types.read_table(record.options) if record.options else {})
            observer.known()
        elif name == "channel.open":
            for flag, used in (("transactions", record.transacted),
                               ("restartable-channel", record.restartable)):  # fmt: skip
                if used:
                    observer.feature(flag)
        elif name == "handle.open":
            self._open(record)
        elif name == "handle.consume":
            self._consume(record)
        elif name in ("handle.cancel", "handle.close"):
            self._handles.drop(record.handle_id)

    def _open(self, record: Any) -> None:
        observer = self.observer
        if record.temporary:
            observer.feature("dynamic-node")
        name = record.dest_name or ("(named by the broker)" if record.temporary else "")
        if not name:
            return
        node = observer.node(ADDRESS, name)
        observer.declared(node, [f"service-type={record.service_type}"], {})
        if record.browser:
            observer.feature("browse", node)
        self._handles.put(record.handle_id, node)

    def _consume(self, record: Any) -> None:
        observer = self.observer
        node = self.node(record.handle_id, record.dest_name)
        if node is None:
            return
        observer.consumes(node)
        flags = {
            "selector": record.selector, "no-local": record.no_local,
            "consumer-without-ack": record.unreliable,
            "durable-subscription": record.identifier,
            "unlimited-prefetch": not record.prefetch and not record.unreliable,
        }  # fmt: skip
        for feature, used in flags.items():
            if used:
                observer.feature(feature, node)
        self._handles.put(record.handle_id, node)

    def message(self, from_client: bool, record: Any, size: int, content: Content) -> None:
        """A whole message, of which the last fragment came."""
        node = self.node(record.handle_id, record.dest_name)
        if not from_client:
            self.observer.delivered(node, size, content)
        elif node is not None:
            self.observer.published(node, size, content)


class Direction(Frames):
    """One direction of a connection."""

    def __init__(self, facts: Facts, from_client: bool) -> None:
        super().__init__()
        self._facts = facts
        self._from_client = from_client
        self._begun = not from_client
        self._fragment: Any = None
        """The command whose fragment follows."""
        self._messages: Remembered[int, tuple[int, Content]] = Remembered(facts.observer.share)
        """Octets and content of messages of which more fragments come, by handle."""

    def cut(self, buf: bytes, at: int) -> Cut | None:
        if not self._begun:
            return Cut(len(HEADER), len(HEADER))
        if self._fragment is not None:
            size = self._fragment.fragment_size
            return Cut(size, min(size, BEGINNING))
        start = head_of(buf, at)
        if start is None:
            return None
        size = int.from_bytes(buf[at + 2 : start] or buf[at:start], "big")
        if size > LARGEST:
            raise Undecodable(f"a command of {size} octets")
        return Cut(start + size - at, start + size - at)

    def take(self, buf: bytes, at: int, frame: Cut) -> None:
        if not self._begun:
            self._begun = True
            return
        record, self._fragment = self._fragment, None
        if record is not None:
            self._take_fragment(record, buf[at : at + frame.wanted], frame.size)
            return
        start = head_of(buf, at)
        assert start is not None
        try:
            command, record = read_command(buf, start, at + frame.size)
        except Violation as error:
            raise Undecodable(error.text) from None
        self._facts.command(self._from_client, command.name, record)
        if command.fragment:
            if getattr(record, "out_of_band", False):
                self._facts.observer.feature("out-of-band-message")
            elif record.fragment_size:
                self._fragment = record

    def _take_fragment(self, record: Any, octets: bytes, size: int) -> None:
        if not hasattr(record, "partial"):
            return
        handle = record.handle_id
        begun = self._messages.drop(handle)
        if begun is None:
            content, before = self._content(octets)
            begun = -before, content
        octets_so_far, content = begun
        if record.partial:
            self._messages.put(handle, (octets_so_far + size, content))
            return
        self._facts.message(self._from_client, record, max(0, octets_so_far + size), content)

    @staticmethod
    def _content(octets: bytes) -> tuple[Content, int]:
        try:
            head, start = read_head(octets)
            headers = types.read_table(head.headers) if head.headers else {}
        except ValueError:
            return PLAIN, 0
        return content_of(
            headers, durable=head.persistent, priority=head.priority,
            expires=bool(head.expiration), content_type=head.mime_type,
            content_encoding=head.encoding,
        ), start  # fmt: skip


def decoder(version: str, observer: Observer) -> tuple[Frames, Frames]:
    """The decoders of the client's octets and of the broker's."""
    facts = Facts(observer)
    return Direction(facts, True), Direction(facts, False)
