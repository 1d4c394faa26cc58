"""The adapter of the transitional 0-10.

``Engine`` puts its parts together. Connection life and the rules of dispatch are those of
``methods``; frames with requests and responses, the numbers in them, channels and messages are of
this version. The revision of a client is told by the frame in which it opens the connection, that
of a server by its first frame: a request (24 July) or a plain method (27 July).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.output import OutputBuffer, no_op
from gateway.adapters.core.release import release
from gateway.adapters.methods.codes import reply_codes
from gateway.adapters.methods.contents.classes import replenished
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.connection import ARGUMENTS, Connection
from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.transitional.incoming import Incoming
from gateway.adapters.methods.transitional.numbering import Numbering
from gateway.adapters.methods.transitional.outbound import ENCODERS
from gateway.adapters.methods.transitional.publishes import Publishes
from gateway.adapters.methods.transitional.resumption import leave
from gateway.adapters.methods.transitional.sessions import counterpart
from gateway.adapters.methods.transitional.versions import HEADERS, METHODS, REQUESTS, REVISIONS
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Spool
from gateway.errors import LocalError
from gateway.operations import Operation
from gateway.partial_bodies import Key, PartialBodyStore

REPLIES = frozenset(
    reply
    for table in REVISIONS.values()
    for method in table.methods.values()
    for reply in method.replies
) - {"session.closed", "file.stage"}
"""Methods that are no requests. A server may close a session without being asked, and a file is
staged behind a response."""


class Engine:
    """One connection; an ``Adapter``."""

    capabilities = Capability.PARTIAL_BODIES | Capability.CLASSES | Capability.SESSIONS
    layouts = w

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
        class_message: bool = False,
        class_session: bool = False,
    ) -> None:
        """``spool``: where bodies go that are too large for memory; ``None``: they stay there.
        ``partials``: keeps references with a checkpoint; without one they go with the
        connection. ``class_message``, ``class_session``: a client uses them, and not the
        classes basic and channel."""
        self.version = version
        self.role: Role = role
        self.server = role is Role.SERVER
        self.class_message, self.class_session = class_message, class_session
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self.requests = version == REQUESTS
        """Our methods are requests and responses."""
        self.table = REVISIONS[version]
        self.codes = reply_codes(version, self.table.codes)
        self.numbering = Numbering()
        """Of channel 0."""
        self.channels: dict[int, Channel] = {}
        self.channel_max = limits.channel_max or 0xFFFF
        self.frame_max = self.table.constants["frame-min-size"]
        """Octets of the largest frame that the peer takes; 0: any."""
        self.max_message_octets = limits.max_message_octets
        self.announced = 0
        """Octets of unfinished messages in memory."""
        self.spool = spool
        self.partials = PartialBodyStore(spool) if partials is None else partials
        self.owner: Key = ()
        """Of bodies that are kept for later connections: protocol, virtual host and user."""
        self.stream_rate = 0
        self.paced = False
        self.heartbeat = Heartbeat(limits)
        self.buffer = buffer = OutputBuffer(self, self.heartbeat, self.channels)
        self.incoming = Incoming(self)
        self.life = life = Lifecycle(
            self, HEADERS, refusal=self.table.header, names_unknown=False, keep=partial(leave, self)
        )
        hot = Publishes(self) if self.server else None
        self.frames = Frames(self.table, self.incoming, ARGUMENTS, hot)
        self.receive, self.read_on, self.lost = life.receive, life.read_on, life.lost
        self.found, self.output = life.found, buffer.take
        self.refill = buffer.large.refill
        self.connection = Connection(
            self, authority, limits, credentials, product, external_subject, mechanisms
        )
        if not self.server:
            life.begin()

    def adopt(self, requests: bool) -> None:
        """The peer has shown in which frames it sends its methods: so are ours from now on."""
        self.requests = requests
        self.table = REVISIONS[REQUESTS if requests else METHODS]
        self.connection.peer.version = self.table.name

    def tick(self, now: float) -> list[Operation]:
        """As ``Lifecycle.tick``; and streams with a rate may get more."""
        seconds = self.heartbeat.elapsed(now)
        found = self.life.tick(now)
        if self.paced and not self.closing:
            found += replenished(self.channels.values(), seconds)
        return found

    # --- out -------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Say this. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        encode = ENCODERS.get(type(operation))
        if encode is None:
            raise LocalError(f"{type(operation).__name__} cannot be said in {self.version}")
        try:
            encode(self, operation)
        except ValueError as error:
            raise LocalError(str(error)) from error

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for an open channel."""
        return self.channel(channel)

    def channel(self, number: int) -> Channel:
        channel = self.channels.get(number)
        if channel is None:
            raise LocalError(f"channel {number} is not open")
        return channel

    def new_channel(self, number: int) -> Channel:
        """A channel that is being opened."""
        channel = self.channels[number] = Channel(number, self)
        return channel

    def write(self, channel: int, record: Any, request: int = 0, asked: Any = None) -> None:
        """One method of the life of a connection or channel; a response if it answers a
        ``request``, which was ``asked``, or if its name tells which one. A session says it in its
        own way."""
        if channel:
            record = counterpart(self.server, self.channels[channel], record, asked)
        if record is not None:
            self.send_method(channel, record, request)

    def send_method(self, channel: int, record: Any, request: int = 0, batch: int = 0) -> int:
        """One method; a response if it answers a ``request``, and so many behind it (``batch``).
        Returns the name by which the peer refers to it: the identifier of its request, or the
        number of the command."""
        numbering = self.channels[channel].numbering if channel else self.numbering
        octets = self.encoded(numbering, channel, record, request, batch)
        self.buffer.put_on(channel, octets)
        return numbering.requests if self.requests else numbering.sent

    def send_octets(self, channel: int, method: Method, octets: bytes) -> int:
        """The same for a method of ours that is no reply and is written already."""
        numbering = self.channels[channel].numbering
        numbering.send(method)
        carried = numbering.request() if self.requests else None
        self.buffer.put_on(channel, self.frames.method_frame(channel, carried, octets))
        return numbering.requests if self.requests else numbering.sent

    def encoded(
        self, numbering: Numbering, channel: int, record: Any, request: int = 0, batch: int = 0
    ) -> bytes:
        """The frame of a method, which is counted. Raises ``ValueError`` before that."""
        method = self.table.by_record.get(type(record))
        if method is None:
            raise LocalError(f"{record.NAME} is not in {self.table.name}")
        if not (method.from_server if self.server else method.from_client):
            raise LocalError(f"{record.NAME} is not ours to send")
        payload = method.prefix + method.write(record)
        numbering.send(method)
        request = request or numbering.unanswered(record.NAME)
        if request:
            carried = numbering.response(request, batch)
        elif self.requests and record.NAME not in REPLIES:
            carried = numbering.request()
        else:
            carried = None
        return self.frames.method_frame(channel, carried, payload)

    @property
    def more(self) -> int:
        return self.buffer.more

    def excuse_silence(self) -> None:
        """We did not read: the peer counts as heard."""
        self.heartbeat.heard = True

    def release(self) -> None:
        """Let go of everything, as the connection is over."""
        release(self, self.connection, self.incoming, self.life)
