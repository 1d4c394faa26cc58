"""One session of Spark for all tests of this folder. Without pyspark or Java they are skipped."""

from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_amqp.java import JavaError, prepare
from pyspark_amqp.session import LOCAL

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java: starting is what tests wait for."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def needs_spark() -> None:
    """Skip the test without pyspark, or without a Java for it."""
    for module in ("pyspark", "pyarrow", "pandas"):
        pytest.importorskip(module, reason=f"needs the extra `spark` ({module})")
    try:
        prepare()
    except JavaError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    needs_spark()
    from pyspark_amqp.session import session

    home = tmp_path_factory.mktemp("spark")
    options = {
        "spark.master": "local[1,4]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        JAVA_OPTIONS: f"{LOCAL[JAVA_OPTIONS]} {QUICK} -Dderby.system.home={home}",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home),
    }
    found = session("tests", **options)
    yield found
    found.stop()
