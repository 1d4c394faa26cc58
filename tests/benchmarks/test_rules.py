"""Rules of the benchmarks: who runs, what is checked, when figures are written down."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from benchmarks import __main__ as command_line
from benchmarks import rules, servers, throughput, throughput_1_0
from benchmarks.drivers import HERE
from benchmarks.rows import Row, compare
from benchmarks.rules import BUSY, alone, undisturbed, why_not
from benchmarks.servers import Server, end


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Server]]:
    """Two processes, each with a child, that stand for brokers."""
    child = "import time; time.sleep(600)"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    command = [sys.executable, "-c", script]
    servers = [
        Server(name, subprocess.Popen(command, start_new_session=True), tmp_path) for name in "ab"
    ]
    try:
        yield servers
    finally:
        for server in servers:
            end(server.process)


def states(server: Server) -> set[str]:
    return {Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] for pid in server.family()}


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def test_only_the_server_under_test_runs(two: list[Server]) -> None:
    a, b = two
    until(lambda: all(len(one.family()) == 2 and states(one) == {"S"} for one in two))
    with alone(a, two):
        until(lambda: states(b) == {"T"})
        assert "T" not in states(a)
    until(lambda: "T" not in states(b))


def test_a_server_that_has_ended_is_no_hindrance(two: list[Server]) -> None:
    a, b = two
    end(b.process)
    with alone(a, two):
        pass


def test_figures_are_written_down_only_if_nobody_disturbed() -> None:
    quiet, loud = Row("a", "b", others=BUSY / 2), Row("a", "c", others=BUSY * 2)
    assert why_not([quiet, Row("a", "without")], 0.0, False, False) is None
    assert "0.40" in str(why_not([quiet, loud], 0.0, False, False))
    assert why_not([quiet], BUSY * 2, False, False) is not None
    assert why_not([quiet], 0.0, True, False) is not None
    assert why_not([loud], BUSY * 2, True, True) is None


def test_time_that_the_host_takes_counts_as_that_of_third_parties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "stat"
    monkeypatch.setattr(servers, "STATISTICS", file)
    file.write_text("cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    assert servers.machine_busy() == 0.0
    file.write_text(f"cpu 0 0 0 900 0 0 0 {3 * servers.TICK} 0 0\n")
    assert servers.machine_busy() == 3.0


def test_what_is_not_ours_is_of_third_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, now = iter([100.0, 106.0, 102.0]), iter([10.0, 14.0, 14.0])
    monkeypatch.setattr(rules, "machine_busy", lambda: next(busy))
    monkeypatch.setattr(rules, "time", SimpleNamespace(monotonic=lambda: next(now)))
    third_parties = rules.ThirdParties()
    assert third_parties.busy(ours=4.0) == 0.5  # 6 seconds of processors in 4 seconds, less ours
    assert third_parties.busy(ours=4.0) == 0.0


class Passage(NamedTuple):
    others: float


def test_a_disturbed_passage_is_measured_again() -> None:
    def passages(*others: float) -> tuple[Callable[[], Passage], list[Passage]]:
        given = [Passage(one) for one in others]
        left = iter(given)
        return lambda: next(left), given

    measure, given = passages(BUSY * 3, BUSY / 2, 0.0)
    assert undisturbed(measure) is given[1]
    measure, given = passages(BUSY * 3, BUSY * 2, BUSY * 4, 0.0)
    assert undisturbed(measure, tries=3) is given[1]
    measure, given = passages(BUSY * 3, 0.0)
    assert undisturbed(measure, tries=1) is given[0]


@pytest.mark.parametrize("others", [0.0, 1.0])
@pytest.mark.parametrize("allowed", [False, True])
def test_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, others: float, allowed: bool
) -> None:
    def made(wanted: Any, quick: bool, repeat: int) -> Iterator[Row]:
        row = Row("g", "n", "msg/s", against="other", others=others)
        yield compare(row, [2000.0], [1000.0])

    files = [tmp_path / "found.json", tmp_path / "found.md"]
    words = ["benchmarks", "--json", str(files[0]), "--markdown", str(files[1])]
    monkeypatch.setattr(sys, "argv", [*words, *(["--although-busy"] * allowed)])
    monkeypatch.setattr(command_line, "GROUPS", [made])
    monkeypatch.setattr(command_line, "busy_without_us", lambda: 0.0)
    status = command_line.main()
    written = others == 0 or allowed
    assert status == (0 if written else 2)
    assert [file.exists() for file in files] == [written] * 2
    if written:
        assert "| g: n | 2,000 msg/s | other 1,000 msg/s | 2.00 (2.00..2.00) |" in (
            files[1].read_text()
        )
    else:
        assert "third parties kept 1.00 processors busy" in capsys.readouterr().out


def test_groups_that_have_ended_are_kept_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(wanted: Any, quick: bool, repeat: int) -> Iterator[Row]:
        yield compare(Row("g", "n", "msg/s", against="other"), [2.0], [1.0])

    def stopped(wanted: Any, quick: bool, repeat: int) -> Iterator[Row]:
        yield from ()
        sys.exit(143)

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", str(tmp_path / "found.json")])
    monkeypatch.setattr(command_line, "GROUPS", [made, stopped])
    monkeypatch.setattr(command_line, "busy_without_us", lambda: 0.0)
    with pytest.raises(SystemExit):
        command_line.main()
    [kept] = tmp_path.iterdir()
    assert kept.name == "found.part"
    assert [row["name"] for row in json.loads(kept.read_text())["rows"]] == ["n"]
    monkeypatch.setattr(command_line, "GROUPS", [made])
    assert command_line.main() == 0
    assert [file.name for file in tmp_path.iterdir()] == ["found.json"]


def test_each_row_is_there_with_headers_of_its_own_and_with_the_same() -> None:
    for names in (
        [one.name for one in throughput.CELLS],
        [one.name for one in throughput_1_0.WAYS],
    ):
        unique = {name for name in names if "unique headers" in name}
        assert {name.replace("unique", "same") for name in unique} == set(names) - unique


CHECK = """
#include "common.h"
int main(int argc, char **argv) {
    (void)argc;
    printf("%d", check_body((const uint8_t *)argv[1], strlen(argv[1]), strtoull(argv[2], 0, 10)));
    return 0;
}
"""


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler")
def test_drivers_see_a_wrong_order_and_a_wrong_content(tmp_path: Path) -> None:
    source, program = tmp_path / "check.c", tmp_path / "check"
    source.write_text(CHECK)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, f"-I{HERE}", "-o", str(program), str(source)], check=True)

    def said(body: str, index: int) -> str:
        done = subprocess.run([str(program), body, str(index)], capture_output=True, text=True)
        return done.stdout

    number = f"{128:016x}"
    assert said(number + "xxx", 128) == "1"
    assert said(number + "xxx", 129) == "0"  # is not in the sample
    assert "order" in said(number + "xxx", 64)
    assert "content" in said(number + "xyx", 128)
    assert said("x" * 20, 128) == "0"
    assert said("short", 0) == "0"
