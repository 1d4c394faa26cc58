"""Bodies in parts whose sizes lie, which are cut off, repeated and too long: nothing hangs or is
raised, and no octet is left where it should not be."""

import hashlib
from pathlib import Path
from random import Random

import pytest

from gateway.adapters import Limits
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as commands
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.bodies import Spool
from gateway.message import Properties
from gateway.partial_bodies import SMALL, PartialBodyStore
from gateway.sessions.registry import SessionRegistry
from tests.adapters.commands.harness import VHOST, Harness
from tests.adapters.methods.drafts.talking import Both

MOST = 6 * SMALL
SIZES = (0, 1, 1000, SMALL, SMALL + 1, 2 * SMALL, 3 * SMALL, MOST, MOST + 1, (1 << 32) - 1)
FOR_EVER = 10**15


class Room:
    """Places for bodies, with limits that are reached."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self.folder = folder / "staged"
        self.spool = Spool(str(folder), threshold=SMALL, most_octets=16 * SMALL, most_files=12)
        directory = self.folder if durable else None
        self.partials = PartialBodyStore(self.spool, directory, most_octets=9 * SMALL, most_items=4)

    def left(self) -> list[Path]:
        """Files that belong to nothing that is kept."""
        kept = {item.path for item in self.partials.kept.values()}
        return [f for f in self.folder.glob("*") if str(f.with_suffix("")) not in kept]

    def check(self) -> None:
        """All senders are gone."""
        partials = self.partials
        assert not partials.used and not self.left()
        assert partials.number == len(partials.kept) <= 4
        assert partials.octets == sum(item.have for item in partials.kept.values()) <= 9 * SMALL
        assert partials.memory == sum(item.held for item in partials.kept.values())
        partials.tick(FOR_EVER)
        assert not partials.kept and partials.octets == partials.number == partials.memory == 0
        assert not list(self.folder.glob("*")), "no file is left"
        assert self.spool.files == 0 and self.spool.octets == 0


def told(random: Random, size: int, have: int = 0) -> int:
    """How many octets are sent of a body: mostly the right number."""
    rest = max(0, min(size, MOST) - have)
    return max(0, rest + random.choice((0, 0, 0, 0, 0, -1, 1, -rest // 2, -rest // 2, SMALL)))


def said_0_8a(random: Random, room: Room) -> bytes:
    """A message in parts or in fragments, or another command, nearly valid."""
    handle, name = random.choice((1, 1, 1, 2)), random.choice("abc")
    size = random.choice(SIZES[3:-2]) if random.random() < 0.8 else random.choice(SIZES)
    header = COMMAND.write(Properties(message_id=name))
    chance = random.random()
    if chance < 0.05:
        return frame(commands.HandleClose(handle, 200)) + frame(
            commands.HandleOpen(1, handle, 1, 0, True, True, dest_name="test")
        )
    if chance < 0.1:
        return frame(commands.HandleSend(handle, 0, 0, recovery=random.random() < 0.5))
    recovery, have, first = chance < 0.7, 0, size.to_bytes(4, "big") + header
    octets = b""
    if recovery:
        digest = hashlib.sha1(bytes(min(size, MOST))).hexdigest() if random.random() < 0.5 else ""
        digest = "0" * 40 if random.random() < 0.1 else digest
        for item in room.partials.kept.values():
            if item.key[4:] == (str(size), hashlib.sha256(header).hexdigest()):
                have = item.have
        octets, first = frame(commands.HandlePrepare(handle, len(first), digest)) + first, b""
    rest = first + bytes(told(random, size, have))
    ends = random.random() < 0.7
    for at in range(0, len(rest) or 1, 32_000):
        fragment = rest[at : at + 32_000]
        partial = at + 32_000 < len(rest) or not ends
        record = commands.HandleSend(handle, 0, len(fragment), partial, recovery=recovery)
        octets += frame(record) + fragment
    return octets


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_0_8a2(tmp_path: Path, seed: int, durable: bool) -> None:
    random, harness, room = Random(seed), Harness(max_message_octets=MOST), Room(tmp_path, durable)
    harness.registry = SessionRegistry(partials=room.partials)
    queue = harness.queue("test")
    hello = b"\x80\x01", commands.ConnectionResponse("NONE")
    for _ in range(60):
        peer = harness.peer(mechanisms=("ANONYMOUS",), spool=room.spool)
        peer.says(*hello, commands.ConnectionOpen(0, VHOST, random.choice(("", "me", "you"))))
        peer.says(commands.ChannelOpen(1, 0, False, True))
        for handle in (1, 2):
            peer.says(commands.HandleOpen(1, handle, 1, 0, True, True, dest_name="test"))
        for _ in range(random.randrange(4)):
            peer.feed(said_0_8a(random, room))
            peer.adapter.output()
        octets = said_0_8a(random, room)
        peer.feed(octets[: random.randrange(len(octets) + 1)])
        peer.disconnect()
        assert peer.adapter.connection.incoming_octets == 0 and not room.partials.used
        if random.random() < 0.3:
            queue.purge()
    queue.purge()
    harness.commit()
    room.check()


def said_0_9a6(both: Both, random: Random, room: Room) -> bytes:
    """A file, a message, or another method, nearly valid."""
    name, frames, encoded = random.choice("abcd"), both.client.frames, both.client.encoded
    size = random.choice(SIZES[3:-2]) if random.random() < 0.8 else random.choice(SIZES)
    chance = random.random()
    if chance < 0.05:
        return encoded(1, w.FilePublish(0, "queue", False, name))
    if chance < 0.1:
        return encoded(1, w.FileOpen(name, size))
    opened, group, have = b"", 7, 0
    if chance < 0.8:
        opened, group = encoded(1, w.FileOpen(name, size)), 8
        for item in room.partials.kept.values():
            have = item.have if (item.key[3], item.size) == (name, size) else have
    rest = told(random, size, have)
    lying = rest if random.random() < 0.8 else random.choice(SIZES)
    octets = opened + encoded(1, w.FileStage() if opened else w.JmsPublish(0, "queue"))
    octets += frames.frame(frames.header, 1, frames.content_header(group, 0, lying, b"\0\0"))
    octets += b"".join(frames.bodies(1, bytes(rest), 30_000))
    if opened and random.random() < 0.7:
        octets += encoded(1, w.FilePublish(0, "queue", False, name))
    return octets


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_0_9a6(tmp_path: Path, seed: int, durable: bool) -> None:
    random, room = Random(seed), Room(tmp_path, durable)
    limits = Limits(max_message_octets=MOST)
    for _ in range(60):
        both = Both("0-9a6", limits=limits, spool=room.spool, partials=room.partials).opened()
        for _ in range(random.randrange(4)):
            both.perform(both.server.receive(said_0_9a6(both, random, room)))
            both.server.output()
        octets = said_0_9a6(both, random, room)
        both.server.receive(octets[: random.randrange(len(octets) + 1)])
        both.server.lost()
        both.forget()
        assert both.server.announced == 0 and not room.partials.used
    room.check()
