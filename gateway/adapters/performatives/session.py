"""The session endpoint (§2.5), the same for both roles: begin and end, windows, handles, delivery
ids. ``UnsettledDeliveries`` handles its dispositions. It is also the ``Outlet`` of its channel.

Both ends must have ended before the channel numbers are free. After our end, all input of the
session is discarded until the peer's end (§2.5.4), and ``output_closed`` stops all output.
"""

import heapq
from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.deliveries import UnsettledDeliveries
from gateway.adapters.performatives.links import (
    MASK,
    Link,
    LinkConnection,
    LinkHandler,
    SessionHandler,
    ahead,
)
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.violation import Violation, error, framing_error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError, SessionError
from gateway.errors import LocalError, Lost
from gateway.message import Message
from gateway.operations import Operation
from gateway.values import Symbol

WINDOW = 2048
"""Our incoming-window: transfers that the peer may send before our next flow."""

OUTGOING_WINDOW = 0x7FFF_FFFF
"""We never hold back transfers for a reason of our own."""

LEAST = 3
"""Octets of an entry of an unsettled map, at the least."""

HANDLE_MAX = 1023
"""The highest handle that the peer may use."""


ENDED = SessionHandler()
"""The handler of a session that has ended: it does nothing."""


class Channels(Protocol):
    """The sessions of the connection, as one of them needs them."""

    sessions: dict[int, "Session"]
    """By our channel number."""

    def ended(self, session: "Session") -> None:
        """The peer's end has come."""
        ...

    def gone(self, session: "Session") -> None:
        """Both ends have ended."""
        ...


def _unowned(allowed: bool) -> None:
    """No-op: a session without an owner."""


