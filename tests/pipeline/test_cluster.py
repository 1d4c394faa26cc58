"""A master and two workers as processes, started by the commands of docker-compose.yml."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")

import pyarrow.parquet as parquet
import pyspark
from deltalake import DeltaTable

from tests.interop.servers import HOST, ROOT, answers, free_ports
from tests.net.running import Running, until
from tests.pipeline.conftest import QUICK, needs_spark
from tests.pipeline.test_source import Filled

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.timeout(800)]

HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
PATIENCE = 240.0
COMPOSE = (ROOT / "docker-compose.yml").read_text()


def command_of(service: str, key: str = "command") -> list[str]:
    """The command that docker-compose.yml starts a service with."""
    own = re.search(rf"^  {service}:.*?(?=^  \S|^\S)", COMPOSE, re.DOTALL | re.MULTILINE)
    assert own is not None, service
    found = re.search(rf"^    {key}: (\[.*\])$", own[0], re.MULTILINE)
    assert found is not None, own[0]
    words: list[str] = json.loads(found[1])
    return words


class Driver:
    """A job that was submitted, and where its output and its log are."""

    process: subprocess.Popen[bytes]

    def __init__(self, place: Path) -> None:
        self.printed, self.log = place.with_suffix(".out"), place.with_suffix(".log")

    def begun(self, marks: Path) -> bool:
        """Whether a task has rows, or the driver has ended."""
        return self.process.poll() is not None or any(marks.glob("*"))

    def ended(self) -> str:
        """What it printed."""
        assert self.process.wait(300) == 0, self.log.read_text()[-5000:]
        return self.printed.read_text()


class Cluster:
    """Everything on loopback. Where it is: ``url``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.url = f"spark://{HOST}:{self.port}"
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            self.start("spark-master")
            until(lambda: answers(self.port), "master", PATIENCE)
            for number in (1, 2):
                name = f"worker-{number}"
                self.start("spark-worker-1", f"--host={HOST}", work_dir=str(folder / name))
            log = folder / "spark-master-0.log"
            until(lambda: log.read_text().count("Registering worker") == 2, "workers", PATIENCE)
        except BaseException:
            self.close()
            raise

    def start(self, service: str, *more: str, work_dir: str = "") -> None:
        program, module, *words = command_of(service)
        places = {
            "spark://spark-master:7077": self.url, "spark-master": HOST, "7077": str(self.port),
            "8080": "0", "/tmp/spark": work_dir,
        }  # fmt: skip
        arguments = [places.get(word, word) for word in words]
        for one in more:
            arguments[:0] = one.split("=")
        if service == "spark-worker-1":
            arguments[:0] = ["--webui-port", "0"]
        log = self.folder / f"{service}-{len(self.processes)}.log"
        with log.open("wb") as sink:
            self.processes.append(
                subprocess.Popen(
                    [str(HOME / "bin" / program), module, *arguments],
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                )  # fmt: skip
            )

    def submit(self, program: Path, *arguments: object) -> "Driver":
        """Start a driver, by the command of docker-compose.yml."""
        given = [self.url if word.startswith("spark://") else word for word in self.submitting()]
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.shuffle.partitions": "2",
        }
        words = [str(HOME / "bin" / given[0]), *given[1:-1]]
        words += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        driver = Driver(self.folder / f"driver-{len(self.processes)}")
        with driver.printed.open("wb") as out, driver.log.open("wb") as log:
            driver.process = subprocess.Popen(
                [*words, str(program), *map(str, arguments)], env=self.environment,
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
            )  # fmt: skip
        self.processes.append(driver.process)
        return driver

    @staticmethod
    def submitting() -> list[str]:
        return command_of("pipeline", "entrypoint")

    def executors(self) -> list[psutil.Process]:
        found = []
        for one in self.processes:
            with suppress(psutil.Error):
                for child in psutil.Process(one.pid).children(recursive=True):
                    with suppress(psutil.Error):
                        if any(EXECUTOR in word for word in child.cmdline()):
                            found.append(child)
        return found

    def close(self) -> None:
        """Stop all, with what they have started."""
        family: list[psutil.Process] = []
        for one in self.processes:
            with suppress(psutil.Error):
                process = psutil.Process(one.pid)
                family += [process, *process.children(recursive=True)]
        for process in family:
            with suppress(psutil.Error):
                process.kill()
        for one in self.processes:
            one.wait()
        _, left = psutil.wait_procs(family, timeout=30)
        assert left == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_spark()
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.close()


