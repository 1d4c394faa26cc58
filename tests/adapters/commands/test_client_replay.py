"""Every recorded conversation with our client in the place of the original one.

What the recorded client says is put to our client as words; it must write the same octets. What
the recorded server says is given to it; it must take all of it for what it is.
"""

from typing import Any, cast

import pytest

from gateway.adapters import Credentials, Limits, Role, adapter_for
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS, read_head
from gateway.adapters.commands.frames import frame, head_of, read_command
from gateway.adapters.commands.wire import layouts as w
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import (
    Acknowledge,
    BeginSession,
    Browse,
    Close,
    Closed,
    CloseDestination,
    Commit,
    Continue,
    Deliver,
    Done,
    EndSession,
    EndSubscription,
    GiveBack,
    Index,
    Listen,
    Looked,
    Open,
    OpenDestination,
    Operation,
    PauseHandle,
    Prepare,
    Query,
    Rollback,
    SendTo,
    Service,
)
from tests.adapters.commands.harness import parsed
from tests.adapters.commands.recorded import CONVERSATIONS, Line, read

HANDSHAKE = {"connection.response", "connection.tune", "connection.open"}
SERVICES = {1: Service.QUEUE, 2: Service.TOPIC, 3: Service.PEER}

NOT_OURS = {
    "client-java-framing-layer": "out of band and streams to a queue",
    "client-stdc-level0-consumer": "a commit on a channel without transactions",
    "pair-stdc-level0-producer-consumer": "a commit on a channel without transactions",
    "server-bad-initiation-version": "version 2",
    "client-stdc-level1-server-closes-channel": "a word behind the close",
    "client-stdc-level1-server-closes-handle": "a word behind the close",
    "server-channel-command-on-unopened-channel": "a channel that is not open",
    "server-channel-open-twice": "a channel that is open",
    "server-command-on-closing-channel": "a channel that is closed",
    "server-commit-on-plain-channel": "a commit on a channel without transactions",
    "server-handle-command-on-unopened-handle": "a handle that is not open",
    "server-handle-open-on-unopened-channel": "a channel that is not open",
    "server-handle-open-twice": "a handle that is open",
    "server-oversized-fragment": "a fragment without octets",
    "server-pipelined-whole-session": "words before the connection is open",
    "server-prepare": "parts on a channel that is not restartable",
    "server-undecodable-frame": "no frame",
    "server-unknown-command-type": "no frame",
    "client-perl-generated-modules": "a stream to a queue",
}
"""What original clients and scripts say and ours does not: there the recorded octets go out."""


class Original:
    """Our client in place of a recorded one. ``strange``: commands that it would not have sent."""

    def __init__(self, lines: list[Line]) -> None:
        self.adapter: Any = adapter_for(
            "0.8a2", Role.CLIENT, credentials=Credentials("guest", "guest"), limits=Limits()
        )
        self.tag = 0
        engine = cast(Any, self.adapter)
        engine.table.tag = lambda: self.tag
        self.heard: list[Operation] = []
        self.strange = 0
        self.opened = False
        self.post: list[tuple[Any, bytes]] = []
        self.answered: list[type[Any]] = []
        fragments = [
            record.fragment_size
            for record, _ in records(b"".join(x.octets for x in lines if x.from_client))
            if isinstance(record, w.HandleSend) and record.partial and record.fragment_size > 64
        ]
        self.room = max(fragments, default=0)

    def hears(self, octets: bytes) -> None:
        self.heard += self.adapter.receive(octets)

    def written(self) -> bytes:
        return b"".join(self.adapter.output())

    def says(self, record: Any, fragment: bytes, octets: bytes) -> None:
        """A word of the recorded client."""
        if not self.opened:
            self.opened = True
            self.written()
        if self.room:
            self.adapter.connection.frame_out = self.room
        self.tag = getattr(record, "confirm_tag", 0)
        if isinstance(record, w.HandleSend) and record.partial and not record.streaming:
            self.post.append((record, fragment))
            return
        post, self.post = [*self.post, (record, fragment)], []
        expected = b"".join(frame(r) + f for r, f in post)
        # A close that answers a close has been said already; so has an answer to a ping, which the
        # original clients leave out. Some said other things before they had read it.
        self.answered += [type(r) for r, _ in parsed(self.written())]
        if type(record) in self.answered:
            self.answered.remove(type(record))
            return
        if getattr(record, "options", b""):
            record.options = b""
            expected = frame(record)
        try:
            operation = self.word(post)
            if operation is None:
                raise LocalError("no word for it")
            self.adapter.send(operation)
            if isinstance(record, w.HandleClose | w.ChannelClose | w.ConnectionClose):
                assert [type(r) for r, _ in parsed(self.written())] == [type(record)]
            else:
                assert self.written() == expected, record
        except LocalError:
            self.strange += 1

    def word(self, post: list[tuple[Any, bytes]]) -> Any:
        """The operation that says it, ``None`` if there is none."""
        m = post[-1][0]
        token = ("asked", self.tag) if self.tag else None
        if isinstance(m, w.HandleSend):
            return self.send(post, token)
        number = getattr(m, "channel_id", 0)
        link = str(getattr(m, "handle_id", 0))
        line = self.adapter.table.handles.get(getattr(m, "handle_id", 0))
        of = line.channel.number if line is not None else 0
        match m:
            case w.ChannelOpen():
                return BeginSession(number, token, m.transacted, m.restartable)
            case w.ChannelAck():
                return Acknowledge(number, token, m.message_nbr)
            case w.ChannelCommit():
                return Commit(number, token)
            case w.ChannelRollback():
                return Rollback(number, token)
            case w.ChannelClose():
                return EndSession(number, "ending")
            case w.ConnectionClose():
                return Close()
            case w.HandleOpen():
                return OpenDestination(
                    number, token, link, SERVICES[m.service_type], m.dest_name, m.temporary, "",
                    m.producer, m.consumer, m.browser, m.mime_type, m.encoding,
                )  # fmt: skip
            case w.HandleConsume():
                return Listen(
                    of, token, link, link, m.dest_name, m.prefetch, m.no_local, m.unreliable,
                    m.identifier, m.selector.decode(), m.mime_type,
                )  # fmt: skip
            case w.HandleCancel():
                return EndSubscription(of, token, link, m.dest_name, m.identifier)
            case w.HandleFlow():
                return PauseHandle(of, token, link, m.flow_pause)
            case w.HandleUnget():
                return GiveBack(of, token, link, m.message_nbr)
            case w.HandleQuery():
                kind = m.mime_type
                return Query(
                    of, "query", link, m.dest_name, m.message_nbr, m.selector.decode(), kind
                )
            case w.HandleBrowse():
                return Browse(of, "browse", link, m.message_nbr)
            case w.HandleClose():
                return CloseDestination(of, "closing", link)
            case w.HandlePrepare():
                message, size = self.message(post[-1][1])
                return Prepare(of, "prepare", link, message, size, m.content_hash)
        return None

    def send(self, post: list[tuple[Any, bytes]], token: Any) -> Any:
        m = post[-1][0]
        if m.streaming or m.out_of_band:
            return None
        link = str(m.handle_id)
        line = self.adapter.table.handles.get(m.handle_id)
        of = line.channel.number if line is not None else 0
        octets = b"".join(fragment for _, fragment in post)
        if m.recovery:
            return Continue(of, token, link, m.dest_name, octets, True, token is not None)
        if not octets:
            return None
        message, _ = self.message(octets)
        return SendTo(of, token, link, m.dest_name, message, token is not None)

    def message(self, octets: bytes) -> tuple[Message, int]:
        head, start = read_head(octets)
        header = octets[SIZE_OCTETS:start]
        body = octets[start:]
        return Message(COMMAND, header, body, "", "", COMMAND.essentials(header)), head.body_size


