"""Transient messages that are recorded as they came are read as any others."""

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters import Limits
from gateway.adapters.methods import frames
from gateway.broker.broker import Broker
from gateway.broker.recorder import Wired, recorder_of
from gateway.broker.store import MOST_OCTETS, WireEntries
from gateway.config.journal import JournalSettings, RecordingSettings
from gateway.errors import StoreError
from gateway.journal.entries import Entry
from gateway.journal.keeping import Keeper
from gateway.journal.reader import JournalReader
from gateway.journal.sealing import LocalSealer
from gateway.message import LEAST_ON_WIRE, Message
from gateway.operations import PublishMany
from gateway.sessions.publishes import Publishes
from gateway.store.blocks import Block, pack_blocks, pack_entries
from gateway.store.sqlite import SqliteStore
from tests.adapters.methods.test_publish_template import octets_of, publish
from tests.journal.recording import EVERYTHING, Recording
from tests.journal.test_packed import transient
from tests.net.running import Running, until
from tests.pair import VERSIONS, opened
from tests.store.samples import message

SMALL = st.lists(st.sampled_from([1, 2, 16, 300]), min_size=3, max_size=12)


def came(
    version: str, sizes: list[int], first: int = 1000, key: str = "orders"
) -> list[PublishMany]:
    """What the adapter makes of publishes with bodies of these sizes to a queue. It has read no
    header before: a process that has may know headers of this size, and none like these."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_HEADERS", "_ESSENTIALS_OF", "_ALIKE"):
            patch.setattr(frames, name, type(getattr(frames, name))())
        pair = opened(version, limits=Limits(frame_max=1 << 20))
        said = [publish(first + at, size, key) for at, size in enumerate(sizes)]
        for one in said:
            one.message.exchange = ""
        found = pair.server.receive(octets_of(pair, said))
    return [one for one in found if isinstance(one, PublishMany)]


def alike(version: str, sizes: list[int], first: int = 1000) -> PublishMany:
    """Publishes in a row, with their octets however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "LEAST_ON_WIRE", 1)
        (many,) = came(version, [1, 1, *sizes], first)
    assert many.wire is not None and many.wire.publishes == len(sizes) == len(many.messages)
    return many


def wired(many: PublishMany, begin: int = 0) -> Wired:
    assert many.wire is not None
    found = Wired(many.wire, begin)
    found.count = many.wire.publishes
    return found


RUNS = st.lists(
    st.builds(alike, st.sampled_from(VERSIONS), SMALL, st.integers(0, 10**6))
    | st.lists(st.builds(transient, st.binary(max_size=30), st.sampled_from(["a", "b"]))),
    min_size=1,
    max_size=6,
)


def test_blocks_are_as_those_of_messages(tmp_path: Path) -> None:
    """Octet by octet, once they are read."""
    stores = [SqliteStore(tmp_path / name) for name in ("wire", "recorded")]
    journals = [Broker(store, None, 1_000_000, EVERYTHING).state.journal for store in stores]
    recorders = [recorder_of(journal, "/") for journal in journals]

    @settings(max_examples=60, deadline=None)
    @given(RUNS)
    def check(runs: list[PublishMany | list[Message]]) -> None:
        keeping, recording = recorders
        assert keeping is not None and recording is not None
        for run in runs:
            if isinstance(run, PublishMany):
                keeping.record_gathered(run.messages, [wired(run)], None)
            elif run:
                keeping.record_gathered(run, [], None)
            for one in run.messages if isinstance(run, PublishMany) else run:
                assert recording.record(one, None)
        ways = [store.take() for store in stores]
        if ways[1] is None:
            assert ways[0] is None
            return
        assert ways[0] is not None and ways[1].recorded is not None
        on_wire = any(isinstance(one, WireEntries) for one in ways[0].packed)
        assert on_wire == any(isinstance(run, PublishMany) for run in runs)
        found = [block(pack_entries(one)) for one in ways[0].packed]
        (expected,) = map(block, pack_blocks(ways[1].recorded))
        assert [one.first for one in found][:1] == [expected.first]
        assert [row for one in found for row in rows(one)] == rows(expected)
        assert sum(one.octets for one in map(pack_entries, ways[0].packed)) == sum(
            one.octets for one in pack_blocks(ways[1].recorded)
        )

    check()
    for store in stores:
        store.abandon()


