"""The job ``report`` on known traffic: counts are those that were made by hand."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from gateway.journal.canonical import LOSSY, is_sampled
from gateway.journal.entries import Publisher
from gateway.values import Scaled
from pyspark_amqp.__main__ import app
from pyspark_amqp.jobs.inputs import Inputs
from pyspark_amqp.jobs.report import counted, rows_of
from pyspark_amqp.readiness.counts import flows_of
from pyspark_amqp.readiness.document import Document, document_of
from pyspark_amqp.readiness.weighing import Weights
from tests.pipeline.traffic import Sent, entries_of, write_entries

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]

SHOP = Publisher("amqp-0-9-1", "shop", "1", "shop-4711", "pika", "1.3.2")
SHOP_AGAIN = Publisher("amqp-0-9-1", "shop", "2", "shop-4712", "pika", "1.3.2")
MODERN = Publisher("amqp-1.0", "iot", "3", "sensors", "azure-uamqp", "1.6")
WEB = Publisher("http", "web", "4")
DECIMAL = {"application": {"price": Scaled(2, 5)}}
LONG = 40


def traffic() -> list[Sent]:
    """140 messages in three hours. Sizes of those to ``/queues/orders`` are all different."""
    found = [Sent(SHOP, "/queues/orders", n % 3, 7 * n + 1) for n in range(50)]
    found += [Sent(SHOP_AGAIN, "/exchanges/bills", 0, 100, {"app_id": "a"}) for _ in range(20)]
    found += [Sent(SHOP, "/exchanges/bills", 1, 100, DECIMAL) for _ in range(LONG)]
    found += [Sent(MODERN, "/queues/orders", 2, 5000, {"priority": 7}) for _ in range(20)]
    found += [Sent(WEB, "/queues/orders", 2, 0, vhost="other") for _ in range(10)]
    return found


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An entry was in the store as many milliseconds as its position has."""
    entries = [one._replace(written=one.stamp + 1 + one.pos) for one in entries_of(traffic())]
    return write_entries(tmp_path_factory.mktemp("traffic") / "journal", entries, 60)


def by(rows: list[Document], key: str) -> dict[str, int]:
    return {one[key]: one["messages"] for one in rows}


def document(spark: Any, inputs: Inputs, share: float = 1.0) -> Document:
    found = flows_of(counted(rows_of(inputs, spark, share)))
    return document_of(found, Weights("artemis"), share, "auto")


def exact(sizes: list[int], share: float) -> int:
    return sorted(sizes)[max(1, math.ceil(share * len(sizes))) - 1]


