"""Recorded messages, their places, and that they are as safe as the publishes."""

import math
import random
import sqlite3
from pathlib import Path
from time import perf_counter

import pytest

from gateway.bodies import LargeBody, Spool
from gateway.broker.journal import RecordingRule
from gateway.broker.runs import publish_run
from gateway.errors import StoreError
from gateway.journal.entries import ALL
from gateway.journal.tail import Tail
from gateway.operations import Bind, DeclareExchange
from tests.journal.recording import Recording
from tests.store.samples import message
from tests.test_bodies import spooled


def bodies(recording: Recording) -> list[bytes]:
    return [bytes(one.message.body[:]) for one in recording.entries()]


def test_positions_and_offsets(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.declare("more")
    for number in range(5):
        queue = "more" if number % 2 else "orders"
        recording.channel.publish(message(b"%d" % number, b"", "", queue))
        if number == 2:
            recording.commit()
    recording.commit()
    found = recording.entries()
    assert [one.pos for one in found] == [0, 1, 2, 3, 4]
    assert [one.address for one in found] == [
        "/queues/orders", "/queues/more", "/queues/orders", "/queues/more", "/queues/orders",
    ]  # fmt: skip
    assert [one.offset for one in found] == [0, 0, 1, 1, 2]
    assert {one.vhost for one in found} == {"/"}
    assert {one.publisher.user for one in found} == {"guest"}
    assert {one.publisher.connection for one in found} == {"one"}
    assert [one.message.body for one in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert found[0].stamp == 1_000_000
    assert [one.pos for one in recording.entries(3)] == [3, 4]


def test_messages_that_are_published_together_are_recorded(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True, credit=3))
    alike = [message(b"%d" % number, b"", "", "orders") for number in range(5)]
    transient = alike[0].essentials._replace(durable=False)
    for one in alike:
        one.essentials, one.exchange, one.key = transient, alike[0].exchange, alike[0].key
    path = recording.channel.publish_path
    path.publish(alike[0])  # from now on the exchange is known
    taken = publish_run(path, alike, 1, perf_counter, math.inf)
    assert taken == 2
    path.gather_run(alike, 1, taken, None)
    for one in alike[1 + taken :]:
        path.publish(one)
    recording.commit()
    assert recording.heard.bodies() == ["0", "1", "2"]
    assert bodies(recording) == [b"0", b"1", b"2", b"3", b"4"]
    kept = [message(b"kept", b"", "", "orders")]
    kept[0].essentials = kept[0].essentials._replace(durable=True)
    assert publish_run(path, kept, 0, perf_counter, math.inf) == 0


@pytest.mark.parametrize("durable", [True, False])
def test_no_durable_message_is_confirmed_before_it_is_recorded(
    tmp_path: Path, durable: bool
) -> None:
    """Also one that goes straight to a consumer. The entry of a transient message is as transient
    as the message is, until it is written."""
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True))
    published = message(b"x", b"", "", "orders")
    published.essentials = published.essentials._replace(durable=durable)
    recording.channel.publish(published)
    recording.broker.end_turn()
    assert recording.heard.bodies() == ["x"]
    assert recording.heard.confirms == [(1, False, True)] * (not durable)
    assert recording.entries() == []
    recording.commit()
    assert recording.heard.confirms == [(1, False, True)]
    assert bodies(recording) == [b"x"]


def test_without_confirms(tmp_path: Path) -> None:
    """A message is recorded whether a consumer waits, or it must wait, but not if it is refused."""
    recording = Recording(tmp_path)
    recording.declare("one", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    plain, consumer = recording.another(), recording.another()
    for queue in ("orders", "one", "one", "nowhere"):
        plain.publish(message(queue.encode(), b"", "", queue))
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True))
    plain.publish(message(b"straight", b"", "", "orders"))
    recording.commit()
    assert bodies(recording) == [b"orders", b"one", b"straight"]
    assert recording.heard.bodies() == ["orders", "straight"]


