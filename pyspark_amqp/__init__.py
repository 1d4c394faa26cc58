"""The journal of a gateway as a source of PySpark: ``spark.read.format("amqp")``.

Spark finds this module by its name, which begins with ``pyspark_``, and ``DefaultSource`` in it.
``register(spark)`` does the same by hand, for an environment in which another module of that kind
cannot be imported.
"""

from typing import TYPE_CHECKING

from pyspark_amqp.source import AmqpDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AmqpDataSource", "DefaultSource", "register"]

DefaultSource = AmqpDataSource


def register(spark: "SparkSession") -> None:
    """Make the format ``amqp`` known to a session."""
    spark.dataSource.register(AmqpDataSource)
