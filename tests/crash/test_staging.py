"""``kill -9`` in the middle of bodies that come in parts: their senders go on where the gateway
says, and all of each is right."""

import hashlib
from pathlib import Path

import pytest

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.pending import Awaited
from gateway.adapters.methods.wire import layouts
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.message import Message, Properties
from gateway.operations import (
    Continue,
    Deliver,
    EndSession,
    OpenDestination,
    Prepare,
    Publish,
    Service,
    Subscribe,
)
from gateway.partial_bodies import PartialBodyStore
from tests.net.peer import Peer
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT

FILE = CONTENTS["0-9a6", 8]
BODY = b"".join(b"%015d\n" % number for number in range(100_000))
DIGEST = hashlib.sha1(BODY).hexdigest()
CUT, SURE = 1_000_000, 800_000
"""Octets sent before the kill, and those that are waited for."""
QUEUES = ("hashed", "plain", "file", "out")


def parts(gateway: Running) -> dict[str, int]:
    """What stands in the directory: names and sizes."""
    staged = gateway.data / "staged"
    return {f.name: f.stat().st_size for f in staged.iterdir()} if staged.is_dir() else {}


def prepared(gateway: Running, queue: str, digest: str = "", name: str = "") -> tuple[Peer, int]:
    """A client of 0.8a2, and how much of its message the gateway has."""
    peer = Peer(gateway.port, "0.8a2", name or queue)
    header = COMMAND.write(Properties(message_id="film", durable=True))
    peer.ask(OpenDestination(1, "t", "1", Service.QUEUE, queue))
    start = Message(COMMAND, header, BODY[:1000], "", "", COMMAND.essentials(header))
    return peer, peer.ask(Prepare(1, "t", "1", start, len(BODY), digest))


def publishing(gateway: Running) -> Peer:
    """A client of 0-9a6 that has been told how much of its file the gateway has."""
    peer = Peer(gateway.port, "0-9a6")
    header = FILE.write(Properties(content_type="video/mpeg", to="file"))
    film = Message(FILE, header, BODY, "", "file", FILE.essentials(header))
    peer.say(Publish(1, film, False, False))
    peer.hear()
    return peer


def consuming(gateway: Running, partials: PartialBodyStore) -> Peer:
    """A client of 0-9a6 that takes files, and keeps what came of them."""
    peer = Peer(gateway.port, "0-9a6", partials=partials)
    record = w.FileConsume(0, "", "out", 0, 5)
    method = peer.adapter.table.by_record[type(record)]
    peer.adapter.channels[1].awaited.append(Awaited(method, Subscribe(1, None, "out")))
    peer.adapter.write(1, record)
    peer.flush()
    return peer


@pytest.mark.slow
def test_all_go_on(tmp_path: Path) -> None:
    with Running(tmp_path, amqp__header_0_9="0-9a6") as gateway:
        wire = gateway.wire(1)
        for queue in QUEUES:
            wire.declare(queue, durable=True)
        wire.call(1, layouts.ConfirmSelect(), layouts.ConfirmSelectOk)
        wire.publish("out", BODY, PERSISTENT)
        wire.heard(layouts.BasicAck)
        senders: list[Peer] = []
        for queue, digest, name in (
            ("hashed", DIGEST, ""), ("plain", "", ""), ("plain", "", "third"),
        ):  # fmt: skip
            peer, have = prepared(gateway, queue, digest, name)
            assert have == 1000
            peer.say(Continue(1, None, "1", "", BODY[1000:CUT], False))
            senders.append(peer)
        senders.append(publishing(gateway))
        senders[-1].flush(CUT)
        partials = PartialBodyStore()
        reader = consuming(gateway, partials)
        while partials.octets < CUT:
            reader.hear()
            reader.flush()

        def there() -> bool:
            sizes = [size for name, size in parts(gateway).items() if name.endswith(".part")]
            return len(sizes) == 4 and min(sizes) > SURE

        until(there, "most of all of them is in files")
        gateway.kill()
        reader.adapter.lost()
        (gateway.data / "staged" / "0123.json").write_text("[1")
        (gateway.data / "staged" / "4567.part").write_bytes(b"of nobody")
        gateway.start()

        assert len(parts(gateway)) == 8, "what is of nobody is swept"
        assert prepared(gateway, "plain", DIGEST, "third")[1] == 1000, "other contents"
        assert prepared(gateway, "hashed", DIGEST, "another")[1] == 1000, "as is another client's"
        for queue, digest in (("hashed", DIGEST), ("plain", "")):
            peer, have = prepared(gateway, queue, digest)
            assert have > SURE
            further = have + 40_000
            peer.say(Continue(1, None, "1", "", BODY[have:further], False))
            peer.socket.close()
            until(lambda: not gateway.connections(), "it is gone")
            peer, have = prepared(gateway, queue, digest)
            assert have == further
            assert peer.ask(Continue(1, "t", "1", "", BODY[have:], True, True)) == ""
        peer = publishing(gateway)
        before = peer.sent
        peer.flush()
        peer.ask(EndSession(1, "t"))
        assert peer.sent - before < len(BODY) - SURE + 50_000, "only the rest was sent"
        reader = consuming(gateway, partials)
        assert reader.next(Deliver).message.body == BODY
        assert reader.heard < len(BODY) - SURE + 50_000, "only the rest was sent"
        wire = gateway.wire(1)
        wire.call(1, layouts.ConfirmSelect(), layouts.ConfirmSelectOk)
        wire.publish("out", b"", PERSISTENT)
        wire.heard(layouts.BasicAck)
        gateway.kill()
        gateway.start()

        wire = gateway.wire(1)
        for queue in QUEUES:
            assert wire.got(queue) == BODY, "it was confirmed, or what came behind it"
        assert not [name for name, size in parts(gateway).items() if size > 1000]
