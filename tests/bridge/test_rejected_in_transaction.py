"""Our client of 1.0 commits no transaction with a message that the broker does not take."""

import asyncio
from pathlib import Path

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Refusal
from gateway.message import Message, Properties
from gateway.operations import Commit, DeclareQueue, Publish, Select
from tests.bridge.test_facade import depth, entered, message, run
from tests.net.running import Running, until


def too_large(key: str) -> Message:
    header = BASIC.write(Properties())
    return Message(BASIC, header, bytes(2000), "", key, BASIC.essentials(header))


def test_nothing_of_it_is_done(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("[amqp]\nmax_message_octets = 1000\n")

    async def use(broker: Running) -> None:
        maker = await entered(broker.port)
        await maker.request(DeclareQueue(1, None, "strict", durable=True))
        remote = await entered(broker.port, "1.0")
        await remote.request(Select(1, None))
        for one in (message(1, "strict"), too_large("strict"), message(2, "strict")):
            remote.send(Publish(1, one, False, False))
        with pytest.raises(Refusal):
            await remote.request(Commit(1, None))
        remote.send(Publish(1, message(3, "strict"), False, False))
        await remote.request(Commit(1, None))
        await asyncio.to_thread(until, lambda: depth(broker, "strict") == 1, "only the last")
        await remote.close()
        await maker.close()

    with Running(tmp_path, "--config", tmp_path / "gateway.toml") as broker:
        run(use(broker))
