"""The garbage collector stops everything while it looks at objects: never at many together."""

import re
from pathlib import Path

import httpx

from tests.net.collected import COUNTED
from tests.net.running import PATIENCE, Running

COUNT = 8000
MOST = 50_000


class Collected(Running):
    module = "tests.net.collected"


def test_an_import_is_not_collected_in_one_go(tmp_path: Path) -> None:
    queues = [
        {"name": f"q{n}", "vhost": "/", "durable": True, "arguments": {}} for n in range(COUNT)
    ]
    bindings = [
        {"source": "amq.direct", "vhost": "/", "destination": f"q{n}", "destination_type": "queue"}
        for n in range(COUNT)
    ]
    with Collected(tmp_path) as gateway:
        answer = httpx.post(
            f"http://127.0.0.1:{gateway.http_port}/v1/admin/definitions",
            json={"queues": queues, "bindings": bindings},
            auth=("guest", "guest"),
            timeout=PATIENCE,
        )
        done = answer.raise_for_status().json()
        assert (done["queues"], done["bindings"]) == (COUNT, COUNT)
        counts = [int(found) for found in re.findall(COUNTED + r"(\d+)", gateway.log())]
    assert counts, "the collector is on"
    assert max(counts) <= MOST