def block(packed: Any) -> Block:
    from gateway.store.blocks import unpack_runs

    head, body = b"".join(packed.head), b"".join(packed.body)
    return Block(packed.first, packed.entries, unpack_runs(packed.runs), head, body)


def rows(block: Block) -> list[tuple[Any, ...]]:
    """What the entries of a block are."""
    found: list[tuple[Any, ...]] = []
    at = 0
    for run in block.runs:
        for index in range(run.entries):
            found.append(
                (
                    run.number, run.offset + index, run.origin, run.dialect, run.exchange,
                    block.key(at), block.header(at), block.content(at), block.size(at),
                )
            )  # fmt: skip
            at += 1
    assert at == block.count and block.whole
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_only_publishes_in_a_long_row_are_kept_as_they_came(version: str) -> None:
    few, enough = [1] * (LEAST_ON_WIRE + 1), [1] * (LEAST_ON_WIRE + 2)
    assert [one.wire for one in came(version, few)] == [None]
    (many,) = came(version, enough)
    assert many.wire is not None and many.wire.publishes == LEAST_ON_WIRE


def entries_of(recording: Recording) -> list[tuple[int, bytes, bytes]]:
    return [one_of(entry) for entry in recording.entries()]


def one_of(entry: Entry) -> tuple[int, bytes, bytes]:
    return entry.offset, bytes(entry.message.header), bytes(entry.message.body[:])


def publishes() -> Publishes:
    context: Any = SimpleNamespace(publisher=False)
    replies: Any = SimpleNamespace(waiting={})
    return Publishes(context, replies, False)


@pytest.mark.parametrize("credit", [1, 100, 500])
@pytest.mark.parametrize("slice", [math.inf, 0])
def test_published_to_a_consumer(tmp_path: Path, credit: int, slice: float) -> None:
    """Who takes all of them, or some; in one time slice, or in many."""
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True, credit=credit))
    recording.channel.publish(transient(b"the exchange is known from now on"))
    recording.commit()
    (many,) = came("0-9-1", [16] * 300)
    expected = [(one.header, one.body) for one in many.messages]
    assert many.wire is not None
    publisher = publishes()
    while publisher.many(recording.channel, many, time.perf_counter() + slice):
        recording.broker.end_turn()
    recording.commit()
    found = entries_of(recording)
    assert [one[1:] for one in found[1:]] == expected
    assert [one[0] for one in found] == list(range(len(found)))
    recording.store.close()


def kinds(recording: Recording) -> list[str]:
    """Of the blocks that are gathered."""
    recording.broker.end_turn()
    return [type(one).__name__ for one in recording.store.gathering.packed]


def test_a_row_between_other_messages(tmp_path: Path) -> None:
    """Messages around it have their place, and a few of them are in its block."""
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True))
    channel, other = recording.channel, recording.another()
    for one in (channel, other):  # they know the exchange from now on
        one.publish(transient(b"first"))
    recording.commit()
    expected: list[Any] = [b"first", b"first"]
    for number in range(3):
        (many,) = came("0-9-1", [9] * (LEAST_ON_WIRE + 2 + number), 1000 * number)
        expected += [one.body for one in many.messages]
        assert not publishes().many(channel, many)
        for one in (other, channel):
            expected.append(b"%d" % number)
            one.publish(transient(expected[-1]))
    assert kinds(recording) == ["WireEntries"]
    many_small = [transient(b"%d" % number) for number in range(LEAST_ON_WIRE)]
    for small in many_small:
        channel.publish(small)
    assert kinds(recording) == ["WireEntries", "PackedEntries"]
    channel.publish(message(b"kept", b"", "", "orders"))
    (many,) = came("0-9-1", [9] * 200)
    expected += [*(b"%d" % number for number in range(LEAST_ON_WIRE)), b"kept"]
    expected += [one.body for one in many.messages]
    assert not publishes().many(channel, many)
    recording.commit()
    found = entries_of(recording)
    assert [one[2] for one in found] == expected
    assert [one[0] for one in found] == list(range(len(expected)))
    recording.store.close()


