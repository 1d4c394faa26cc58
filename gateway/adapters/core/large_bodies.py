"""Large bodies on their way out: frames that are made as the socket takes them.

A channel that has begun to say a large body says nothing else before its end (0-9-1 §4.2.6: frames
of one content are not mixed with others of the same channel; 0.8a2 §3.4.2 has it likewise). So from
then on all its output goes to a ``DeferredOutput`` of its own, and the frames of other channels,
heartbeats too, go between those of the body. When it is empty the channel writes to the common
output again.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.bodies import LargeBody

PORTION = 1 << 20
"""Octets of large bodies in one output, over all channels, but a frame of each at least."""


class BodyWriter(Protocol):
    """What is left of one large body."""

    @property
    def over(self) -> bool: ...

    @property
    def spent(self) -> int:
        """Octets that the last frame took."""
        ...

    def frame(self) -> bytes:
        """The next frame, or nothing if octets were read for something else. Raises ``OSError``."""
        ...


class BodyLoad:
    """Frames that hold ``largest`` octets of the body each; ``make`` makes one."""

    __slots__ = ("make", "body", "largest", "at", "spent")

    def __init__(self, make: Callable[[bytes], bytes], body: LargeBody, largest: int) -> None:
        self.make = make
        self.body = body
        self.largest = largest
        self.at = self.spent = 0

    @property
    def over(self) -> bool:
        return self.at >= len(self.body)

    def frame(self) -> bytes:
        octets = self.body[self.at : self.at + self.largest]
        self.at += len(octets)
        self.spent = len(octets)
        return self.make(octets)


class DeferredOutput(list[bytes]):
    """Output of one channel behind large bodies. As a list it is what came behind the last one;
    ``loads`` are the large bodies, each with what was said between it and the one before."""

    __slots__ = ("loads",)

    def __init__(self) -> None:
        super().__init__()
        self.loads: deque[tuple[list[bytes], BodyWriter]] = deque()

    def add(self, load: BodyWriter) -> None:
        """Another one, behind what was said until now."""
        self.loads.append((self[:], load))
        self.clear()

    def move(self, output: list[bytes], room: int) -> bool:
        """Add frames to ``output``, about as many octets as there is room for. True when nothing is
        left. Raises ``OSError``."""
        loads = self.loads
        while loads:
            before, load = loads[0]
            output += before
            before.clear()
            while not load.over:
                if room <= 0:
                    return False
                octets = load.frame()
                room -= load.spent
                if octets:
                    output.append(octets)
            loads.popleft()
        output += self
        self.clear()
        return True

    @property
    def octets(self) -> int:
        """Octets that wait behind large bodies, without these."""
        return sum(map(len, self)) + sum(sum(map(len, before)) for before, _ in self.loads)


class OutputChannel(Protocol):
    """What is needed of a channel."""

    number: int
    gate: Callable[[bool], None]

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        ...


class LargeBodyOutput:
    """The large bodies of one connection. ``pending``: its output."""

    def __init__(self, pending: list[bytes]) -> None:
        self.tracks: dict[int, DeferredOutput] = {}
        self._pending = pending
        self._freed: list[OutputChannel] = []
        """Channels that have said all, and may have deliveries again."""

    def add(self, channel: OutputChannel, load: BodyWriter) -> None:
        """These frames come next on a channel, which gets no more deliveries until they are
        said."""
        track = self.tracks.get(channel.number)
        if track is None:
            track = self.tracks[channel.number] = DeferredOutput()
            channel.divert(track)
            channel.gate(False)
        track.add(load)

    @property
    def more(self) -> int:
        """Octets, one at least, that wait for the socket to take what is before them."""
        if self.tracks or self._freed:
            return 1 + sum(track.octets for track in self.tracks.values())
        return 0

    def move(self, channels: Mapping[int, OutputChannel]) -> None:
        """The next portion into the output. Raises ``OSError``."""
        room = PORTION // len(self.tracks)
        for number, track in list(self.tracks.items()):
            if track.move(self._pending, room):
                del self.tracks[number]
                channel = channels.get(number)
                if channel is not None:
                    channel.divert(self._pending)
                    self._freed.append(channel)

    def refill(self) -> None:
        """Deliveries again, where a large body is said."""
        freed, self._freed = self._freed, []
        for channel in freed:
            if channel.number not in self.tracks:
                channel.gate(True)

    def end(self, channels: Mapping[int, OutputChannel]) -> None:
        """What has begun ends here."""
        for number, track in self.tracks.items():
            track.loads.clear()  # whoever may still have the track does not need the file
            channel = channels.get(number)
            if channel is not None:
                channel.divert(self._pending)
        self.tracks.clear()
        self._freed.clear()
