"""What both kinds of link have in common (§2.6), and what decides over them: the ``LinkHandler``.

A session and its links keep to the protocol and know nothing of broker or client. What a complete
message, an outcome or an attach means is asked of a use: the server's is in ``server`` and
``coordinator``, the client's in ``client``. A session has one for what the peer begins, each link
one for what happens on it.

Whatever ends a link (the peer's detach, our own, an error, the end of its session or connection),
its use hears ``on_detached`` exactly once.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from gateway.adapters.performatives.violation import Violation, error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import Lost
from gateway.message import Message
from gateway.operations import Operation

if TYPE_CHECKING:
    from gateway.adapters.performatives.receiving_link import IncomingDelivery, ReceivingLink
    from gateway.adapters.performatives.sending_link import OutgoingDelivery, SendingLink
    from gateway.adapters.performatives.session import Session

MASK = 0xFFFF_FFFF
"""Sequence numbers have 32 bits and wrap around (RFC 1982)."""

HALF = 0x8000_0000


def ahead(number: int, other: int) -> int:
    """How far ``number`` is ahead of ``other``; negative if it is behind (RFC 1982)."""
    return ((number - other + HALF) & MASK) - HALF


class LinkHandler(Protocol):
    """What is done with a link. ``found`` takes the operations. May raise ``Violation``; with
    ``Lost.LINK`` (``link.violated``) it costs the link and no more."""

    def on_attached(self, link: Any, record: w.Attach, found: list[Operation]) -> None:
        """The peer has answered our attach. A refusal too looks like this (the terminus on its
        side is null), and is followed by its detach (§2.6.3)."""
        ...

    def on_message(
        self,
        link: "ReceivingLink",
        arrival: "IncomingDelivery",
        octets: Any,
        found: list[Operation],
    ) -> None:
        """A message is complete: ``bytes``, or ``Parted`` if the link ``spools``. Unless
        ``arrival.settled``, its outcome is told with ``session.settle``, now or later. Hot."""
        ...

    def on_outcome(
        self,
        link: "SendingLink",
        sent: "OutgoingDelivery",
        state: Any,
        settled: bool,
        found: list[Operation],
    ) -> None:
        """The peer's state of a delivery of ours: a record, or ``None`` if it settles without one.
        ``settled``: the peer has forgotten the delivery. After a terminal state or settlement the
        session forgets it too, and tells the peer if that waits for it. Not called for
        ``received``. Hot."""
        ...

    def on_unsent(self, link: "SendingLink", number: int, message: Message, text: str) -> None:
        """A message cannot go over this link: it is larger than the peer takes, or has no form in
        this version. Nothing of it was sent, no credit was used. Outside of ``receive``."""
        ...

    def on_credit(self, link: Any, record: w.Flow, found: list[Operation]) -> None:
        """A flow for this link has come; ``link.credit`` is up to date. If we send over it and
        ``link.drain`` is set, ``link.drained`` answers when there is nothing more to send."""
        ...

    def on_detached(
        self,
        link: Any,
        record: w.Detach | None,
        closed: bool,
        lost: bool,
        found: list[Operation],
    ) -> None:
        """It is over: for good (``closed``), or to be resumed. ``record`` is the peer's detach,
        which ``link.detach`` answers, now or later; otherwise nothing is to be said. ``lost``: the
        connection is over."""
        ...


class SessionHandler(Protocol):
    """What is done with a session. The engine gives one to each session (``engine.handler``)."""

    def on_begin(self, session: "Session", record: w.Begin, found: list[Operation]) -> None:
        """The peer wants to begin it, which ``session.begin`` answers; or, if ``session.begun``,
        it has answered us."""
        ...

    def on_attach(self, session: "Session", record: w.Attach, found: list[Operation]) -> None:
        """The peer wants a new link. ``session.accept`` makes it; then ``link.attach`` or
        ``link.refuse`` answer, now or later."""
        ...

    def on_end(
        self,
        session: "Session",
        record: w.End | None,
        fault: w.Error | None,
        lost: bool,
        found: list[Operation],
    ) -> None:
        """It is over, and so are all its links. ``record`` is the peer's end, which
        ``session.end`` answers; ``fault`` the peer's mistake, for which we have ended it;
        ``lost``: the connection is over."""
        ...

    def on_acquire(self, link: "SendingLink", work: Any) -> None:
        """The receiver wants what is sent from now on to be acquired within this transaction
        (§4.4.3), or in none (``None``). May raise ``Violation``."""
        ...

    def on_outcomes(
        self,
        deliveries: "list[OutgoingDelivery]",
        state: Any,
        settled: bool,
        found: list[Operation],
    ) -> "list[OutgoingDelivery]":
        """The receiver has said this of many deliveries of ours. Gives those of which it is to be
        said to ``LinkHandler.on_outcome`` one by one."""
        ...

    def on_late_outcome(self, state: Any) -> None:
        """The receiver has said this of deliveries of which some have gone back, because their
        link is closed."""
        ...

    def on_settlement_awaited(
        self,
        session: Any,
        runs: Iterable[tuple[int, int]],
        state: Any,
        before: int,
        found: list[Operation],
    ) -> None:
        """The receiver has said the outcome of these deliveries of ours (first and last id of each
        run) and waits for us to settle, which ``session.settle_sent`` does, now or later. What
        ``on_outcome`` made of them stands in ``found`` from index ``before`` on. Hot."""
        ...

    def confirm(self, session: "Session", sequence: int, multiple: bool, accepted: bool) -> None:
        """The outlet's word, if it is for us."""
        ...


