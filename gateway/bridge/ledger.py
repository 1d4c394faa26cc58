"""Memory of a shovel from one opening of its ends to the next."""

import logging

from gateway.bridge.clock import now
from gateway.bridge.notes import digest_of
from gateway.message import Message

log = logging.getLogger("gateway.bridge")

MOST_SUSPECTS = 1000
"""Messages that are remembered because a destination was lost over them."""


class Ledger:
    """Counts, the last error, and the messages over which the destination was lost."""

    COUNTS = (
        "moved",
        "parked",
        "rejected",
        "retried",
        "dropped",
        "delayed",
        "duplicates",
        "repeated",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.moved = self.parked = self.rejected = self.retried = 0
        self.dropped = 0
        """Messages that the filter does not match, settled without being moved."""
        self.delayed = 0
        """Messages that have waited for the rate limit."""
        self.duplicates = 0
        """Messages whose id had come to the destination, settled without being moved."""
        self.repeated = 0
        """Messages that were moved, and may have come before."""
        self.error = ""
        self.error_at = 0
        """When that was, in ms since 1970; 0: never."""
        self.careful = 0
        """Messages that are still sent one at a time, since the destination was lost over one of
        them."""
        self.suspects: dict[bytes, int] = {}
        """Digests of messages that were alone under way when the destination was lost, and how
        often that happened."""

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.COUNTS}

    def add(self, other: "Ledger") -> None:
        """The counts of another."""
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)

    def failed(self, text: str) -> None:
        """Show why a message or an end was lost; log it if it is another reason than before."""
        if text != self.error:
            log.warning("shovel %s: %s", self.name, text)
        self.error, self.error_at = text, now()

    def suspect(self, message: Message) -> None:
        """The destination was lost while this message alone was under way."""
        digest = digest_of(message)
        self.suspects[digest] = self.suspects.pop(digest, 0) + 1
        if len(self.suspects) > MOST_SUSPECTS:
            del self.suspects[next(iter(self.suspects))]

    def losses(self, message: Message) -> int:
        """How often the destination was lost over this message."""
        return self.suspects.get(digest_of(message), 0) if self.suspects else 0
