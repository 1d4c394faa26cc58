"""What the journal records of the publishes in a virtual host, and at which addresses."""

from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any
from urllib.parse import quote

from gateway.broker.journal import Address, Journal, RecordingRule
from gateway.message import Dialect, Message, WireRun

MOST_REMEMBERED = 16_384
"""Names whose address is remembered."""
PRIVATE = "amq."


def name_of(exchange: str, key: str) -> str:
    """The address of messages that are published to this exchange with this key."""
    if exchange:
        return f"/exchanges/{quote(exchange, safe='', errors='surrogatepass')}"
    return f"/queues/{quote(key, safe='', errors='surrogatepass')}"


class Wired:
    """Publishes that came in a row, among the messages that a publisher has gathered: those from
    index ``begin`` on. ``count`` of them, the first ones, were accepted so far."""

    __slots__ = ("wire", "begin", "count")

    def __init__(self, wire: WireRun, begin: int) -> None:
        self.wire = wire
        self.begin = begin
        self.count = 0

    def goes_on(self, wire: WireRun, start: int, at: int) -> bool:
        """Whether the publish with index ``start`` among these is the next of this run, and ``at``
        the place for its message."""
        return wire is self.wire and start == self.count and at == self.begin + start


def recorder_of(journal: Journal, vhost: str) -> "Recorder | None":
    """Records the publishes in a virtual host; ``None`` if no rule wants any."""
    rules = [one for one in journal.rules if fnmatchcase(vhost, one.vhost)]
    return Recorder(journal, vhost, rules) if any(one.record for one in rules) else None


def _route(message: Message) -> tuple[str, str, Dialect]:
    """What the messages of a run share."""
    return message.exchange, "" if message.exchange else message.key, message.dialect


class Recorder:
    """Records the publishes in one virtual host."""

    def __init__(self, journal: Journal, vhost: str, rules: list[RecordingRule]) -> None:
        self.journal = journal
        self.vhost = vhost
        self.rules = rules
        self._exchanges: dict[str, Address | None] = {}
        self._queues: dict[str, Address | None] = {}

    def record(self, message: Message, origin: Any) -> bool:
        """Whether this message, which was accepted or forwarded, is recorded. It is as safe as the
        store's gathering batch then. Hot."""
        if self.journal.gathering is not None:
            self.journal.record_gathered()
        address = self._address(message)
        return address is not None and self.journal.append(address, message, origin)

    def wants(self, message: Message) -> bool:
        """Whether messages with this address are recorded."""
        return self._address(message) is not None

    def record_many(self, messages: list[Message], origin: Any) -> None:
        """The same for messages of one publisher that were gathered."""
        first, count = messages[0], len(messages)
        name, key, dialect = first.exchange, first.key, first.dialect
        if (
            [message.exchange for message in messages].count(name) == count
            and (name or [message.key for message in messages].count(key) == count)
            and [message.dialect for message in messages].count(dialect) == count
        ):
            self._record_run(messages, origin)
            return
        for _, run in groupby(messages, _route):
            self._record_run(list(run), origin)

    def record_gathered(self, messages: list[Message], wired: list[Wired], origin: Any) -> None:
        """The same for messages some of which are kept as they came."""
        done = 0
        for one in wired:
            begin, count = one.begin, one.count
            if count < one.wire.publishes:
                continue
            if begin > done:
                self.record_many(messages[done:begin], origin)
                done = begin
            address = self._address(messages[begin])
            if address is None or self.journal.extend_wire(
                address, one.wire, messages[begin], origin
            ):
                done = begin + count
        if done < len(messages):
            self.record_many(messages[done:], origin)

    def _record_run(self, messages: list[Message], origin: Any) -> None:
        address = self._address(messages[0])
        if address is not None:
            self.journal.extend(address, messages, origin)

    def _address(self, message: Message) -> Address | None:
        try:
            if message.exchange:
                return self._exchanges[message.exchange]
            return self._queues[message.key]
        except KeyError:
            return self._find(message)

    def record_forwarded(self, message: Message, origin: Any, entered: int) -> bool:
        """The same for a message that was forwarded at this time."""
        self.journal.record_gathered()
        self.journal.forwarded(entered)
        try:
            return self.record(message, origin)
        finally:
            self.journal.forwarded(0)

    def _find(self, message: Message) -> Address | None:
        known = self._exchanges if message.exchange else self._queues
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        name = message.exchange or message.key
        text = name_of(message.exchange, message.key)
        # Queues of the gateway's own, and those for replies, come and go.
        private = not message.exchange and name.startswith(PRIVATE)
        record = not private and next(
            (one.record for one in self.rules if fnmatchcase(text, one.address)), False
        )
        address = self.journal.address(self.vhost, text) if record else None
        known[name] = address
        return address
