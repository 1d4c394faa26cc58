"""The journal of a running gateway with PySpark: read it, report on it, replay it.

.venv/bin/pip install '.[spark,spark-jre]'
AMQP_GATEWAY_JOURNAL__RECORDING='[{}]' .venv/bin/amqp-gateway serve
.venv/bin/python examples/spark_tour.py [BASE-URL]

Each part between the lines ``# %%`` is a cell, for editors and notebooks that know them.
"""

# %% Something to look at: two queues, and an archive that the replay fills.
import sys
from uuid import uuid4

import httpx
from pyspark.sql import functions as f

from pyspark_amqp.jobs.inputs import ddl_of
from pyspark_amqp.jobs.report import COLUMNS, report
from pyspark_amqp.session import session

BASE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
USER, PASSWORD = "guest", "guest"
TOUR = f"tour-{uuid4().hex[:8]}"

with httpx.Client(base_url=BASE, auth=(USER, PASSWORD), timeout=60) as http:
    for name in ("orders", "bills", "again"):
        made = http.put(f"/v1/admin/vhosts/%2F/queues/{TOUR}-{name}")
        made.raise_for_status()
    for number in range(30):
        name = "bills" if number % 3 == 0 else "orders"
        sent = http.post(f"/v1/%2F/queues/{TOUR}-{name}/messages", json={"number": number})
        sent.raise_for_status()

# %% A session. Java is found, or comes from the extra spark-jre; the format is known by its name.
spark = session("tour")
gateway = {"gateway": BASE, "user": USER, "password": PASSWORD}
ours = {**gateway, "addresses": f"/queues/{TOUR}-*"}

# %% Read. A row is a message; name the columns that you need, and others are not made.
frame = spark.read.format("amqp").options(**ours).load()
print("messages by address:")
frame.groupBy("address", "protocol").agg(f.count("*").alias("messages")).orderBy("address").show(
    truncate=False
)
newest = frame.orderBy(f.desc("pos")).select("offset", f.decode("body", "utf-8").alias("body"))
newest.show(3, truncate=False)

# %% Report: who uses what, and what of it AMQP 1.0 cannot express. The job does the same with
# drawings: amqp-gateway pipeline report --html report.html …
rows = spark.read.format("amqp").options(**ours, sample="1").schema(ddl_of(COLUMNS)).load()
facts = report(rows)
print("who uses what:")
facts.where("kind = 'messages'").groupBy("address", "protocol", "user").agg(
    f.sum("messages").alias("messages"), f.sum("octets").alias("octets")
).orderBy("address").show(truncate=False)
print("what is lost on 1.0:", facts.where("kind = 'loss'").count())

# %% Replay: publish the orders once more, to another queue. A replay has a name; done twice, each
# message is there once.
orders = frame.where(f.col("address") == f"/queues/{TOUR}-orders")
for _ in range(2):
    writer = orders.write.format("amqp").mode("append")
    writer.options(**gateway, replayId=TOUR, target=f"/queues/{TOUR}-again").save()

with httpx.Client(base_url=BASE, auth=(USER, PASSWORD), timeout=60) as http:
    queue = http.get(f"/v1/admin/vhosts/%2F/queues/{TOUR}-again").raise_for_status().json()
    print("replayed:", queue["messages"])

# %% The end.
spark.stop()
