"""Which positions a task reads."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from pyspark_amqp import rows
from pyspark_amqp.options import Options
from tests.pipeline.test_source import Filled

pytestmark = pytest.mark.extras


@pytest.mark.parametrize("partitions", [1, 2, 4, 9])
@pytest.mark.parametrize(("start", "end"), [(0, 25), (3, 14), (10, 20), (22, 25), (5, 5)])
def test_every_position_once(
    tmp_path: Path, monkeypatch: Any, partitions: int, start: int, end: int
) -> None:
    """In as many tasks as are wanted; none reads from two segments."""
    monkeypatch.setattr(rows, "LEAST", 1)
    filled = Filled(tmp_path)
    filled.fill(0, 25)
    filled.seal()
    options = Options(journal=str(tmp_path), partitions=partitions)
    found = rows.ranges(options, start, end)
    assert [at for low, high in found for at in range(low, high)] == list(range(start, end))
    assert len(found) >= -(-(end - start) // max(1, -(-(end - start) // partitions)))
    assert len(found) <= partitions + 2
    for low, high in found:
        assert min(low // 10, 2) == min((high - 1) // 10, 2)


def test_few_entries_are_one_task(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.fill(0, 25)
    filled.seal()
    assert rows.ranges(Options(journal=str(tmp_path)), 0, 25) == [(0, 10), (10, 20), (20, 25)]
