"""HTTP clients that offer HTTP/2 with each request: their messages arrive whole."""

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.interop import peers
from tests.interop.servers import Server

CLIENT = Path(__file__).parent / "clients" / "HttpPublisher.java"


def messages_path(queue: str) -> str:
    return f"/v1/%2F/queues/{queue}/messages"


def published(gateway: Server, queue: str, command: list[str]) -> tuple[list[str], list[str]]:
    """The statuses that the command prints, and the bodies in the queue."""
    base = f"http://{gateway.host}:{gateway.http_port}"
    with httpx.Client(base_url=base, auth=("guest", "guest"), timeout=60) as http:
        assert http.put(f"/api/queues/%2F/{queue}", json={}).status_code == 201
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        asked = {"count": 100, "ackmode": "ack_requeue_false", "encoding": "auto"}
        got = http.post(f"/api/queues/%2F/{queue}/get", json=asked).json()
        assert http.delete(f"/api/queues/%2F/{queue}").status_code == 204
    return done.stdout.split(), [one["payload"] for one in got]


@pytest.mark.interop
def test_curl(gateway: Server) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    url = f"http://{gateway.host}:{gateway.http_port}{messages_path('curled')}"
    command = ["curl"]
    for n in range(3):
        command += ["--next"] if n else []
        command += ["-s", "-o", "/dev/null", "-w", "%{http_code}\n", "-u", "guest:guest"]
        command += ["--http2", "--data-binary", f"curl {n}", url]
    statuses, bodies = published(gateway, "curled", command)
    assert statuses == ["201"] * 3 and bodies == [f"curl {n}" for n in range(3)]


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_java(gateway: Server, tmp_path: Path) -> None:
    if (missing := peers.java_missing()) is not None:
        pytest.skip(missing)
    path = messages_path("javanese")
    command = ["java", str(CLIENT), gateway.host, str(gateway.http_port), path]
    statuses, bodies = published(gateway, "javanese", command)
    assert statuses == ["201"] * 5 and bodies == [f"java {n}" for n in range(5)]
