"""Publishers of a facade hear why its upstream, or the successor of that, takes nothing."""

import asyncio
from pathlib import Path

import pytest

from gateway.net.dialer import dial
from gateway.operations import BeginSession, Blocked
from tests.net.running import PATIENCE, Running

CONFIGURATION = """
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{old}"]
version = "0-9-1"

[[upstreams]]
name = "new"
addresses = ["amqp://127.0.0.1:{new}"]
version = "0-9-1"

[[facades]]
upstream = "old"
successor = "new"
"""
MORE_THAN_THERE_IS = 10**15


@pytest.mark.parametrize("short", ["old", "new"])
def test_a_broker_short_of_disk(short: str, tmp_path: Path) -> None:
    async def told(port: int) -> str:
        remote = await dial(("127.0.0.1", port), version="0-9-1")
        try:
            await remote.request(BeginSession(1, None))
            async with asyncio.timeout(PATIENCE):
                async for operation in remote:
                    assert isinstance(operation, Blocked), operation
                    return operation.reason
        finally:
            await remote.close()
        raise AssertionError("the connection ended")

    def octets(name: str) -> dict[str, int]:
        return {"limits__disk_free_octets": MORE_THAN_THERE_IS} if name == short else {}

    with (
        Running(tmp_path / "old", **octets("old")) as old,
        Running(tmp_path / "new", **octets("new")) as new,
    ):
        file = tmp_path / "gateway.toml"
        file.write_text(CONFIGURATION.format(old=old.port, new=new.port))
        with Running(tmp_path / "front", "--config", file) as front:
            assert asyncio.run(told(front.port)) == "low on disk"
