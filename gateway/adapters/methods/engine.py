"""The adapter of the published versions of the class-and-method family: 0-8, 0-9 and 0-9-1.

``Engine`` puts its parts together: the frame loop and the receiver of its frames, channel 0, the
life of the connection, the writer of methods and the output. Operations are encoded by
``outbound``. The drafts have an engine of their own, of the same parts where they are alike.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.output import WEIGHT, OutputBuffer, no_op
from gateway.adapters.core.release import release
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.channel import Channel
from gateway.adapters.methods.codes import reply_codes
from gateway.adapters.methods.connection import Connection
from gateway.adapters.methods.contents.classes import replenished
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.incoming import Incoming
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.outbound import ENCODERS
from gateway.adapters.methods.wire import layouts
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Body, Spool
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import Confirm, Operation, Outcome, Settle
from gateway.partial_bodies import Key, PartialBodyStore

HEADERS = {"0-8": (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01")}
"""Headers that open a version, where there are several (python amqplib writes the second)."""


class Engine:
    """One connection of a published version; an ``Adapter``.

    Methods of the contract that one part does alone are bound to the instance, which saves a call
    for each read and each write."""

    # More than 30 attributes: in a dictionary they would take four times the octets.
    __slots__ = (
        "announced", "body_max", "buffer", "channel_max", "channels", "closing", "codes",
        "connection", "content_classes", "encoded", "excuse_silence", "found", "frames",
        "heartbeat", "incoming", "life", "lost", "max_message_octets", "outlet", "output",
        "output_congested", "owner", "paced", "partials", "pending", "put", "read_on", "receive",
        "refill", "role", "server", "spool", "stream_rate", "table", "tags", "version", "wake",
        "write", "writer", "__weakref__",
    )  # fmt: skip
    capabilities = Capability.PARTIAL_BODIES
    layouts = layouts

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
        ``partials``: keeps incomplete files; without one they go with the connection."""
        self.version = version
        self.role = role
        self.server = server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self.table = table = VERSIONS[version]
        self.codes = reply_codes(version, table.codes)
        self.channels: dict[int, Channel] = {}
        self.tags = fields.RABBITMQ
        self.max_message_octets = limits.max_message_octets
        self.announced = 0
        self.spool = spool
        self.partials = PartialBodyStore(spool) if partials is None else partials
        self.owner: Key = ()
        self.content_classes: frozenset[str] = frozenset()
        """Client: classes of content that the server says it has."""
        self.stream_rate = 0
        self.paced = False
        self.channel_max = limits.channel_max or 0xFFFF
        self.heartbeat = Heartbeat(limits)
        self.excuse_silence = self.heartbeat.excuse_silence
        self.outlet: Callable[[int], Outlet] = self.channel
        self.buffer = buffer = OutputBuffer(self, self.heartbeat, self.channels)
        self.pending = buffer.pending
        self.incoming = Incoming(self, server)
        self.frames = frames = Frames(
            table,
            server,
            Settle if server else Confirm,
            Outcome.ACCEPT if server else True,
            self.channels,
            self.incoming,
            limits.max_message_octets,
        )
        overhead = frames.overhead
        frames.limit = (limits.frame_max or limits.max_message_octets + overhead) - overhead
        self.body_max = table.constants["frame-min-size"] - overhead
        self.writer = writer = MethodWriter(table, server, frames, buffer)
        self.put, self.write, self.encoded = buffer.put, writer.write, writer.encoded
        headers = HEADERS.get(version, (table.header,))
        self.life = life = Lifecycle(self, headers, refusal=table.header)  # 0-9-1 §2.2.4
        self.receive, self.read_on, self.lost = life.receive, life.read_on, life.lost
        self.found, self.output = life.found, buffer.take
        self.refill = buffer.large.refill
        self.connection = Connection(
            self, authority, limits, credentials, product, external_subject, mechanisms
        )
        if not server:
            life.begin()

    def tick(self, now: float) -> list[Operation]:
        """As ``Lifecycle.tick``; and streams with a rate may get more."""
        if self.closing:
            return []
        seconds = self.heartbeat.elapsed(now)
        found = self.life.tick(now)
        if self.paced and not self.closing:
            found += replenished(self.channels.values(), seconds)
        return found

    def send(self, operation: Operation) -> None:
        """Write an operation. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        encode = ENCODERS.get(type(operation))
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

    def publisher(self, channel: int) -> Callable[[Message, bool, bool], None]:
        return self.channel(channel).publish

    def write_content(
        self, channel: Channel, record: Any, header: bytes, body: Body, group: int = 0
    ) -> None:
        """A method with its content; of the class ``basic`` if none is given."""
        self.write(channel.number, record)
        channel.write_content(header, body, group)
        self.buffer.weigh(len(body) + WEIGHT)

    @property
    def more(self) -> int:
        return self.buffer.more

    def release(self) -> None:
        """Let go of everything, as the connection is over."""
        release(self, self.connection, self.life, self.incoming)