def records(octets: bytes) -> list[tuple[Any, bytes]]:
    """Commands behind the initiation, as far as they can be read."""
    at = 2 if octets[:2] == b"\x80\x01" else 0
    found: list[tuple[Any, bytes]] = []
    while at < len(octets):
        start = head_of(octets, at)
        assert start is not None
        stop = start + int.from_bytes(octets[at + 2 : start] or octets[at:start], "big")
        try:
            command, record = read_command(octets, start, stop)
        except Exception:
            return [*found, (None, octets[at:])]
        fragment = b""
        if command.fragment and not getattr(record, "out_of_band", False):
            fragment = octets[stop : stop + record.fragment_size]
            stop += record.fragment_size
        found.append((record, fragment))
        at = stop
    return found


def turns(lines: list[Line]) -> list[tuple[bool, bytes]]:
    """Octets that went one way before any went the other."""
    found: list[tuple[bool, bytes]] = []
    for line in lines:
        if line.kind == "end":
            continue
        if found and found[-1][0] is line.from_client:
            found[-1] = (line.from_client, found[-1][1] + line.octets)
        else:
            found.append((line.from_client, line.octets))
    return found


def play(lines: list[Line]) -> Original:
    """One connection of a recording with our client."""
    one = Original(lines)
    opening = next((x.fields for x in lines if x.kind == "connection.open"), None)
    if opening is not None:
        one.adapter.send(Open("opening", opening[1], "guest", client=opening[2]))
    silent = opening is not None and opening[0] == 0
    for from_client, octets in turns(lines):
        if not from_client:
            one.hears(octets)
            continue
        for record, fragment in records(octets):
            if record is None:
                one.strange += 1
            elif record.NAME in HANDSHAKE:
                if record.NAME == "connection.open" and silent:
                    # Ours always asks for the reply that this one did without.
                    one.hears(frame(w.ConnectionReply(1, 200)))
            else:
                one.says(record, fragment, octets)
    return one


def connections(name: str) -> list[list[Line]]:
    lines = read(name)
    return [[x for x in lines if x.connection == c] for c in sorted({x.connection for x in lines})]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_recorded_servers_are_understood(name: str) -> None:
    strange = 0
    for lines in connections(name):
        one = play(lines)
        strange += one.strange
        told = records(b"".join(x.octets for x in lines if not x.from_client))
        notified = [r for r, _ in told if isinstance(r, w.HandleNotify) and not r.partial]
        closed = [op for op in one.heard if isinstance(op, Closed)]
        recorded = [r for r, _ in told if isinstance(r, w.ConnectionClose)]
        assert len(closed) == (1 if recorded else 0)
        if closed and recorded[0].reply_code != 200:
            assert closed[0].theirs and closed[0].text == recorded[0].reply_text
        if name in NOT_OURS:
            continue
        delivered = [op for op in one.heard if isinstance(op, Deliver)]
        looked = [op for op in one.heard if isinstance(op, Done) and isinstance(op.result, Looked)]
        assert len(delivered) == sum(r.delivered for r in notified)
        assert len(looked) == sum(not r.delivered for r in notified)
        indices = [op for op in one.heard if isinstance(op, Done) and isinstance(op.result, Index)]
        assert len(indices) == sum(isinstance(r, w.HandleIndex) for r, _ in told)
    assert bool(strange) is (name in NOT_OURS)
