"""Segments are written by a process of its own, which ends with its gateway."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gateway.config.journal import JournalSettings
from gateway.journal import keeping, sealing_process
from gateway.journal.entries import JournalError
from gateway.journal.keeping import Keeper
from gateway.journal.sealing import Job, LocalSealer, Sealed
from gateway.journal.sealing_process import SealingProcess
from gateway.journal.segments import list_segments
from gateway.journal.tail import Tail
from tests.journal.test_sealing import FEW, Sealing, everything, plain, run
from tests.net.running import until

pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
pytestmark = pytest.mark.extras


def job(folder: Path, end: int) -> Job:
    with contextlib.closing(Tail(folder)) as tail:
        head = tail.head()
    assert head is not None
    return Job(head.id, 0, end, 1 << 30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Sealing(tmp_path).numbers(0, 35)
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Iterator[SealingProcess]:
    with contextlib.closing(SealingProcess(folder, folder / "journal")) as process:
        yield process


def child(process: SealingProcess) -> psutil.Process:
    assert process._process is not None
    return psutil.Process(process._process.pid)


def test_the_same_as_without_a_process(folder: Path, process: SealingProcess) -> None:
    local = LocalSealer(folder, folder / "local")
    expected = local.seal(job(folder, 30))
    local.close()
    assert process.seal(job(folder, 30)) == expected
    names = [folder / name / expected.name for name in ("local", "journal")]
    assert names[0].read_bytes() == names[1].read_bytes()


def test_it_ends_quietly_when_its_gateway_is_killed(folder: Path) -> None:
    """Here while it seals: its answer can be written no more."""
    command = [sys.executable, "-m", "gateway.journal.sealing_process", str(folder)]
    with subprocess.Popen(
        [*command, str(folder / "journal"), "hurry"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        process.stdout.close()
        process.stdin.write(json.dumps(job(folder, 30)).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(60) == 0
        assert process.stderr is not None and process.stderr.read() == b""


def test_a_keeper_seals_with_it(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealing.numbers(0, 35)
    before = plain(everything(tmp_path))

    async def look() -> None:
        settings = JournalSettings(**FEW)
        keeper = Keeper(sealing.broker.state.journal, settings, tmp_path, sealing.turn)
        await keeper.look()
        await keeper.close()
        assert keeper.failing == ""

    run(look())
    assert [one.end for one in list_segments(tmp_path / "journal")] == [10, 20, 30]
    assert plain(everything(tmp_path)) == before


def test_another_one_starts_if_it_was_killed(folder: Path, process: SealingProcess) -> None:
    assert process.seal(job(folder, 10)).reached == 10
    first = child(process)
    first.kill()
    until(lambda: not first.is_running() or first.status() == "zombie", "the end of the process")
    assert process.seal(job(folder, 10)).reached == 10
    assert child(process).pid != first.pid


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs the idle class of Linux")


@LINUX
def test_only_idle_processors_unless_it_must_hurry(
    folder: Path, process: SealingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing_process, "IDLE_SECONDS", 100)
    process.seal(job(folder, 10))
    first = child(process)
    assert os.sched_getscheduler(first.pid) == os.SCHED_IDLE
    process.seal(job(folder, 20)._replace(hurry=True))
    second = child(process)
    assert second.pid != first.pid and not first.is_running()
    assert os.sched_getscheduler(second.pid) == os.SCHED_OTHER and second.nice() > 0
    process.seal(job(folder, 30))
    assert child(process).pid == second.pid  # until it has nothing to do for a while


@LINUX
def test_without_an_idle_processor_it_hurries(
    folder: Path, process: SealingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process._start(hurry=False)  # a job of its own might be hurried on a busy machine
    first = child(process)
    first.suspend()
    monkeypatch.setattr(sealing_process, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(sealing_process, "PATIENCE", 0.1)
    assert process.seal(job(folder, 30)).reached == 30
    assert not first.is_running() and os.sched_getscheduler(child(process).pid) == os.SCHED_OTHER


class Noting(LocalSealer):
    """Notes whether it should hurry."""

    hurried: list[bool] = []

    def seal(self, job: Job) -> Sealed:
        self.hurried.append(job.hurry)
        return super().seal(job)


@pytest.mark.parametrize(
    ("entries", "octets", "hurried"),
    [(12, 10, [False]), (12, 1500, [True]), (31, 10, [True, False, False])],
)
def test_it_hurries_when_much_waits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: int,
    octets: int,
    hurried: list[bool],
) -> None:
    monkeypatch.setattr(keeping, "BEHIND", 3)
    monkeypatch.setattr(Noting, "hurried", [])
    sealing = Sealing(tmp_path)
    sealing.publish(*[b"x" * octets] * entries)

    async def look() -> None:
        settings = JournalSettings(**FEW | {"segment_octets": 3000})
        keeper = Keeper(sealing.broker.state.journal, settings, tmp_path, sealing.turn, Noting)
        await keeper.look()
        await keeper.close()
        assert keeper.failing == ""

    run(look())
    assert Noting.hurried == hurried


def test_a_failure_is_told_and_the_process_goes_on(folder: Path, process: SealingProcess) -> None:
    (folder / "journal").write_bytes(b"a file in its place")
    with pytest.raises(JournalError, match="journal"):
        process.seal(job(folder, 10))
    (folder / "journal").unlink()
    assert process.seal(job(folder, 10)) == Sealed(
        10, list_segments(folder / "journal")[0].path.name
    )


def test_a_process_that_ends_at_once_is_told_with_its_status(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    process = SealingProcess(folder, folder / "journal")
    with pytest.raises(JournalError, match="ended with status"):
        process.seal(job(folder, 10))


def test_closed(folder: Path, process: SealingProcess) -> None:
    process.seal(job(folder, 10))
    sealer = child(process)
    process.close()
    assert not sealer.is_running()
    with pytest.raises(JournalError, match="the gateway stops"):
        process.seal(job(folder, 10))


GATEWAY = """
import sys, time
from pathlib import Path
from gateway.journal.sealing import Job
from gateway.journal.sealing_process import SealingProcess
folder, journal = Path(sys.argv[1]), sys.argv[2]
process = SealingProcess(folder, folder / "journal")
process.seal(Job(journal, 0, 10, 1 << 30))
print(process._process.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_a_gateway_that_is_killed(folder: Path) -> None:
    command = [sys.executable, "-c", GATEWAY, str(folder), job(folder, 10).journal]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        sealer = psutil.Process(int(gateway.stdout.readline()))
        assert sealer.is_running()
        gateway.kill()
    until(lambda: not sealer.is_running() or sealer.status() == "zombie", "the end of the process")