def test_counts_equal_those_by_hand(spark: Any, journal: Path) -> None:
    found = document(spark, Inputs(journal=str(journal)))
    assert found["total"]["messages"] == 140
    assert found["total"]["octets"] == sum(one.size for one in traffic())
    assert by(found["protocols"], "protocol") == {"amqp-0-9-1": 110, "amqp-1.0": 20, "http": 10}
    assert by(found["clients"], "client") == {
        "shop-*, pika 1.3.2": 110, "sensors, azure-uamqp 1.6": 20, "(unknown)": 10,
    }  # fmt: skip
    assert by(found["users"], "user") == {"shop": 110, "iot": 20, "web": 10}
    assert by(found["addresses"], "address") == {
        "/queues/orders": 70, "/exchanges/bills": 60, "/queues/orders in other": 10,
    }  # fmt: skip
    assert by(found["features"], "feature") == {
        "version-0-9-1": 110, "version-1.0": 20, "app-id": 20, "header-decimal": LONG,
        "priority": 20,
    }  # fmt: skip
    assert {(one["address"], one["feature"]): one["messages"] for one in found["usage"]} == {
        ("/exchanges/bills", "app-id"): 20, ("/exchanges/bills", "header-decimal"): LONG,
        ("/queues/orders", "priority"): 20,
    }  # fmt: skip
    assert [(one["property"], one["messages"], one["seen"]) for one in found["losses"]] == [
        ("headers.price", LONG, LONG)
    ]
    hours = Counter(one.hour for one in traffic() if one.publisher.protocol == "amqp-0-9-1")
    assert found["trend"]["protocols"]["amqp-0-9-1"] == [hours[at] for at in range(3)]
    assert found["first"] == "2026-11-22T00:00:00+00:00"
    assert found["last"].startswith("2026-11-22T02:00:00")
    assert found["sample"] == {"share": 1.0, "looked": 140, "of": 140}
    (store,) = found["hops"]
    assert (store["hop"], store["messages"]) == ("store", 140)
    for name, share in (("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99)):
        wanted = 1000 * exact(list(range(1, 141)), share)
        assert abs(store[name] - wanted) <= 0.02 * wanted, name
    assert {name: one["messages"] for name, one in found["readiness"].items()} == {
        "none": 30, "minor": 110, "major": 0, "blocking": 0,
    }  # fmt: skip
    orders = next(one for one in found["addresses"] if one["address"] == "/queues/orders")
    sizes = [one.size for one in traffic() if one.address.endswith("orders") and one.vhost == "/"]
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        wanted = exact(sizes, share)
        assert abs(orders[name] - wanted) <= 0.02 * wanted, name
    assert orders["largest"] == max(sizes)


def test_a_sample_is_scaled_and_said_to_be_one(spark: Any, journal: Path) -> None:
    """Only losses are estimated: what was looked at is known, and told."""
    found = document(spark, Inputs(journal=str(journal)), 0.5)
    sent = traffic()
    looked = [one for pos, one in enumerate(sent) if is_sampled(pos, 0.5)]
    seen = sum(one.given == DECIMAL for one in looked)
    assert 0 < len(looked) < len(sent)
    assert found["sample"] == {"share": 0.5, "looked": len(looked), "of": 140}
    (loss,) = found["losses"]
    assert loss["seen"] == seen
    bills = [one for one in sent if one.address == "/exchanges/bills"]
    among = sum(one.address == "/exchanges/bills" for one in looked)
    assert loss["messages"] == round(seen * len(bills) / among)
    assert by(found["protocols"], "protocol") == {"amqp-0-9-1": 110, "amqp-1.0": 20, "http": 10}


def test_an_archive_without_findings(spark: Any, journal: Path, tmp_path: Path) -> None:
    """Features and losses of rows that have only ``amqp10`` are found in executors."""
    rows = spark.read.format("amqp").options(journal=str(journal)).load()
    rows.drop("features", LOSSY).write.parquet(str(tmp_path / "archive"))
    one, other = (
        document(spark, given)
        for given in (Inputs(journal=str(journal)), Inputs(parquet=str(tmp_path / "archive")))
    )
    assert other == one


def test_hops_of_an_archive(spark: Any, journal: Path) -> None:
    """Of others than this journal; a hop without an end is not counted."""
    from pyspark.sql import functions as f

    frame = rows_of(Inputs(journal=str(journal)), spark, 0.0)
    enter = f.col("pos") * 1000
    hops = f.array(
        f.struct(
            f.lit("old").alias("hop"), enter.alias("enter_us"),
            (enter + f.col("pos") + 1).alias("leave_us"),
        ),
        f.struct(
            f.lit("out").alias("hop"), enter.alias("enter_us"),
            f.lit(None).cast("bigint").alias("leave_us"),
        ),
    )  # fmt: skip
    found = document_of(
        flows_of(counted(frame.withColumn("hops", hops))), Weights("artemis"), 0.0, "day"
    )
    (old,) = found["hops"]
    assert (old["hop"], old["messages"]) == ("old", 140)
    assert abs(old["p99_us"] - exact(list(range(1, 141)), 0.99)) <= 0.02 * 139
    assert found["losses"] == []
    assert found["sample"]["looked"] == 0
    assert found["trend"]["protocols"]["http"] == [10]


def test_command(spark: Any, journal: Path, tmp_path: Path) -> None:
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    arguments = ["report", "--journal", str(journal), "--target", "rabbitmq-4", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--html", str(page), "--csv", str(tables)])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["target_title"] == "RabbitMQ 4 over AMQP 1.0"
    assert found["total"]["messages"] == 140
    assert page.read_text().startswith("<!doctype html>")
    lines = (tables / "clients.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith('"shop-*, pika 1.3.2",shop-*,pika,1.3.2,shop,amqp-0-9-1,110,')
    result = CliRunner().invoke(app, ["report", "--journal", str(journal), "--target", "no"])
    assert result.exit_code == 2
    assert "--target: one of" in result.stderr
