"""The session of Spark that a job works with."""

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_amqp.java import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET = Path(__file__).resolve().parent / "log4j2.properties"
LOCAL = {
    "spark.master": "local[*,4]",  # a task that fails is tried again, as in a cluster
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.pollingDelay": "250ms",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
}
"""Settings of a session that nobody configured."""


def session(app: str, **conf: str) -> "SparkSession":
    """The session that there is, or that ``spark-submit`` was told to make, as it is; otherwise one
    on this machine alone, with ``conf`` over ``LOCAL``. Raises ``JavaError``."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app)
    configured = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if configured or SparkContext._active_spark_context is not None:
        return builder.getOrCreate()
    prepare()
    prepare_workers()
    shuffle = {"spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1))}
    for name, value in {**LOCAL, **shuffle, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def prepare_workers() -> None:
    """Workers run this Python, and find this package where this process found it. Settings of the
    environment count: Spark looks at them before its configuration. All stay on loopback."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths and here not in (
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    ):
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, paths)])
