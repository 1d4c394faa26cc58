"""Older entries are in Parquet files, and readers see no seam."""

import asyncio
import contextlib
import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.bodies import LargeBody, Spool
from gateway.config.journal import JournalSettings, RecordingSettings
from gateway.journal.entries import ALL, Entry, JournalError, Trimmed
from gateway.journal.keeping import Keeper
from gateway.journal.reader import JournalReader
from gateway.journal.sealing import LocalSealer
from gateway.journal.segments import SHARED, list_segments, shares_of
from tests.journal.recording import Recording
from tests.store.samples import message
from tests.store.test_failing_disk import FailingSyncs
from tests.test_bodies import spooled

pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
pytestmark = pytest.mark.extras

LONG_AGO = 1_000_000
FEW: dict[str, Any] = {
    "recording": [RecordingSettings()], "segment_messages": 10, "seal_seconds": 1e12,
}  # fmt: skip


class Sealing(Recording):
    """With a keeper, which looks when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.broker.state.now = int(time.time() * 1000)

    def keeper(self, **given: Any) -> Keeper:
        journal = self.broker.state.journal
        settings = JournalSettings(**FEW | given)
        return Keeper(journal, settings, self.folder, self.turn, LocalSealer)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        yield
        self.commit()

    async def look(self, **given: Any) -> Keeper:
        keeper = self.keeper(**given)
        await keeper.look()
        await keeper.close()
        assert keeper.failing == ""
        return keeper

    def publish(self, *bodies: Any) -> None:
        for body in bodies:
            self.channel.publish(message(body, b"", "", "orders"))
        self.commit()

    def numbers(self, first: int, end: int, batch: int = 3) -> None:
        """Messages whose bodies are these numbers."""
        for start in range(first, end, batch):
            self.publish(*(b"%d" % one for one in range(start, min(end, start + batch))))


def read(reader: JournalReader, start: int = 0, question: Any = ALL) -> list[Entry]:
    found: list[Entry] = []
    end = reader.overview().end
    while start < end:
        portion = reader.read(start, question)
        found += portion.entries
        assert portion.next > start
        start = portion.next
    return found


def everything(folder: Path, question: Any = ALL) -> list[Entry]:
    with contextlib.closing(JournalReader(folder)) as reader:
        return read(reader, reader.overview().start, question)


def plain(entries: list[Entry]) -> list[tuple[Any, ...]]:
    return [
        (*one[:6], one.message.dialect.name, one.message.header, one.message.exchange,
         one.message.key, bytes(one.message.body[:]), one.size)
        for one in entries
    ]  # fmt: skip


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def test_sealed(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 35)
    before = plain(everything(tmp_path))
    assert [one[0] for one in before] == list(range(35))
    run(sealing.look())
    spans = [(one.start, one.end) for one in list_segments(tmp_path / "journal")]
    assert spans == [(0, 10), (10, 20), (20, 30)]
    assert plain(everything(tmp_path)) == before
    left = [one.pos for one in sealing.entries(sealing_start(sealing))]
    assert left == list(range(30, 35))
    sealing.numbers(35, 37)
    assert [one.pos for one in everything(tmp_path)] == list(range(37))


def sealing_start(sealing: Sealing) -> int:
    with contextlib.closing(JournalReader(sealing.folder)) as reader:
        assert reader.tail is not None
        return reader.tail.span().start


def test_what_is_there_is_sealed_without_a_rule_too(tmp_path: Path) -> None:
    """Event sources have entries without one."""
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 35)
    run(sealing.look(recording=[]))
    assert [one.end for one in list_segments(tmp_path / "journal")] == [10, 20, 30]


def test_the_next_process_goes_on(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 30)
    run(sealing.look())
    sealing.store.abandon()
    sealing = Sealing(tmp_path)
    sealing.numbers(30, 40)
    assert [int(one.message.body[:]) for one in everything(tmp_path)] == list(range(40))
    assert [one.offset for one in everything(tmp_path)] == list(range(40))
    assert len({one.pos for one in everything(tmp_path)}) == 40


def test_everything_is_sealed_in_time(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.broker.state.now = LONG_AGO
    sealing.numbers(0, 5)
    run(sealing.look(seal_seconds=1, keep_seconds=1e12))
    assert [(one.start, one.end) for one in list_segments(tmp_path / "journal")] == [(0, 5)]
    sealing.store.abandon()
    sealing = Sealing(tmp_path)
    sealing.numbers(5, 7)
    found = everything(tmp_path)
    assert [(one.pos, one.offset) for one in found] == [(at, at) for at in range(7)]


def test_killed_before_the_rows_were_removed(tmp_path: Path) -> None:
    """The segment has its name, and the store its rows still: each entry is read once."""
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 20, 4)
    keeper = sealing.keeper()
    keeper._work()
    run(keeper.close())
    before = everything(tmp_path)
    assert [one.pos for one in before] == list(range(20))
    sealing.store.abandon()
    (tmp_path / "journal" / "00000000000000000020.part").write_bytes(b"half")
    sealing = Sealing(tmp_path)
    run(sealing.look())
    assert plain(everything(tmp_path)) == plain(before)
    assert sealing_start(sealing) == 20
    assert not list((tmp_path / "journal").glob("*.part"))


def test_a_reader_goes_on_while_it_is_sealed(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 30)
    with contextlib.closing(JournalReader(tmp_path)) as reader:
        few = ALL._replace(entries=4)
        first = reader.read(0, few)
        run(sealing.look())
        rest = read(reader, first.next, few)
    assert [one.pos for one in (*first.entries, *rest)] == list(range(30))


def test_retention_by_size(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 30)
    run(sealing.look())
    size = list_segments(tmp_path / "journal")[0].octets
    run(sealing.look(keep_octets=size * 2))
    with contextlib.closing(JournalReader(tmp_path)) as reader:
        overview = reader.overview()
        assert (overview.start, overview.end) == (10, 30)
        assert [one.pos for one in read(reader, 10)] == list(range(10, 30))
        with pytest.raises(Trimmed, match="begins at position 10, behind position 3"):
            reader.read(3)


def test_retention_by_time(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.broker.state.now = LONG_AGO
    sealing.numbers(0, 10)
    run(sealing.look(keep_seconds=1e12))
    sealing.broker.state.now = int(time.time() * 1000)
    sealing.numbers(10, 20)
    run(sealing.look(keep_seconds=3600))
    assert [one.pos for one in everything(tmp_path)] == list(range(10, 20))
    run(sealing.look(keep_seconds=0.001))
    assert everything(tmp_path) == []
    sealing.numbers(20, 22)
    assert [one.pos for one in everything(tmp_path)] == [20, 21]


@pytest.mark.parametrize("given", [{"keep_seconds": 3600}, {"keep_octets": 45}])
def test_retention_without_sealing(tmp_path: Path, given: dict[str, Any]) -> None:
    sealing = Sealing(tmp_path)
    sealing.broker.state.now = LONG_AGO
    sealing.numbers(0, 12)
    sealing.broker.state.now = int(time.time() * 1000)
    sealing.publish(b"x" * 40, b"y")
    run(sealing.look(seal=False, **given))
    assert not (tmp_path / "journal").exists()
    assert [bytes(one.message.body[:1]) for one in everything(tmp_path)] == [b"x", b"y"]


def test_bodies_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    spool = Spool(str(tmp_path / "spool"))
    sealing = Sealing(tmp_path / "data")
    large, larger = b"l" * (2 << 20), b"m" * ((8 << 20) + 1)
    sealing.publish(b"", b"s" * 3000, spooled(spool, large), spooled(spool, larger))
    before = everything(tmp_path / "data")
    assert isinstance(before[2].message.body, LargeBody)
    run(sealing.look(segment_messages=4))
    found = everything(tmp_path / "data", ALL._replace(octets=1 << 30))
    assert [one.size for one in found] == [0, 3000, len(large), len(larger)]
    assert [bytes(one.message.body[:]) for one in found[:3]] == [b"", b"s" * 3000, large]
    assert found[3].message.body == b""
    file = tmp_path / "data" / "journal" / found[3].reference
    assert file.read_bytes() == larger
    run(sealing.look(keep_octets=0))
    assert not file.exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system lists no open files")
@pytest.mark.parametrize("folder", ["journal", "bodies"])
def test_a_disk_that_fails_at_the_end_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """It is written again, with the bodies beside it."""
    sealing = Sealing(tmp_path / "data")
    larger = b"m" * ((8 << 20) + 1)
    sealing.publish(b"a", b"b", spooled(Spool(str(tmp_path)), larger))
    syncs = FailingSyncs(monkeypatch, folder, 1)
    keeper = sealing.keeper(segment_messages=3)
    run(keeper.look())
    assert "a failing disk" in keeper.failing
    assert not list_segments(tmp_path / "data" / "journal")
    run(keeper.look())
    run(keeper.close())
    assert keeper.failing == "" and syncs.synced == 1
    [*_, found] = everything(tmp_path / "data", ALL._replace(octets=1 << 30))
    assert (tmp_path / "data" / "journal" / found.reference).read_bytes() == larger


def test_segments_alone(tmp_path: Path) -> None:
    """As on shared storage, without the store."""
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 25)
    journal = sealing.broker.state.journal.id
    run(sealing.look())
    with contextlib.closing(JournalReader(None, tmp_path / "journal")) as reader:
        assert reader.overview()[:4] == (journal, 0, 20, 20)
        assert [one.pos for one in read(reader)] == list(range(20))
        wanted = ALL._replace(wanted=lambda vhost, address: address == "/queues/other")
        assert read(reader, 0, wanted) == []
    (tmp_path / "journal" / f"{20:020d}-{30:020d}.parquet").write_bytes(b"nonsense")
    with (
        contextlib.closing(JournalReader(None, tmp_path / "journal")) as reader,
        pytest.raises(JournalError, match="parquet"),
    ):
        read(reader)


def test_the_log_is_not_kept_from_being_reset(tmp_path: Path) -> None:
    """An open reader between two portions holds no transaction."""
    sealing = Sealing(tmp_path)
    sealing.publish(b"x")
    with contextlib.closing(JournalReader(tmp_path)) as reader:
        reader.read(0)
        busy, *_ = sealing.store.writer.connection.execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        ).fetchone()
        assert busy == 0


def test_a_segment_knows_the_shares_of_its_addresses(tmp_path: Path) -> None:
    rig = Sealing(tmp_path)
    rig.declare("bills")
    rig.numbers(0, 8)
    rig.channel.publish(message(b"one bill", b"", "", "bills"))
    rig.commit()
    run(rig.look(segment_messages=9))
    (segment,) = list_segments(tmp_path / "journal")
    expected = {
        ("/", "/queues/orders"): (8, 0, 7, 8),
        ("/", "/queues/bills"): (1, 0, 0, 8),
    }
    assert segment.notes.shares == expected
    rows = segment.tables(0, 9, SHARED)
    assert shares_of(next(rows)) == expected


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No objects for other entries, no bodies without need, and each file is opened once."""
    parquet = importlib.import_module("pyarrow.parquet")
    columns = importlib.import_module("gateway.journal.columns")
    sealing = Sealing(tmp_path)
    sealing.declare("others")
    for number in range(20):
        sealing.publish(b"%d" % number)
        sealing.channel.publish(message(b"-%d" % number, b"", "", "others"))
        sealing.commit()
    run(sealing.look(segment_messages=20))
    before = plain(everything(tmp_path))
    opened: list[str] = []
    made: list[int] = []

    class Opened(parquet.ParquetFile):  # type: ignore[name-defined, misc]
        def __init__(self, path: Path, **options: Any) -> None:
            opened.append(path.name)
            super().__init__(path, **options)

        def read_row_group(self, number: int, columns: list[str]) -> Any:
            opened.append({5: "keys", 21: "light", 22: "all"}[len(columns)])
            return super().read_row_group(number, columns=columns)

    def to_entries(batch: Any, bodies: bool = True) -> list[Entry]:
        made.append(batch.num_rows)
        made_of: list[Entry] = real(batch, bodies)
        return made_of

    real = columns.to_entries
    monkeypatch.setattr(parquet, "ParquetFile", Opened)
    monkeypatch.setattr(columns, "to_entries", to_entries)
    segments = importlib.import_module("gateway.journal.segments")
    segments._remembered.clear()
    first, second = (one.path.name for one in list_segments(tmp_path / "journal"))
    with contextlib.closing(JournalReader(None, tmp_path / "journal")) as reader:
        assert reader.overview().end == 40
        assert opened == [second]
        opened.clear()
        of_others = ALL._replace(wanted=lambda _, address: address.endswith("others"), entries=2)
        found = reader.read(4, of_others)
        assert plain(found.entries) == [before[5], before[7]] and found.next == 9
        assert (made, opened) == ([2], [first, "keys", "all"])
        found = reader.read(9, of_others._replace(bodies=False))
        assert [one.pos for one in found.entries] == [9, 11] and made == [2, 2]
        found = reader.read(13, ALL._replace(octets=2))
        assert plain(found.entries) == before[13:14] and found.next == 14
        found = reader.read(18, ALL, 19)
        assert plain(found.entries) == before[18:19] and found.next == 19
        assert made == [2, 2, 1, 1] and len(opened) == 3
        assert not reader.read(5, ALL._replace(wanted=lambda *_: False)).entries
        assert plain(reader.read(20, ALL).entries) == before[20:] and opened[3:] == [
            second, "keys", "all",
        ]  # fmt: skip


NOTES = """
import sys
from pathlib import Path
from gateway.journal.segments import Segment, list_segments
segments = list_segments(Path(sys.argv[1]))
assert [segment.notes.entries for segment in segments] == [10, 10]
print("pandas" in sys.modules)
"""


def test_what_segments_have_is_looked_up_without_pandas(tmp_path: Path) -> None:
    """The gateway looks again and again, and pandas would hold its loop when it is imported."""
    pytest.importorskip("pandas", reason="pandas is of the extra `spark`")
    one = Sealing(tmp_path)
    one.numbers(0, 25)
    run(one.look())
    folder = str(tmp_path / "journal")
    done = subprocess.run(
        [sys.executable, "-c", NOTES, folder], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
