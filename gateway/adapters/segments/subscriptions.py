"""Subscriptions of a session and their credit, in messages and in octets. The broker counts down
what it was told; a message goes out if both are enough for the whole of it (message.flow)."""

from collections.abc import Callable
from itertools import count

from gateway.adapters.segments.completion import SentCommands
from gateway.adapters.segments.envelope import Envelope
from gateway.adapters.segments.frames import opening
from gateway.adapters.segments.operations import write_command
from gateway.adapters.segments.wire.layouts import MessageTransfer
from gateway.adapters.segments.wire.tables import AcceptMode, AcquireMode, CreditUnit
from gateway.message import Message
from gateway.operations import Credit, Token

UNLIMITED = 0xFFFFFFFF
MANY = 1 << 62
"""Messages, where only the octets are limited."""


MOST_VAIN = 4
SELDOM = 63
"""After so many envelopes in turn for nothing, one is made for one transfer of 64."""

Spent = tuple[str, int, int]
"""The credit of a transfer: name of the subscription, octets, epoch."""

_EPOCHS = count()


class Subscription:
    """One subscription. It begins in window mode, without credit in either unit.

    ``None`` is credit without limit. ``settled``: deliveries need no accept, nor can they be
    acquired; others are added to ``unsettled``. ``epoch`` is another one after the credit was
    dropped: a transfer that completes gives back only credit of its own epoch, and no other
    subscription has the same."""

    __slots__ = (
        "name", "settled", "unsettled", "segment", "window", "messages", "octets", "epoch",
        "flushing", "behind", "channel", "deleted", "opening", "envelope", "_prepared", "_vain",
        "_told", "_asked", "_one",
    )  # fmt: skip

    def __init__(
        self,
        channel: int,
        name: str,
        accept_mode: int,
        acquire_mode: int,
        unsettled: SentCommands[int],
    ) -> None:
        self.name = name
        self.settled = accept_mode == AcceptMode.NONE and acquire_mode == AcquireMode.PRE_ACQUIRED
        self.unsettled = unsettled
        self.segment = write_command(MessageTransfer(name, accept_mode, acquire_mode))
        """The command of a transfer to it, encoded."""
        self.window = True
        self.messages: int | None = 0
        self.octets: int | None = 0
        self.epoch = next(_EPOCHS)
        self._one: Spent = name, 0, self.epoch
        """What a transfer costs while octets are not limited."""
        self.flushing = False
        """A message.flush is under way; later commands for this subscription wait ``behind`` it."""
        self.behind: list[Callable[[], None]] = []
        self._vain = 0
        """Envelopes that were prepared one behind the other, and served for no other delivery."""
        self.attach(channel)
        self._told = Credit(channel, None, name, 0)
        """The credit as the broker was told. Deliveries before it is performed count for
        it."""
        self.deleted = ""
        """The queue is deleted, which the client is told in these words when it gives credit."""
        self._asked: Credit | None = None
        """The same of the last command that waits for an answer, if it was the last one."""

    def attach(self, channel: int) -> None:
        """Its session has this channel."""
        self.channel = channel
        self.opening = opening(channel, self.segment)
        """The frame of the command."""
        self.envelope: Envelope | None = None
        """That of the delivery before, if such a one may follow."""
        self._prepared = -1
        """The number of the transfer for which it was made."""

    def prepare(self, number: int, message: Message, header: bytes, limit: int) -> None:
        """The transfer with this number was sent without an envelope: make one for the next, unless
        several in turn have served for none."""
        self._vain = self._vain + 1 if number == self._prepared + 1 else 0
        self._prepared = number
        if self._vain < MOST_VAIN or not number & SELDOM:
            self.envelope = Envelope(message, header, self.opening, self.channel, limit)
        else:
            self.envelope = None

    @property
    def idle(self) -> bool:
        """Without any credit."""
        return self.messages == 0 and self.octets == 0

    @property
    def starved(self) -> bool:
        """Without credit in one of the units, and no flush is under way."""
        return (self.messages == 0 or self.octets == 0) and not self.flushing

    def add(self, unit: int, value: int) -> None:
        """More credit (message.flow)."""
        more = None if value == UNLIMITED else value
        if unit == CreditUnit.MESSAGE:
            self.messages = None if more is None or self.messages is None else self.messages + more
        else:
            self.octets = None if more is None or self.octets is None else self.octets + more

    def drop(self) -> None:
        """No more credit (message.stop, and the rest after a flush)."""
        self.messages = self.octets = 0
        self.epoch = next(_EPOCHS)
        self._one = self.name, 0, self.epoch

    def spend(self, cost: int) -> Spent | None:
        """A transfer was sent; ``cost``: octets of its header and body. What its completion gives
        back. Hot."""
        if self.messages:
            self.messages -= 1
        told, asked = self._told, self._asked
        if told.count:
            told.count -= 1
        if asked is not None and asked.count:
            asked.count -= 1
        if self.octets is None:
            return self._one if self.window and self.messages is not None else None
        if self.octets:
            self.octets = max(self.octets - cost, 0)
            if told.octets:
                told.octets = max(told.octets - cost, 0)
            if asked is not None and asked.octets:
                asked.octets = max(asked.octets - cost, 0)
        return (self.name, cost, self.epoch) if self.window else None

    def give_back(self, cost: int, epoch: int, times: int = 1) -> bool:
        """So many transfers of this cost have completed. Whether that gives credit back."""
        if not self.window or epoch != self.epoch or self.deleted:
            return False
        if self.messages is not None:
            self.messages += times
        if self.octets is not None:
            self.octets += cost * times
        return self.messages is not None or self.octets is not None

    def tell(self, token: Token = None, drain: bool = False) -> Credit:
        """The credit as the broker needs it. Of several that are on their way to the broker, each
        must set the rest when it gets there: without a token they are one operation."""
        count, told = self.messages, self._told
        if count is None and self.octets is not None:
            count = MANY
        if token is not None or drain:
            self._asked = Credit(self.channel, token, self.name, count, drain, self.octets)
            return self._asked
        self._asked = None
        told.channel, told.count, told.octets = self.channel, count, self.octets
        return told
