"""The rate limit of a shovel: messages and octets per second, and how many at once."""

from collections.abc import Callable, Iterable
from math import inf

from gateway.config.shovel_steps import RateSettings
from gateway.message import Message
from gateway.net.buckets import Buckets, Rate


def bucket(rate: float, burst: float, clock: Callable[[], float]) -> Buckets:
    """``rate`` per second; at once what comes together in ``burst`` seconds, and 1 at least."""
    most = max(1.0, rate * burst)
    return Buckets(Rate(most, most / rate), clock, 1)


class Pace:
    """``clock`` returns seconds."""

    def __init__(self, settings: RateSettings, clock: Callable[[], float]) -> None:
        messages, octets, burst = settings.messages, settings.octets, settings.burst_seconds
        self._clock = clock
        self._messages = None if messages is None else bucket(messages, burst, clock)
        self._octets = None if octets is None else bucket(octets, burst, clock)

    def admit(self, messages: Iterable[Message]) -> tuple[int, float]:
        """How many of these messages may go now, which is taken as done; and the seconds until the
        next one may. A message larger than the burst waits until the bucket is full, and those
        behind it until it is paid for."""
        now = self._clock()
        number, octets = self._messages, self._octets
        left = inf if number is None else number.level(None, now)
        room = 0.0 if octets is None else octets.level(None, now)
        admitted, missing, lacking = 0, 0.0, 0.0
        for message in messages:
            missing = max(0.0, 1.0 - left)
            if octets is not None:
                lacking = max(0.0, min(message.size, octets.rate.burst) - room)
            if missing or lacking:
                break
            left -= 1
            room -= message.size
            admitted += 1
        if number is not None:
            number.keep(None, left, now)
        if octets is not None:
            octets.keep(None, room, now)
        return admitted, max(seconds(number, missing), seconds(octets, lacking))


def seconds(limit: Buckets | None, missing: float) -> float:
    """How long a bucket needs to get so much."""
    return 0.0 if limit is None else missing * limit.rate.seconds / limit.rate.burst
