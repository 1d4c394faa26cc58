"""Run by spark-submit: reads a journal in a directory, and one of a gateway, and prints both.

Arguments: a folder for marks, the directory of segments, the gateway's base URL, its password file.
Each task leaves a mark when it has rows, and goes on when there is a mark ``go``; so a test knows
that executors are in the middle of their work."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from pyspark_amqp.jobs.inputs import Inputs, ddl_of
from pyspark_amqp.session import session

COLUMNS = ("pos", "address", "message_id", "body")
PATIENCE_SECONDS = 240


def marking(marks: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        folder = Path(marks)
        for batch in batches:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{os.getpid()}").touch()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not (folder / "go").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    return run


def main(marks: str, journal: str, gateway: str, password_file: str) -> None:
    spark = session("on a cluster")
    places = {
        "gateway": Inputs(gateway=gateway, user="guest", password_file=Path(password_file)),
        "journal": Inputs(journal=journal),
    }
    frames = [
        inputs.frame(spark, COLUMNS)
        .mapInArrow(marking(f"{marks}/{name}"), ddl_of(COLUMNS))
        .withColumn("place", lit(name))
        for name, inputs in places.items()
    ]
    rows = sorted(
        [row.place, row.pos, row.address, row.message_id, sha256(row.body).hexdigest()]
        for row in reduce(DataFrame.union, frames).collect()
    )
    shown = {"master": spark.sparkContext.master, "rows": rows}
    spark.stop()
    sys.stdout.write(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
