"""A streamed batch: receipts come while messages go, and not more is under way than allowed."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.http.app import close

QUEUE = "/v1/%2F/queues/kept/messages"
ANYWHERE = "/v1/%2F/messages"
LINES = {"content-type": "application/vnd.amqp-gateway.messages+ndjson"}


def lines(*found: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in found)


def receipts(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 207, answer.text
    assert answer.headers["content-type"] == "application/vnd.amqp-gateway.receipts+ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_receipt_per_line(rig: Any) -> None:
    rig.queue("kept")
    content = lines({"id": "a", "body": "1"}) + b"\r\n  \n" + lines({"durble": 1}) + b"{\n"
    content += b'{"body":"4"}'
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=content, headers=LINES)
    told = receipts(answer)
    assert [one["index"] for one in told] == [0, 1, 2, 3]
    assert [one["status"] for one in told] == [201, 422, 400, 201]
    assert told[0]["id"] == "a"
    assert told[1]["problem"]["safe_to_retry"] is False
    assert [rig.fetch("kept").body for _ in range(2)] == [b"1", b"4"]


async def test_stop_keys_and_order(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    found = [
        {"id": "a", "to": "kept", "durable": True, "body": "1", "ordering_key": "x"},
        {"to": "none", "ordering_key": "x"},
        {"to": "kept", "ordering_key": "x"},
        {"to": "kept", "durable": True, "body": "4"},
    ]
    headers = {**LINES, "Idempotency-Key": '"s"'}
    path = f"{ANYWHERE}?on_error=stop"
    async with rig.http() as http:
        first = receipts(await http.post(path, content=lines(*found), headers=headers))
        again = receipts(await http.post(path, content=lines(*found), headers=headers))
        assert [one["status"] for one in first] == [201, 404, 424, 201]
        assert [one.get("replayed") for one in again] == [True, None, None, True]
        wrong = await http.post(f"{ANYWHERE}?on_error=no", content=b"", headers=LINES)
        assert wrong.status_code == 400
        refused = await http.post(
            ANYWHERE, content=b"", headers={**LINES, "Content-Digest": "sha-256=:AAAA:"}
        )
        assert refused.status_code == 400
        early = await http.post("/v1/%2F/queues/none/messages", content=b"", headers=LINES)
        assert early.status_code == 404
    assert rig.depth("kept") == (2, 0)


async def test_a_line_without_end(make_rig: Any) -> None:
    rig = make_rig(max_batch_octets=1000)
    rig.queue("kept")

    async def endless() -> AsyncIterator[bytes]:
        yield lines({"body": "1"})
        while True:
            yield b"x" * 100

    async with rig.http() as http:
        answer = await http.post(QUEUE, content=endless(), headers=LINES)
    assert [one["status"] for one in receipts(answer)] == [201, 413]


class Connection:
    """A client that writes and reads as the test says."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        token = base64.b64encode(b"alice:wonder").decode()
        head = [
            f"POST {QUEUE} HTTP/1.1",
            "Host: gateway",
            "Transfer-Encoding: chunked",
            f"Authorization: Basic {token}",
            f"Content-Type: {LINES['content-type']}",
        ]
        self.writer.write("\r\n".join([*head, "", ""]).encode())

    def say(self, octets: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(octets), octets))

    def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)

    async def receipts(self) -> list[dict[str, Any]]:
        """Of the next chunk."""
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), 30), 16)
        octets = (await self.reader.readexactly(size + 2))[:-2]
        return [json.loads(line) for line in octets.splitlines()]


async def test_receipts_come_while_messages_go(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    async with rig.served() as port:
        wire = Connection(port)
        await wire.open()
        assert b"207" in await wire.head()
        for number in range(3):
            wire.say(lines({"durable": True, "body": str(number)}))
            (told,) = await wire.receipts()
            assert (told["index"], told["status"]) == (number, 201)
        wire.say(b'{"durable"')
        wire.say(b': true, "body": "split"}\n')
        (told,) = await wire.receipts()
        assert told["index"] == 3
        wire.end()
        assert await wire.receipts() == []
        wire.writer.close()
    assert rig.depth("kept") == (4, 0)


async def test_no_more_is_under_way_than_the_window(make_rig: Any) -> None:
    rig = make_rig(volatile=False, stream_window=10)
    rig.queue("kept", durable=True)
    rig.held = True
    async with rig.served() as port:
        wire = Connection(port)
        await wire.open()
        await wire.head()
        wire.say(lines(*({"durable": True, "body": str(n)} for n in range(100))))
        wire.end()
        await rig.until(lambda: rig.depth("kept") == (10, 0))
        await asyncio.sleep(0.05)
        assert rig.depth("kept") == (10, 0)
        rig.release()
        told: list[dict[str, Any]] = []
        while part := await wire.receipts():
            told += part
        wire.writer.close()
    assert [one["index"] for one in told] == list(range(100))
    assert all(one["status"] == 201 for one in told)


async def test_the_end_of_the_gateway_ends_streams_and_tells_of_all(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    async with rig.served() as port:
        wire = Connection(port)
        await wire.open()
        await wire.head()
        wire.say(lines(*({"durable": True, "body": str(n)} for n in range(3))))
        await rig.until(lambda: rig.depth("kept") == (3, 0))
        await close(rig.app)
        told: list[dict[str, Any]] = []
        while part := await wire.receipts():
            told += part
        assert [one["status"] for one in told] == [201, 201, 201, 503]
        assert told[-1]["problem"]["safe_to_retry"] is True
        wire.writer.close()


async def test_messages_sent_before_a_disconnect_stay(make_rig: Any) -> None:
    rig = make_rig(volatile=False, stream_window=10)
    rig.queue("kept", durable=True)
    async with rig.served() as port:
        wire = Connection(port)
        await wire.open()
        await wire.head()
        rig.held = True
        wire.say(lines(*({"durable": True, "body": str(n)} for n in range(100))))
        await rig.until(lambda: rig.depth("kept") == (10, 0))
        wire.writer.transport.abort()
        await asyncio.sleep(0.02)
        rig.release()
        await rig.until(lambda: len(rig.app.state.context.publisher.channels) == 1)


async def test_a_client_that_first_writes_all_and_then_reads(rig: Any) -> None:
    rig.queue("kept")
    found = lines(*({"body": "x" * 10} for _ in range(5000)))
    async with rig.served() as port:
        wire = Connection(port)
        await wire.open()
        for at in range(0, len(found), 50_000):
            wire.say(found[at : at + 50_000])
            await asyncio.wait_for(wire.writer.drain(), 30)
        wire.end()
        await rig.until(lambda: rig.depth("kept") == (5000, 0))
        await wire.head()
        count = 0
        while part := await wire.receipts():
            count += len(part)
        assert count == 5000
        wire.writer.close()


async def test_a_spool_without_room(make_rig: Any, tmp_path: Path) -> None:
    """The directory is gone, as the disk may be: nothing was sent, and that is said."""
    rig = make_rig(spool_octets=1000)
    rig.dependencies.spool.directory = str(tmp_path / "gone")
    rig.queue("kept")

    async def body() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 600

    async with rig.http() as http:
        answer = await http.post("/v1/%2F/queues/kept/messages", content=body())
        assert answer.status_code == 503
        assert answer.json()["type"] == "/problems/backpressure"
        assert answer.json()["outcome"] == "not-sent"
        assert answer.headers["connection"] == "close"
        small = await http.post("/v1/%2F/queues/kept/messages", content=b"x")
        assert small.status_code == 201
    assert rig.depth("kept") == (1, 0)