class Session:
    """One session. ``number`` is our channel, ``remote`` the peer's."""

    def __init__(
        self,
        connection: LinkConnection,
        channels: Channels,
        new_handler: Callable[["Session"], SessionHandler],
        number: int,
    ) -> None:
        self.number = number
        self.connection = connection
        self.channels = channels
        self.output_closed = False
        """Our end is written, or the connection is over."""
        self.unsettled = UnsettledDeliveries(self, connection.frame_out - 8)
        self.on_disposition = self.unsettled.on_disposition
        self.remote: int | None = None
        self.begun = False
        """Our begin is written."""
        self.ended = False
        """The peer's end has come."""
        self.reason: w.Error | None = None
        """The error in the peer's end."""
        self.reported = False
        """``on_end`` has been called."""
        self.allow_deliveries: Callable[[bool], None] = _unowned
        self.next_incoming_id = 0
        self.incoming_window = WINDOW
        self.next_outgoing_id = 0
        self.window = 0
        """remote-incoming-window of §2.5.6: transfers that we may send."""
        self.remote_outgoing_window = 0
        self.handle_max = MASK
        """The highest handle the peer takes."""
        self.next_delivery_id = 0
        self.links: dict[str, Link] = {}
        """Those that are not over, by number."""
        self.names: dict[tuple[str, bool], Link] = {}
        """The same by name and our role."""
        self.handles: dict[int, Link] = {}
        """By the peer's handle, until it has detached them."""
        self._serial = 0
        self._taken: set[int] = set()
        self._free: list[int] = []
        self._waiting: dict[SendingLink, None] = {}
        """Links that have something to send and no window for it."""
        self._shut = False
        self._early: list[Any] = []
        """Records that wait for our begin."""
        self.suspended: dict[tuple[str, bool], Link] = {}
        """Links detached and not closed that still have unsettled deliveries."""
        self.handler: SessionHandler = new_handler(self)

    def serial(self) -> str:
        """A name for the next link, in operations."""
        self._serial += 1
        return str(self._serial)

    # --- begin and end --------------------------------------------------------------------------

    def begin(self, **fields: Any) -> None:
        """Write our begin, as the first or in answer to the peer's (§2.5.1), and the records that
        waited for it."""
        if self.begun:
            return
        self.begun = True
        record = w.Begin(
            remote_channel=self.remote,
            next_outgoing_id=self.next_outgoing_id,
            incoming_window=WINDOW,
            outgoing_window=OUTGOING_WINDOW,
            handle_max=HANDLE_MAX,
            **fields,
        )
        for each in (record, *self._early):
            self.connection.write(self.number, each)
        self._early.clear()

    def on_begin(self, record: w.Begin, remote: int, found: list[Operation]) -> None:
        self.remote = remote
        self.next_incoming_id = record.next_outgoing_id
        self.window = record.incoming_window
        self.remote_outgoing_window = record.outgoing_window
        if record.handle_max is not None:
            self.handle_max = record.handle_max
        if not self.output_closed:
            self.handler.on_begin(record, found)

    def end(self, found: list[Operation] | None = None) -> None:
        """Answer the peer's end, or begin to end it: then its links are over at once, and
        ``on_end`` is called when the peer's end comes."""
        if self.output_closed:
            return
        self._lose_links(False, self.connection.later if found is None else found)
        self._end(None)

    def fail(
        self, symbol: str, text: str, found: list[Operation], info: dict[Any, Any] | None = None
    ) -> None:
        """End it for a mistake of the peer (§2.5.4)."""
        if self.output_closed:
            return
        fault = error(symbol, text, info)
        self._lose_links(False, found)
        self._tell(None, fault, False, found)
        self._end(fault)

    def _end(self, fault: w.Error | None) -> None:
        self.write(w.End(fault))
        self.output_closed = True
        self._clear()
        if self.ended:
            self.channels.gone(self)

    def on_end(self, record: w.End, found: list[Operation]) -> None:
        self.ended = True
        self.reason = record.error
        self.channels.ended(self)
        if not self.output_closed:
            self._lose_links(False, found)
        self._tell(record, None, False, found)
        if self.output_closed:
            self.channels.gone(self)

    def lost(self, found: list[Operation]) -> None:
        """The connection is over."""
        self._lose_links(True, found)
        self._tell(None, None, True, found)
        self.output_closed = True
        self._clear()

    def mute(self) -> None:
        """Our close of the connection is written: send nothing more."""
        for link in self.links.values():
            link.mute()

    def retire(self) -> None:
        """Both ends have ended. The session and its handler refer to each other: sessions may come
        and go by the thousand, and this way they leave nothing for the collector."""
        self.handler = ENDED

    def _tell(
        self, record: w.End | None, fault: w.Error | None, lost: bool, found: list[Operation]
    ) -> None:
        if not self.reported:
            self.reported = True
            self.handler.on_end(record, fault, lost, found)

    def _lose_links(self, lost: bool, found: list[Operation]) -> None:
        for link in list(self.links.values()):
            link.on_lost(lost, found)
            link.stop()
        self.links.clear()
        self.names.clear()

    def _clear(self) -> None:
        self.unsettled.close()
        self.handles.clear()
        self._waiting.clear()
        self.suspended.clear()

    # --- output ---------------------------------------------------------------------------------

    def write(self, record: Any) -> None:
        """One frame of this session; nothing goes before its begin."""
        if self.output_closed:
            return
        if self.begun:
            self.connection.write(self.number, record)
        else:
            self._early.append(record)

    def write_attach(self, record: w.Attach) -> None:
        """Attach, with as much of the unsettled map as fits a frame (§2.7.3)."""
        room = self.connection.frame_out - 8
        if record.unsettled and len(record.unsettled) > room // LEAST:
            record.unsettled = dict(islice(record.unsettled.items(), room // LEAST))
            record.incomplete_unsettled = True
        while len(write(record)) > room:
            if not record.unsettled:
                text = "our attach does not fit a frame"
                self.fail(AmqpError.FRAME_SIZE_TOO_SMALL, text, self.connection.later)
                return
            some = list(record.unsettled.items())
            record.unsettled = dict(some[: len(some) // 2])
            record.incomplete_unsettled = True
        self.write(record)

    def write_flow(self, link: Link | None = None, echo: bool = False, **fields: Any) -> None:
        """Our flow state, with that of a link (§2.7.4)."""
        record = w.Flow(
            next_incoming_id=None if self.remote is None else self.next_incoming_id,
            incoming_window=self.incoming_window,
            next_outgoing_id=self.next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
            echo=echo or None,
            **fields,
        )
        if link is not None:
            record.handle = link.handle
            record.link_credit = max(link.credit, 0)
            record.drain = link.drain or None
            if not link.receiver or link.attach_received:
                record.delivery_count = link.count
            if isinstance(link, SendingLink) and link.acquiring is not None:
                record.properties = {Symbol("txn-id"): link.acquiring}
        self.write(record)

    # --- links ----------------------------------------------------------------------------------

    def offer(self, name: str, receiver: bool, handler: LinkHandler) -> Any:
        """A new link of ours, a ``ReceivingLink`` if we receive over it; ``link.attach`` is next.
        Raises ``LocalError`` if it cannot be."""
        if (name, receiver) in self.names:
            raise LocalError(f"a link {name!r} is there already")
        link = self._made(name, receiver, handler)
        if link.handle > self.handle_max:
            self.release(link)
            self.forget(link, True)
            raise LocalError(f"the peer takes no more than {self.handle_max + 1} links")
        return link

    def accept(self, record: w.Attach, handler: LinkHandler, found: list[Operation]) -> Any:
        """The link that the peer's attach asks for. ``link.attach`` or ``link.refuse`` answer."""
        link = self._made(record.name, not record.role, handler)
        if link.handle > self.handle_max:
            self.release(link)
            del self.links[link.number]
            raise self.violated(
                AmqpError.RESOURCE_LIMIT_EXCEEDED,
                f"more links than the {self.handle_max + 1} handles that you take",
            )
        self.handles[record.handle] = link
        link.on_attach(record, found)
        return link

    def _made(self, name: str, receiver: bool, handler: LinkHandler) -> Link:
        handle = heapq.heappop(self._free) if self._free else len(self._taken)
        self._taken.add(handle)
        kind = ReceivingLink if receiver else SendingLink
        link: Link = kind(self, name, handle, handler)
        self.links[link.number] = link
        self.names[name, receiver] = link
        return link

    def forget(self, link: Link, closed: bool) -> None:
        """A link is over. Its deliveries are live until it is closed or failed (§2.7.6)."""
        link.stop()
        self.links.pop(link.number, None)
        key = link.name, link.receiver
        if self.names.get(key) is link and (link.attach_received or not link.attach_sent):
            del self.names[key]
        self._waiting.pop(link, None)  # type: ignore[call-overload]
        if closed:
            self.unsettled.drop(link)
        elif isinstance(link, ReceivingLink | SendingLink) and link.unsettled:
            if len(self.suspended) > HANDLE_MAX:
                oldest = next(iter(self.suspended))
                self.unsettled.drop(self.suspended.pop(oldest))
            self.suspended[key] = link

    def release(self, link: Link) -> None:
        """Both ends have detached: the handle is free again (§2.8.4)."""
        if link.handle in self._taken:
            self._taken.discard(link.handle)
            heapq.heappush(self._free, link.handle)
            if not self._taken:
                self._free.clear()
        key = link.name, link.receiver
        if self.names.get(key) is link:
            del self.names[key]

    def on_attach(self, record: w.Attach, found: list[Operation]) -> None:
        if self.output_closed:
            return
        if record.handle > HANDLE_MAX:
            raise framing_error(f"handle {record.handle} is above {HANDLE_MAX}")
        if record.handle in self.handles:
            raise self.violated(
                SessionError.HANDLE_IN_USE, f"handle {record.handle} is used by another link"
            )
        ours = self.names.get((record.name, not record.role))
        if ours is not None and ours.attach_sent and not ours.attach_received:
            self.handles[record.handle] = ours
            ours.on_attach(record, found)
            return
        for link in self.handles.values():
            same = link.name == record.name and link.receiver is not record.role
            if same and link.fault is not None and record.unsettled is None:
                raise self.errant(link)  # a re-attach that was under way (§2.6.5)
        self.handler.on_attach(record, found)

    def on_detach(self, record: w.Detach, found: list[Operation]) -> None:
        if self.output_closed:
            return
        link = self.handles.pop(record.handle, None)
        if link is None:
            raise self.unattached(record.handle)
        link.on_detach(record, found)

    def violated(self, symbol: str, text: str) -> Violation:
        """A mistake of the peer that costs the session."""
        return Violation(symbol, text, Lost.SESSION, self.number)

    def unattached(self, handle: int) -> Violation:
        return self.violated(SessionError.UNATTACHED_HANDLE, f"handle {handle} is not attached")

    def errant(self, link: Link) -> Violation:
        text = f"input for link {link.name[:80]!r}, which was detached with an error"
        return self.violated(SessionError.ERRANT_LINK, text)

    # --- transfers and flow ---------------------------------------------------------------------

    def on_transfer(
        self, record: w.Transfer, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """Hot."""
        if self.output_closed:
            return
        link = self.handles.get(record.handle)
        if link is None:
            raise self.unattached(record.handle)
        if self.incoming_window <= 0:
            raise self.violated(SessionError.WINDOW_VIOLATION, "more transfers than the window has")
        self.incoming_window -= 1
        self.next_incoming_id = self.next_incoming_id + 1 & MASK
        self.remote_outgoing_window -= 1
        try:
            link.on_transfer(record, buf, at, end, found)
        except Violation as violated:
            link.on_violation(violated, found)
        self.renew_window()

    def renew_window(self) -> None:
        """Let more transfers come, if half of the incoming window is used. Hot."""
        if self.incoming_window <= WINDOW >> 1:
            self.incoming_window = WINDOW
            self.write_flow()

    def on_flow(self, record: w.Flow, found: list[Operation]) -> None:
        """§2.5.6 for the session, §2.6.7 for the link."""
        if self.output_closed:
            return
        link = None
        if record.handle is not None:
            link = self.handles.get(record.handle)
            if link is None:
                raise self.unattached(record.handle)
        elif (
            record.delivery_count is not None
            or record.link_credit is not None
            or record.available is not None
            or record.drain
            or record.properties
        ):
            raise self.violated(AmqpError.INVALID_FIELD, "state of a link in a flow without handle")
        self.next_incoming_id = record.next_outgoing_id
        self.remote_outgoing_window = record.outgoing_window
        seen = 0 if record.next_incoming_id is None else record.next_incoming_id
        # What is sent and not yet seen counts against the window.
        self.window = max(0, record.incoming_window - ahead(self.next_outgoing_id, seen))
        if link is not None and not link.over:
            try:
                link.on_flow(record, found)
            except Violation as violated:
                link.on_violation(violated, found)
        if record.echo:
            self.write_flow(
                link if link is not None and link.attach_sent and not link.over else None
            )
        self.go_on()

    def wait(self, link: SendingLink) -> None:
        """A link has something to send and there is no window: stop deliveries."""
        self._waiting[link] = None
        if not self._shut:
            self._shut = True
            self.allow_deliveries(False)

    def go_on(self) -> None:
        """There may be a window again: send queued deliveries first."""
        for link in list(self._waiting):
            if self.window <= 0:
                return
            if self.connection.portions.full:
                self.connection.portions.stall(self)
                return
            del self._waiting[link]
            link.flush()
        if self._shut and not self._waiting and self.window > 0:
            self._shut = False
            self.allow_deliveries(True)

    def unblocked(self) -> None:
        """Publishers may go on: credit again."""
        for link in list(self.links.values()):
            link.top_up()

    # --- outlet ---------------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Hot."""
        link = self.links.get(consumer)
        if isinstance(link, SendingLink):
            link.deliver(delivery, message, redelivered)

    def deliver_run(self, consumer: str, first: int, messages: list[Message]) -> None:
        """Hot."""
        link = self.links.get(consumer)
        if isinstance(link, SendingLink):
            link.deliver_run(first, messages)

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Hot."""
        if not self.output_closed:
            self.handler.on_confirm(sequence, multiple, accepted)