def test_executors_are_killed_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    """Over a directory that all share, and over a gateway; no row is missing or there twice."""
    filled = Filled(tmp_path / "data")
    filled.fill(0, 20)
    filled.seal()
    secret = tmp_path / "password"
    secret.write_text("guest\n")
    with Running(tmp_path / "gateway", journal__recording="[{}]") as gateway:
        wire = gateway.wire(1)
        wire.declare("orders", durable=True)
        for number in range(12):
            wire.publish("orders", b"over http %d" % number)
        wire.declare("orders", durable=True)  # answered after what was published
        base = f"http://{HOST}:{gateway.http_port}"
        marks = tmp_path / "marks"
        driver = cluster.submit(
            ROOT / "tests" / "pipeline" / "on_cluster.py",
            marks, filled.folder / "journal", base, secret,
        )  # fmt: skip
        for name in ("gateway", "journal"):
            until(partial(driver.begun, marks / name), name, PATIENCE)
        victims = cluster.executors()
        assert driver.process.poll() is None and len(victims) == 2, driver.ended()
        for victim in victims:
            victim.kill()
        psutil.wait_procs(victims, timeout=30)
        for name in ("gateway", "journal"):
            (marks / name / "go").touch()
        shown = json.loads(driver.ended().splitlines()[-1])
    assert shown["master"] == cluster.url
    recorded = [
        ["gateway", n, "/queues/orders", None, digest(b"over http %d" % n)] for n in range(12)
    ]
    kept = [
        ["journal", n, f"/queues/{'more' if n % 2 else 'orders'}", f"m-{n}", digest(b"body %d" % n)]
        for n in range(20)
    ]
    assert shown["rows"] == recorded + kept


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


@pytest.mark.long  # drivers are submitted above, too
def test_a_job_is_submitted(cluster: Cluster, tmp_path: Path) -> None:
    """By the program that docker-compose.yml names: executors write the table."""
    program = cluster.submitting()[-1]
    assert program.startswith("/src/")
    filled = Filled(tmp_path / "data")
    filled.fill(0, 20)
    filled.seal()
    table = tmp_path / "landed"
    driver = cluster.submit(
        ROOT / program.removeprefix("/src/"),
        "land", "--journal", filled.folder / "journal", "--table", table, "--once", "--json",
    )  # fmt: skip
    assert json.loads(driver.ended())["rows"] == 20
    found = [
        row
        for file in DeltaTable(table).file_uris()
        for row in parquet.ParquetFile(file).read(columns=["pos", "body"]).to_pylist()
    ]
    assert sorted((row["pos"], row["body"]) for row in found) == [
        (number, b"body %d" % number) for number in range(20)
    ]


def test_compose_has_what_is_tested() -> None:
    """The image has what a job is run with, and all see the same directories."""
    image = (ROOT / "Dockerfile").read_text().partition(" AS spark")[2].partition("\nFROM")[0]
    assert '"/src[spark]"' in image and "openjdk-17" in image
    assert "COPY pyspark_amqp /src/pyspark_amqp" in (ROOT / "Dockerfile").read_text()
    for service in ("spark-gateway", "spark-master", "spark-worker-1", "spark-worker-2"):
        assert f"\n  {service}:" in COMPOSE
    spark = COMPOSE.partition("  spark-gateway:")[2]
    assert spark.count('"shared:/shared"') == 3
    assert "AMQP_GATEWAY_JOURNAL__DIRECTORY: /shared/journal" in spark
    assert "/shared/journal" in image
    assert command_of("spark-gateway")[:2] == ["amqp-gateway", "serve"]
