"""The engine of the family as the drafts of 2005 need it: the same life, other words.

What is theirs alone: frames that are refused without a word, methods with flags (0-9a0), errors
that close what their class says, contents with children, answers that lead to more operations.
"""

from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.large_bodies import LargeBodyOutput
from gateway.adapters.methods import states
from gateway.adapters.methods.drafts import v0_9a0 as first
from gateway.adapters.methods.drafts import v0_9a6 as second
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.drafts.connection import DraftConnection
from gateway.adapters.methods.drafts.content import CONTENTS, split_children
from gateway.adapters.methods.drafts.frames import BadFrame, DraftFrames
from gateway.adapters.methods.drafts.incoming import DraftIncoming
from gateway.adapters.methods.drafts.mapping import Content, Spoken
from gateway.adapters.methods.drafts.outbound import REQUEST, SPEECH
from gateway.adapters.methods.drafts.versions import DRAFTS, is_first
from gateway.adapters.methods.engine import WEIGHT, Engine
from gateway.adapters.methods.geometry import Method
from gateway.adapters.options import Credentials, Product
from gateway.bodies import Body, LargeBody
from gateway.errors import Condition, LocalError, Lost, PeerError, Unwritable
from gateway.operations import Operation, Refused, Returned
from gateway.partial_bodies import PartialBodyStore

UNREAL = 0x40
"""The flag of a method that is only a test (0-9a0)."""


