"""Base of receiving and sending links (§2.6), and of the handlers of their events.

A session and its links implement the protocol and know nothing of broker or client. They pass
complete messages, outcomes and attaches to handlers: the server's are in ``server``,
``incoming_publishes`` and ``coordinator``, the client's in ``client`` and the modules of its parts.
A session has one handler for the endpoints that the peer begins, each link one for its own events.

``LinkHandler.on_detached`` is called exactly once for each link, however it ends: by the peer's
detach, our own, an error, or the end of its session or connection.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.options import Limits
from gateway.adapters.performatives.large_messages import Portions
from gateway.adapters.performatives.violation import Violation, error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.bodies import Spool
from gateway.errors import Lost, PeerError
from gateway.message import Message
from gateway.operations import Operation, Outcome

MASK = 0xFFFF_FFFF
"""Sequence numbers have 32 bits and wrap around (RFC 1982)."""

HALF = 0x8000_0000


def ahead(number: int, other: int) -> int:
    """How far ``number`` is ahead of ``other``; negative if it is behind (RFC 1982)."""
    return ((number - other + HALF) & MASK) - HALF


class LinkHandler:
    """Handles the events of links; without an override an event has no effect. ``found`` takes the
    operations. May raise ``Violation``; with ``Lost.LINK`` (``link.violated``) it costs only the
    link."""

    def on_attached(self, link: Any, record: w.Attach, found: list[Operation]) -> None:
        """The peer has answered our attach. A refusal too looks like this (the terminus on its
        side is null), and is followed by its detach (§2.6.3)."""

    def on_credit(self, link: Any, record: w.Flow, found: list[Operation]) -> None:
        """A flow for this link has come; ``link.credit`` is up to date. If we send over it and
        ``link.drain`` is set, ``link.drained`` answers when there is nothing more to send."""

    def window(self, link: Any) -> int:
        """How many deliveries the peer may have under way over a link that tops up its credit."""
        return int(link.window)

    def on_message(self, arrival: Any, octets: Any, found: list[Operation]) -> None:
        """A message is complete: ``bytes``, or ``SpooledMessage`` if the link ``spools``. Unless
        the ``IncomingDelivery`` is settled, its outcome is written with ``settle_received``, now
        or later. Hot."""

    def on_whole(self, arrival: Any, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        """A message is complete that came in one transfer, as ``buf[at:end]``. Hot."""
        self.on_message(arrival, buf[at:end], found)

    def on_run(
        self, link: Any, run: Any, settled: bool, index: int, buf: bytes, found: list[Operation]
    ) -> int:
        """Whole messages have come in one read, as ``buf[begin:end]`` for each of ``run.spans``,
        with ids in a row. Those from ``index`` on may be taken together: returns the index of the
        first that is not, which ``on_whole`` gets. Hot."""
        return index

    def on_outcome(self, sent: Any, state: Any, settled: bool, found: list[Operation]) -> None:
        """The peer's state of an ``OutgoingDelivery``: a record, or ``None`` if it settles without
        one. ``settled``: the peer has forgotten the delivery. After a terminal state or settlement
        the session forgets it too, and tells the peer if that waits for it. Not called for
        ``received``. Hot."""

    def on_unsent(self, link: Any, number: int, message: Message, text: str) -> None:
        """A message cannot go over this link: it is larger than the peer takes, or has no form in
        this version. Nothing of it was sent, no credit was used. Outside of ``receive``."""

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        """It is over: for good (``closed``), or to be resumed. ``record`` is the peer's detach,
        which ``link.detach`` answers, now or later; without one no answer is due. ``lost``: the
        connection is over."""


class SessionHandler:
    """Handles the events of a session; without an override an event has no effect."""

    def on_begin(self, record: w.Begin, found: list[Operation]) -> None:
        """The peer wants to begin it, which ``session.begin`` answers; or, if ``session.begun``,
        it has answered us."""

    def on_attach(self, record: w.Attach, found: list[Operation]) -> None:
        """The peer wants a new link. ``session.accept`` makes it; then ``link.attach`` or
        ``link.refuse`` answer, now or later."""

    def on_end(
        self, record: w.End | None, fault: w.Error | None, lost: bool, found: list[Operation]
    ) -> None:
        """It is over, and so are all its links. ``record`` is the peer's end, which
        ``session.end`` answers; ``fault`` the peer's mistake, for which we have ended it;
        ``lost``: the connection is over."""

    def on_acquire(self, link: Any, txn_id: Any) -> None:
        """The receiver asks that later deliveries be acquired within this transaction (§4.4.3), or
        in none (``None``). May raise ``Violation``."""

    def on_confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """The broker's answer to publishes. Hot."""

    def on_outcomes(
        self, deliveries: list[Any], state: Any, settled: bool, found: list[Operation]
    ) -> list[Any]:
        """One state of the receiver for many ``OutgoingDelivery``. Returns those that still need
        ``LinkHandler.on_outcome``, one by one: all, without an override."""
        return deliveries

    def on_runs_settled(self, numbers: list[int], outcome: Outcome, found: list[Operation]) -> None:
        """The receiver has settled deliveries of ours, which were not handled one by one, with
        one outcome. ``numbers`` are those of the deliveries in operations. Hot."""

    def on_late_outcome(self, state: Any) -> None:
        """A state for deliveries of which some have gone back, because their link is closed."""

    def on_settlement_awaited(
        self, runs: Iterable[tuple[int, int]], state: Any, before: int, found: list[Operation]
    ) -> None:
        """The receiver has given the outcome of these deliveries of ours (first and last id of each
        run) and waits for us to settle, which ``UnsettledDeliveries.settle_sent`` does, now or
        later. The operations that ``on_outcome`` made of them stand in ``found`` from index
        ``before`` on. Hot."""


