"""Requests that come before FastAPI and the modules of its routes are loaded."""

import asyncio
import threading
from typing import Any

import pytest

from gateway.http import app

QUEUE = "/v1/%2F/queues/orders/messages"


async def test_probes_and_publishes_are_answered_and_others_wait(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    import_routes = app.import_routes
    imports: list[int] = []

    def slowly() -> Any:
        imports.append(1)
        assert go_on.wait(60)
        return import_routes()

    monkeypatch.setattr(app, "import_routes", slowly)
    rig = make_rig()
    rig.queue("orders")
    async with rig.http() as http:
        early = [asyncio.create_task(http.get("/v1/%2F/queues")) for _ in range(3)]
        try:
            await rig.until(lambda: imports)
            for path, status in (("/livez", "live"), ("/readyz", "ready"), ("/startupz", "ready")):
                answer = await http.get(path)
                assert (answer.status_code, answer.json()["status"]) == (200, status)
            assert (await http.post(QUEUE, content=b"x")).status_code == 201
            lines = {"content-type": "application/x-ndjson"}
            assert (await http.post(QUEUE, content=b"", headers=lines)).status_code < 500
            assert not any(one.done() for one in early)
        finally:
            go_on.set()
        for answer in await asyncio.gather(*early):
            assert [one["name"] for one in answer.json()["queues"]] == ["orders"]
    assert imports == [1, 1], "once by a thread, and once to make the routes"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/startupz"])
async def test_probes_say_the_same_with_and_without_routes(rig: Any, path: str) -> None:
    for ready in (True, False):
        rig.ready["store"] = ready
        async with rig.http(None) as http:
            await http.get("/startupz")  # a success is remembered
            found = []
            for query in ("", "?canary=false"):
                answer = await http.get(path + query)
                document = answer.json()
                document.pop("publish_ms", None)
                headers = {
                    name: value
                    for name, value in answer.headers.items()
                    if name not in ("x-request-id", "content-length")
                }
                found.append((answer.status_code, document, headers))
        assert found[0] == found[1]


async def test_a_gateway_that_stops_waits_for_the_routes(make_rig: Any) -> None:
    """What they end when the gateway stops is known when they are made."""
    rig = make_rig()
    load = asyncio.create_task(rig.app.load())
    await asyncio.sleep(0)
    await app.close(rig.app)
    assert load.done()
    assert rig.app.state.context.closers


async def test_a_load_that_fails_is_tried_again(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process had too many open files for a moment."""
    import_routes = app.import_routes
    failures = [OSError(24, "Too many open files")]

    def once_in_vain() -> Any:
        if failures:
            raise failures.pop()
        return import_routes()

    monkeypatch.setattr(app, "import_routes", once_in_vain)
    rig = make_rig()
    async with rig.http() as http:
        assert (await http.get("/v1/%2F/queues")).status_code == 500
        assert (await http.get("/v1/%2F/queues")).status_code == 200