class DraftEngine(Engine):
    """One connection of a draft; an ``Adapter``."""

    capabilities = Capability.SILENT | Capability.PATIENT | Capability.PARTIAL_BODIES
    versions = DRAFTS
    frames: DraftFrames  # type: ignore[assignment]
    connection: DraftConnection  # type: ignore[assignment]
    channels: dict[int, Channel]  # type: ignore[assignment]

    def __init__(
        self,
        version: str,
        role: Role,
        *,
        partials: PartialBodyStore | None = None,
        **more: Any,
    ) -> None:
        """``partials``: keeps incomplete files; without one they go with the connection."""
        self.partials = PartialBodyStore(more.get("spool")) if partials is None else partials
        super().__init__(version, role, **more)

    def _set_frames(self) -> None:
        self.first = is_first(self.version)
        self.words = first.WORDS if self.first else second.WORDS
        self.vhost = ""
        self.held_back = False
        """Publishers are asked to stop."""
        self.dialects = {
            content.name: CONTENTS[self.version, content.number]
            for content in self.table.contents.values()
            if content.name != "test"
        }
        link, most = DraftIncoming(self, self.server), self.limits.max_message_octets
        self.frames = DraftFrames(self.table, link, self.server, self.channels, most)
        self.loads = LargeBodyOutput(self.pending)
        overhead = self.frames.overhead
        limit = self.limits.frame_max or self.limits.max_message_octets + overhead
        self.frames.limit = self.frames.body_limit = limit - overhead
        self.body_max = self.table.constants["frame-min-size"] - overhead

    def _set_connection(
        self,
        authority: Authority | None,
        credentials: Credentials | None,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.connection = DraftConnection(
            self, self.role, authority, self.limits, credentials, mechanisms
        )

    def refuse_header(self) -> None:
        """Nothing is said to who asks for another version (0-9a0 §3.2.2, 0-9a6 "Protocol and
        Version")."""

    def tick(self, now: float) -> list[Operation]:
        seconds = self.heartbeat.elapsed(now)
        found = super().tick(now)
        for place in self.channels.values():
            if place.paced and not self.closing:
                found += place.later(seconds)
        return found

    # --- the end ---------------------------------------------------------------------------------

    def _say_fault(self, error: PeerError) -> None:
        """What is no frame ends the connection without a word (0-9a0 §3.4.4, 0-9a6)."""
        if not isinstance(error, BadFrame):
            super()._say_fault(error)

    def lose(self, channel: int, condition: Condition, text: str, method: int = 0) -> None:
        code, reason = self.reply(condition, text)
        self.channels[channel].die()
        close = self.words.layouts.ChannelClose
        self.write(channel, close(code, reason, method >> 16, method & 0xFFFF))

    def say_close(
        self, condition: Condition | None, text: str, method: int = 0, theirs: bool = False
    ) -> None:
        if condition is None:
            code, reason = self.table.constants["reply-success"], text or "Normal shutdown"
        else:
            code, reason = self.reply(condition, text)
        numbers = (method >> 16, method & 0xFFFF) if method in self.table.methods else (0, 0)
        self.write(0, self.words.layouts.ConnectionClose(code, reason, *numbers))
        self.connection.state = states.CLOSING
        self.connection.said = condition, text
        self.connection.caused_by_them = theirs
        self.loads.end(self.channels)
        for place in self.channels.values():
            place.die()

    def refuse_all(
        self, place: Any, condition: Condition, text: str, lost: Lost, found: list[Operation]
    ) -> None:
        found += [
            Refused(place.number, awaited.operation.token, condition, text, lost)
            for awaited in place.awaited
            if awaited.operation.token is not None
        ]

    # --- out -------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        if self.closing:
            if isinstance(operation, Returned):
                # They have said goodbye behind their publish: it goes on all the same.
                self.follow(self.words.second_step(operation))
            return
        speak = SPEECH.get(type(operation))
        if speak is None and type(operation) in self.words.ask:
            speak = REQUEST
        if speak is None:
            raise LocalError(f"{type(operation).__name__} cannot be said in {self.version}")
        try:
            speak(self, operation)
        except ValueError as error:
            raise LocalError(str(error)) from error

    def outlet(self, channel: int) -> Outlet:
        return self.channel(channel)

    def channel(self, number: int) -> Channel:  # type: ignore[override]
        place = self.channels.get(number)
        if place is None:
            raise LocalError(f"channel {number} is not open")
        return place

    def encoded(self, channel: int, record: Any) -> bytes:
        method = self.table.by_record.get(type(record))
        if method is None:
            raise LocalError(f"{record.NAME} is not in {self.version}")
        if not (method.from_server if self.server else method.from_client):
            raise LocalError(f"{record.NAME} is not ours to send")
        payload = self.head_of(method) + method.write(record)
        if self.frames.limit and len(payload) > self.frames.limit:
            raise Unwritable(f"{record.NAME} does not fit a frame of the peer")
        return self.frames.frame(self.frames.method, channel, payload)

    def head_of(self, method: Method, flags: int = 0) -> bytes:
        """What stands before the arguments. In 0-9a0 the flags are in the octet before the
        synchtag; the tag itself is 0: nothing says that a reply repeats one."""
        padding = self.table.geometry.method.size - len(method.prefix)
        if not padding:
            return method.prefix
        return method.prefix + bytes(padding - 5) + bytes((flags,)) + bytes(4)

    def echo(self, channel: int, method: Method, record: Any) -> None:
        """Answer a method that was only a test: the same, made anew (0-9a0, method flags)."""
        payload = self.head_of(method, UNREAL) + method.write(record)
        self.put(self.frames.frame(self.frames.method, channel, payload))

    def speak(self, channel: int, spoken: Spoken) -> None:
        """One method with its content, if it has one."""
        octets = [self.encoded(channel, spoken.record)]
        content = spoken.content
        large = None
        if content is not None:
            body = content.body
            large = body if isinstance(body, LargeBody) else None
            octets += self._contents(channel, content)
        track = self.loads.tracks.get(channel)
        if track is not None:
            track += octets
        else:
            self.put(octets[0])
            self.pending += octets[1:]
        if large is not None:
            self.load(channel, large)
        if content is not None:
            self.weigh((0 if large is not None else len(content.body)) + WEIGHT)

    def _contents(self, channel: int, content: Content) -> list[bytes]:
        """Header, children and bodies; of a large body, the frames are made later."""
        header = content.header
        end = CONTENTS[self.version, content.number].known(header).end
        return self._nested(channel, content.number, header[:end], header[end:], content.body)

    def _nested(
        self, channel: int, number: int, properties: bytes, children: bytes, body: Body
    ) -> list[bytes]:
        frames = self.frames
        inner = split_children(children)
        head = frames.content_header(number, len(inner), len(body), properties)
        if len(head) > self.body_max:
            raise Unwritable(f"a header of {len(head)} octets does not fit a frame of the peer")
        pieces = [frames.frame(frames.header, channel, head)]
        for part in inner:
            pieces += self._nested(channel, *part)
        if isinstance(body, LargeBody):
            return pieces
        return pieces + frames.bodies(channel, body, self.body_max)

    def follow(self, operations: list[Operation]) -> None:
        """What an answer led to: to be performed soon."""
        if operations:
            self.later += operations
            if not self._receiving:
                self.wake()
