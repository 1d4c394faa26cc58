"""The server role: commands of the client become operations (document §3.3, §3.5).

An error closes the scope it occurred in: a handle, a channel, or the connection if neither is open.
"""

from collections.abc import Callable
from typing import Any

from gateway import operations as ops
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.connection import Connection, PendingReply
from gateway.adapters.commands.incoming_publishes import IncomingPublishes
from gateway.adapters.commands.negotiation import HANDLE_MAX, read
from gateway.adapters.commands.server_channel import (
    MOST_NUMBER,
    ServerChannel,
    ServerChannels,
    ServerHandle,
)
from gateway.adapters.commands.server_outbound import ConnectionControl, Outbound
from gateway.adapters.commands.states import CLOSING, OPEN
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES, SERVICES
from gateway.errors import Lost

SERVICE = {number: ops.Service(name) for name, number in SERVICES.items()}
MOST_CHANNELS = 0xFFFF


class Server:
    """Turns the commands of a client into operations."""

    def __init__(
        self,
        connection: Connection,
        channels: dict[int, ServerChannel],
        handle_errors: str,
        control: ConnectionControl,
    ) -> None:
        self.table = table = ServerChannels(connection, channels, handle_errors)
        self.send = Outbound(connection, table, control).send
        self._connection = connection
        self._emit = connection.emit
        self._channels = table.channels
        self._handles = table.handles
        self._incoming = IncomingPublishes(connection, table.handles)
        self.fast_path = self._incoming.fast_path
        self._on_channel: dict[str, Callable[[ServerChannel, Any], None]] = {
            "channel.ack": self._ack,
            "channel.commit": self._commit,
            "channel.rollback": self._rollback,
        }
        self._on_handle: dict[str, Callable[[ServerHandle, Any], None]] = {
            "handle.consume": self._consume,
            "handle.cancel": self._cancel,
            "handle.flow": self._flow,
            "handle.unget": self._unget,
            "handle.query": self._query,
            "handle.browse": self._browse,
            "handle.ready": self._ready,
        }

    # --- in -------------------------------------------------------------------------------------

    def on(self, command: Command, m: Any, fragment: bytes) -> None:
        """One command of a channel or handle. Raises ``Violation`` if the connection dies of it."""
        name = command.name
        if name == "handle.open" or name.startswith("channel."):
            self._of_channel(name, m)
            return
        handle = self._handles.get(m.handle_id)
        if handle is None:
            raise Violation("handle-error", f"{name}: handle {m.handle_id} is not open")
        channel = handle.channel
        if channel.state is CLOSING:
            self.table.send_channel_close(channel.number, channel.code, "the channel is closed")
        elif name == "handle.close":
            self._close_handle(handle, m)
        elif handle.state is OPEN:
            try:
                if name not in ("handle.send", "handle.ready"):  # a ready replies to us
                    self._incoming.need_complete(channel)
                if command.fragment:
                    self._incoming.on(name, handle, m, fragment)
                else:
                    self._on_handle[name](handle, m)
            except Violation as violation:
                self._violated(violation, channel, handle)

    def _of_channel(self, name: str, m: Any) -> None:
        number = m.channel_id
        if number == 0:
            raise Violation("syntax-error", "there is no channel 0")
        channel = self._channels.get(number)
        if channel is None:
            if name != "channel.open":
                raise Violation("channel-error", f"{name}: channel {number} is not open")
            self._open_channel(m)
        elif name == "channel.close":
            self._close_channel(channel, m)
        elif channel.state is CLOSING:
            self.table.send_channel_close(number, channel.code, "the channel is closed")
        else:
            try:
                if name == "handle.open":
                    self._incoming.need_complete(channel)
                    self._open_handle(channel, m)
                elif name == "channel.open":
                    text = f"channel {number} is open already"
                    raise Violation("command-invalid", text, Lost.SESSION)
                else:
                    self._incoming.need_complete(channel)
                    self._on_channel[name](channel, m)
            except Violation as violation:
                self._violated(violation, channel, None)

    def _violated(
        self, violation: Violation, channel: ServerChannel, handle: ServerHandle | None
    ) -> None:
        """Close the handle or the channel for an error; raise it if it ends the connection."""
        if violation.lost is Lost.LINK and handle is not None:
            self.table.lose_handle(handle, violation.code, violation.text)
        elif violation.lost is Lost.CONNECTION:
            raise violation
        else:
            self.table.lose_channel(channel, violation.code, violation.text)

    # --- channels -------------------------------------------------------------------------------

    def _open_channel(self, m: w.ChannelOpen) -> None:
        number, most = m.channel_id, self._connection.limits.channel_max or MOST_CHANNELS
        channel = self.table.open(number, m.transacted, m.restartable)
        try:
            read(m.options)
            if len(self._channels) > most:
                raise Violation("resource-error", f"more than {most} channels", Lost.SESSION)
            if m.out_of_band:
                text = "nothing is agreed about transfer out of band"
                raise Violation("not-implemented", text, Lost.SESSION)
        except Violation as violation:
            self.table.send_channel_close(number, violation.code, violation.text)
            channel.fail(violation.code)
            return
        token = PendingReply("channel.open", 0, m.confirm_tag)
        self._emit(ops.BeginSession(number, token, m.transacted, m.restartable))

    def _close_channel(self, channel: ServerChannel, m: w.ChannelClose) -> None:
        if channel.state is CLOSING:
            self.table.remove_channel(channel)
            return
        channel.abandon()
        self._emit(ops.EndSession(channel.number, PendingReply("channel.close", 0, 1)))

    def _ack(self, channel: ServerChannel, m: w.ChannelAck) -> None:
        """Hot."""
        token = PendingReply("channel.ack", 0, m.confirm_tag) if m.confirm_tag else None
        self._emit(ops.Acknowledge(channel.number, token, m.message_nbr))

    def _commit(self, channel: ServerChannel, m: w.ChannelCommit) -> None:
        """Commit also confirms everything sent to the client (§3.3.4), acknowledged or not."""
        self._need_transaction(channel, m.options)
        self._emit(ops.Acknowledge(channel.number, None, MOST_NUMBER))
        self._emit(ops.Commit(channel.number, PendingReply("channel.commit", 0, m.confirm_tag)))

    def _rollback(self, channel: ServerChannel, m: w.ChannelRollback) -> None:
        self._need_transaction(channel, m.options)
        self._emit(ops.Rollback(channel.number, PendingReply("channel.rollback", 0, m.confirm_tag)))

    def _need_transaction(self, channel: ServerChannel, options: bytes) -> None:
        read(options)
        if not channel.transacted:
            raise Violation("command-invalid", "the channel is not transacted", Lost.SESSION)
        channel.publishes = 0

    # --- handles --------------------------------------------------------------------------------

    def _open_handle(self, channel: ServerChannel, m: w.HandleOpen) -> None:
        number = m.handle_id
        if number == 0:
            raise Violation("syntax-error", "there is no handle 0")
        there = self._handles.get(number)
        if there is not None:
            if there.state is OPEN:
                text = f"handle {number} is open already"
                self.table.lose_handle(there, REPLIES["command-invalid"], text)
            return
        service = SERVICE.get(m.service_type)
        handle = ServerHandle(channel, m, service or ops.Service.QUEUE)
        self._handles[number] = channel.handles[number] = handle
        try:
            read(m.options)
            if service is None:
                text = f"there is no service type {m.service_type}"
                raise Violation("invalid-service", text, Lost.LINK)
            if len(self._handles) > HANDLE_MAX:
                raise Violation("resource-error", f"more than {HANDLE_MAX} handles", Lost.LINK)
            if service is ops.Service.PEER and (m.temporary or m.consumer or m.browser):
                text = "a peer is neither consumed, browsed nor temporary"
                raise Violation("syntax-error", text, Lost.LINK)
        except Violation as violation:
            self._violated(violation, channel, handle)
            return
        self._emit(
            ops.OpenDestination(
                channel.number,
                PendingReply("handle.open", number, m.confirm_tag),
                handle.link,
                handle.service,
                m.dest_name,
                m.temporary,
                self._connection.peer.name,
                m.producer,
                m.consumer,
                m.browser,
                m.mime_type,
                m.encoding,
            )
        )

    def _close_handle(self, handle: ServerHandle, m: w.HandleClose) -> None:
        if handle.state is CLOSING:
            self.table.remove_handle(handle)
            return
        handle.channel.abandon(handle)
        self._incoming.end_stream(handle)
        token = PendingReply("handle.close", handle.number, 1)
        self._emit(ops.CloseDestination(handle.channel.number, token, handle.link))

    def _consume(self, handle: ServerHandle, m: w.HandleConsume) -> None:
        if handle.service is ops.Service.PEER:
            raise Violation("command-invalid", "a peer is not consumed from", Lost.LINK)
        if not handle.consumer:
            raise Violation("access-refused", "the handle is not a consumer's", Lost.LINK)
        if m.identifier and handle.service is not ops.Service.TOPIC:
            raise Violation("syntax-error", "only topics have durable subscriptions", Lost.LINK)
        handle.tags += 1
        tag = f"{handle.link}/{handle.tags}"
        token = PendingReply("handle.consume", handle.number, m.confirm_tag, tag)
        self._emit(
            ops.Listen(
                handle.channel.number,
                token,
                handle.link,
                tag,
                m.dest_name,
                m.prefetch,
                m.no_local,
                m.unreliable,
                m.identifier,
                text_of(m.selector),
                m.mime_type,
            )
        )

    def _cancel(self, handle: ServerHandle, m: w.HandleCancel) -> None:
        if handle.service is not ops.Service.TOPIC:
            raise Violation("command-invalid", "only topics have subscriptions", Lost.LINK)
        if not m.identifier:
            raise Violation("syntax-error", "which subscription?", Lost.LINK)
        token = PendingReply("handle.cancel", handle.number, m.confirm_tag)
        number, link = handle.channel.number, handle.link
        self._emit(ops.EndSubscription(number, token, link, m.dest_name, m.identifier))

    def _flow(self, handle: ServerHandle, m: w.HandleFlow) -> None:
        if handle.service is ops.Service.PEER:
            raise Violation("command-invalid", "a peer is not paused", Lost.LINK)
        # Without a tag, a refusal closes no handle.
        tag = m.confirm_tag
        token = PendingReply("handle.flow", handle.number, tag) if tag else None
        self._emit(ops.PauseHandle(handle.channel.number, token, handle.link, m.flow_pause))

    def _unget(self, handle: ServerHandle, m: w.HandleUnget) -> None:
        if handle.service is not ops.Service.QUEUE:
            raise Violation("command-invalid", "only queues take messages back", Lost.LINK)
        token = PendingReply("handle.unget", handle.number, m.confirm_tag)
        self._emit(ops.GiveBack(handle.channel.number, token, handle.link, m.message_nbr))

    def _query(self, handle: ServerHandle, m: w.HandleQuery) -> None:
        self._need_browser(handle)
        token = PendingReply("handle.query", handle.number, 0)
        number, link = handle.channel.number, handle.link
        selector = text_of(m.selector)
        self._emit(
            ops.Query(number, token, link, m.dest_name, m.message_nbr, selector, m.mime_type)
        )

    def _browse(self, handle: ServerHandle, m: w.HandleBrowse) -> None:
        self._need_browser(handle)
        token = PendingReply("handle.browse", handle.number, m.confirm_tag)
        self._emit(ops.Browse(handle.channel.number, token, handle.link, m.message_nbr))

    def _need_browser(self, handle: ServerHandle) -> None:
        """Original clients browse with consumers' handles too."""
        if handle.service is ops.Service.PEER:
            raise Violation("command-invalid", "a peer is not browsed", Lost.LINK)
        if not (handle.browser or handle.consumer):
            raise Violation("access-refused", "the handle is not a browser's", Lost.LINK)

    def _ready(self, handle: ServerHandle, m: w.HandleReady) -> None:
        if not handle.channel.ready(handle, m.message_size):
            raise Violation("command-invalid", "no such message was prepared", Lost.LINK)


def text_of(octets: bytes) -> str:
    """Decode a selector. Raises ``Violation``."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise Violation("syntax-error", "the selector is not UTF-8", Lost.LINK) from None
