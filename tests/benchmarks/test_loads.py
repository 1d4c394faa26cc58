"""Loads of the benchmarks: what a row says of its runs, and what a broken broker is told."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import loads
from benchmarks.loads import Found, Load, Passage, measure
from benchmarks.servers import Failed, Server


class Still(Server):
    """A server without a process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: Any = None
        self.directory = Path()

    def family(self) -> list[int]:
        return []


def fixed(name: str, figures: dict[str, dict[str, float]], **more: float) -> Load:
    def passage(server: Server, count: int) -> Found:
        return Found(figures[server.name], count, count * 2e-6, 0.1, more)

    def made(seconds: float) -> Passage:
        return passage

    return Load(name, made, ())


SERVERS: list[Server] = [Still("gateway"), Still("rabbitmq")]


def test_a_row_for_each_figure_with_ratio_and_cost() -> None:
    figures = {"gateway": {"a": 2.0, "b": 6.0}, "rabbitmq": {"a": 1.0, "b": 2.0}}
    first, second = measure(fixed("x", figures, written=300.0), SERVERS, 1.0, 3)
    assert (first.name, first.ratios, second.ratios) == ("x, a", [2.0] * 3, [3.0] * 3)
    assert first.note == "server 2 / 2 us; 300 / 300 octets written"
    assert first.others == 0.1


def test_one_server_alone_has_no_ratio() -> None:
    (row,) = measure(fixed("x", {"gateway": {"": 5.0}}), SERVERS[:1], 1.0, 1)
    assert (row.name, row.ours, row.theirs, row.ratios) == ("x", 5.0, None, [])


def test_all_loads_that_are_wanted_are_there() -> None:
    names = [load.name for load in loads.loads()]
    for each in (10, 100):
        for queues in ("1 queue", "10 queues", "100 queues"):
            assert f"{each} connections each way on {queues}" in names
    for name in ("one queue shared by 10 consumers", "durable, confirmed, nobody reads"):
        assert name in names
    assert len(set(names)) == len(names)


def test_without_perf_test_the_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "PERF_TEST", tmp_path / "none")
    with pytest.raises(Failed, match="install-peers"):
        loads.perf_test(False, 1)(SERVERS[0], 1)
