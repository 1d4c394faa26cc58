"""Messages of a turn, whose entries are packed together. Those of transient messages are written
after a while."""

import asyncio
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.broker import Broker
from gateway.broker.recorder import Recorder, recorder_of
from gateway.broker.store import MOST_ENTRIES
from gateway.message import Message
from gateway.net.loop_turn import LoopTurn
from gateway.net.uncommitted import Uncommitted
from gateway.store.batch import Gathered
from gateway.store.blocks import pack_blocks, pack_entries
from gateway.store.sqlite import SqliteStore
from tests.journal.recording import EVERYTHING, Recording
from tests.store.samples import message


def transient(body: bytes, key: str = "orders", header: bytes = b"") -> Message:
    made = message(body, header, "", key)
    made.essentials = made.essentials._replace(durable=False)
    return made


def gathering(store: SqliteStore) -> Gathered:
    batch = store.take()
    assert batch is not None
    return batch


MESSAGES = st.lists(
    st.lists(
        st.builds(
            transient,
            st.binary(max_size=40),
            st.sampled_from(["a", "b", "\N{SNOWMAN}"]),
            st.integers(0, 10**6).map(lambda number: b"%d" % number),
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=1,
    max_size=4,
)


def test_packed_entries_are_what_messages_become(tmp_path: Path) -> None:
    """Octet by octet."""
    stores = [SqliteStore(tmp_path / name) for name in ("packed", "recorded")]
    journals = [Broker(store, None, 1_000_000, EVERYTHING).state.journal for store in stores]
    recorders = [recorder_of(journal, "/") for journal in journals]

    @settings(max_examples=60, deadline=None)
    @given(MESSAGES)
    def check(runs: list[list[Message]]) -> None:
        packing, recording = recorders
        assert packing is not None and recording is not None
        for run in runs:
            packing.record_many(run, None)
            for one in run:
                assert recording.record(one, None)
        packed, recorded = (gathering(store) for store in stores)
        (entries,) = packed.packed
        assert packed.recorded is None and recorded.recorded is not None and not recorded.packed
        (expected,) = pack_blocks(recorded.recorded)
        found = pack_entries(entries)
        assert found[:4] == expected[:4]
        assert b"".join(found.head) == b"".join(expected.head)
        assert b"".join(found.body) == b"".join(expected.body)
        assert [one.next for one in journals[0].addresses.values()] == [
            one.next for one in journals[1].addresses.values()
        ]

    check()
    for store in stores:
        store.abandon()


def test_order_in_a_turn(tmp_path: Path) -> None:
    """Of transient and durable messages, of two channels, small and large, at several addresses."""
    recording = Recording(tmp_path)
    recording.declare("more")
    other = recording.another()
    expected: list[tuple[str, bytes]] = []
    kept = message(b"kept", b"", "", "orders")
    for number in range(40):
        size = 20_000 if number % 13 == 5 else 3
        key = "more" if number % 7 == 2 else "orders"
        one = transient(b"%d" % number * size, key)
        (other if number % 5 == 3 else recording.channel).publish(one)
        expected.append((f"/queues/{key}", one.body[:]))
        if number in (10, 30):
            recording.channel.publish(kept)
            expected.append(("/queues/orders", b"kept"))
        if number in (20, 33):
            recording.commit()
    recording.commit()
    found = recording.entries()
    assert [(one.address, one.message.body[:]) for one in found] == expected
    assert [one.pos for one in found] == list(range(len(expected)))
    for address in ("/queues/orders", "/queues/more"):
        offsets = [one.offset for one in found if one.address == address]
        assert offsets == list(range(len(offsets)))
    recording.store.close()


def test_more_than_a_block_at_once(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    for number in range(2 * MOST_ENTRIES + 10):
        recording.channel.publish(transient(b"%d" % number))
    for number in range(200):
        recording.channel.publish(transient(b"%d" % number * 3000))
    recording.commit()
    found = [bytes(one.message.body[:]) for one in recording.entries()]
    assert found[: 2 * MOST_ENTRIES + 10] == [b"%d" % n for n in range(2 * MOST_ENTRIES + 10)]
    assert found[2 * MOST_ENTRIES + 10 :] == [b"%d" % n * 3000 for n in range(200)]
    recording.store.close()


def test_nothing_waits_for_entries_of_transient_messages(tmp_path: Path) -> None:
    """They are written some time later, or with what something waits for, or at the end."""

    async def run() -> None:
        recording = Recording(tmp_path)
        broker, store = recording.broker, recording.store
        turn = LoopTurn(broker, store, 1 << 30)
        recording.channel.publish(transient(b"begins the journal"))
        turn.end()
        await turn.drain()
        commits = turn.commits

        freed: list[bool] = []
        uncommitted = Uncommitted(broker, lambda: freed.append(True))
        safe: list[str] = []
        recording.channel.publish(transient(b"later"))
        broker.end_turn()
        uncommitted.add(0, 10 << 20)
        broker.when_safe(lambda: safe.append("patient"))
        turn.end()
        assert store.patient and safe == ["patient"]
        assert uncommitted.full and not freed
        while turn.commits == commits:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert freed and not uncommitted.full and not store.dirty

        recording.channel.publish(transient(b"with another"))
        turn.end()
        recording.channel.publish(message(b"durable", b"", "", "orders"))
        broker.when_safe(lambda: safe.append("durable"))
        assert not store.patient
        turn.end()
        assert not store.dirty and safe == ["patient"]  # it is being written
        await turn.drain()
        assert safe == ["patient", "durable"]

        recording.channel.publish(transient(b"at the end"))
        turn.end()
        await turn.drain()
        assert [bytes(one.message.body[:]) for one in recording.entries()] == [
            b"begins the journal", b"later", b"with another", b"durable", b"at the end",
        ]  # fmt: skip
        turn.close()
        recording.store.close()

    asyncio.run(run())


def test_entries_of_sources_keep_their_turn(tmp_path: Path) -> None:
    """What was published before comes first; and a forwarded message keeps its time for itself."""
    store = SqliteStore(tmp_path)
    journal = Broker(store, None, 1_000_000, EVERYTHING).state.journal
    recorder = recorder_of(journal, "/")
    assert recorder is not None
    publisher = Publisher(recorder)
    journal.gather(publisher)
    publisher.gathered.append(transient(b"first"))
    assert journal.enter(77, 0) == 1
    journal.gather(publisher)
    publisher.gathered.append(transient(b"second"))
    recorder.record_forwarded(transient(b"third"), None, 999)
    batch = gathering(store)
    assert batch.recorded is not None
    entered = [run[7] for run in (*batch.packed[0].runs, *batch.recorded.runs)]
    assert entered == [0, 0, 0, 999]
    store.abandon()


def test_entries_count_with_their_keys(tmp_path: Path) -> None:
    """Until they are written, so that a publisher of empty messages has a limit as well."""
    store = SqliteStore(tmp_path)
    recorder = recorder_of(Broker(store, None, 1_000_000, EVERYTHING).state.journal, "/")
    assert recorder is not None
    before = store.pending_octets
    recorder.record_many([transient(b"", "k" * 250)] * 100, None)
    assert store.pending_octets - before >= 100 * 250
    store.abandon()


class Publisher:
    def __init__(self, recorder: Recorder) -> None:
        self.gathered: list[Message] = []
        self.recorder = recorder

    def record_gathered(self) -> None:
        self.recorder.record_many(self.gathered[:], None)
        self.gathered.clear()


def test_durable_messages_are_packed_and_waited_for(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.channel.publish(message(b"0", b"", "", "orders"))  # the exchange is known then
    recording.commit()
    recording.heard.confirms.clear()
    for body in (b"1", b"2"):
        recording.channel.publish(message(body, b"", "", "orders"))
        recording.channel.publish(transient(body))
    recording.broker.end_turn()
    assert not recording.store.patient
    batch = gathering(recording.store)
    assert batch.recorded is None
    assert [len(one) for one in batch.packed] == [4]
    assert recording.heard.confirms == []
    recording.store.write(batch)
    recording.broker.committed(batch.mark)
    recording.broker.end_turn()
    assert recording.heard.confirms == [(5, True, True)]
    assert [one.message.body for one in recording.entries()] == [b"0", b"1", b"1", b"2", b"2"]


def test_entries_of_durable_messages_that_have_gone_are_waited_for(tmp_path: Path) -> None:
    """They went straight to a consumer, and nothing else of them is written."""
    recording = Recording(tmp_path)
    consumer = recording.another()
    consumer.start(consumer.subscribe("orders", "tag", no_ack=True))
    for number, body in enumerate((b"0", b"1"), 1):
        recording.channel.publish(message(body, b"", "", "orders"))
        recording.broker.end_turn()
        assert not recording.store.patient
        assert len(recording.heard.confirms) == number - 1
        recording.commit()
        assert recording.heard.confirms[-1] == (number, False, True)
    assert [one.message.body for one in recording.entries()] == [b"0", b"1"]
