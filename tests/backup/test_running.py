"""Backups of a gateway while clients publish: what was confirmed before one is in it, once."""

import contextlib
import os
import random
import threading
from functools import partial
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.backup.making import make_backup
from gateway.backup.manifest import NAME
from gateway.backup.moment import DATABASE
from gateway.backup.restoring import restore_backup
from gateway.journal.consumers import Consumer, Consumers
from gateway.journal.entries import Entry
from gateway.journal.reader import JournalReader
from gateway.journal.segments import list_segments
from tests.app.test_cli import refused, run
from tests.backup.filled import segments_of
from tests.crash.lives import Life
from tests.crash.story import Story, check, furnish, publish, read
from tests.http.test_events_kill import TEXT, Reader
from tests.journal.test_killed import entries, have_more
from tests.net.preloaded import start
from tests.net.running import Running, environment, until
from tests.net.wire import PERSISTENT, Wire

SETTINGS = {
    "journal__recording": '[{"address": "/exchanges/*"}]',
    "journal__segment_messages": 200,
    "limits__large_octets": 65_536,
}
SIZES = 0, 100, 12_000, 12_000, 150_000
"""Octets of bodies: in rows, in blocks of the journal, and, as they take two frames, in files."""
READER = "report"


def come_and_go(wire: Wire) -> None:
    """Large messages, each of which is consumed at once."""
    wire.declare("brief", durable=True)
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    while True:
        wire.publish("brief", b"x" * 150_000, PERSISTENT)
        wire.heard(w.BasicAck)
        assert wire.got("brief") is not None


def publish_singly(wire: Wire, story: Story) -> None:
    """Not too many while the gateway waits for its next look at the journal."""
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    while True:
        wire.publish("k", b"%d " % story.next, PERSISTENT, exchange="orders")
        story.next += 1
        wire.heard(w.BasicAck)
        story.confirmed += 1
        story.certain.add(story.confirmed)


def caught_up(data: Path) -> list[Entry]:
    """A consumer of the journal reads on, up to the end; what it has read."""
    with contextlib.closing(JournalReader(data)) as reader:
        overview = reader.overview()
        consumers = Consumers(segments_of(data))
        at = consumers.begin(Consumer(READER, overview.id, 0, 0)).position
        found: list[Entry] = []
        while at < overview.end:
            portion = reader.read(at)
            found += portion.entries
            at = portion.next
        consumers.advance(READER, at)
        return found


def numbers(found: list[Entry]) -> list[int]:
    return [int(bytes(one.message.body[:20]).split()[0]) for one in found]


@pytest.mark.parametrize(
    "sealing", [False, pytest.param(True, marks=pytest.mark.extras)], ids=["store", "segments"]
)
def test_backups_while_clients_publish(tmp_path: Path, sealing: bool) -> None:
    if sealing:
        pytest.importorskip("pyarrow", reason="needs the extra `journal` (pyarrow)")
    story = Story()
    certain: list[set[int]] = []
    seen: list[list[int]] = [[]]
    with Running(tmp_path / "source", **SETTINGS, journal__seal=sealing) as gateway:
        furnish(gateway)
        life = Life(gateway)
        if sealing:
            life.work(publish_singly, gateway.wire(1), story)
        else:
            life.work(publish, gateway.wire(1), story, random.Random(5), SIZES)
        life.work(come_and_go, gateway.wire(1))
        for number in range(2 if sealing else 3):
            life.until(partial(have_more, story, story.confirmed + 300), "confirms")
            if sealing:
                sealed = len(list_segments(segments_of(gateway.data)))
                life.until(partial(more_segments, gateway.data, sealed), "another segment")
            seen.append(seen[-1] + numbers(caught_up(gateway.data)))
            certain.append(set(story.certain))
            make_backup(gateway.data, segments_of(gateway.data), tmp_path / f"backup-{number}")
        life.until(partial(have_more, story, story.confirmed + 100), "confirms")
        life.kill()
    for number, confirmed in enumerate(certain):
        folder = tmp_path / f"restored-{number}"
        backup = tmp_path / f"backup-{number}"
        restore_backup(backup, folder / "data", segments_of(folder / "data"))
        with Running(folder, **SETTINGS, journal__seal=sealing) as again:
            wire = again.wire(1)
            wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
            wire.publish("k", b"%d " % story.next, PERSISTENT, exchange="orders")
            wire.heard(w.BasicAck)
            found = read(wire, "orders")
            assert found == sorted(set(found)), "out of order, or more than once"
            assert not confirmed - set(found)
            # Queue and journal are of the same moment, and the journal is whole.
            recorded = entries(again.data)
            assert numbers(recorded) == found and found[-1] == story.next
            assert [one.pos for one in recorded] == list(range(len(found)))
            # The reader goes on behind what it had read.
            assert seen[number + 1] + numbers(caught_up(again.data)) == found
            assert not sealing or list_segments(segments_of(again.data))


