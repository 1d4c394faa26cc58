"""Dialling without knowing the version: our listeners, RabbitMQ, and servers of other kinds."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from gateway.adapters import Limits
from gateway.adapters.registry import PREFERRED, VERSIONS, sharing
from gateway.errors import Condition, Refusal
from gateway.net.dialer import AUTO, dial
from gateway.operations import BeginSession, DeclareQueue, EndSession
from tests.interop.servers import Server
from tests.net.running import Running
from tests.net_client.test_dialer import Puppet, answering

SHARED_0_9 = sharing("0-9")
DRAFTS = SHARED_0_9[1:]
SHARED_0_10 = sharing("0-10")
TRANSITIONAL = SHARED_0_10[1:]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One gateway, with a listener for each choice of AMQP 1 1 0 9 and of AMQP 1 1 0 10."""
    folder: Path = tmp_path_factory.mktemp("listeners")
    file = folder / "gateway.toml"
    file.write_text(
        "".join(f'[[amqp.listeners]]\nport = 0\nheader_0_9 = "{name}"\n' for name in DRAFTS)
        + "".join(
            f'[[amqp.listeners]]\nport = 0\nheader_0_10 = "{name}"\n' for name in TRANSITIONAL
        )
    )
    with Running(folder, "--config", file) as running:
        yield running


@pytest.mark.parametrize("version", [*SHARED_0_9, *SHARED_0_10])
async def test_each_listener(gateway: Running, version: str) -> None:
    port, group = gateway.port, SHARED_0_9
    if version in DRAFTS:
        port = gateway._port(rf"AMQP on \S+:(\d+), where 1 1 0 9 is {version}\s")
    elif version == "0-10":
        group = SHARED_0_10
    elif version in TRANSITIONAL:
        group = SHARED_0_10
        port = gateway._port(rf"AMQP on \S+:(\d+), where .* and 1 1 0 10 is {version}\s")
    for wished in (group, group[::-1]):
        remote = await dial(("127.0.0.1", port), version=wished)
        assert remote.adapter.version == remote.peer.version == version
        await remote.request(BeginSession(1, None))
        assert (await remote.request(DeclareQueue(1, None, "found"))).name == "found"
        await remote.request(EndSession(1, None))
        await remote.close()
    with pytest.raises(Refusal, match=f"it speaks {version}") as caught:
        await dial(("127.0.0.1", port), version=[one for one in group if one != version])
    assert caught.value.condition is Condition.NOT_IMPLEMENTED


@pytest.mark.interop
async def test_brokers(server: Server) -> None:
    """RabbitMQ answers unknown headers with that of 0-9-1; we speak all versions."""
    ours = server.name == "gateway"
    for wished, version in (
        (AUTO, "0-9-1"),
        (SHARED_0_9, "0-9"),
        (("0-8", "0-9-1"), "0-8"),
        (("1.0", "0-9-1"), "1.0" if ours else "0-9-1"),
        (("1.0", "0-8"), "1.0" if ours else "0-8"),
    ):
        remote = await dial(("127.0.0.1", server.port), version=wished)
        assert remote.adapter.version == version
        await remote.request(BeginSession(1, None))
        await remote.close()
    if not ours:
        with pytest.raises(Refusal, match=r"does not speak 1.0 \(it answers AMQP 0 0 9 1\)"):
            await dial(("127.0.0.1", server.port), version="1.0")


# --- servers that do as they are told -------------------------------------------------------------


class Only:
    """A server that hangs up on unknown headers, or answers with a header."""

    def __init__(self, version: str, answer: bytes = b"") -> None:
        self.version, self.answer = version, answer
        self.asked: list[bytes] = []
        self.puppet = Puppet(version)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opening = await reader.read(8)
        self.asked.append(opening)
        if opening != OPENINGS[self.version]:
            writer.write(self.answer)
            writer.close()
            return
        self.puppet.writer = writer
        self.puppet.adapter.receive(opening)
        for octet in b"".join(self.puppet.adapter.output()):
            writer.write(bytes((octet,)))
            await asyncio.sleep(0.001)
        await self.puppet.serve(reader, writer)


OPENINGS = {
    "0-9-1": b"AMQP\x00\x00\x09\x01",
    "0-9a0": b"AMQP\x01\x01\x00\x09",
    "0-9a0-7": b"AMQP\x01\x01\x00\x09",
    "0-9a6": b"AMQP\x01\x01\x00\x09",
    "0-10-07-24": b"AMQP\x01\x01\x00\x0a",
    "0-10-07-27": b"AMQP\x01\x01\x00\x0a",
    "0.8a2": b"\x80\x01",
}


