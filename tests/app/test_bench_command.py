"""The command ``bench``: what it counts, not how fast anything is."""

import json
from pathlib import Path

import pytest

from gateway.bench import percentiles
from tests.app.test_cli import refused, run
from tests.net.running import Running


def test_a_load_in_several_versions(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        where = f"amqp://127.0.0.1:{gateway.port}"
        for version, options in (
            ("0-8", ("--transient",)),
            ("0-9-1", ("--window", 7)),
            ("0-10", ("--size", 8)),
            ("1.0", ()),
        ):
            done = run("bench", where, "--version", version, "--count", 500, "--json", *options)
            assert done.returncode == 0, done
            told = json.loads(done.stdout)
            assert told["published"] == told["confirmed"] == told["consumed"] == 500
            assert told["refused"] == 0 and told["version"] == version
            for times in (told["confirm_ms"], told["delivery_ms"]):
                assert 0 < times["p50"] <= times["p95"] <= times["p99"] <= times["max"]
        done = run("bench", where, "--count", 10)
        assert done.returncode == 0 and "consumed" in done.stdout
        assert not [name for name in gateway.queues() if name.startswith("bench-")]

        refused(run("bench", where, "--version", "0-9-2"), "did you mean 0-9-1?")
        refused(run("bench", where, "--vhost", "none"), "vhost none not found")
        refused(run("bench", where, "--password", "none"), "refused")
        assert gateway.stop() == 0
    refused(run("bench", "amqp://127.0.0.1:1"), "127.0.0.1:1")
    refused(run("bench", "somewhere"), "amqp://host:port")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], {}),
        ([0.5], {"p50": 500, "p95": 500, "p99": 500, "max": 500}),
        ([one / 1000 for one in range(100)], {"p50": 50, "p95": 95, "p99": 99, "max": 99}),
    ],
)
def test_percentiles(values: list[float], wanted: dict[str, float]) -> None:
    assert percentiles(values[::-1]) == wanted