class LinkConnection(Protocol):
    """The connection as its sessions and links need it."""

    server: bool
    container: str
    """The peer's container-id."""
    limits: Limits
    frame_out: int
    """Octets of the largest frame the peer takes."""
    annotates: bool
    """Deliveries carry the exchange and routing key of their message."""
    near: bool
    """A round trip to the peer takes less than a few milliseconds."""
    write_now: Callable[[], None]
    """Writes the output so far, before the operations found are performed."""
    blocked: bool
    """Publishers are held back: no more credit."""
    spool: Spool | None
    """Store of messages that are too large for memory; ``None``: they stay there."""
    under_way: int
    """Octets in memory of partial messages, over the whole connection."""
    drains: dict[Any, float]
    """Receiving links that the peer was asked to drain."""
    buffer: OutputBuffer
    portions: Portions
    later: list[Operation]
    """Operations found outside of ``receive``."""

    def write(self, channel: int, record: Any) -> None: ...

    def on_violation(self, violated: PeerError, channel: int, found: list[Operation]) -> None:
        """A mistake of the peer that costs the session of this channel."""
        ...


class LinkSession(Protocol):
    """A session as its links need it."""

    number: int
    output_closed: bool

    @property
    def connection(self) -> LinkConnection: ...

    def serial(self) -> str:
        """A name for the next link, in operations."""
        ...

    def write(self, record: Any) -> None: ...

    def write_attach(self, record: w.Attach) -> None: ...

    def write_flow(self, link: "Link | None" = None, echo: bool = False, **fields: Any) -> None: ...

    def forget(self, link: "Link", closed: bool) -> None:
        """A link is over."""
        ...

    def release(self, link: "Link") -> None:
        """Both ends have detached it."""
        ...


