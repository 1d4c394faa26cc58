"""RabbitMQ's stream queues: logs at the upstream of a facade, which are read without being taken.

A consumer names the offset at which it begins, and every delivery has its offset in a header. A
stream cannot be fetched from (basic.get) or purged, and its deliveries cannot be rejected or given
back: RabbitMQ ends the connection of a client that tries. A settlement only gives credit.
"""

import re
from collections.abc import Callable
from functools import partial

from gateway.broker.answers import Answer
from gateway.errors import Condition, Refusal
from gateway.message import Message, Table
from gateway.operations import DeclareQueue

TYPE = "x-queue-type"
STREAM = "stream"
OFFSET = "x-stream-offset"
FIELD = b"\x0f" + OFFSET.encode() + b"l"
"""The header of a delivery as the upstream writes it: its name with the length, and the tag of a
number of eight octets."""
OCTETS = 8
NOTHING_YET = -2
"""Offset before the first delivery."""
NAMED = frozenset({"first", "last", "next"})
INTERVAL = re.compile(r"[0-9]{1,9}[YMDhms]", re.ASCII)


def offset_of(message: Message) -> int | None:
    """The offset of a delivery of a stream queue; ``None`` if it has none."""
    header = message.header
    at = header.find(FIELD)
    if at < 0:
        return None
    if header.count(FIELD) == 1:
        start = at + len(FIELD)
        return int.from_bytes(header[start : start + OCTETS], "big")
    # The same octets stand in a header of the publisher's.
    try:
        found = (message.dialect.read(header).application or {}).get(OFFSET)
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def check_offset(queue: str, arguments: Table) -> None:
    """Raises ``Refusal`` (406) for an offset over which RabbitMQ would end the connection, which
    all consumers of the facade share."""
    given = arguments.get(OFFSET, "next")
    if isinstance(given, str):
        fits = given in NAMED or INTERVAL.fullmatch(given) is not None
    else:
        fits = isinstance(given, int) and not isinstance(given, bool)
    if not fits:
        text = f"invalid arg '{OFFSET}' for {queue}: {given!r}"
        raise Refusal(Condition.PRECONDITION_FAILED, text)


class QueueType:
    """The ``x-queue-type`` of a queue of the upstream: ``name``, "" for none or one that the
    upstream does not tell; ``None`` before it is known. ``ask`` looks the queue up there."""

    __slots__ = ("name", "_ask", "_asked")

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self.name: str | None = None
        self._ask = ask
        self._asked: Answer | None = None

    def declared(self, op: DeclareQueue) -> None:
        """The upstream has agreed to this declaration."""
        if TYPE in op.arguments:
            self.name = str(op.arguments[TYPE])
        elif op.exclusive or op.auto_delete or not op.durable:
            self.name = ""  # a stream is none of this

    def forget(self) -> None:
        """The queue is at another upstream from now on."""
        self.name = self._asked = None

    def then(self, callback: Callable[[], None]) -> None:
        """Call back when it is known, or cannot be found out now."""
        if self.name is not None:
            callback()
        else:
            self._ask_once().then(callback)

    def is_stream(self) -> bool:
        """Raises ``AwaitsUpstream`` before that is known, or the refusal to tell it."""
        if self.name is None:
            asked = self._ask_once(again=False)
            if asked.done:
                self._asked = None
            asked.value()
        return self.name == STREAM

    def _ask_once(self, again: bool = True) -> Answer:
        """The question that is under way. ``again``: a refused one is asked again."""
        asked = self._asked
        if asked is None or (again and asked.done):
            asked = self._asked = self._ask()
            asked.then(partial(self._learn, asked))
        return asked

    def _learn(self, asked: Answer) -> None:
        if asked is not self._asked:
            return
        try:
            found = asked.value()
        except Refusal:
            return
        self.name = "" if found is None else str(found.arguments.get(TYPE, ""))


class Place:
    """How far the consumer of a feed has come in a stream queue."""

    __slots__ = ("offset", "_type")

    def __init__(self, type: QueueType) -> None:
        self.offset: int | None = NOTHING_YET
        """Of the last message that has come; ``None`` for queues that are no streams."""
        self._type = type

    def note(self, message: Message) -> None:
        """A message has come."""
        self.offset = offset_of(message)

    def rewind(self, ready: Message) -> None:
        """The consumer has not got this message, nor those behind it, and will not get them."""
        if self.offset is not None:
            offset = offset_of(ready)
            self.offset = None if offset is None else offset - 1

    @property
    def following(self) -> int | None:
        """The offset at which the next subscription goes on; ``None``: where its client has
        said."""
        if self.offset is None or self.offset == NOTHING_YET or self._type.name != STREAM:
            return None
        return self.offset + 1
