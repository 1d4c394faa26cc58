"""The adapter of the drafts of 2005: 0-9a0 in two readings, and 0-9a6.

``DraftEngine`` puts its parts together. Connection life, method writer and output are those of
``methods``; frames, channel 0, channels and messages are the drafts' own: frames that are refused
without a reply, methods with flags (0-9a0), errors whose class decides whether they close the
channel or the connection, contents with
children, and replies that lead to more operations. A ``MethodMapping`` has the
meaning of one draft's methods.
"""

from collections.abc import Callable

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.output import WEIGHT, OutputBuffer, no_op
from gateway.adapters.core.release import release
from gateway.adapters.methods.codes import reply_codes
from gateway.adapters.methods.contents.dialect import split_children
from gateway.adapters.methods.contents.methods import Content, OutgoingMethod
from gateway.adapters.methods.drafts import v0_9a0, v0_9a6
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.drafts.connection import DraftConnection
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.drafts.frames import BadFrame, DraftFrames
from gateway.adapters.methods.drafts.incoming import DraftIncoming
from gateway.adapters.methods.drafts.outbound import ENCODERS, encode_request
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import LocalError, Unwritable
from gateway.operations import Operation, Returned
from gateway.partial_bodies import PartialBodyStore


class DraftEngine:
    """One connection of a draft; an ``Adapter``."""

    capabilities = Capability.PATIENT | Capability.PARTIAL_BODIES

    def __init__(
        self,
        version: str,
        role: Role,
        *,
        authority: Authority | None = None,
        limits: Limits = Limits(),  # noqa: B008
        credentials: Credentials | None = None,
        product: Product = Product(),  # noqa: B008
        external_subject: str | None = None,
        mechanisms: tuple[str, ...] = MECHANISMS,
        wake: Callable[[], None] = no_op,
        spool: Spool | None = None,
        partials: PartialBodyStore | None = None,
    ) -> None:
        """``spool``: where bodies go that are too large for memory; ``None``: they stay there.
        ``partials``: keeps incomplete files; without one they go with the connection. The drafts
        have no room for a ``product`` or an ``external_subject``."""
        self.version = version
        self.role = role
        self.server = server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self.limits = limits
        self.is_0_9a0 = is_0_9a0(version)
        self.mapping = v0_9a0.MAPPING if self.is_0_9a0 else v0_9a6.MAPPING
        self.layouts = self.mapping.layouts
        self.table = table = DRAFTS[version]
        self.codes = reply_codes(version, table.codes)
        self.dialects = {
            content.name: CONTENTS[version, content.number]
            for content in table.contents.values()
            if content.name != "test"
        }
        self.vhost = ""
        self.publishers_blocked = False
        """Publishers are asked to stop."""
        self.channels: dict[int, Channel] = {}
        self.channel_max = limits.channel_max or 0xFFFF
        self.max_message_octets = most = limits.max_message_octets
        self.announced = 0
        self.spool = spool
        self.partials = PartialBodyStore(spool) if partials is None else partials
        self.heartbeat = Heartbeat(limits)
        self.excuse_silence = self.heartbeat.excuse_silence
        self.outlet: Callable[[int], Outlet] = self.channel
        self.buffer = buffer = OutputBuffer(self, self.heartbeat, self.channels)
        self.pending = buffer.pending
        self.incoming = incoming = DraftIncoming(self, server)
        self.frames = frames = DraftFrames(table, incoming, server, self.channels, most)
        overhead = frames.overhead
        frames.limit = frames.body_limit = (limits.frame_max or most + overhead) - overhead
        self.body_max = table.constants["frame-min-size"] - overhead
        self.writer = writer = MethodWriter(table, server, frames, buffer)
        self.put, self.write, self.encoded = buffer.put, writer.write, writer.encoded
        # Other versions are disconnected without a reply (0-9a0 §3.2.2, 0-9a6 "Protocol and
        # Version"), and so are peers that send no frames (0-9a0 §3.4.4, 0-9a6).
        self.life = life = Lifecycle(
            self, (table.header,), unannounced=(BadFrame,), names_unknown=False
        )
        self.receive, self.found, self.lost = life.receive, life.found, life.lost
        self.read_on = life.read_on
        self.output, self.refill = buffer.take, buffer.large.refill
        self.connection = DraftConnection(self, authority, limits, credentials, mechanisms)
        if not server:
            life.begin()

    def tick(self, now: float) -> list[Operation]:
        """As ``Lifecycle.tick``; and consumers with a rate may get more."""
        seconds = self.heartbeat.elapsed(now)
        found = self.life.tick(now)
        for channel in self.channels.values():
            if channel.paced and not self.closing:
                found += channel.replenish(seconds)
        return found

    # --- out -------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Write an operation. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            if isinstance(operation, Returned):
                # The client has closed behind its publish, which goes on all the same.
                self.life.follow(self.mapping.fallback(operation))
            return
        encode = ENCODERS.get(type(operation))
        if encode is None and type(operation) in self.mapping.request_encoders:
            encode = encode_request
        if encode is None:
            raise LocalError(f"{type(operation).__name__} has no form in {self.version}")
        try:
            encode(self, operation)
        except ValueError as error:
            raise LocalError(str(error)) from error

    def channel(self, number: int) -> Channel:
        channel = self.channels.get(number)
        if channel is None:
            raise LocalError(f"channel {number} is not open")
        return channel

    def send_method(self, channel: int, method: OutgoingMethod) -> None:
        """One method with its content, if it has one."""
        octets = [self.encoded(channel, method.record)]
        content = method.content
        large = None
        if content is not None:
            body = content.body
            large = body if isinstance(body, LargeBody) else None
            octets += self._contents(channel, content)
        buffer = self.buffer
        deferred = buffer.large.deferred.get(channel)
        if deferred is not None:
            deferred += octets
        else:
            buffer.put(octets[0])
            buffer.pending += octets[1:]
        if large is not None:
            self.writer.write_large(self.channel(channel), large, self.body_max)
        if content is not None:
            buffer.weigh((0 if large is not None else len(content.body)) + WEIGHT)

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

    @property
    def more(self) -> int:
        return self.buffer.more

    def release(self) -> None:
        """Let go of everything, as the connection is over."""
        release(self, self.connection, self.life, self.incoming)
