"""The connection endpoint (§2.4), the same for both roles: octets in, open and close, time-outs.

It feeds the frame loop, turns violations of the peer into closes, and holds the state that sessions
and links share. ``Channels`` has its sessions, ``Negotiation`` the layers below AMQP.
"""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.adapters.contract import Authority
from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.performatives import open_performative
from gateway.adapters.performatives.channels import Channels
from gateway.adapters.performatives.composites import condition_for, symbol_for, write
from gateway.adapters.performatives.frames import EMPTY, Frames, frame
from gateway.adapters.performatives.large_messages import Portions
from gateway.adapters.performatives.links import SessionHandler
from gateway.adapters.performatives.negotiation import Ended, Negotiation
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import Violation, error, illegal_state
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import MIN_MAX_FRAME_SIZE, AmqpError
from gateway.bodies import Spool
from gateway.errors import Condition, LocalError, Lost, PeerError
from gateway.operations import Closed, Done, Open, Operation, Peer, Refused, Token

LARGEST_FRAME = 1 << 20
"""Largest frame that we write, in octets, even if the peer takes more: other connections want their
turn."""


class OpenToken:
    """The token of the server's ``Open``."""


class CloseToken:
    """The token of the ``Closed`` of a peer that waits for our close."""


OPEN_TOKEN = OpenToken()
CLOSE_TOKEN = CloseToken()


class Adapter(Protocol):
    """The adapter whose connection this is."""

    closing: bool
    wake: Callable[[], None]
    output_congested: Callable[[], None]


