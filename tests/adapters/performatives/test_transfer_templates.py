"""Transfers that are like one before are received as if they had been read."""

import random
from typing import Any

import pytest

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.frames import Frames
from gateway.adapters.performatives.incoming_publishes import IncomingPublishes
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.message import Message, Properties
from gateway.operations import Publish, PublishMany
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed
from tests.drawing import examples


def content(chance: random.Random, number: int) -> bytes:
    """Mostly a message with an id and a header of its own."""
    header = SECTIONS.write(
        Properties(
            message_id=f"{number:0{chance.choice([8, 8, 9])}}",
            creation_time=1_700_000_000_000 + number,
            application={
                "trace": chance.choice([f"{number:016}", "ü" * 8, "short", "\x00Su\xa0 a section?"])
            },
            to=chance.choice([None] * 6 + ["elsewhere"]),
        )
    )
    size = chance.choice([0, 1, 255, 256, 257, 300])
    data = (
        b"\x00\x53\x75\xa0%c" % size if size < 256 else b"\x00\x53\x75\xb0" + size.to_bytes(4)
    ) + b"x" * size
    return chance.choice(
        [header + data] * 12
        + [
            PLAIN,
            header,
            header + data + b"x",
            header + data[:-1],
            header + data + data,
            header + b"\x00\x53\x77\xa1\x01x",
            header[:40] + b"\xff" + header[41:] + data,
            b"\x00\x53\x75\xb0\x00\x00\x00\x01x",
        ]
    )


def script(chance: random.Random) -> list[tuple[Any, bytes]]:
    """Performatives of a peer with two links, mostly transfers of one kind, and their payloads."""
    found: list[tuple[Any, bytes]] = []
    first = chance.choice([1000, 0xFFFFFFF0])
    settled = chance.choice([None, True, False])
    for step in range(60):
        number = first + step & 0xFFFFFFFF
        if chance.random() < 0.03:
            number = number - 5 & 0xFFFFFFFF
        record = w.Transfer(
            handle=0,
            delivery_id=number,
            delivery_tag=number.to_bytes(4),
            message_format=0,
            settled=settled,
        )
        if chance.random() < 0.15:
            name, value = chance.choice(
                [
                    ("handle", 1), ("handle", 9), ("delivery_tag", b"t" * 33),
                    ("delivery_tag", b"long tag"), ("more", True), ("aborted", True),
                    ("rcv_settle_mode", 0), ("settled", chance.choice([None, True, False])),
                    ("message_format", 7), ("state", w.Received(0, 0)), ("resume", True),
                    ("delivery_id", None), ("delivery_id", 5), ("batchable", True),
                ]
            )  # fmt: skip
            setattr(record, name, value)
        found.append((record, content(chance, step)))
        if chance.random() < 0.05:
            found.append(
                chance.choice(
                    [
                        (w.Detach(0, True), b""),
                        (w.Disposition(False, number, None, True), b""),
                        (w.Flow(None, 1000, number, 1000, 0, delivery_count=step), b""),
                        (w.Attach("again", 0, False, initial_delivery_count=0, source=w.Source(),
                                  target=w.Target("q")), b""),
                    ]
                )
            )  # fmt: skip
    return found


def told(operation: Any) -> Any:
    """What an operation says: messages are compared by what they hold."""
    fields = [getattr(operation, name, None) for name in ("channel", "link", "mandatory", "closed")]
    one = getattr(operation, "message", None)
    if isinstance(one, Message):
        fields += [one.header, one.body, one.exchange, one.key, one.essentials]
    return type(operation), fields


def outcome(peer: Peer, said: list[tuple[Any, bytes]], cuts: list[int], modes: Any) -> list[Any]:
    """All operations and answers for these frames, which come in pieces."""
    peer.sends(**modes)
    peer.sends("other", 1)
    octets = b"".join(packed(record, 0, payload) for record, payload in said)
    found: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
        if peer.engine.closing:
            break
        found.append([told(each) for each in peer.feed(octets[begin:end])])
        found.append(b"".join(peer.engine.output()))
    return found


@pytest.mark.parametrize("seed", range(examples(2000)))
def test_every_transfer_is_as_if_it_were_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    said = script(chance)
    size = sum(len(packed(record, 0, payload)) for record, payload in said)
    cuts = sorted(chance.sample(range(size), chance.choice([0, 0, 3, 20])))
    modes = {
        "snd_settle_mode": chance.choice([None, 0, 1, 2]),
        "rcv_settle_mode": chance.choice([None, 0, 1]),
    }
    fast = outcome(Peer(), said, cuts, modes)
    monkeypatch.setattr(Frames, "_template", lambda *_: None)
    assert fast == outcome(Peer(), said, cuts, modes)