class EndedHandler:
    """The use of a session that is over: nothing is done with it."""

    def on_begin(self, session: "Session", record: w.Begin, found: list[Operation]) -> None:
        """It has been."""

    def on_attach(self, session: "Session", record: w.Attach, found: list[Operation]) -> None:
        """None is made."""

    def on_end(
        self,
        session: "Session",
        record: w.End | None,
        fault: w.Error | None,
        lost: bool,
        found: list[Operation],
    ) -> None:
        """It has been."""

    def on_acquire(self, link: "SendingLink", work: Any) -> None:
        """Nothing is sent any more."""

    def on_outcomes(
        self,
        deliveries: "list[OutgoingDelivery]",
        state: Any,
        settled: bool,
        found: list[Operation],
    ) -> "list[OutgoingDelivery]":
        """Nobody is left to care."""
        return []

    def on_late_outcome(self, state: Any) -> None:
        """Nobody is left to care."""

    def on_settlement_awaited(self, *_: Any) -> None:
        """Nobody is left to be told."""

    def confirm(self, session: "Session", sequence: int, multiple: bool, accepted: bool) -> None:
        """Nobody is left to be told."""


ENDED = EndedHandler()


class Link:
    """One end of a link. ``number`` names it in operations. ``handle`` is ours, ``remote`` the
    peer's (§2.6.2)."""

    __slots__ = (
        "session", "number", "name", "handler", "handle", "remote", "attach_sent",
        "attach_received", "over", "closing", "detach_sent", "fault", "snd_mode", "rcv_mode",
        "source", "target", "record", "credit", "count", "drain", "max_message", "data", "excused",
        "incomplete",
    )  # fmt: skip

    receiver = False
    """Our role: do we receive over it?"""

    def __init__(self, session: "Session", name: str, handle: int, handler: LinkHandler) -> None:
        self.session = session
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
        """One of us has detached it, and its use knows."""
        self.closing: bool | None = None
        """Our detach is due as soon as our attach is written: for good (true) or not."""
        self.detach_sent = False
        """Our detach is written."""
        self.fault: w.Error | None = None
        """What our detach says."""
        self.snd_mode = 2
        """Settle modes in force (§2.8.2, §2.8.3)."""
        self.rcv_mode = 0
        self.source: Any = None
        """The termini, as our attach says them."""
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
        """Belongs to the use."""
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
        """Both attaches are there: what waited for that may go."""

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
        """What the peer decides."""

    def stop(self) -> None:
        """It is over: nothing is sent or granted any more."""

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
        use, which asks for it, is not told."""
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
        on, with what is unsettled."""
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
            self._end(closed, not closed, self.session.engine.later if found is None else found)

    def _end(self, closed: bool, keep: bool, found: list[Operation]) -> None:
        self.over = True
        self.excused = max(self.credit, 0)
        self.handler.on_detached(self, None, not keep, False, found)
        self.session.forget(self, closed)
        self.closing = closed
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

    def violated(self, symbol: str, text: str) -> Violation:
        """A mistake of the peer that costs the link."""
        return Violation(symbol, text, Lost.LINK, self.session.number)
