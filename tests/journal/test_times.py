"""By which listener messages came, and how long they took: columns ``listener`` and ``hops``."""

import base64
import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.confirms import Confirms
from gateway.broker.journal import QUIET_MS
from gateway.broker.outbound import Outbound, PublishFate
from gateway.broker.store import MOST_ENTRIES
from gateway.journal.canonical import Rows
from gateway.journal.entries import Entry
from gateway.journal.reader import JournalReader
from tests.journal.recording import Recording
from tests.journal.test_forwarded import OnePath, Sender
from tests.journal.test_over_http import SETTINGS, Asking
from tests.net.wire import Wire
from tests.store.samples import message


def hops(entries: list[Entry]) -> list[list[dict[str, Any]]]:
    return [row[0] for row in Rows("", ["hops"]).of(entries)]


def test_listeners_and_times_of_a_gateway(tmp_path: Path) -> None:
    listeners = [{"port": 0, "name": "plant"}, {"port": 0}]
    settings = {**SETTINGS, "amqp__listeners": json.dumps(listeners)}
    with Asking(tmp_path, **settings) as gateway:
        begun = time.time_ns() // 1000 - 1000
        gateway.wire(1).declare("orders", durable=True)
        main, plant, other = map(int, re.findall(r"AMQP on 127\.0\.0\.1:(\d+)", gateway.log()))
        for port in (main, plant, other):
            with contextlib.closing(Wire(port)) as wire:
                wire.opened(1)
                wire.publish("orders", b"by %d" % port)
                wire.declare("orders", durable=True)  # answered behind the commit
        gateway.put("orders", b"by http")
        gateway.put("orders", b"the last")
        columns = "listener,protocol,ingest_ts,hops,wire"
        found = gateway.get(columns=columns).raise_for_status().json()["entries"]
        ended = time.time_ns() // 1000
    assert [one["listener"] for one in found] == [
        "amqp", "plant", f"127.0.0.1:{other}", "http", "http",
    ]  # fmt: skip
    for one in found[:-1]:
        (hop,) = one["hops"]
        assert hop["hop"] == "store"
        assert begun <= hop["enter_us"] <= hop["leave_us"] <= ended
    assert len(found) == 5
    assert base64.b64decode(found[0]["wire"]) == b"\x10\0\1", "delivery mode 1 of 0-9-1"


def test_each_batch_tells_of_the_one_before(tmp_path: Path) -> None:
    """Also one of several blocks, and of another process: that cannot know."""
    recording = Recording(tmp_path)
    state = recording.broker.state
    for count, now in ((2, 1000), (MOST_ENTRIES + 1, 2000), (1, 3000)):
        state.now = now
        for _ in range(count):
            recording.channel.publish(message(b"x", b"", "", "orders"))
        recording.broker.end_turn()
        state.now += 7
        recording.commit()
    found = recording.entries()
    last = found[-1]
    assert hops(found[1:3]) == [
        [{"hop": "store", "enter_us": taken, "leave_us": taken + 7000}]
        for taken in (1_000_000, 2_000_000)
    ]
    assert [one.written for one in found[:-1]] == [1007] * 2 + [2007] * (MOST_ENTRIES + 1)
    assert last.written == 0 and hops([last]) == [[]]
    with contextlib.closing(JournalReader(tmp_path)) as reader:
        # The block of before is remembered, and what was learned of it meanwhile is told.
        assert reader.read(last.pos).entries[0].written == 0
        after = recording.again()
        after.broker.state.now = 9000
        for _ in range(2):
            after.channel.publish(message(b"y", b"", "", "orders"))
            after.commit()
        assert reader.read(last.pos).entries[0].written == 0, "nobody knows"
        assert reader.read(last.pos + 1).entries[0].written == 9000


