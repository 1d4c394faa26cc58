"""How fast a stream is delivered: consume-rate, octets per second (0-9a0, 0-9a6:
stream.consume; 0-8, 0-9: stream.qos).

A consumer with a rate has credit for as many messages as about fit what is left of this second. A
message larger than that goes out whole, and is paid for by the seconds after it; so the rate holds
over time, whatever the sizes, to within ``MOST`` messages.
"""

from typing import Any

MOST = 64
"""Messages of credit given at once."""


class Pace:
    """``left`` octets may go out now, ``allowed`` messages will if they come."""

    __slots__ = ("rate", "left", "usual", "allowed")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.left = float(rate)
        self.usual = 0.0
        """Octets of a message, of late."""
        self.allowed = 1

    def sent(self, octets: int) -> int:
        """One went out; the credit that the consumer gets for it, if any."""
        self.left -= octets
        self.usual = (self.usual * 3 + octets) / 4 if self.usual else float(octets)
        self.allowed -= 1
        return self.more()

    def replenish(self, seconds: float) -> int:
        """Time has passed; the credit that the consumer gets for it, if any. Credit not used in
        a second is not saved up."""
        self.left = min(self.left + self.rate * seconds, self.rate)
        return self.more()

    def more(self) -> int:
        if self.allowed > 0 or self.left <= 0:
            return 0
        self.allowed = max(1, min(MOST, int(self.left / max(self.usual, 1))))
        return self.allowed


def pace_of(m: Any) -> Pace | None:
    """The rate of a consume method; 0 is none."""
    rate = getattr(m, "consume_rate", 0)
    return Pace(rate) if rate else None
