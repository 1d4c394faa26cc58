"""Large bodies on their way out: frames that are made as the socket takes them.

A channel that has begun a large body sends nothing else before its end (0-9-1 §4.2.6: frames of one
content are not mixed with others of the same channel; the same in 0.8a2 §3.4.2). Until then its
output goes to a ``DeferredOutput`` of its own; frames of other channels, heartbeats too, go between
those of the body.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.bodies import LargeBody

PORTION = 1 << 20
"""Octets of large bodies in one output, over all channels, but a frame of each at least."""


class BodyWriter(Protocol):
    """Writes one large body, frame by frame."""

    @property
    def over(self) -> bool: ...

    @property
    def spent(self) -> int:
        """Octets that were read for the last frame."""
        ...

    def frame(self) -> bytes:
        """The next frame; empty if more has to be read for it. Raises ``OSError``."""
        ...


@dataclass(slots=True, eq=False)
class BodyFrames:
    """Frames that hold ``largest`` octets of the body each; ``make`` makes one."""

    make: Callable[[bytes], bytes]
    body: LargeBody
    largest: int
    at: int = 0
    spent: int = 0

    @property
    def over(self) -> bool:
        return self.at >= len(self.body)

    def frame(self) -> bytes:
        octets = self.body[self.at : self.at + self.largest]
        self.at += len(octets)
        self.spent = len(octets)
        return self.make(octets)


class DeferredOutput(list[bytes]):
    """Output of one channel behind large bodies. The list has the pieces behind the last of them;
    ``writers`` has the large bodies, each with the pieces between it and the one before."""

    __slots__ = ("writers",)

    def __init__(self) -> None:
        super().__init__()
        self.writers: deque[tuple[list[bytes], BodyWriter]] = deque()

    def add(self, writer: BodyWriter) -> None:
        """Add a large body behind all pieces."""
        self.writers.append((self[:], writer))
        self.clear()

    def move(self, output: list[bytes], room: int) -> bool:
        """Add frames to ``output``, about as many octets as there is room for. True when nothing is
        left. Raises ``OSError``."""
        writers = self.writers
        while writers:
            before, writer = writers[0]
            output += before
            before.clear()
            while not writer.over:
                if room <= 0:
                    return False
                octets = writer.frame()
                room -= writer.spent
                if octets:
                    output.append(octets)
            writers.popleft()
        output += self
        self.clear()
        return True

    @property
    def octets(self) -> int:
        """Octets that wait behind large bodies, without these."""
        return sum(map(len, self)) + sum(sum(map(len, before)) for before, _ in self.writers)


class OutputChannel(Protocol):
    """A channel that sends large bodies."""

    number: int
    allow_deliveries: Callable[[bool], None]

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        ...


class LargeBodyOutput:
    """The large bodies of one connection. ``pending``: its output."""

    def __init__(self, pending: list[bytes]) -> None:
        self.deferred: dict[int, DeferredOutput] = {}
        """Output of channels that are sending large bodies, by channel."""
        self._pending = pending
        self._freed: list[OutputChannel] = []
        """Channels that have sent everything, and may have deliveries again."""

    def add(self, channel: OutputChannel, writer: BodyWriter) -> None:
        """These frames come next on a channel, which gets no more deliveries until they are
        sent."""
        output = self.deferred.get(channel.number)
        if output is None:
            output = self.deferred[channel.number] = DeferredOutput()
            channel.divert(output)
            channel.allow_deliveries(False)
        output.add(writer)

    @property
    def more(self) -> int:
        """At least 1 while something waits until the socket has taken the present output, and the
        octets of small frames that do."""
        if self.deferred or self._freed:
            return 1 + sum(output.octets for output in self.deferred.values())
        return 0

    def move(self, channels: Mapping[int, OutputChannel]) -> None:
        """Move the next portion to the output. Raises ``OSError``."""
        room = PORTION // len(self.deferred)
        for number, output in list(self.deferred.items()):
            if output.move(self._pending, room):
                del self.deferred[number]
                channel = channels.get(number)
                if channel is not None:
                    channel.divert(self._pending)
                    self._freed.append(channel)

    def refill(self) -> None:
        """Resume deliveries on channels whose large bodies are sent."""
        freed, self._freed = self._freed, []
        for channel in freed:
            if channel.number not in self.deferred:
                channel.allow_deliveries(True)

    def end(self, channels: Mapping[int, OutputChannel]) -> None:
        """Drop all large bodies, also those that have begun."""
        for number, output in self.deferred.items():
            output.writers.clear()  # a reference to the output must not keep the file open
            channel = channels.get(number)
            if channel is not None:
                channel.divert(self._pending)
        self.deferred.clear()
        self._freed.clear()