def test_a_batch_is_written_while_the_next_gathers(tmp_path: Path) -> None:
    """And others, without entries, are written between."""
    recording = Recording(tmp_path)
    state, store = recording.broker.state, recording.store
    taken = []
    for now in (1000, 2000):
        state.now = now
        recording.channel.publish(message(b"x", b"", "", "orders"))
        recording.broker.end_turn()
        taken.append(store.take())
    for batch, now in zip(taken, (2003, 2004), strict=True):
        assert batch is not None
        store.write(batch)
        state.now = now
        recording.broker.committed(batch.mark)
    state.now = 3000
    recording.declare("others")
    recording.commit()
    recording.channel.publish(message(b"x", b"", "", "orders"))
    recording.commit()
    assert [one.written for one in recording.entries()] == [2003, 2004, 0]


def test_the_last_batch_is_told_of_when_nothing_follows(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    state = recording.broker.state
    for now in (1000, 2000):
        state.now = now
        recording.channel.publish(message(b"x", b"", "", "orders"))
        state.now += 7
        recording.commit()
    assert [one.written for one in recording.entries()] == [1007, 0]
    assert state.due() is not None
    state.tick(2007 + QUIET_MS)
    recording.commit()
    assert [one.written for one in recording.entries()] == [1007, 2007]
    assert state.due() is None, "once"
    after = recording.again()
    after.broker.state.now = 3000
    after.channel.publish(message(b"y", b"", "", "orders"))
    after.commit()
    assert [one.written for one in after.entries()] == [1007, 2007, 0]
    after.broker.state.journal.trim(0)
    after.commit()
    assert [one.written for one in after.entries()] == [1007, 2007, 0]


def test_time_at_an_upstream(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    state = recording.broker.state
    sender, confirms = Sender(), Confirms()
    recorder = recording.broker.vhosts["/"].recorder
    outbound = Outbound(sender, recorder)
    path = OnePath(recording.client, confirms)
    for now in (1000, 1001, 1001):
        state.now = now
        outbound.publish(path, confirms.wait(), message(b"x", b"", "x", "k"), False)
    state.now = 1005
    for number in sender.sent:
        outbound.conclude(number, PublishFate.TAKEN, "")
    recording.channel.publish(message(b"here", b"", "", "orders"))
    recording.commit()
    *forwarded, here = recording.entries()
    assert hops(forwarded) == [
        [{"hop": "upstream", "enter_us": enter, "leave_us": 1_005_000}]
        for enter in (1_000_000, 1_001_000, 1_001_000)
    ]
    assert [one.offset for one in forwarded] == [0, 1, 2]
    assert (here.entered, here.offset) == (0, 0)


def as_before(path: Path) -> None:
    """Make a segment one of version 1."""
    from pyarrow import parquet

    from gateway.journal.columns import LATER

    notes = parquet.read_metadata(path).metadata
    table = parquet.read_table(path).drop_columns(list(LATER))
    told = {name: value for name, value in notes.items() if not name.startswith(b"ARROW")}
    parquet.write_table(table.replace_schema_metadata({**told, b"version": b"1"}), path)


@pytest.mark.extras
def test_segments_of_before(tmp_path: Path) -> None:
    """Without these columns: they are read, and written anew, as others."""
    pytest.importorskip("pyarrow", reason="needs the extra `journal` (pyarrow)")
    from gateway.journal.rewriting import Outdated, rewrite
    from gateway.journal.segments import list_segments
    from tests.journal.test_sealing import Sealing, everything, plain, run

    sealing = Sealing(tmp_path)
    sealing.declare("others")
    for number in range(5):
        sealing.publish(b"%d" % number)
        sealing.channel.publish(message(b"-", b"", "", "others"))
        sealing.commit()
    before = everything(tmp_path)
    run(sealing.look())
    (segment,) = list_segments(tmp_path / "journal")
    times = [one.written for one in before]
    assert all(times[:9]) and not times[9]
    assert [one.written for one in everything(tmp_path)] == times
    as_before(segment.path)
    found = everything(tmp_path)
    assert plain([one._replace(publisher=before[0].publisher) for one in found]) == plain(before)
    assert [(one.written, one.publisher.listener) for one in found] == [(0, "")] * 10
    made = rewrite(Outdated(segment, {("/", "/queues/others")}))
    assert plain(everything(tmp_path)) == plain(found[::2])
    assert made.notes.entries == 5
