"""The journal of a gateway as a source of PySpark: ``spark.read.format("amqp")``, and jobs with it.

Spark finds this module by its name, which begins with ``pyspark_``, and ``DefaultSource`` in it.
``register(spark)`` does the same by hand, for an environment in which another module of that kind
cannot be imported. pyspark is imported when one of the names is used: the help of the jobs, and
those that can work without Spark, do not wait for it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_amqp.source import AmqpDataSource

    DefaultSource = AmqpDataSource

__all__ = ["AmqpDataSource", "DefaultSource", "register"]


def __getattr__(name: str) -> Any:
    if name in ("AmqpDataSource", "DefaultSource"):
        from pyspark_amqp.source import AmqpDataSource

        return AmqpDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Make the format ``amqp`` known to a session."""
    from pyspark_amqp.source import AmqpDataSource

    spark.dataSource.register(AmqpDataSource)
