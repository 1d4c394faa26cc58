"""The landing sink with faults where a test asks for them: by files in ``LANDING_FAULTS``, or
beside the table."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import psutil

from pyspark_amqp.delta import landed_position
from pyspark_amqp.source import AmqpDataSource
from pyspark_amqp.table_sink import LandingWriter, attempts_of, landing_options

PATIENCE = 600.0


class FaultySource(AmqpDataSource):
    """``format("amqp_faulty")``."""

    @classmethod
    def name(cls) -> str:
        return "amqp_faulty"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return FaultyWriter(landing_options(self.options), schema)


class FaultyWriter(LandingWriter):
    """``raise``: the commit of a batch raises after the table had it, once. ``kill``: all processes
    of the driver are killed there, once. ``wait``: the commit waits, once, until another query
    has landed this batch."""

    def commit(self, messages: Any, batchId: int) -> None:
        folder = Path(os.environ.get("LANDING_FAULTS", self.options.table.parent))
        if asked(folder / "wait"):
            self.wait(messages)
        super().commit(messages, batchId)
        if asked(folder / "raise"):
            raise RuntimeError("after the commit")
        if asked(folder / "kill"):
            kill_tree(psutil.Process(int(os.environ["LANDING_DRIVER"])))
            time.sleep(PATIENCE)

    def wait(self, messages: Any) -> None:
        one = next(one for one in attempts_of(messages) if one.journal)
        options = self.options
        deadline = time.monotonic() + PATIENCE
        while landed_position(options.table, one.journal, options.consumer) == one.last:
            assert time.monotonic() < deadline, "nobody else has landed this batch"
            time.sleep(0.05)


def asked(file: Path) -> bool:
    """Whether there is this file; there is none after that."""
    try:
        file.rename(file.with_suffix(".done"))
    except FileNotFoundError:
        return False
    return True


def kill_tree(process: psutil.Process) -> None:
    """The process and all that it has begun; the caller last if it is among them."""
    try:
        found = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in sorted(found, key=lambda one: one.pid == os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
