"""The state of one connection that its parts share: negotiated limits, the operations found so far,
and the output."""

from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.commands.fragments import Fragments, Headers, cut_fragments
from gateway.adapters.commands.frames import BY_RECORD, frame
from gateway.adapters.commands.states import GREETING, HEADING, OPEN, OPENING, State
from gateway.adapters.commands.wire.tables import HANDSHAKE_MAX, LEAST_FRAME_MAX
from gateway.adapters.core.large_bodies import BodyWriter, OutputChannel
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.options import Limits
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import LocalError
from gateway.operations import Operation, Peer

VARYING_AT = 5
MOST_TEMPLATES = 1024
"""Encoded commands kept by a connection or channel."""

LARGEST_FRAME = 32_768
"""The frame size that the original server announces: some original clients have no larger
buffer."""


def split_around(octets: bytes, varying: Struct) -> tuple[bytes, bytes]:
    """A command with a fragment before and after the fields that vary, which follow its size, type
    and handle."""
    return octets[:VARYING_AT], octets[VARYING_AT + varying.size :]


def frame_max(limits: Limits) -> int:
    """The largest frame that we announce."""
    return max(LEAST_FRAME_MAX, min(limits.frame_max or LARGEST_FRAME, LARGEST_FRAME))


class Opening(NamedTuple):
    """The token of ``Open``: the confirm tag, 0 for none."""

    tag: int


class PendingReply(NamedTuple):
    """The token of any other request of a client: the command, its handle (0: none), the confirm
    tag (0: none), and the tag of a consumer that it starts."""

    name: str
    handle: int
    tag: int
    consumer: str = ""


class Connection:
    """One connection, without its handshake and close."""

    def __init__(
        self,
        version: str,
        server: bool,
        limits: Limits,
        spool: Spool | None,
        buffer: OutputBuffer,
    ) -> None:
        self.server = server
        self.limits = limits
        self.spool = spool
        self.peer = Peer(version=version)
        self.state: State = HEADING if server else GREETING
        self.headers = Headers()
        self.frame_max = frame_max(limits)
        """The largest frame and fragment that we take."""
        self.frame_out = HANDSHAKE_MAX
        """The largest that the peer takes."""
        self.incoming_octets = 0
        """Octets in memory announced for messages that have not come completely."""
        self.found: list[Operation] = []
        """Operations found in the octets that are being read."""
        self.later: list[Operation] = []
        """Operations found outside ``receive``; the next one, or the next tick, returns them."""
        self.buffer = buffer
        self.handles: dict[int, Any] = {}
        """Open handles by number, of the server or the client."""

    def opened(self) -> None:
        if self.state is OPENING:
            self.state = OPEN

    # --- operations -----------------------------------------------------------------------------

    def begin_receiving(self) -> list[Operation]:
        """The list that collects operations from now on; it begins with those found before."""
        self.found, self.later = self.later, []
        return self.found

    def found_now(self) -> list[Operation]:
        """The list for an operation that is found now: the result of ``receive``, or ``later``."""
        return self.found if self.buffer.receiving else self.later

    def emit(self, operation: Operation) -> None:
        """Report an operation to the owner."""
        (self.found if self.buffer.receiving else self.later).append(operation)

    # --- output ---------------------------------------------------------------------------------

    def write(self, record: Any) -> None:
        """One command of ours. Raises ``LocalError`` if this role does not send it."""
        command = BY_RECORD[type(record)]
        if not (command.from_server if self.server else command.from_client):
            raise LocalError(f"{command.name} is not ours to send")
        octets = frame(record)
        if len(octets) > self.frame_out + 6:
            raise LocalError(f"{command.name} does not fit a frame of the peer")
        if self.buffer.large.deferred:
            number = getattr(record, "channel_id", 0)
            handle = self.handles.get(getattr(record, "handle_id", 0))
            self.buffer.put_on(number if handle is None else handle.channel.number, octets)
        else:
            self.buffer.put(octets)

    def put_message(self, channel: int, octets: bytes) -> None:
        """Write a command with its fragment. Hot."""
        buffer = self.buffer
        if buffer.large.deferred:
            buffer.put_on(channel, octets)
        else:
            if not buffer.pending:
                buffer.waken()
            buffer.pending.append(octets)
        buffer.weigh(len(octets))

    def write_message(
        self, channel: OutputChannel, record: Any, name: str, head: bytes, body: Body
    ) -> None:
        """Send a header and body in as many fragments as they need. ``record``: the command; the
        last one has the name (§3.5.3, §3.5.11)."""

        def make(fragment: bytes, more: bool) -> bytes:
            record.fragment_size = len(fragment)
            record.partial = more
            record.dest_name = "" if more else name
            return frame(record) + fragment

        if isinstance(body, LargeBody):
            self.write_large(channel, Fragments(make, head, body, self.frame_out))
            return
        for fragment, more in cut_fragments(head + body, self.frame_out):
            self.put_message(channel.number, make(fragment, more))

    def write_parts(self, channel: int, record: Any, octets: bytes) -> None:
        """Send octets in fragments of which none is the last."""
        for fragment, _ in cut_fragments(octets, self.frame_out):
            record.fragment_size = len(fragment)
            self.put_message(channel, frame(record) + fragment)

    def write_large(self, channel: OutputChannel, writer: BodyWriter) -> None:
        """Send a large body next on a channel, in portions."""
        buffer = self.buffer
        buffer.large.add(channel, writer)
        buffer.waken()