class Connection:
    """The state of one connection, and its life from the first octet to the last."""

    def __init__(
        self,
        adapter: Adapter,
        version: str,
        server: bool,
        new_handler: Callable[[Session], SessionHandler],
        limits: Limits,
        product: Product,
        spool: Spool | None,
        addresses: str,
        annotates: bool,
        near: bool,
        write_now: Callable[[], None],
        authority: Authority | None,
        credentials: Credentials | None,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.server = server
        self.limits = limits
        self.product = product
        self.frame_max = open_performative.largest_frame(limits)
        """Our max-frame-size."""
        self.frame_out = MIN_MAX_FRAME_SIZE
        """The largest frame that we write, within the peer's max-frame-size."""
        self.channel_max = min(limits.channel_max or 0xFFFF, 0xFFFF)
        self.channels = Channels(self, new_handler, self.channel_max)
        self.sessions = self.channels.sessions
        self.drains = self.channels.drains
        self.heartbeat = Heartbeat(limits)
        self.heartbeat.patience = 2.0 * limits.heartbeat  # our idle-time-out is half of it (§2.4.5)
        self.buffer = OutputBuffer(adapter, self.heartbeat, {})
        self.peer = Peer(version=version)
        self.container = ""
        """The peer's container-id."""
        self.name = (product.name or Product().product) if server else product.identity
        """Our container-id."""
        self.opened: w.Open | None = None
        """The peer's open."""
        self.blocked = False
        """Publishers are held back: no more credit."""
        self.deferred_writes: list[Callable[[], None]] = []
        """Writes that sessions have deferred in order to combine them, until output is taken."""
        self.spool = spool
        self.portions = Portions()
        self.under_way = 0
        """Octets in memory of partly received messages."""
        self.addresses = addresses
        self.annotates = annotates
        self.near = near
        self.write_now = write_now
        self.later: list[Operation] = []
        """Operations found outside ``receive``; the next ``receive`` or ``tick`` returns them."""
        self.frames = Frames(self, self.channels.by_remote, self.frame_max)
        self.negotiation = Negotiation(
            self, server, authority, credentials, external_subject, mechanisms
        )
        self.refused = False
        """The virtual host is refused: our open announces a close."""
        self.close_sent = False
        """Our close is written: nothing may follow it."""
        self._adapter = adapter
        self._unread = b""
        """Input that waits for the answer to the login, or until ``read_on`` is called."""
        self._open_request: Open | None = None
        self._open_token: Token = None
        """Of the client's ``Open``, until it is answered."""
        self._open_sent = self._closing_after_replies = False
        self._reason: tuple[Condition | None, str] = (None, "")
        self._fault: w.Error | None = None
        """The peer's mistake, until our close reports it."""
        self._closed_by_peer = False

    # --- in -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        if self._adapter.closing:
            return []
        found, self.later = self.later, []
        if not data:
            return found + self.lost()
        if self._closing_after_replies:
            return found
        self.heartbeat.heard = self.buffer.receiving = True
        self.channels.release_ended()
        try:
            self._read(data, found)
        finally:
            self.buffer.receiving = False
        return found

    def resume(self, act: Callable[[list[Operation]], None]) -> None:
        """Continue after a wait, for instance for a password check: perform ``act``, then read the
        octets that have arrived since. The operations of both go to ``later``."""
        if self._adapter.closing:
            return
        found, self.later = self.later, []
        self.negotiation.waiting = self.frames.unread = False
        data, self._unread = self._unread, b""
        self._read(data, found, act)
        self.later = found + self.later
        self._adapter.wake()

    def read_on(self) -> list[Operation]:
        """Operations of the octets that ``receive`` has left unread."""
        self.resume(lambda found: None)
        return self.found()

    def _read(
        self,
        data: bytes,
        found: list[Operation],
        act: Callable[[list[Operation]], None] | None = None,
    ) -> None:
        """Octets from the peer, once ``act`` is done."""
        negotiation = self.negotiation
        try:
            if act is not None:
                act(found)
                self.frames.changed = False
            while data and not (negotiation.waiting or self.frames.unread):
                if negotiation.header:
                    data = negotiation.on_octets(data, found)
                else:
                    data = self.frames.feed(data, found)
            self._unread += data
        except Violation as violation:
            self._violated(violation.symbol, violation.text, found, violation.info)
        except PeerError as violated:
            symbol = symbol_for(violated.condition, Lost.CONNECTION)
            self._violated(symbol, violated.text, found)
        except Ended:
            pass

    def negotiated(self) -> None:
        """The AMQP layer stands. A client opens at once (§2.4.2)."""
        self.peer.mechanism = self.negotiation.mechanism
        if self._open_request is not None:
            self.write_open()

    def on_sasl(self, record: Any, found: list[Operation]) -> None:
        self.negotiation.on_sasl(record, found)

    def on_empty(self, channel: int) -> None:
        """An empty frame, a heartbeat. It counts as received already; before the open it is an
        error."""
        if self.opened is None and not self.close_sent:
            raise illegal_state("an empty frame before the open")
        self.channels.check(channel)

    def on_violation(self, violated: PeerError, channel: int, found: list[Operation]) -> None:
        """End the session in which a frame broke a rule."""
        session = self.channels.by_remote.get(channel)
        if session is not None:
            symbol = getattr(violated, "symbol", "") or symbol_for(violated.condition, Lost.SESSION)
            session.fail(symbol, violated.text, found)

    def on_performative(self, channel: int, record: Any, found: list[Operation]) -> None:
        """A performative that belongs to no open session."""
        kind = type(record)
        if kind is w.Close:
            self._on_close(record, found)
        elif self.close_sent:
            return  # discarded until their close comes (§2.4.6)
        elif self.opened is None:
            if kind is not w.Open:
                raise illegal_state(f"{record.NAME} before the open")
            self._on_open(channel, record, found)
        elif kind is w.Begin:
            self.channels.on_begin(channel, record, found)
        elif kind is w.Open:
            raise illegal_state("a second open")
        else:
            self.channels.check(channel)
            raise illegal_state(f"{record.NAME} on channel {channel}, which has no session")

    # --- open -----------------------------------------------------------------------------------

    def _on_open(self, channel: int, record: w.Open, found: list[Operation]) -> None:
        """The peer's container and limits (§2.7.1)."""
        if channel:
            raise Violation(AmqpError.NOT_ALLOWED, "an open comes on channel 0")
        self.opened = record
        open_performative.check_limits(record)
        self.heartbeat.interval = (record.idle_time_out or 0) / 1000
        self.frame_out = min(record.max_frame_size or LARGEST_FRAME, LARGEST_FRAME)
        self.channels.limit_out = 0xFFFF if record.channel_max is None else record.channel_max
        self.container = record.container_id
        open_performative.describe(record, self.peer)
        if self.server:
            vhost = open_performative.vhost_of(record)
            found.append(Open(OPEN_TOKEN, vhost, self.negotiation.user, self.peer))
        elif self._open_token is not None and not (record.properties or {}).get(
            open_performative.FAILED
        ):
            found.append(Done(0, self._open_token, self.peer))
            self._open_token = None

    def request_open(self, operation: Open) -> None:
        """Client: open this virtual host as soon as the layers below are negotiated."""
        if self._open_request is not None:
            raise LocalError("the connection is already being opened")
        self._open_request = operation
        self._open_token = operation.token
        if self.negotiation.amqp:
            self.write_open()

    def write_open(self) -> None:
        """Write our open; once, and before anything else."""
        if not self._open_sent:
            self._open_sent = True
            record = open_performative.our_open(self)
            if self._open_request is not None and self._open_request.vhost != "/":
                record.hostname = f"vhost:{self._open_request.vhost}"
            self.write(0, record)

    # --- close ----------------------------------------------------------------------------------

    def _on_close(self, record: w.Close, found: list[Operation]) -> None:
        """The peer's close: answer it, unless it answers ours (§2.4.3, §2.4.4). A server answers
        the requests before it first."""
        if self.close_sent:
            self.finish(*self._reason, found, self._closed_by_peer)
            raise Ended
        fault = record.error
        condition = condition_for(fault.condition) if fault is not None else None
        text = (fault.description or fault.condition) if fault is not None else ""
        self._reason, self._closed_by_peer = (condition, text), True
        if self.server and self.opened is not None:
            self._close_after_replies(found)
        else:
            self._answer_close(found)
        raise Ended

    def _close_after_replies(self, found: list[Operation], fault: bool = False) -> None:
        """Server: end the connection after the answers to earlier requests. ``fault``: the peer
        broke a rule."""
        self._closing_after_replies = True
        found.append(Closed(*self._reason, token=CLOSE_TOKEN, fault=fault))

    def _answer_close(self, found: list[Operation]) -> None:
        """Answer the peer's close, or report its mistake."""
        self.write_deferred()
        self.channels.end(found)
        self.write_open()
        self.write(0, w.Close(self._fault))
        self.finish(*self._reason, found, self._closed_by_peer)

    def finish_close(self) -> None:
        """The earlier requests are answered: close. We may have closed already because of one of
        them."""
        if self.close_sent:
            self.finish(*self._reason, self.later, self._closed_by_peer)
        else:
            self._answer_close(self.later)

    def write_close(
        self, condition: Condition | None, text: str, record: w.Error | None, theirs: bool
    ) -> None:
        """Write our close and remember its reason; nothing may be written after it."""
        if self.close_sent:
            return
        self.write_deferred()
        self._reason, self._closed_by_peer = (condition, text), theirs
        if self.negotiation.amqp:
            self.write_open()
            self.write(0, w.Close(record))
        self.close_sent = True
        self.channels.mute()
        self.frames.forget_template()  # whose link would take transfers

    def _violated(
        self, symbol: str, text: str, found: list[Operation], info: dict[Any, Any] | None = None
    ) -> None:
        """The peer broke a rule that costs the connection. A server answers earlier requests
        first."""
        if self.server and self.opened is not None and not self.close_sent:
            self._fault = error(symbol, text, info)
            self._reason, self._closed_by_peer = (condition_for(symbol), text), True
            self._close_after_replies(found, fault=True)
        else:
            self._close_with(symbol, text, found, info)

    def _close_with(
        self, symbol: str, text: str, found: list[Operation], info: dict[Any, Any] | None = None
    ) -> None:
        """Close for a mistake of the peer, and end without waiting for its close."""
        if self.close_sent:
            self.finish(*self._reason, found, self._closed_by_peer)
            return
        condition = condition_for(symbol)
        self.channels.end(found)
        self.write_close(condition, text, error(symbol, text, info), True)
        self.finish(condition, text, found)

    def finish(
        self, condition: Condition | None, text: str, found: list[Operation], theirs: bool = True
    ) -> None:
        """End the connection: no more input or output."""
        self.channels.end(found)
        self.close_sent = self._adapter.closing = True
        self.deferred_writes.clear()
        self.portions.stalled.clear()
        self.frames.stop()
        if self._open_token is not None:
            why = condition or Condition.CONNECTION_FORCED
            found.append(Refused(0, self._open_token, why, text, Lost.CONNECTION))
            self._open_token = None
        found.append(Closed(condition, text, theirs))

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        found: list[Operation] = []
        if self._adapter.closing:
            return found
        if self.close_sent or self._closing_after_replies:
            self.finish(*self._reason, found, self._closed_by_peer)
        else:
            self.finish(Condition.CONNECTION_FORCED, "the connection was lost", found)
        return found

    # --- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Operation]:
        """Heartbeats in time for the peer, its silence noticed (§2.4.5), and the time-outs of
        handshake and close."""
        found = self.found()
        if self._adapter.closing or self._closing_after_replies:
            return found
        opened = self.opened is not None and self._open_sent
        self.channels.drain_again(now)
        due = self.heartbeat.look(now, opened, self.close_sent)
        if due is Due.BEAT:
            self.put(EMPTY)
        elif due is Due.SILENT:
            text = f"nothing was heard for {self.heartbeat.patience:g} s"
            self._close_with(AmqpError.RESOURCE_LIMIT_EXCEEDED, text, found)
        elif due is Due.UNOPENED:
            self.finish(Condition.CONNECTION_FORCED, "the handshake took too long", found)
        elif due is Due.UNCLOSED:
            found += self.lost()
        return found

    def found(self) -> list[Operation]:
        """Take operations that were found outside ``receive`` and ``tick``."""
        found, self.later = self.later, []
        return found

    # --- out ------------------------------------------------------------------------------------

    def put(self, octets: bytes) -> None:
        """Write whole frames; no-op after our close."""
        if not self.close_sent:
            self.buffer.put(octets)

    def write(self, channel: int, record: Any) -> None:
        """One frame of ours. Raises ``LocalError`` if it does not fit a frame of the peer."""
        octets = frame(channel, write(record))
        if len(octets) > self.frame_out:
            raise LocalError(f"{record.NAME} does not fit a frame of the peer")
        if not self.close_sent:
            self.buffer.put(octets)

    def defer_write(self, write: Callable[[], None]) -> None:
        """Call this before the next output, or in ``write_deferred``."""
        self.deferred_writes.append(write)
        if not self.buffer.pending:
            self.buffer.waken()

    def write_deferred(self) -> None:
        """Call the deferred writes."""
        buffer = self.buffer
        deferred_writes, self.deferred_writes = self.deferred_writes, []
        receiving, buffer.receiving = buffer.receiving, True  # the owner takes the output anyway
        for write_now in deferred_writes:
            write_now()
        buffer.receiving = receiving

    def output(self) -> list[bytes]:
        """Take the output."""
        if self.deferred_writes:
            self.write_deferred()
        self.channels.release_ended()
        return self.buffer.take()
