"""Import over HTTP: a file in, definitions applied, findings out."""

import asyncio
import json
from typing import Any

import pytest

from tests.importing.samples import document

ADMIN = "guest:guest"
PATH = "/v1/admin/import"


@pytest.mark.parametrize(
    ("file", "format", "queues"),
    [("broker-j-host.json", "broker-j", 6), ("artemis.xml", "artemis", 8),
     ("qpid-config.txt", "qpid-cpp", 3), ("qmf.json", "qpid-cpp", 1)],
)  # fmt: skip
async def test_dry_and_applied(rig: Any, file: str, format: str, queues: int) -> None:
    """What a dry run shows is what is applied; a second import finds it as it is."""
    octets = document(file).octets
    async with rig.http(ADMIN) as http:
        dry = (await http.post(PATH, params={"dry-run": "true"}, content=octets)).json()
        assert (dry["format"], dry["applied"]) == (format, None)
        assert len(dry["definitions"]["queues"]) == queues
        seen = len((await http.get("/api/queues")).json())
        assert seen == 0
        for _ in range(2):
            answer = await http.post(PATH, params={"from": format}, content=octets)
            told = answer.json()
            assert (answer.status_code, told["definitions"]) == (200, None)
            assert told["findings"] == dry["findings"]
            assert told["applied"]["not_applied"] == []
            assert told["applied"]["queues"] == queues
            assert told["applied"]["bindings"] == len(dry["definitions"]["bindings"])
        exported = (await http.get("/api/definitions")).json()
        for kind in ("queues", "exchanges", "bindings", "policies"):
            mine = {repr(normal(one)) for one in exported[kind]}
            assert {repr(normal(one)) for one in dry["definitions"][kind]} <= mine


def normal(one: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted((key, repr(value)) for key, value in one.items())


async def test_where_it_goes(rig: Any) -> None:
    octets = document("qpid-config.txt").octets
    async with rig.http(ADMIN) as http:
        await http.post(PATH, params={"vhost": "old"}, content=octets)
        assert len((await http.get("/api/queues/old")).json()) == 3


async def test_definitions_of_rabbitmq_too(rig: Any) -> None:
    given = {"queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}]}
    async with rig.http(ADMIN) as http:
        told = (await http.post(PATH, content=json.dumps(given))).json()
        assert (told["format"], told["applied"]["queues"]) == ("rabbitmq", 1)


@pytest.mark.parametrize(
    ("content", "query"),
    [
        (b"", {}), (b"hello", {}), (b"{", {}), (b"<!DOCTYPE a><a/>", {}), (b"[" * 9999, {}),
        (b"{}", {"from": "artemis"}), (b"{}", {"from": "odd"}), (b"{}", {"dry-run": "x"}),
        (b"{}", {"odd": "1"}), (b'{"queues": 5}', {}), (b'{"queues": [{"name": 5}]}', {}),
    ],
)  # fmt: skip
async def test_refused(rig: Any, content: bytes, query: dict[str, str]) -> None:
    async with rig.http(ADMIN) as http:
        answer = await http.post(PATH, params=query, content=content)
        assert answer.status_code == 400, answer.text
        assert answer.json()["detail"]


async def test_only_administrators_and_no_more_than_a_body(rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        await http.put("/api/users/m", json={"password": "m", "tags": "monitoring"})
        most = rig.dependencies.settings.max_body_octets
        assert (await http.post(PATH, content=b" " * (most + 1))).status_code == 413
    async with rig.http("m:m") as http:
        assert (await http.post(PATH, content=b"{}")).status_code == 403


async def test_many_queues_in_portions(rig: Any) -> None:
    """Others are served while it goes on."""
    count = 3000
    lines = "".join(f"queue-{number}  --durable --max-queue-count=5\n" for number in range(count))
    turns = 0
    done = asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    async with rig.http(ADMIN) as http:
        watcher = asyncio.create_task(others())
        try:
            told = (await http.post(PATH, content=f"Queue Name  Attributes\n{lines}")).json()
        finally:
            done.set()
            await watcher
    assert told["applied"]["queues"] == count
    assert turns > count // 100