def test_a_block_does_not_grow_beyond_its_limit(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True))
    recording.channel.publish(transient(b"the exchange is known from now on"))
    recording.commit()
    expected: list[Any] = []
    for number in range(5):
        (many,) = came("0-9-1", [4000] * 100, 1000 * number)
        expected += [one.body for one in many.messages]
        assert not publishes().many(recording.channel, many)
    recording.broker.end_turn()
    batch = recording.store.gathering
    assert [len(one) for one in batch.packed if isinstance(one, WireEntries)] == [196, 196, 98]
    assert all(one.octets <= MOST_OCTETS for one in batch.packed)
    recording.commit()
    assert [one[2] for one in entries_of(recording)][1:] == expected
    recording.store.close()


def test_a_small_part_of_a_read_is_copied(tmp_path: Path) -> None:
    """The rest of the read need not stay in memory for it."""
    many = alike("0-9-1", [100] * 10)
    assert many.wire is not None
    large = many.wire._replace(octets=many.wire.octets + bytes(1 << 20))
    entries = WireEntries(0)
    entries.add(many.wire, "k")
    entries.add(large, "k")
    assert [type(one) for one in entries.pieces] == [memoryview, bytes]
    assert entries.pieces[0] == entries.pieces[1]


@pytest.mark.parametrize("change", [-6, -1, 1, 1000])
def test_a_block_of_another_number_of_entries_is_damaged(change: int) -> None:
    many = alike("0-9-1", [3, 5, 1, 4, 4, 4, 4])
    assert many.wire is not None
    entries = WireEntries(0)
    entries.add(many.wire, "k")
    entries.runs.append((0, 1, 0, 0, 0, "", "", 0))
    packed = pack_entries(entries)
    with pytest.raises(StoreError, match="damaged"):
        Block(0, packed.entries + change, [], b"".join(packed.head), b"")


@settings(deadline=None)
@given(st.data())
def test_a_damaged_block(data: st.DataObject) -> None:
    """Is an error that says so, or a block that can be read."""
    entries = WireEntries(0)
    entries.runs.append((0, 1, 0, 0, 0, "", "", 0))
    for first in (1000, 2000):
        many = alike("0-9-1", [3, 5, 1], first)
        assert many.wire is not None
        entries.add(many.wire, "k")
    packed = pack_entries(entries)
    head = bytearray(b"".join(packed.head))
    if data.draw(st.booleans()):
        del head[data.draw(st.integers(0, len(head) - 1)) :]
    else:
        head[data.draw(st.integers(0, len(head) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = Block(0, packed.entries, [], bytes(head), b"")
    except StoreError as error:
        assert "damaged" in str(error)
        return
    assert len(found.keys) == len(found.headers) == len(found.bodies) == packed.entries + 1
    for at in range(packed.entries):
        assert len(found.content(at)) == found.size(at) and len(found.header(at)) >= 0


@pytest.mark.extras
def test_sealed(tmp_path: Path) -> None:
    """Segments have the same entries."""
    pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
    data = tmp_path / "data"
    with Running(tmp_path, journal__recording='[{"address": "*"}]', journal__seal=False) as gateway:
        wire = gateway.wire(1)
        wire.declare("orders")
        other = gateway.wire(1)
        tag = other.consume("orders", no_ack=True)
        assert tag
        wire.send(b"".join(wire.message("orders", b"%d" % n * (n % 9 + 1)) for n in range(3000)))
        wanted = [b"%d" % n * (n % 9 + 1) for n in range(3000)]
        assert [other.delivered()[1] for _ in wanted] == wanted
        until(lambda: len(read_all(gateway.data)) == 3000, "all entries are written")
        data = gateway.data
    before = read_all(data)
    assert [one[2] for one in before] == wanted
    recorded = SqliteStore(data)
    broker = Broker(recorded, None, 1_000_000, EVERYTHING)
    settings = JournalSettings(recording=[RecordingSettings()], segment_messages=1000)
    keeper = Keeper(broker.state.journal, settings, data, None, LocalSealer)  # type: ignore[arg-type]
    assert keeper._work().positions
    recorded.abandon()
    assert len(list((data / "journal").glob("*.parquet"))) == 3
    assert read_all(data) == before


def read_all(data: Path) -> list[tuple[int, bytes, bytes]]:
    """All of a journal, from its segments and from the store."""
    reader = JournalReader(data)
    try:
        _, start, _, end, _ = reader.overview()
        found: list[tuple[int, bytes, bytes]] = []
        while start < end:
            portion = reader.read(start)
            found += map(one_of, portion.entries)
            start = portion.next
        return found
    finally:
        reader.close()
