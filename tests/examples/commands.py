"""Running a shown command, and publishing something for it to see."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx

from tests.interop.servers import HOST, ROOT, Server
from tests.net.commands import completed

SECONDS = 100
AUTH = ("guest", "guest")


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would change the commands' meaning."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AMQP_GATEWAY_") and not name.lower().endswith("_proxy")
    }
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def run(command: Sequence[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def gateway_command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return completed(arguments, environment(**more))


def base(server: Server) -> str:
    return f"http://{HOST}:{server.http_port}"


@contextmanager
def publishing(server: Server, key: str) -> Iterator[None]:
    """Meanwhile numbered messages go to amq.topic, several a second."""
    enough = threading.Event()

    def publish() -> None:
        with httpx.Client(base_url=base(server), auth=AUTH, trust_env=False, timeout=60) as client:
            number = 0
            while not enough.wait(0.05):
                client.post(
                    "/v1/%2F/exchanges/amq.topic/messages",
                    params={"routing_key": key},
                    headers={"Content-Type": "application/json"},
                    content=json.dumps({"number": number}),
                )
                number += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
