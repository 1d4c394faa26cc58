"""Bodies in parts: in files if they are large, and kept for their senders with a checkpoint."""

from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import LargeBody, Spool
from gateway.message import Message
from gateway.partial_bodies import PartialBodyStore
from tests.adapters.methods.transitional.serving import LIMITS, Client, Said
from tests.adapters.methods.transitional.test_server import both, inline, names

BY_NAME = types.write_body(types.Body(True, b"r"))
PART = bytes(range(250)) * 20
"""5000 octets."""


class Place:
    """Keeps bodies over several connections."""

    def __init__(self, folder: Path, spooled: bool = True, most_octets: int = 0) -> None:
        self.spool = Spool(str(folder), threshold=12_000) if spooled else None
        self.partials = PartialBodyStore(self.spool, most_octets=most_octets)

    def client(self, version: str, limits: Limits = LIMITS) -> Client:
        client = Client(version, limits=limits, spool=self.spool, partials=self.partials).open()
        client.say(1, w.QueueDeclare(queue="q"))
        return client


def says(client: Client, *records: Any) -> list[Said]:
    return [said for record in records for said in client.say(1, record)]


def arrived(client: Client) -> Message:
    """The only message."""
    broker = client.served.broker
    channel = client.served.session.channels[1]
    assert broker.vhosts["/"].queues["q"].depth == 1
    (seen,) = channel.browse("q")
    message: Message = seen.message
    return message


def offset(client: Client, identifier: str = "id") -> int:
    (said,) = client.say(1, w.MessageResume(b"r", identifier))
    if said.carried is not None:
        assert said.carried.is_response
    found: int = said.record.value
    return found


def appended(client: Client, count: int) -> None:
    assert says(client, *[w.MessageAppend(b"r", PART)] * count) == []


PUBLISH = w.MessageTransfer(routing_key="q", body=BY_NAME), w.MessageClose(b"r")


@both
def test_a_large_body_goes_to_a_file(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    engine = client.served.adapter
    for count, held in ((1, 5000), (1, 10_000), (1, 0), (3, 0)):
        appended(client, count)
        assert (engine.announced, place.partials.memory) == (held, 0)
    assert place.spool is not None and place.spool.octets == 6 * len(PART)
    says(client, *PUBLISH)
    body = arrived(client).body
    assert isinstance(body, LargeBody) and body[:] == 6 * PART


@both
def test_an_inline_body_goes_to_a_file(version: str, tmp_path: Path) -> None:
    client = Place(tmp_path).client(version)
    says(client, w.MessageTransfer(routing_key="q", body=inline(3 * PART)))
    body = arrived(client).body
    assert isinstance(body, LargeBody) and body[:] == 3 * PART


@both
@pytest.mark.parametrize("spooled", [True, False])
@pytest.mark.parametrize("before", [0, 1, 4])
@pytest.mark.parametrize("lost", [True, False], ids=["connection", "channel"])
def test_an_upload_goes_on(
    version: str, tmp_path: Path, spooled: bool, before: int, lost: bool
) -> None:
    place = Place(tmp_path, spooled)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, before)
    assert says(client, w.MessageCheckpoint(b"r", "id")) == []
    appended(client, 2)
    assert client.served.adapter.announced == 0, "the store counts it"
    assert (place.partials.memory > 0) is not spooled
    if lost:
        client.served.lose()
        client = place.client(version)
    else:
        says(client, w.ChannelClose(200, ""))
        client.restarted(1).say(1, w.ChannelOpen())
    have = offset(client)
    assert have == (before + 2) * len(PART)
    appended(client, 1)
    says(client, *PUBLISH)
    assert arrived(client).body[:] == (before + 3) * PART
    assert (place.partials.octets, place.partials.number, place.partials.memory) == (0, 0, 0)
    assert not place.partials.kept and not place.partials.used


@both
def test_it_is_resumed_more_than_once(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 1)
    says(client, w.MessageCheckpoint(b"r", "id"))
    for count in (1, 2, 3):
        client.served.lose()
        client = place.client(version)
        assert offset(client) == count * len(PART)
        appended(client, 1)
    says(client, *PUBLISH)
    assert arrived(client).body[:] == 4 * PART


@both
def test_nothing_is_kept_without_a_checkpoint(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 4)
    client.served.lose()
    assert place.spool is not None and place.spool.octets == 0
    client = place.client(version)
    assert offset(client) == 0
    appended(client, 1)
    says(client, *PUBLISH)
    assert arrived(client).body == PART


@both
def test_the_last_checkpoint_names_it(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    for name in ("one", "two", "two"):
        appended(client, 1)
        says(client, w.MessageCheckpoint(b"r", name))
    client.served.lose()
    client = place.client(version)
    assert offset(client, "one") == 0
    says(client, w.MessageClose(b"r"))
    assert offset(client, "two") == 3 * len(PART)


@both
def test_it_is_kept_for_its_user_in_its_virtual_host(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 1)
    says(client, w.MessageCheckpoint(b"r", "id"))
    client.served.lose()
    assert list(place.partials.kept) == [("0-10-07", "/", "guest", "id")]


@both
def test_the_store_of_partial_bodies_is_full(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path, most_octets=2 * len(PART))
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 1)
    says(client, w.MessageCheckpoint(b"r", "id"))
    appended(client, 1)
    (close,) = says(client, w.MessageAppend(b"r", PART))
    assert (close.name, close.record.reply_code) == ("channel.close", 311)
    assert place.partials.octets == 0 and client.served.adapter.announced == 0


@both
def test_more_than_the_store_takes_has_no_checkpoint(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path, most_octets=2 * len(PART))
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 3)
    (close,) = says(client, w.MessageCheckpoint(b"r", "id"))
    assert (close.name, close.record.reply_code) == ("channel.close", 311)
    assert place.partials.octets == 0
    assert place.spool is not None and place.spool.octets == 0


@both
@pytest.mark.parametrize("kept", [True, False])
def test_a_reference_is_no_larger_than_a_message(version: str, tmp_path: Path, kept: bool) -> None:
    client = Place(tmp_path).client(version, LIMITS._replace(max_message_octets=3 * len(PART)))
    says(client, w.MessageOpen(b"r"))
    appended(client, 1)
    if kept:
        says(client, w.MessageCheckpoint(b"r", "id"))
    appended(client, 2)
    (close,) = says(client, w.MessageAppend(b"r", b"x"))
    assert (close.name, close.record.reply_code) == ("channel.close", 311)


@both
@pytest.mark.parametrize("record", [w.MessageCheckpoint(b"n", "id"), w.MessageResume(b"r", "id")])
def test_misuse_closes_the_connection(version: str, tmp_path: Path, record: Any) -> None:
    client = Place(tmp_path).client(version)
    says(client, w.MessageOpen(b"r"))
    (close,) = says(client, record)
    assert (close.name, close.record.reply_code) == ("connection.close", 503)


@both
def test_references_that_are_resumed_count(version: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    client = place.client(version)
    says(client, w.MessageOpen(b"r"))
    appended(client, 1)
    says(client, w.MessageCheckpoint(b"r", "id"))
    client.served.lose()
    client = place.client(version)
    says(client, *[w.MessageOpen(b"%d" % at) for at in range(256)])
    (close,) = says(client, w.MessageResume(b"r", "id"))
    assert close.record.reply_code == 506
    assert len(place.partials.kept) == 1 and not place.partials.used
    assert names([close]) == ["connection.close"]