@pytest.mark.parametrize("version", OPENINGS)
async def test_a_server_of_one_version_that_speaks_slowly(version: str) -> None:
    only = Only(version)
    async with answering(only.serve) as address:
        remote = await dial(address, version=AUTO)
        assert remote.adapter.version == version
        await remote.request(BeginSession(1, None))
        await remote.close(0.2)
    assert len(only.asked) == len(set(only.asked)) <= 6, "each header once"


async def test_the_header_that_is_answered_is_dialled_next() -> None:
    only = Only("0-9a6", OPENINGS["0-9a6"])
    async with answering(only.serve) as address:
        remote = await dial(address, version=("0.8a2", "0-9-1", *SHARED_0_9))
        assert remote.adapter.version == "0-9a6"
        await remote.close(0.2)
    assert only.asked == [OPENINGS["0.8a2"], OPENINGS["0-9a6"]]


async def test_over_tls() -> None:
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)
    only = Only("0-9a0")
    async with answering(only.serve, ssl=theirs) as address:
        remote = await dial(address, version=AUTO, tls=ours)
        assert remote.adapter.version == "0-9a0"
        await remote.request(BeginSession(1, None))
        await remote.close(0.2)


@asynccontextmanager
async def saying(*pieces: bytes, hold: bool = False) -> AsyncIterator[tuple[object, list[int]]]:
    """A server that says this to everybody, and hangs up unless it is to hold on."""
    count: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count.append(len(count))
        for piece in pieces:
            await reader.read(1)
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)
        if hold:
            await reader.read()
        writer.close()

    async with answering(serve) as address:
        yield address, count


HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "hold", "connections", "condition", "text"),
    [
        ([HTTP], False, 1, Condition.NOT_IMPLEMENTED, "no AMQP: 'HTTP/1.1 400 Bad Request'"),
        ([b"220 mail.example ESMTP\r\n"], True, 1, Condition.NOT_IMPLEMENTED, "220 mail.example"),
        ([b"\x01", b"\x02\x03"], True, 1, Condition.NOT_IMPLEMENTED, "no AMQP"),
        ([bytes(100_000)], True, 1, Condition.NOT_IMPLEMENTED, "no AMQP: 00 00"),
        ([], False, 6, Condition.CONNECTION_FORCED, "0.8a2 (it hangs up without a word)"),
        ([b"AMQP\x00"], False, 6, Condition.CONNECTION_FORCED, "it hangs up after"),
        ([b"AMQP\x00\x00\x09\x01"], False, 6, Condition.NOT_IMPLEMENTED, "it answers AMQP 0 0 9 1"),
        ([b"AMQP\x01\x01\x00\x0b"], False, 6, Condition.NOT_IMPLEMENTED, "AMQP 1 1 0 11"),
    ],
)  # fmt: skip
async def test_who_speaks_no_version_of_ours(
    pieces: list[bytes], hold: bool, connections: int, condition: Condition, text: str
) -> None:
    async with saying(*pieces, hold=hold) as (address, count):
        with pytest.raises(Refusal) as caught:
            await dial(address, version=AUTO)  # type: ignore[arg-type]
        assert len(count) == connections
        with pytest.raises(Refusal) as once:
            await dial(address, version="0-9a6")  # type: ignore[arg-type]
        assert len(count) == connections + 1, "one version, one attempt"
    assert caught.value.condition is once.value.condition is condition
    assert text in caught.value.text


async def test_who_says_nothing() -> None:
    brief = Limits(handshake_timeout=0.2)
    async with saying(hold=True) as (address, count):
        with pytest.raises(TimeoutError, match=r"127.0.0.1:\d+ does not answer 0-9-1 within 0.2 s"):
            await dial(address, version=AUTO, limits=brief)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError, match="does not answer 0-9 or 0-9a6 or 0-9a0"):
            await dial(address, version=SHARED_0_9, limits=brief)  # type: ignore[arg-type]
        assert len(count) == 2


async def test_who_says_nothing_after_its_first_word() -> None:
    start = bytes.fromhex("0100 0010 01 01 00 00 00000000 00 09 05 504c41494e")
    async with saying(start, hold=True) as (address, _):
        with pytest.raises(TimeoutError, match="does not let us in"):
            brief = Limits(handshake_timeout=0.2)
            await dial(address, version=SHARED_0_9, limits=brief)  # type: ignore[arg-type]


def test_all_versions_are_tried() -> None:
    assert set(VERSIONS) == set(PREFERRED)
    assert [VERSIONS[name].preference for name in PREFERRED] == list(range(1, len(VERSIONS) + 1))
