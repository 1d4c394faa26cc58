"""schemathesis against a running gateway: every check on every route, no failures.

What JSON Schema cannot say is allowed per operation in ``schemathesis.toml``, with its reason.
As it is, this draws the same few requests each time; ``THOROUGH=1``, and nothing less, adds those
that cover each rule of each schema. ``FUZZ=1`` draws many, others each time, and says of which
seed; ``FUZZ=1 FUZZ_SEED=n`` draws them again.
"""

import contextlib
import importlib.util
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.drawing import SHARE
from tests.interop import servers

HERE = Path(__file__).parent
ADMIN = "^/(v1/admin|problems|asyncapi|livez|readyz|startupz|metrics)"
RABBITMQ = "^/api/"
REST = r"^/(v1/(\{|capabilities|connections|session|stream-tickets)|\.well-known)"
ROUTE = """
[[routes]]
name = "prices"
exchange = "shop"
key = "{market}"
stream = true
"""
GROUPS = {"admin": ADMIN, "rabbitmq": RABBITMQ, "rest": REST}
LONG = "FUZZ" in os.environ
COVERS = SHARE >= 1
PHASES = "examples,coverage,fuzzing" if LONG or COVERS else "examples,fuzzing"
DRAWING = (
    ["--max-examples", "60", "--seed", os.environ.get("FUZZ_SEED", str(random.getrandbits(32)))]
    if LONG
    else [
        "--max-examples",
        "5" if COVERS else "2",
        "--seed",
        "1",
        "--generation-deterministic",
        "--no-shrink",
    ]
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900 if LONG else 700),
    pytest.mark.skipif(
        importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed"
    ),
]


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Server]:
    # Wrong credentials are among what is tried, far more often than a guesser may.
    monkeypatch.setenv("AMQP_GATEWAY_HTTP__FAILURES", "10000000")
    file = tmp_path / "gateway.toml"
    file.write_text(ROUTE)
    server = servers.start_gateway(tmp_path, extra=["--config", str(file)])
    base = f"http://127.0.0.1:{server.http_port}/v1/admin"
    with httpx.Client(auth=("guest", "guest"), timeout=60) as http:
        for path in ("queues/orders", "exchanges/shop"):
            assert http.put(f"{base}/vhosts/%2F/{path}").status_code == 201
        # Who fuzzes may change any user it hears of; it never hears of its own password.
        user = {"password": "fuzzer", "tags": ["administrator"]}
        assert http.put(f"{base}/users/fuzzer", json=user).status_code == 201
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        put = http.put(f"{base}/users/fuzzer/permissions/%2F", json=rights)
        assert put.status_code == 201
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(server.http_port, stop))
    feeder.start()
    try:
        yield server
        assert server.alive, server.tail()
    finally:
        stop.set()
        feeder.join()
        server.stop()


def feed(port: int | None, stop: threading.Event) -> None:
    """Who waits for a message gets one: what is tried must not wait a minute each time."""
    path = f"http://127.0.0.1:{port}/v1/%2F/queues/orders/messages"
    with httpx.Client(auth=("fuzzer", "fuzzer"), timeout=30) as http:
        while not stop.wait(0.1):
            with contextlib.suppress(httpx.HTTPError):
                for _ in range(5):
                    http.post(path, json={"order": 17}, headers={"amqp-subject": '"eur.1"'})


def test_every_route_is_in_a_group(gateway: servers.Server) -> None:
    with httpx.Client(auth=("fuzzer", "fuzzer"), timeout=60) as http:
        document = http.get(f"http://127.0.0.1:{gateway.http_port}/openapi.json").json()
    for path in document["paths"]:
        assert sum(bool(re.search(routes, path)) for routes in GROUPS.values()) == 1, path


@pytest.mark.parametrize("group", GROUPS)
def test_every_route_keeps_its_word(gateway: servers.Server, group: str, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{gateway.http_port}"
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(HERE / "schemathesis.toml"), "run", f"{base}/openapi.json"]
    command += ["--url", base, "--auth", "fuzzer:fuzzer", "--checks", "all"]
    command += ["--phases", PHASES, "--include-path-regex", GROUPS[group]]
    command += ["--continue-on-failure", "--no-color", "--request-timeout", "65", *DRAWING]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.fuzz_hooks"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(servers.ROOT)},
        capture_output=True,
        text=True,
        timeout=850 if LONG else 650,
    )
    lines = [line[:400] for line in done.stdout.splitlines() if line]
    assert done.returncode == 0, "\n".join(lines[-400:]) + done.stderr[-2000:]
    assert "generated" in done.stdout
    log = gateway.tail(1_000_000)
    assert "Traceback" not in log, log[-8000:]
