"""Decodes the octets of a connection of the proxy, beside it: forwarding never waits. A tap
that falls behind, or meets octets it cannot read, says so and stops; the connection goes on."""

import asyncio
import contextlib
import logging
import struct
from collections import deque
from importlib import import_module
from time import perf_counter

from gateway.adapters.core.trace_lines import HEADER_OCTETS, preview
from gateway.adapters.registry import VERSIONS
from gateway.adapters.search import answer_of
from gateway.adapters.sniff import detect
from gateway.inventory.cutting import Frames, Undecodable
from gateway.inventory.observer import Observer

log = logging.getLogger("gateway.inventory")

STEP_OCTETS = 4 << 10
"""Octets decoded at once; the smallest frames have eight."""
SLICE_SECONDS = 0.005
"""Time that decoding takes before others have their turn."""
MOST_BEHIND = 8 << 20
"""Octets of one connection that wait to be decoded."""
MOST_WAITING = 64 << 20
"""Octets of all connections."""

UNREADABLE = (Undecodable, ValueError, struct.error, IndexError)
"""Errors of a decoder for octets that break the rules of the version."""


def decoder(version: str, observer: Observer) -> tuple[Frames, Frames]:
    """The decoder of a version, in the module that has the name of its family. A gateway that only
    serves does not load these modules."""
    module = import_module(f"gateway.inventory.{VERSIONS[version].family}")
    made: tuple[Frames, Frames] = module.decoder(version, observer)
    return made


class Tap:
    """One connection."""

    def __init__(self, observer: Observer, decoding: "Decoding") -> None:
        self.observer = observer
        self._decoding = decoding
        self._waiting: deque[tuple[bool, bytes]] = deque()
        self.behind = 0
        """Octets that wait to be decoded."""
        self._opening = [b"", b""]
        """The first octets of the client and of the broker, until the version is known."""
        self._held: list[tuple[bool, bytes]] = []
        """Octets that came until then."""
        self._asked = ""
        self._sides: tuple[Frames, ...] = ()
        self._stopped = False
        self._ended = False

    def add(self, from_client: bool, data: bytes) -> None:
        """Octets that were forwarded."""
        self.observer.octets(from_client, len(data))
        if self._stopped:
            return
        if self.behind + len(data) > MOST_BEHIND or self._decoding.waiting > MOST_WAITING:
            self.stop("decoding fell behind")
            return
        self.behind += len(data)
        self._waiting.append((from_client, data))
        self._decoding.wake(self, len(data))

    def end(self) -> None:
        """The connection ended; waiting octets are decoded first."""
        self._ended = True
        if not self._waiting:
            self._finish()

    def step(self) -> bool:
        """Decode a little. Whether more waits."""
        if not self._waiting:
            return False
        from_client, data = self._waiting.popleft()
        if len(data) > STEP_OCTETS:
            self._waiting.appendleft((from_client, data[STEP_OCTETS:]))
            data = data[:STEP_OCTETS]
        self.behind -= len(data)
        self._decoding.waiting -= len(data)
        try:
            self._decode(from_client, data)
            held = sum(side.held for side in self._sides)
            if not self.observer.share.hold(held or sum(len(octets) for _, octets in self._held)):
                self.stop("all connections hold too much")
        except UNREADABLE as error:
            self.stop(str(error) or type(error).__name__)
        except Exception as error:
            # A fault of ours costs this connection's list, and never the traffic.
            log.exception("decoding failed")
            self.stop(f"internal error: {type(error).__name__}")
        if self._waiting:
            return True
        if self._ended:
            self._finish()
        return False

    def _decode(self, from_client: bool, data: bytes) -> None:
        if self._sides:
            self._sides[0 if from_client else 1].feed(data)
            return
        self._held.append((from_client, data))
        side = 0 if from_client else 1
        self._opening[side] = (self._opening[side] + data)[: 4 * HEADER_OCTETS]
        version = self._version()
        if not version:
            self._hold()
            return
        self.observer.who.version = version
        self._sides = decoder(version, self.observer)
        held, self._held = self._held, []
        for side_of, octets in held:
            self._sides[0 if side_of else 1].feed(octets)

    def _version(self) -> str:
        """The version, once the broker has answered the client's header. Raises ``Undecodable``."""
        opening, answer = self._opening
        if not self._asked:
            found = detect(opening)
            if found is None:
                return ""
            self._asked = found.version
            if not found.version:
                self.observer.who.version = found.protocol
                what = {"tls": "TLS goes through", "http": "HTTP"}.get(found.protocol)
                raise Undecodable(what or f"no AMQP: {preview(opening)}")
            self.observer.who.version = found.version
        answered = answer_of(answer, self._asked) if answer else None
        if answered is None:
            return ""
        if answered.version:
            return answered.version
        if answered.header:
            # A client that is answered with another header opens another connection.
            self.observer.feature("version-refused", detail=f"AMQP {answered.header[4:].hex(' ')}")
            raise Undecodable("the broker asked for another version")
        raise Undecodable(f"no answer of a broker: {preview(answer)}")

    def _hold(self) -> None:
        """Keep no more of the opening than a client sends before the broker answers."""
        if sum(len(octets) for _, octets in self._held) > 16 * STEP_OCTETS or len(self._held) > 256:
            raise Undecodable("the broker does not answer")

    def stop(self, reason: str) -> None:
        """Decode nothing more."""
        if self._stopped:
            return
        self._stopped = True
        self._decoding.waiting -= self.behind
        self.behind = 0
        self._waiting.clear()
        self._held.clear()
        self._sides = ()
        self.observer.share.close()
        self.observer.undecoded(reason)

    def ignore(self) -> None:
        """Decode nothing at all, and report no failure."""
        self._stopped = True

    def _finish(self) -> None:
        self._stopped, self._ended = True, False
        self.observer.closed()


class Decoding:
    """Decodes for all taps in turns, a few milliseconds at a time."""

    def __init__(self) -> None:
        self.waiting = 0
        """Octets of all connections that wait."""
        self._taps: deque[Tap] = deque()
        self._queued: set[Tap] = set()
        self._awake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="decoding")

    def wake(self, tap: Tap, octets: int) -> None:
        """Octets of this tap wait."""
        self.waiting += octets
        if tap not in self._queued:
            self._queued.add(tap)
            self._taps.append(tap)
            self._awake.set()
            self._drained.clear()

    async def _run(self) -> None:
        while True:
            await self._awake.wait()
            end = perf_counter() + SLICE_SECONDS
            while self._taps and perf_counter() < end:
                tap = self._taps.popleft()
                if tap.step():
                    self._taps.append(tap)
                else:
                    self._queued.discard(tap)
            if self._taps:
                await asyncio.sleep(0)
            else:
                self._awake.clear()
                self._drained.set()

    async def close(self) -> None:
        """Decode the waiting octets, and end."""
        if self._task is not None:
            await self._drained.wait()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
