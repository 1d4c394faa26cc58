"""One process that lands a journal: ``python -m tests.pipeline.landing_driver SETTINGS``, JSON with
options of the source and of the target. Its commits have the faults of ``FaultySource``."""

import json
import sys
from pathlib import Path

from pyspark_amqp.jobs.land import Target, columns_of, land, start_of, stream, writing
from pyspark_amqp.session import session
from tests.pipeline.faulty import FaultySource


def main() -> None:
    given = json.loads(sys.argv[1])
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session("land", **{"spark.driver.extraJavaOptions": quick})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FaultySource)
    target = Target(Path(given["table"]), True, "c", Path(given["checkpoint"]))
    options = dict(given["source"])
    begin = start_of(options, target) if given.get("resume") else None
    if begin is not None:
        options["startingOffsets"] = begin
    frame = land(stream(spark, options, columns_of(given["columns"])))
    writer = writing(frame, target).format("amqp_faulty")
    every = given.get("every")
    chosen = {"processingTime": every} if every else {"availableNow": True}
    query = writer.trigger(**chosen).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