def more_segments(data: Path, before: int) -> bool:
    return len(list_segments(segments_of(data))) > before


def interrupted(data: Path, target: Path) -> bool:
    """Kill a backup when its first file is there. Whether it had not ended."""
    command = ["backup", str(target), "--data-dir", str(data)]
    with target.with_suffix(".log").open("wb") as log, open(os.devnull, "rb") as nothing:
        process = start("gateway", command, environment(), stdin=nothing, stdout=log, stderr=log)
        until(lambda: (target / DATABASE).exists() or process.poll() is not None, "a backup")
        process.kill()
        process.wait()
    return not (target / NAME).exists()


def test_killed_while_a_backup_is_written(tmp_path: Path) -> None:
    """The backup: the gateway goes on, and its data are as if there had been none."""
    story = Story()
    with Running(tmp_path, **SETTINGS, journal__seal=False) as gateway:
        furnish(gateway)
        life = Life(gateway)
        life.work(publish, gateway.wire(1), story, random.Random(6), SIZES)
        life.until(partial(have_more, story, 500), "confirms")
        life.until(lambda: {"large", "blocks"} <= set(os.listdir(gateway.data)), "files")
        before = set(os.listdir(gateway.data))
        targets = [tmp_path / f"backup-{number}" for number in range(4)]
        unfinished = [target for target in targets if interrupted(gateway.data, target)]
        assert set(os.listdir(gateway.data)) == before
        life.until(partial(have_more, story, story.confirmed + 100), "confirms")
        life.kill()
        gateway.start()
        check(gateway, story)
    assert unfinished
    refused(run("restore", unfinished[0], "--data-dir", tmp_path / "new"), "not a whole backup")


def reading(gateway: Running, reader: Reader) -> threading.Thread:
    """An event stream is read until the gateway is gone."""
    thread = threading.Thread(target=reader.read, args=(gateway.http_port,))
    opened = len(reader.resumes)
    thread.start()
    until(lambda: len(reader.resumes) > opened and reader.cursor, "the stream opens")
    return thread


def send(wire: Wire, *numbers: int) -> None:
    for number in numbers:
        wire.publish("k.x", b"%d" % number, TEXT, exchange="amq.topic")
        wire.heard(w.BasicAck)


def test_event_streams_resume(tmp_path: Path) -> None:
    """One that has read up to the backup, and one that has read more than there is again."""
    reader, ahead = Reader(), Reader()
    with Running(tmp_path / "source") as gateway:
        first = reading(gateway, reader)
        wire = gateway.wire(1)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        send(wire, 1, 2, 3)
        until(lambda: reader.got == [1, 2, 3], "events")
        cursor = reader.cursor
        make_backup(gateway.data, segments_of(gateway.data), tmp_path / "backup")
        send(wire, 4, 5)
        until(lambda: reader.got == [1, 2, 3, 4, 5], "events")
        ahead.cursor, reader.cursor, reader.got = reader.cursor, cursor, []
        gateway.kill()
        first.join()
    data = tmp_path / "again" / "data"
    restore_backup(tmp_path / "backup", data, segments_of(data))
    with Running(tmp_path / "again") as gateway:
        threads = [reading(gateway, one) for one in (reader, ahead)]
        wire = gateway.wire(1)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        send(wire, 6, 7, 8, 9)
        until(lambda: reader.got == [6, 7, 8, 9] and ahead.got[-1:] == [9], "events")
        gateway.kill()
        for thread in threads:
            thread.join()
    assert reader.resumes == ["fresh", "exact"]
    assert (ahead.resumes, ahead.got) == (["gap"], [1, 2, 3, 6, 7, 8, 9])