class Link:
    """One end of a link. ``number`` names it in operations. ``handle`` is ours, ``remote`` the
    peer's (§2.6.2)."""

    __slots__ = (
        "session", "number", "name", "handler", "handle", "remote", "attach_sent",
        "attach_received", "over", "closing", "detach_sent", "fault", "snd_mode", "rcv_mode",
        "source", "target", "record", "credit", "count", "drain", "max_message", "data",
        "unsettled", "excused", "incomplete",
    )  # fmt: skip

    receiver = False
    """Our role: do we receive over it?"""

    def __init__(self, session: LinkSession, name: str, handle: int, handler: LinkHandler) -> None:
        self.session: LinkSession = session
        self.number = session.serial()
        self.name = name
        self.handler = handler
        self.handle = handle
        self.remote: int | None = None
        self.attach_sent = False
        """Our attach is written."""
        self.attach_received = False
        """The peer's attach has come."""
        self.over = False
        """One end has detached it, and the handler has been told."""
        self.closing: bool | None = None
        """Our detach is due as soon as our attach is written: for good (true) or not."""
        self.detach_sent = False
        """Our detach is written."""
        self.fault: w.Error | None = None
        """The error in our detach."""
        self.snd_mode = 2
        """Settle modes in force (§2.8.2, §2.8.3)."""
        self.rcv_mode = 0
        self.source: Any = None
        """The termini in our attach."""
        self.target: Any = None
        self.record: w.Attach | None = None
        """The peer's attach."""
        self.credit = 0
        """link-credit of §2.6.7, as this end knows it."""
        self.count = 0
        """delivery-count of §2.6.7, a serial number."""
        self.drain = False
        self.max_message = 0
        """Octets of the largest message that the receiver takes; 0: any."""
        self.data: Any = None
        """Belongs to the handler."""
        self.unsettled: dict[int, Any] = {}
        """Unsettled deliveries by delivery-id (§2.6.12). A sender that uses a tag again before the
        receiver settles has settled the delivery itself; tags matter only when a link is
        resumed."""
        self.excused = 0
        """Transfers that may have been under way when we detached it."""
        self.incomplete = False
        """An unsettled map, ours or the peer's, is not all there is: only deliveries that are
        resumed may be sent (§2.7.3)."""

    # --- attach ---------------------------------------------------------------------------------

    def attach(self, then: Callable[[], None] | None = None, **fields: Any) -> None:
        """Write our attach. ``fields`` are those of the record beside name, handle, role, settle
        modes, source and target, which are the link's. ``then`` is called before anything is sent
        on the link."""
        if self.attach_sent or self.session.output_closed:
            return
        self.attach_sent = True
        record = w.Attach(
            name=self.name,
            handle=self.handle,
            role=self.receiver,
            snd_settle_mode=self.snd_mode,
            rcv_settle_mode=self.rcv_mode,
            source=self.source,
            target=self.target,
            **fields,
        )
        if not self.receiver:
            record.initial_delivery_count = self.count
        self.session.write_attach(record)
        self.incomplete = self.incomplete or bool(record.incomplete_unsettled)
        if self.closing is not None:
            self._part()
        elif not self.over:
            if then is not None:
                then()
            if self.attach_received:
                self.open()

    def open(self) -> None:
        """Both attaches are there: send the messages that waited for them."""

    def on_attach(self, record: w.Attach, found: list[Operation]) -> None:
        """The peer's attach, which begins the link or answers ours."""
        self.attach_received = True
        self.remote = record.handle
        self.record = record
        self.incomplete = self.incomplete or bool(record.incomplete_unsettled)
        self.take(record)
        if self.attach_sent and not self.over:
            self.handler.on_attached(self, record, found)
            refused = (record.source if self.receiver else record.target) is None
            if not self.over and not refused:
                self.open()

    def take(self, record: w.Attach) -> None:
        """Take over the fields of the peer's attach that the peer decides."""

    def stop(self) -> None:
        """It is over: nothing is sent or granted any more."""

    def mute(self) -> None:
        """Our close of the connection is written: send nothing more."""

    def top_up(self) -> None:
        """Grant more credit, if we receive and it is time."""

    def on_transfer(
        self, record: w.Transfer, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """A transfer, whose payload is ``buf[at:end]``."""
        text = "a transfer on a link over which its sender receives"
        raise Violation(AmqpError.NOT_ALLOWED, text, Lost.SESSION, self.session.number)

    def on_flow(self, record: w.Flow, found: list[Operation]) -> None:
        """The peer's flow state of the link."""

    def refuse(self, symbol: str, text: str, info: dict[Any, Any] | None = None) -> None:
        """There is no terminus on our side (§2.6.3): attach with null for it, then detach. The
        handler, which asks for it, gets no ``on_detached``."""
        if self.receiver:
            self.target = None
        else:
            self.source = None
        if not self.over:
            self.over = True
            self.fault = error(symbol, text, info)
            self.closing = True
            self.session.forget(self, True)
        self.attach()

    # --- detach ---------------------------------------------------------------------------------

    def fail(
        self, symbol: str, text: str, found: list[Operation], info: Any = None, keep: bool = False
    ) -> None:
        """Detach it with an error (§2.6.5), which destroys this end. ``keep``: its terminus lives
        on, with its unsettled deliveries."""
        if not self.over:
            self.fault = error(symbol, text, info)
            self._end(True, keep, found)

    def detach(self, closed: bool, found: list[Operation] | None = None) -> None:
        """Answer the peer's detach, or begin to detach it."""
        if self.over:
            if self.closing is None:
                self.closing = closed
                self._part()
        else:
            self._end(closed, not closed, self.session.connection.later if found is None else found)

    def _end(self, closed: bool, keep: bool, found: list[Operation]) -> None:
        self.over = True
        self.closing = closed
        self.excused = max(self.credit, 0)
        self.handler.on_detached(self, None, not keep, False, found)
        self.session.forget(self, closed)
        self._part()

    def on_detach(self, record: w.Detach, found: list[Operation]) -> None:
        """The peer has detached it, or answers our detach."""
        self.remote = None
        if not self.over:
            self.over = True
            closed = bool(record.closed) or record.error is not None
            self.handler.on_detached(self, record, closed, False, found)
            self.session.forget(self, closed)
        elif self.detach_sent:
            self.session.release(self)

    def on_lost(self, lost: bool, found: list[Operation]) -> None:
        """Its session is over; or (``lost``) the connection."""
        if not self.over:
            self.over = True
            self.handler.on_detached(self, None, False, lost, found)

    def _part(self) -> None:
        """Write our detach, when it is time."""
        if self.attach_sent and not self.detach_sent and not self.session.output_closed:
            self.detach_sent = True
            self.session.write(w.Detach(self.handle, self.closing or None, self.fault))
            if self.attach_received and self.remote is None:
                self.session.release(self)

    def on_violation(self, violated: Violation, found: list[Operation]) -> None:
        """A mistake of the peer ends the link, if it costs no more than that."""
        if violated.lost is not Lost.LINK:
            raise violated
        self.fail(violated.symbol, violated.text, found, violated.info)

    def violated(self, symbol: str, text: str) -> Violation:
        """A mistake of the peer that costs the link."""
        return Violation(symbol, text, Lost.LINK, self.session.number)
