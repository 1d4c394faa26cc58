"""What outlives a connection of the transitional 0-10: sessions, uploads, prepared branches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.operations import (
    BranchStatus,
    CommitBranch,
    DeclareQueue,
    EndBranch,
    Fetch,
    PrepareBranch,
    Publish,
    RecoverBranches,
    SelectBranches,
    StartBranch,
    Xid,
)
from tests.adapters.client_talk import message
from tests.adapters.methods.transitional.serving import Client, Said
from tests.net.peer import Peer
from tests.net.running import Running, until
from tests.net.test_transitional import LIMITS, LISTENERS, REVISIONS, Conversation, port_of, wire_to
from tests.net.wire import Wire

both = pytest.mark.parametrize("revision", REVISIONS)
PART = bytes(range(256)) * 200
BY_NAME = types.write_body(types.Body(True, b"r"))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("kept")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file, **LIMITS) as running:
        yield running


class Guest:
    """A client that says what it is told, logged in, with channel 1 open."""

    def __init__(self, gateway: Running, revision: str) -> None:
        self._wire: Wire = wire_to(gateway, revision)
        self._talk = Conversation(self._wire, revision)
        self._writer = Client(revision)
        self._wire.send(self._writer.table.header)
        self._heard("connection.start")
        for request, (record, answer) in enumerate((
            (w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"), "connection.tune"),
            (w.ConnectionTuneOk(0, 65536, 0), ""),
        ), 1):  # fmt: skip
            self._wire.send(self._writer.answered(0, record, request))
            if answer:
                self._heard(answer)
        self.ask(0, w.ConnectionOpen("/"), "connection.open-ok")
        self.ask(1, w.ChannelOpen(), "channel.open-ok")

    def say(self, channel: int, *records: Any) -> None:
        self._wire.send(b"".join(self._writer.octets(channel, record) for record in records))

    def any(self) -> Said:
        """The next frame."""
        while not self._talk.said:
            self._talk.hear()
        return self._talk.said.pop(0)

    def _heard(self, name: str) -> Said:
        while (said := self.any()).name != name:
            pass
        return said

    def ask(self, channel: int, record: Any, name: str) -> Any:
        """The next method of this name."""
        self.say(channel, record)
        return self._heard(name).record

    def heard(self, name: str) -> Any:
        return self._heard(name).record

    def lose(self) -> None:
        self._wire.reset()


@both
def test_a_session_is_resumed(gateway: Running, revision: str) -> None:
    guest = Guest(gateway, revision)
    attached = guest.ask(5, w.SessionOpen(60), "session.attached")
    assert attached.detached_lifetime == 60
    queue = f"kept-{revision}"
    guest.ask(5, w.QueueDeclare(queue=queue, exclusive=True), "queue.declare-ok")
    guest.say(5, w.MessageConsume(queue=queue, destination="d"))
    for body in (b"1", b"2"):
        inline = types.write_body(types.Body(False, body))
        guest.ask(5, w.MessageTransfer(routing_key=queue, body=inline), "message.transfer")
        guest.lose()
        guest = Guest(gateway, revision)
        until(lambda: resumed(guest, attached.session_id), "the first connection is gone")  # noqa: B023
    guest.say(5, w.MessageRecover(requeue=True))
    bodies = [types.read_body(guest.heard("message.transfer").body).octets for _ in range(2)]
    assert sorted(bodies) == [b"1", b"2"]
    assert guest.ask(5, w.SessionClose(), "session.closed").reply_code == 200
    until(lambda: queue not in gateway.queues(), "its queue goes with it")
    guest.lose()


def resumed(guest: Guest, session: bytes) -> bool:
    """On channel 5."""
    guest.say(5, w.SessionResume(session))
    while True:
        said = guest.any()
        if said.name in ("session.attached", "session.closed"):
            return bool(said.name == "session.attached")


@both
def test_an_upload_goes_on(gateway: Running, revision: str) -> None:
    guest = Guest(gateway, revision)
    queue = f"upload-{revision}"
    guest.ask(1, w.QueueDeclare(queue=queue), "queue.declare-ok")
    guest.say(1, w.MessageOpen(b"r"), w.MessageAppend(b"r", PART), w.MessageCheckpoint(b"r", "id"))
    guest.say(1, *[w.MessageAppend(b"r", PART)] * 30)
    guest.ask(1, w.ExecutionFlush(), "execution.complete")
    guest.lose()
    guest = Guest(gateway, revision)
    offsets: list[int] = []

    def kept() -> bool:
        offsets.append(guest.ask(1, w.MessageResume(b"r", "id"), "message.offset").value)
        if not offsets[-1]:
            guest.say(1, w.MessageClose(b"r"))
        return offsets[-1] > 0

    until(kept, "the first connection is gone")
    assert offsets[-1] == 31 * len(PART)
    guest.say(1, w.MessageAppend(b"r", b"end"))
    guest.say(1, w.MessageTransfer(routing_key=queue, body=BY_NAME), w.MessageClose(b"r"))
    guest.ask(1, w.ExecutionFlush(), "execution.complete")
    with_wire = gateway.wire(1)
    assert with_wire.got(queue) == 31 * PART + b"end"
    with_wire.reset()
    guest.lose()


@pytest.mark.slow
@both
def test_a_prepared_branch_is_there_after_a_kill(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(LISTENERS)
    xid = Xid(11, b"global", b"branch")
    with Running(tmp_path, "--config", file, **LIMITS) as gateway:
        peer = Peer(port_of(gateway, revision), revision)
        peer.ask(DeclareQueue(1, "t", "q", durable=True))
        peer.ask(SelectBranches(1, "t"))
        assert peer.ask(StartBranch(1, "t", xid)) is BranchStatus.OK
        peer.say(Publish(1, message(b"in it", durable=True), False, False))
        assert peer.ask(EndBranch(1, "t", xid)) is BranchStatus.OK
        assert peer.ask(PrepareBranch(1, "t", xid)) is BranchStatus.OK
        gateway.kill()
        gateway.start()
        peer = Peer(port_of(gateway, revision), revision)
        assert peer.ask(RecoverBranches(1, "t")) == [xid]
        assert peer.ask(Fetch(1, "t", "q")) is None
        assert peer.ask(CommitBranch(1, "t", xid)) is BranchStatus.OK
        assert peer.ask(Fetch(1, "t", "q", True)).message.body == b"in it"
        peer.reset()
