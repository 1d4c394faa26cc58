"""The transitional 0-10 over sockets: recorded clients of July 2007, at listeners set to either
revision.

Each frame is sent when the server has said all that the recorded broker had said by then.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import operations as op
from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.net.dialer import dial
from tests.adapters.methods.transitional.recorded import NAMES, frames, version_of
from tests.adapters.methods.transitional.serving import Decoder, Said
from tests.adapters.methods.transitional.test_replay import (
    adapted,
    check_numbers,
    recorded_replies,
    sorted_out,
)
from tests.net.running import Running
from tests.net.wire import Wire

REVISIONS = ("0-10-07-24", "0-10-07-27")
LISTENERS = "".join(f'[[amqp.listeners]]\nport = 0\nheader_0_10 = "{name}"\n' for name in REVISIONS)
HEADERS = {"1 1 0 10": b"AMQP\x01\x01\x00\x0a", "1 1 99 0": b"AMQP\x01\x01\x63\x00"}
PARTS = {"message.open", "message.append", "message.close"}
"""Frames of a body by reference: whether it needs one depends on the frame size."""


LIMITS = {"amqp__frame_max": 65536, "amqp__channel_max": 32767, "amqp__heartbeat_seconds": 0}
"""As the recorded brokers proposed them."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("transitional")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file, **LIMITS) as running:
        yield running


def port_of(gateway: Running, revision: str) -> int:
    """Of the listener of a revision."""
    listener = re.compile(rf"AMQP on \S+:(\d+), where 1 1 0 9 is 0-9 and 1 1 0 10 is {revision}\s")
    found = listener.search(gateway.log())
    assert found is not None
    return int(found[1])


def wire_to(gateway: Running, revision: str) -> Wire:
    return Wire(port_of(gateway, revision))


def counted(said: list[Said]) -> Counter[tuple[int, str]]:
    """Frames of each kind on each channel."""
    return Counter((item.channel, item.name) for item in said if item.name not in PARTS)


class Conversation:
    """A recorded client on a socket."""

    def __init__(self, wire: Wire, revision: str) -> None:
        self.said: list[Said] = []
        """Frames of the server so far."""
        self._wire = wire
        self._decoder = Decoder(revision)

    def send(self, octets: bytes) -> None:
        self._wire.send(octets)

    def hear(self) -> None:
        """One more frame of the server."""
        head = self._wire.take(7)
        self.said += self._decoder.read(head + self._wire.take(int.from_bytes(head[3:]) + 1))

    def replayed(self, name: str, header: bytes) -> None:
        """The whole of a recording."""
        expected = Decoder(version_of(name))
        heard: list[Said] = []
        for frame in frames(name):
            if not frame.from_client:
                heard += expected.read(frame.octets)
                continue
            while counted(heard) - counted(self.said):
                self.hear()
            consuming = [s.record for s in self.said if s.name == "basic.consume-ok"]
            tag = consuming[0].consumer_tag if consuming else ""
            self.send(header if frame.octets[:4] == b"AMQP" else adapted(frame, tag))
        while counted(recorded_replies(name)) - counted(self.said):
            self.hear()
        assert self._wire.rest() == b""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("header", HEADERS)
def test_a_recorded_client(gateway: Running, name: str, header: str) -> None:
    revision = version_of(name)
    conversation = Conversation(wire_to(gateway, revision), revision)
    conversation.replayed(name, HEADERS[header])
    check_numbers(conversation.said, revision)
    assert sorted_out(conversation.said) == sorted_out(recorded_replies(name))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("header", HEADERS.values(), ids=list(HEADERS))
def test_only_listeners_that_are_set_to_it(gateway: Running, header: bytes, revision: str) -> None:
    elsewhere = Wire(gateway.port)
    elsewhere.send(header)
    if header == HEADERS["1 1 0 10"]:  # the published 0-10, which repeats the header
        assert elsewhere.take(9) == header + b"\x0f"
        elsewhere.close()
    else:
        assert elsewhere.rest() == b"AMQP\x00\x00\x09\x01"
    chosen = wire_to(gateway, revision)
    chosen.send(header)
    assert chosen.take(1) == (b"\x09" if revision == REVISIONS[0] else b"\x01")
    chosen.close()
    other = wire_to(gateway, revision)
    other.send(b"AMQP\x00\x00\x09\x01")
    assert other.take(1) == b"\x01"
    other.close()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("classes", [True, False])
def test_our_client(gateway: Running, revision: str, classes: bool) -> None:
    body = bytes(range(256)) * 1000

    async def talk() -> None:
        remote = await dial(
            ("127.0.0.1", port_of(gateway, revision)),
            version=revision,
            class_message=classes,
            class_session=classes,
        )
        await remote.request(op.BeginSession(1, None))
        await remote.request(op.SelectConfirms(1, None))
        await remote.request(op.DeclareQueue(1, None, "ours", exclusive=True))
        header = BASIC.write(Properties())
        message = Message(BASIC, header, body, "", "ours", BASIC.essentials(header))
        remote.send(op.Publish(1, message, False, False))
        await remote.request(op.Subscribe(1, None, "ours", "tag"))
        async for operation in remote:
            if isinstance(operation, op.Deliver):
                assert operation.message.body == body
                remote.send(op.Settle(1, operation.delivery, False, op.Outcome.ACCEPT))
                break
        assert (await remote.request(op.Fetch(1, None, "ours"))) is None
        await remote.close()

    asyncio.run(talk())