def test_only_what_is_accepted(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.declare("one", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    recording.channel.publish(message(b"taken", b"", "", "one"))
    recording.channel.publish(message(b"refused", b"", "", "one"))
    recording.channel.publish(message(b"unrouted", b"", "", "nowhere"), mandatory=True)
    recording.commit()
    assert [accepted for _, _, accepted in recording.heard.confirms] == [True, False, True]
    assert bodies(recording) == [b"taken"]


def test_own_transactions_and_links(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    channel = recording.another()
    channel.transactions.select()
    channel.publish(message(b"kept", b"", "", "orders"))
    recording.commit()
    assert recording.entries() == []
    channel.transactions.commit()
    channel.publish(message(b"forgotten", b"", "", "orders"))
    channel.transactions.rollback()
    recording.commit()
    assert bodies(recording) == [b"kept"]


def test_declared_transactions(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    transactions = recording.another().transactions
    one = transactions.declare()
    transactions.post(one, message(b"posted", b"", "", "orders"))
    transactions.discharge(one, False)
    recording.commit()
    assert bodies(recording) == [b"posted"]


def test_exchanges_and_rules(tmp_path: Path) -> None:
    rules = (
        RecordingRule("/", "/exchanges/not.*", False),
        RecordingRule("/", "/exchanges/*", True),
        RecordingRule("other", "*", True),
    )
    recording = Recording(tmp_path, *rules)
    topology = recording.channel.topology
    for name in ("news/world", "not.this"):
        topology.declare_exchange(DeclareExchange(1, None, name, "fanout", durable=True))
        topology.bind(Bind(1, None, "orders", name, ""))
        recording.channel.publish(message(b"x", b"", name, "some.key"))
    recording.channel.publish(message(b"x", b"", "", "orders"))
    recording.commit()
    found = recording.entries()
    assert [one.address for one in found] == ["/exchanges/news%2Fworld"]
    assert found[0].message.key == "some.key"


def test_bodies_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    spool = Spool(str(tmp_path / "spool"))
    given = [b"small", b"", b"shared" * 500, b"large" * 50_000]
    recording = Recording(tmp_path / "data")
    for body in given:
        content = spooled(spool, body) if len(body) > 100_000 else body
        recording.channel.publish(message(content, b"", "", "orders"))
    recording.commit()
    for _ in range(2):
        recording = recording.again()
        found = recording.entries()
        assert isinstance(found[-1].message.body, LargeBody)
        assert [bytes(one.message.body[:]) for one in found] == given
        assert [one.size for one in found] == [len(body) for body in given]
    light = recording.entries(question=ALL._replace(bodies=False))
    assert [one.size for one in light] == [len(body) for body in given]
    assert {len(one.message.body) for one in light} == {0}


def test_a_taken_message_stays_recorded(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.channel.publish(message(b"x" * 2000, b"", "", "orders"))
    recording.commit()
    assert recording.another().fetch("orders", True) is not None
    recording.commit()
    assert bodies(recording.again()) == [b"x" * 2000]


def test_what_was_not_written_had_no_position(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.channel.publish(message(b"written", b"", "", "orders"))
    recording.commit()
    recording.channel.publish(message(b"lost", b"", "", "orders"))
    recording = recording.again()
    recording.channel.publish(message(b"next", b"", "", "orders"))
    recording.commit()
    found = recording.entries()
    assert [(one.pos, one.offset, one.message.body) for one in found] == [
        (0, 0, b"written"), (1, 1, b"next"),
    ]  # fmt: skip


def test_trimmed(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    for number in range(6):
        recording.channel.publish(message(b"%d" % number, b"", "", "orders"))
        recording.commit()
    journal = recording.broker.state.journal
    journal.remove(0, 3)
    journal.trim(4)
    recording.commit()
    tail = Tail(recording.folder)
    assert tail.span() == (4, 6)
    tail.close()
    for _ in range(2):
        assert [one.pos for one in recording.entries()] == [4, 5]
        recording = recording.again()
    journal = recording.broker.state.journal
    journal.remove(4, 5)
    journal.trim(6)
    recording.commit()
    recording = recording.again()
    recording.channel.publish(message(b"6", b"", "", "orders"))
    recording.commit()
    assert [(one.pos, one.offset) for one in recording.entries()] == [(6, 6)]


def publish_many(recording: Recording, count: int, size: int = 1000) -> list[bytes]:
    """One batch of bodies that no other batch has."""
    octets = random.Random(recording.broker.state.journal.next)
    given = [octets.randbytes(size) for _ in range(count)]
    for body in given:
        recording.channel.publish(message(body, b"", "", "orders"))
    recording.commit()
    return given


def test_large_blocks_are_in_files(tmp_path: Path) -> None:
    """A batch of 64 KiB or more is appended to a file, which goes with its last block."""
    recording = Recording(tmp_path)
    folder = tmp_path / "blocks"
    given = publish_many(recording, 3)
    assert not folder.exists()
    given += publish_many(recording, 200) + publish_many(recording, 2) + publish_many(recording, 90)
    [file] = folder.iterdir()
    assert file.stat().st_size > 290_000
    for _ in range(2):
        assert bodies(recording) == given
        light = recording.entries(question=ALL._replace(bodies=False))
        assert [one.size for one in light] == [1000] * 295
        (folder / "77").write_bytes(b"of a batch that was not committed")
        with file.open("ab") as half:
            half.write(b"half a block")
        recording = recording.again()
        assert list(folder.iterdir()) == [file]
    given += publish_many(recording, 100)
    assert len(list(folder.iterdir())) == 2 and bodies(recording) == given
    journal = recording.broker.state.journal
    journal.remove(0, 204)
    recording.commit()
    assert len(list(folder.iterdir())) == 2
    journal.remove(205, 294)
    recording.commit()
    [left] = folder.iterdir()
    assert left != file and bodies(recording) == given[295:]
    journal.remove(295, 394)
    recording.commit()
    assert not list(folder.iterdir())
    given = publish_many(recording, 100)
    assert bodies(recording.again()) == given


def test_a_batch_of_many_blocks(tmp_path: Path) -> None:
    """One of more than 1 MiB, from two connections and with bodies apart."""
    recording = Recording(tmp_path)
    sizes = [3000, 0, 20_000, 1, 500_000] * 120
    other = recording.broker.attach("/", "guest", "two").channel(1, recording.heard)
    for at, size in enumerate(sizes):
        channel = other if at % 7 == 0 else recording.channel
        channel.publish(message(b"%4d" % at + b"x" * size, b"", "", "orders"))
    recording.commit()
    found = recording.again().entries()
    assert [(one.pos, one.offset) for one in found] == [(at, at) for at in range(600)]
    assert [bytes(one.message.body[:4]) for one in found] == [b"%4d" % at for at in range(600)]
    assert [one.size for one in found] == [size + 4 for size in sizes]
    names = ["two" if at % 7 == 0 else "one" for at in range(600)]
    assert [one.publisher.connection for one in found] == names


def test_nothing_is_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails behind the append leaves nothing that a reader sees, and is repeated."""
    recording = Recording(tmp_path)
    writer = recording.store.writer

    def full(*given: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    octets = random.Random(1)
    given = [octets.randbytes(1000) for _ in range(100)]
    for body in given:
        recording.channel.publish(message(body, b"", "", "orders"))
    recording.broker.end_turn()
    batch = recording.store.take()
    assert batch is not None
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_commit", full)
        with pytest.raises(StoreError, match="full"):
            recording.store.write(batch)
    assert recording.entries() == []
    recording.store.write(batch)
    recording.broker.committed(batch.mark)
    recording.broker.end_turn()
    assert recording.heard.confirms[-1] == (100, True, True)
    assert bodies(recording) == given
    assert bodies(recording.again()) == given


def test_publishers_are_described_again_behind_what_was_trimmed(tmp_path: Path) -> None:
    """Descriptions of connections do not pile up, and each entry left has its own."""
    recording = Recording(tmp_path)
    journal = recording.broker.state.journal
    for pos in range(4):
        recording.channel.publish(message(b"x", b"", "", "orders"))
        recording.commit()
        assert [one.publisher.connection for one in recording.entries()] == ["one"]
        if pos < 3:
            journal.remove(pos, pos)
            journal.trim(pos + 1)
            recording.commit()
    lane = journal._origins
    rows = recording.store.reader.execute(
        "SELECT count(*) FROM messages WHERE id >> 40 = ?", [lane]
    ).fetchone()
    assert rows[0] <= 2


def test_one_large_portion(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    for number in range(50):
        recording.channel.publish(message(b"%d" % number * 100, b"", "", "orders"))
    recording.commit()
    for question in (ALL._replace(entries=7), ALL._replace(octets=700), ALL._replace(octets=1)):
        assert [one.pos for one in recording.entries(question=question)] == list(range(50))


@pytest.mark.parametrize("recorded", [True, False])
def test_nothing_in_the_way_of_what_is_not_recorded(tmp_path: Path, recorded: bool) -> None:
    """Without a rule for its virtual host a channel publishes as if there was no journal."""
    rule = RecordingRule("/" if recorded else "other", "*", True)
    recording = Recording(tmp_path, rule)
    assert (recording.another().publish_path.recorder is not None) is recorded
