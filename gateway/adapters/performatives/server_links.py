"""Server role: the parts of attach and detach that both kinds of link share."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.performatives.composites import symbol_for
from gateway.adapters.performatives.links import Link
from gateway.adapters.performatives.outcomes import outcome_of
from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.termini import BadTerminus
from gateway.adapters.performatives.violation import error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import ReceiverSettleMode, SenderSettleMode
from gateway.errors import Condition, Lost
from gateway.operations import DetachLink
from gateway.values import Symbol

PAIRED = "paired"
"""A property of links that belong together (Link Pairing 1.0)."""


def refuser(link: Link) -> Callable[[Condition, str], None]:
    """The callback that refuses a link without a terminus at the broker."""

    return lambda condition, text: link.refuse(symbol_for(condition, Lost.LINK), text)


def take_settle_modes(link: Link, record: w.Attach) -> None:
    """The settle modes that the peer asks for (§2.8.2, §2.8.3). Raises ``BadTerminus``."""
    snd, rcv = record.snd_settle_mode, record.rcv_settle_mode
    link.snd_mode = SenderSettleMode.MIXED if snd is None else snd
    link.rcv_mode = ReceiverSettleMode.FIRST if rcv is None else rcv
    if link.snd_mode > SenderSettleMode.MIXED or link.rcv_mode > ReceiverSettleMode.SECOND:
        raise BadTerminus("a settle mode that is not defined")


def paired(record: w.Attach) -> dict[Any, Any] | None:
    """The link properties that we understand."""
    given = record.properties or {}
    return {Symbol(PAIRED): True} if given.get(PAIRED) is True else None


def known_outcomes(link: Link, unsettled: dict[bytes, Any] | None) -> dict[bytes, Any] | None:
    """The outcomes in the peer's unsettled map, by tag."""
    if unsettled is None:
        return None
    channel = link.session.number
    return {tag: outcome_of(state, channel, 0) for tag, state in unsettled.items()}


def detach_link(link: Link, record: w.Detach | None, closed: bool, lost: bool) -> DetachLink:
    """The operation that detaches a link, and whose answer is our detach if the peer waits for
    one."""
    token = None
    if record is not None:
        answer = bool(record.closed)

        def refused(condition: Condition, text: str) -> None:
            link.fault = error(symbol_for(condition, Lost.LINK), text)
            link.detach(answer)

        token = PendingReply(lambda result: link.detach(answer), refused)
    operation = DetachLink(link.session.number, token, link.number, closed, lost)
    operation.failed = closed and (record is None or record.error is not None)
    return operation
