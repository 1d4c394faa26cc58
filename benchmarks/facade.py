"""A facade before RabbitMQ against RabbitMQ alone, with the same clients of 0-9-1."""

from collections.abc import Callable, Iterator

from benchmarks.drivers import build
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing, gateway, rabbitmq
from benchmarks.throughput import MODES, Side, cell, describe

GROUP = "facade"
SIZE = 256
AIM = 0.8


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """One cell for each mode with confirms."""
    modes = [one for one in MODES if one.window and wanted(f"{GROUP} {one.name}")]
    if not modes:
        return
    try:
        for name in ("producer", "consumer"):
            build(name)
        with (
            rabbitmq() as theirs,
            gateway("--upstream", f"amqp://127.0.0.1:{theirs.amqp_port}") as ours,
        ):
            for mode in modes:
                row = Row(GROUP, mode.name, "msg/s", against="RabbitMQ", aim=AIM)
                sides = [Side(ours), Side(theirs)]
                cell(sides, mode, SIZE, 0.4 if quick else 3.0, repeat)
                compare(row, *([run.rate for run in side.runs] for side in sides))
                row.detail = {"ours": describe(sides[0].runs), "theirs": describe(sides[1].runs)}
                yield row
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
