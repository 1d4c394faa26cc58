"""Addresses with a retention of their own: segments are written anew without them."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.bodies import LargeBody, Spool
from gateway.config import read_settings
from gateway.config.journal import JournalSettings, RecordingSettings
from gateway.errors import ConfigError
from gateway.journal.entries import MOST_INLINE, Trimmed
from gateway.journal.reader import JournalReader
from gateway.journal.rewriting import Retention
from gateway.journal.segments import all_segments, list_segments
from tests.journal.test_sealing import Sealing, everything, plain, run
from tests.store.samples import message
from tests.test_bodies import spooled

pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
pytestmark = pytest.mark.extras

SHORT = RecordingSettings(address="/queues/short", keep_seconds=60)
LONG = RecordingSettings(address="/queues/long", keep_seconds=1e9)
RULES: dict[str, Any] = {"recording": [SHORT, LONG, RecordingSettings()], "keep_seconds": 3600}


class Mixed(Sealing):
    """With three queues. ``age`` is how many seconds ago its clock is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.declare("short")
        self.declare("long")
        self.commit()
        self.count = 0

    def put(self, queue: str, count: int, age: float) -> None:
        self.broker.state.now = int((time.time() - age) * 1000)
        for _ in range(count):
            self.channel.publish(message(b"%d" % self.count, b"", "", queue))
            self.count += 1
        self.commit()

    def kept(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"short": [], "orders": [], "long": []}
        for one in everything(self.folder):
            found[one.address.rpartition("/")[2]].append(int(one.message.body[:]))
        return found


def test_each_address_is_kept_as_its_rule_says(tmp_path: Path) -> None:
    rig = Mixed(tmp_path)
    for age in (7200, 600, 0):
        for queue in ("short", "orders", "long"):
            rig.put(queue, 2, age)
    before = everything(tmp_path)

    async def looks() -> None:
        keeper = rig.keeper(**RULES, segment_messages=6)
        for _ in range(4):
            await keeper.look()
            if keeper.rounds == 1:
                keeper.rounds = 0  # as half a minute later
        await keeper.close()
        assert keeper.failing == ""

    run(looks())
    names = [one.path.name.removesuffix(".parquet") for one in list_segments(tmp_path / "journal")]
    assert [one[20:].lstrip("-0") for one in names] == ["6-0001", "12-0001", "18"]
    assert rig.kept() == {
        "short": [12, 13],
        "orders": [8, 9, 14, 15],
        "long": [4, 5, 10, 11, 16, 17],
    }
    found = everything(tmp_path)
    assert plain(found) == [one for one in plain(before) if one[0] in {e.pos for e in found}]
    shares = [set(one.notes.shares) for one in list_segments(tmp_path / "journal")]
    assert [len(one) for one in shares] == [1, 2, 3]
    assert len(all_segments(tmp_path / "journal")) == 3


def test_octets_of_an_address(tmp_path: Path) -> None:
    rig = Mixed(tmp_path)
    for _ in range(3):
        rig.put("short", 5, 0)
        rig.put("orders", 5, 0)
    rule = RecordingSettings(address="/queues/short", keep_octets=11)
    given: dict[str, Any] = {"recording": [rule, RecordingSettings()]}
    run(rig.look(**given))
    assert len(list_segments(tmp_path / "journal")) == 3
    for _ in range(2):  # one segment in each
        run(rig.look(**given))
    # Bodies of five, ten and ten octets.
    assert rig.kept()["short"] == list(range(20, 25))
    assert len(rig.kept()["orders"]) == 15


def test_positions_between_are_passed_over(tmp_path: Path) -> None:
    rig = Mixed(tmp_path)
    rig.put("long", 10, 7200)
    rig.put("short", 10, 7200)
    rig.put("orders", 10, 0)
    rig.put("short", 10, 7200)
    run(rig.look(**RULES))
    run(rig.look(**RULES))
    spans = [(one.start, one.end) for one in list_segments(tmp_path / "journal")]
    assert spans == [(0, 10), (20, 30)]
    with contextlib.closing(JournalReader(tmp_path)) as reader:
        assert reader.read(10).next == 20 and reader.read(15).entries == []
        assert reader.read(30).next == 40
    rig.put("orders", 3, 0)
    assert [one.pos for one in everything(tmp_path)] == [*range(10), *range(20, 30), 40, 41, 42]
    run(rig.look(recording=[], keep_seconds=60))
    run(rig.look(recording=[], keep_seconds=60))
    with contextlib.closing(JournalReader(tmp_path)) as reader, pytest.raises(Trimmed):
        reader.read(5)


def test_bodies_in_files_go_with_their_entries(tmp_path: Path) -> None:
    rig = Mixed(tmp_path / "data")
    spool = Spool(str(tmp_path))
    for queue in ("short", "long"):
        rig.broker.state.now = int((time.time() - 7200) * 1000)
        body = spooled(spool, bytes(MOST_INLINE + 1))
        assert isinstance(body, LargeBody)
        rig.channel.publish(message(body, b"", "", queue))
    rig.commit()
    run(rig.look(**RULES, segment_messages=2))
    folder = tmp_path / "data" / "journal" / "bodies"
    assert len(list(folder.iterdir())) == 2
    run(rig.look(**RULES, segment_messages=2))
    (entry,) = everything(tmp_path / "data")
    assert entry.address == "/queues/long"
    assert [f"bodies/{one.name}" for one in folder.iterdir()] == [entry.reference]


def test_what_a_crash_leaves(tmp_path: Path) -> None:
    """Between the new file's name and the end of the old one."""
    rig = Mixed(tmp_path)
    rig.put("short", 5, 7200)
    rig.put("long", 5, 7200)
    run(rig.look(recording=[RecordingSettings()]))
    (first,) = list_segments(tmp_path / "journal")
    octets = first.path.read_bytes()
    run(rig.look(**RULES))
    first.path.write_bytes(octets)
    assert len(all_segments(tmp_path / "journal")) == 2
    assert rig.kept()["short"] == []
    run(rig.look(**RULES))
    assert len(all_segments(tmp_path / "journal")) == 1
    assert rig.kept()["long"] == list(range(5, 10))


def test_rules_of_retention(tmp_path: Path) -> None:
    settings = JournalSettings(**RULES)
    retention = Retention(settings)
    assert retention.of(("/", "/queues/short")).seconds == 60
    assert retention.of(("/", "/queues/other")).seconds == 3600
    for text, told in (
        ("[[journal.recording]]\nrecord = false\nkeep_seconds = 5\n", "record = false"),
        ("[[journal.recording]]\nkeep_seconds = 0\n", "keep_seconds"),
        ("[journal]\nseal = false\n[[journal.recording]]\nkeep_octets = 5\n", "needs sealing"),
        ("[[journal.recording]]\nkeep_second = 5\n", "did you mean keep_seconds?"),
    ):
        file = tmp_path / "gateway.toml"
        file.write_text(text)
        with pytest.raises(ConfigError, match=told):
            read_settings(file)
