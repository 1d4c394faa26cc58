"""Each message of the recordings, as the roles of the gateway read it, however octets are cut."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import pieces
from gateway.archive.recordings import Counts
from gateway.archive.side import PUBLISHED
from gateway.broker.publish_path import PublishPath
from gateway.crossing.crossing import Crossing
from gateway.message import Message
from tests.adapters.commands import replaying as command_replay
from tests.adapters.methods.drafts.recorded import frames as draft_frames
from tests.adapters.methods.drafts.test_recordings import House
from tests.adapters.methods.transitional.recorded import frames as transitional_frames
from tests.adapters.methods.transitional.recorded import version_of
from tests.adapters.methods.transitional.serving import Served
from tests.adapters.segments.test_replay import replayed
from tests.archive.recorded import (
    ALL,
    Frame,
    document,
    form_of,
    frames,
    plainly,
    read,
    write_archive,
)

UNFINISHED = {
    # Prepared again and sent in part, out of band, and as a stream without a header.
    "client-java-framing-layer": ["message-incomplete", "message-incomplete", "content-broken"],
    "server-prepare": ["message-incomplete"],  # it ends with a crash of the server
    "server-oversized-fragment": ["stream-cut"],
    "server-undecodable-frame": ["frame-broken"],
    "server-unknown-command-type": ["frame-broken"],
}
"""Errors that are in the recordings."""
COUNTED = {"0.8a2": 120, "0-9a6": 3, "0-10-07": 20, "0-10": 40}
"""Messages at least."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("archive")
    return {path.stem: path for path in write_archive(folder)}


@contextmanager
def spied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Message]]:
    """The messages that sessions give to the broker."""
    heard: list[Message] = []
    publish = PublishPath.publish

    def told(self: PublishPath, message: Message, *arguments: Any, **options: Any) -> None:
        heard.append(message)
        publish(self, message, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(PublishPath, "publish", told)
        yield heard


def live(family: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages of the recorded clients, as our server roles and their sessions read them."""
    if family == "0-9a6":
        house = House()
        for frame in draft_frames(name):
            if frame.from_client:
                house.receive(frame.octets)
        return [one.message for one in house.heard if hasattr(one, "message")]
    with spied(monkeypatch) as heard:
        if family == "0.8a2":
            monkeypatch.setattr(command_replay, "fill", lambda harness, lines: None)
            command_replay.replay(name)
        elif family == "0-10":
            replayed(name)
        else:
            served = Served(version_of(name))
            for one in transitional_frames(name):
                if one.from_client:
                    served.receive(one.octets)
    return heard


def in_1_0(message: Message) -> bytes:
    """As the gateway hands it to a reader of 1.0."""
    crossed = Crossing(bytes(32), "lossless", "values").cross(message, SECTIONS)
    return alike(b"".join(bytes(one[:]) for one in pieces(crossed.header, crossed.body)))


def alike(octets: bytes) -> bytes:
    """A server chooses names of temporary queues, ours another one than the recorded one."""
    return re.sub(rb"tmp/\d{9}", b"tmp/000000001", octets)


def rows(path: Path) -> list[dict[str, Any]]:
    pytest.importorskip("pyarrow", reason="needs the extra `journal`")
    from gateway.archive.batches import AMQP10, transcode
    from gateway.archive.reading import bundles_of, list_parts, raw_batches

    (bundle,) = bundles_of(list_parts([path]))
    return [
        row
        for part in bundle.parts
        for raw in raw_batches(part, Counts())
        for row in transcode(raw, AMQP10).to_pylist()
    ]


@pytest.mark.parametrize(("family", "name"), ALL)
def test_published_messages_are_those_of_the_live_path(
    family: str, name: str, archive: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Counter(in_1_0(message) for message in live(family, name, monkeypatch))
    found = rows(archive[name])
    published = Counter(
        alike(row["amqp10"])
        for row in found
        if row["direction"] == PUBLISHED and not row["error_code"]
    )
    missing = expected - published
    assert not missing
    # What the server role refuses (a queue that is not there) is in the archive all the same.
    assert len(published - expected) <= REFUSED.get(name, 0)


REFUSED = {
    "client-perl-generated-modules": 1,  # its tune has the fields of an older version
    "0-10-07-27-cplusplus-client": 1,  # its user has no name
    "server-command-on-closing-channel": 1,
    "server-open-missing-queue-no-confirm": 1,
    "server-send-to-missing-destination": 1,
}


@pytest.mark.parametrize(("family", "name"), ALL)
def test_every_message_comes_out(family: str, name: str, archive: dict[str, Path]) -> None:
    got = read(archive[name])
    assert got.adds_up
    codes = [one.code for one in got.bad]
    assert codes == UNFINISHED.get(name, []) or (family, name) == ("0-9a6", "request-reply")
    octets = {
        side: b"".join(one.octets for one in frames(family, name) if one.from_client is side)
        for side in (True, False)
    }
    for one in got.found:
        assert len(one.body) < 64 or one.body[:64] in octets[one.direction == PUBLISHED]


def test_there_are_many(archive: dict[str, Path]) -> None:
    for family, least in COUNTED.items():
        names = [name for one, name in ALL if one == family]
        assert sum(len(read(archive[name]).found) for name in names) >= least, family


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("family", "name"),
    [("0.8a2", "server-fragmented-message-round-trip"), ("0-9a6", "consume"),
     ("0-10-07", "0-10-07-24-refs"), ("0-10-07", "0-10-07-27-large"), ("0-10", "cpp-large"),
     ("0-10", "cpp-async")],
)  # fmt: skip
def test_octets_may_be_cut_anywhere(
    family: str, name: str, size: int, archive: dict[str, Path], tmp_path: Path
) -> None:
    cut = [
        Frame(one.connection, one.from_client, one.octets[at : at + size])
        for one in frames(family, name)
        for at in range(0, len(one.octets), size)
    ]
    path = tmp_path / "cut.json"
    path.write_text(document(cut, **form_of(family, name)))
    assert plainly(read(path).found) == plainly(read(archive[name]).found)