def test_transfers_alike_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    peer.sends()
    read = 0
    take = ReceivingLink.on_transfer

    def counting(*given: Any) -> None:
        nonlocal read
        read += 1
        take(*given)

    monkeypatch.setattr(ReceivingLink, "on_transfer", counting)
    said = [
        one
        for number in range(1000, 1600)
        for one in peer.transfers(number, delivery_tag=number.to_bytes(4))
        if isinstance(one, Publish)
    ]
    assert read == 1 and len(said) == 600


def test_transfers_alike_are_published_together() -> None:
    """Those of one read, but for the first two, by which the templates are made."""
    peer = Peer()
    peer.sends()

    def message(number: int) -> bytes:
        header = SECTIONS.write(Properties(message_id=f"{number:08}"))
        record = w.Transfer(0, number, number.to_bytes(4), 0, False)
        size = number % 3 + 1
        return packed(record, 0, header + b"\x00\x53\x75\xa0" + size.to_bytes(1) + b"x" * size)

    numbers = range(1000, 1050)
    peer.feed(b"".join(message(number) for number in numbers[:3]))
    (together,) = peer.engine.receive(b"".join(message(number) for number in numbers[3:]))
    assert isinstance(together, PublishMany) and together.mandatory
    assert [len(one.body) for one in together.messages] == [n % 3 + 1 for n in numbers[3:]]
    ids = [one.properties.message_id for one in together.messages]
    assert ids == [f"{number:08}" for number in numbers[3:]]


def test_headers_of_several_sizes_are_published_together() -> None:
    """Ids are seldom padded to one size."""
    peer = Peer()
    peer.sends()

    def message(number: int, name: str) -> bytes:
        header = SECTIONS.write(Properties(message_id=name, subject="sizes"))
        record = w.Transfer(0, number, number.to_bytes(4), 0, False)
        return packed(record, 0, header + b"\x00\x53\x75\xa0\x02hi")

    names = [f"{number**4}" for number in range(40)]  # one to seven digits
    seen = b"".join(message(1000 + n, f"{n % 2}" * (n // 2 + 1)) for n in range(14))
    peer.feed(seen)
    octets = b"".join(message(1014 + n, name) for n, name in enumerate(names))
    (together,) = peer.engine.receive(octets)
    assert isinstance(together, PublishMany)
    assert [one.properties.message_id for one in together.messages] == names
    assert {one.body for one in together.messages} == {b"hi"}


def test_the_template_leaves_nothing_behind() -> None:
    """Its link and its connection refer to each other: both are let go at the end."""
    peer = Peer()
    peer.sends()
    for number in range(1000, 1003):
        peer.transfers(number)
    connection = peer.engine.connection
    assert connection.frames._like is not None
    peer.engine.lost()
    assert connection.frames._like is None


def test_a_violation_ends_the_link_alone() -> None:
    """Of a message that came as many before."""
    peer = Peer()
    peer.sends(snd_settle_mode=1)
    for number in range(1000, 1005):
        peer.transfers(number, settled=True)
    peer.hears()
    peer.transfers(1005, b"\x00\x53\x75\xa0\x05hell!!", settled=True)
    (detach,) = peer.hears()
    assert isinstance(detach, w.Detach) and detach.error is not None
    assert not peer.engine.closing


def test_a_violation_ends_the_session_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a message in the middle of those that are taken together."""
    peer = Peer()
    peer.sends()

    def transfers(first: int, stop: int) -> bytes:
        said = [w.Transfer(0, n, n.to_bytes(4), 0, False) for n in range(first, stop)]
        return b"".join(packed(one, 0, PLAIN) for one in said)

    peer.feed(transfers(1000, 1003))
    peer.hears()
    session, seen = peer.session, []

    def bad(handler: Any, arrival: Any, *_: Any) -> None:
        seen.append(arrival.id)
        if len(seen) == 2:
            raise session.violated("amqp:not-allowed", "no more of this")

    monkeypatch.setattr(IncomingPublishes, "on_run", LinkHandler.on_run)
    monkeypatch.setattr(IncomingPublishes, "on_whole", bad)
    peer.feed(transfers(1003, 1009))
    (end,) = [one for one in peer.hears() if isinstance(one, w.End)]
    assert end.error is not None and end.error.description == "no more of this"
    assert seen == [1003, 1004] and not peer.engine.closing
