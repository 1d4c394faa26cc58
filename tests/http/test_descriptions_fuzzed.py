"""schemathesis against a running gateway: every check on every route, no failures.

What JSON Schema cannot say is allowed per operation in ``schemathesis.toml``, with its reason.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.interop import servers

HERE = Path(__file__).parent
ADMIN = "^/(v1/admin|problems|asyncapi|livez|readyz|startupz|metrics)"
RABBITMQ = "^/api/"
REST = r"^/(v1/(\{|connections|session|stream-tickets)|\.well-known)"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        "FUZZ" not in os.environ,
        reason="draws at random from a live gateway, so it is for people: FUZZ=1 runs it",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed"
    ),
]


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Server]:
    # Wrong credentials are among what is tried, far more often than a guesser may.
    monkeypatch.setenv("AMQP_GATEWAY_HTTP__FAILURES", "10000000")
    server = servers.start_gateway(tmp_path)
    base = f"http://127.0.0.1:{server.http_port}/v1/admin"
    with httpx.Client(auth=("guest", "guest")) as http:
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


@pytest.mark.parametrize("routes", [ADMIN, RABBITMQ, REST], ids=["admin", "rabbitmq", "rest"])
def test_every_route_keeps_its_word(gateway: servers.Server, routes: str, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{gateway.http_port}"
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(HERE / "schemathesis.toml"), "run", f"{base}/openapi.json"]
    command += ["--url", base, "--auth", "fuzzer:fuzzer", "--checks", "all"]
    command += ["--phases", "examples,coverage,fuzzing", "--include-path-regex", routes]
    command += ["--max-examples", "20", "--continue-on-failure", "--no-color"]
    command += ["--request-timeout", "65", "--seed", "1"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.fuzz_hooks"}
    done = subprocess.run(
        command,
        cwd=servers.ROOT,
        env=environment | {"PYTHONPATH": str(servers.ROOT)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    lines = [line[:400] for line in done.stdout.splitlines() if line]
    assert done.returncode == 0, "\n".join(lines[-400:]) + done.stderr[-2000:]
    assert "generated" in done.stdout
    log = gateway.tail(1_000_000)
    assert "Traceback" not in log, log[-8000:]
