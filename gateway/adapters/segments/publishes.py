"""Client role: publishes of one session whose fate is of interest, until they are complete.

A transfer is complete when the server has stored it or thrown it away. It says so before (message
.reject) to a publisher whose accept-mode is explicit. Publishes are confirmed in their order.
"""

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.segments.completion import SentCommands
from gateway.adapters.segments.operations import write_command
from gateway.adapters.segments.wire.layouts import MessageTransfer
from gateway.adapters.segments.wire.tables import AcceptMode, RejectCode
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import Confirm, Operation, Returned

RETURN_CODES = {
    Condition.NO_ROUTE: RejectCode.UNROUTABLE,
    Condition.NO_CONSUMERS: RejectCode.IMMEDIATE,
}
"""Codes of message.reject for messages that come back, which is no failure of the publish."""
RETURNS = {code: condition for condition, code in RETURN_CODES.items()}


_TRANSFERS: BoundedCache[tuple[str, bool], bytes] = BoundedCache()


class Published:
    """One publish. ``sequence``: its number as in ``Confirm``, or 0."""

    __slots__ = ("sequence", "message", "accepted")

    def __init__(self, sequence: int, message: Message) -> None:
        self.sequence = sequence
        self.message = message
        self.accepted = True


class Publishes:
    """The publishes of one session."""

    __slots__ = ("confirming", "sent", "channel", "_sequence", "_next", "_early")

    def __init__(self, channel: int) -> None:
        self.confirming = False
        self.sent: SentCommands[Published] = SentCommands()
        self.channel = channel
        self._sequence = 0
        self._next = 1
        """The lowest number that is not confirmed."""
        self._early: dict[int, bool] = {}
        """Outcomes of later numbers."""

    def add(self, number: int, message: Message) -> None:
        """A message was sent, by the command with this number. Hot."""
        if self.confirming:
            self._sequence += 1
            self.sent.add(number, Published(self._sequence, message))
        else:
            self.sent.add(number, Published(0, message))

    def rejected(
        self, ranges: list[tuple[int, int]], code: int, text: str, found: list[Operation]
    ) -> None:
        """The server does not take these messages."""
        for published in self.sent.look(ranges).values():
            condition = RETURNS.get(code, Condition.PRECONDITION_FAILED)
            if code not in RETURNS:
                published.accepted = False
            if code in RETURNS or not published.sequence:
                message, sequence = published.message, published.sequence
                why = text or condition.name
                found.append(Returned(self.channel, message, condition, why, sequence))

    def completed(self, ranges: list[tuple[int, int]], found: list[Operation]) -> None:
        """The server has dealt with these."""
        taken = self.sent.take(ranges)
        for number in sorted(taken):
            published = taken[number]
            if published.sequence:
                self._confirm(published.sequence, published.accepted, found)

    def _confirm(self, sequence: int, accepted: bool, found: list[Operation]) -> None:
        """Consecutive numbers with the same outcome are confirmed by one ``Confirm``. Hot."""
        if sequence != self._next:
            self._early[sequence] = accepted
            return
        channel = self.channel
        while True:
            last = found[-1] if found else None
            if isinstance(last, Confirm) and last.channel == channel and last.accepted is accepted:
                last.sequence = sequence
                last.multiple = True
            else:
                found.append(Confirm(channel, sequence, False, accepted))
            self._next = sequence = sequence + 1
            if sequence not in self._early:
                return
            accepted = self._early.pop(sequence)


def transfer(exchange: str, explicit: bool) -> bytes:
    """The command of a publish, encoded."""
    wanted = exchange, explicit
    known = _TRANSFERS.get(wanted)
    if known is not None:
        return known
    mode = AcceptMode.EXPLICIT if explicit else AcceptMode.NONE
    return _TRANSFERS.keep(wanted, write_command(MessageTransfer(exchange, mode)))
