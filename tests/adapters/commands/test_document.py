"""``docs/0-8a2.md`` names every command and field, and each of its refusals is tested."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import COMMANDS, REPLIES
from gateway.values import Int
from tests.adapters.commands.connected_pair import ConnectedPair
from tests.adapters.commands.harness import VHOST, Harness, Peer, parsed
from tests.adapters.commands.test_serving import START, content, entered, opened

PATH = Path(__file__).parents[3] / "docs" / "0-8a2.md"
ROW = re.compile(
    r"^\| ((?:connection|channel|handle)\.[a-z]+|message) \| ([a-z-]+) \| ([0-9.]+) \|"
)


Probe = Callable[[Harness], list[Any]]
"""Commands to the refusing side; returns its answers."""


def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """Section and treatment, by command and field."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for line in PATH.read_text("utf-8").splitlines():
        match = ROW.match(line)
        if match:
            key = (match[1], match[2])
            assert key not in found, key
            found[key] = (match[3], line[match.end() :].strip(" |"))
    return found


def test_every_command_and_field_is_there() -> None:
    expected = {
        (command.name, slot.rstrip("_").replace("_", "-")): command.section
        for command in COMMANDS
        for slot in command.record.__slots__
    }
    head = {("message", slot.replace("_", "-")): "3.4.4" for slot in w.MessageProperties.__slots__}
    assert {key: section for key, (section, _) in rows().items()} == expected | head


def test_every_reply_code_is_one_of_rfc_011() -> None:
    codes = {int(code) for code in re.findall(r"refused (\d+)", PATH.read_text("utf-8"))}
    assert codes <= set(REPLIES.values())


# --- refusals -----------------------------------------------------------------------------------


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.queue("test")
    return made


def handshaking(harness: Harness, *said: Any, login: bool = True) -> list[Any]:
    peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
    peer.says(START)
    if login:
        peer.says(w.ConnectionResponse("NONE"))
    return peer.says(*said)


def inside(*said: Any, before: tuple[Any, ...] = (), **options: Any) -> Probe:
    """Said over an open handle 1 on a queue."""

    def probe(harness: Harness) -> list[Any]:
        peer: Peer = entered(harness, **options)
        if before:
            peer.says(*before)
        return peer.says(*said)

    return probe


def greeting(*said: Any, login: bool = True) -> Probe:
    return lambda harness: handshaking(harness, *said, login=login)


def to_client(*said: Any) -> Probe:
    """Said by a server to our client, over an open handle 1."""

    def probe(harness: Harness) -> list[Any]:
        pair = ConnectedPair(harness)
        pair.open("1", "test")
        pair.client.receive(b"".join(s if isinstance(s, bytes) else frame(s) for s in said))
        return [record for record, _ in parsed(b"".join(pair.client.output()))]

    return probe


def first_words(harness: Harness) -> list[Any]:
    """A server of another version, to our client."""
    pair = ConnectedPair(harness)
    fresh = type(pair.client)("0.8a2", pair.client.role)
    fresh.output()
    fresh.receive(frame(w.ConnectionChallenge(2, "PLAIN")))
    return [record for record, _ in parsed(b"".join(fresh.output()))]


def twice(harness: Harness) -> list[Any]:
    entered(harness)
    return handshaking(harness, w.ConnectionOpen(0, VHOST, "guest"))


def crowded(harness: Harness) -> list[Any]:
    peer = entered(harness)
    peer.says(*(opened(n, dest_name="test") for n in range(2, 256)))
    return peer.says(opened(256, dest_name="test"))


def taken(harness: Harness) -> list[Any]:
    return inside(opened(2, temporary=True, dest_name="test"))(harness)


def hashed(harness: Harness) -> list[Any]:
    sent = content(b"abc")
    prepared = w.HandlePrepare(1, len(sent), "0" * 40)
    rest = w.HandleSend(1, 1, 0, recovery=True)
    return inside(rest, before=(prepared, sent), restartable=True)(harness)


def options(**given: Any) -> w.ConnectionTune:
    return w.ConnectionTune(fields.write_table(given))


def names(**given: Any) -> w.ConnectionTune:
    return w.ConnectionTune(dictionary=fields.write_table(given))


PEER = opened(2, 3, dest_name="test")
TOPIC = opened(2, 2, dest_name="news")
EMPTY = content(b"")

PROBES: dict[tuple[str, str, int], Probe] = {
    ("connection.challenge", "version", 540): first_words,
    ("connection.response", "responses", 403): greeting(
        w.ConnectionResponse("PLAIN", fields.write_table({"LOGIN": "x", "PASSWORD": "y"})),
        login=False,
    ),
    ("connection.tune", "options", 502): greeting(options(FRAME_MAX=Int(7))),
    ("connection.tune", "dictionary", 502): greeting(names(A=Int(1))),
    ("connection.tune", "dictionary", 506): greeting(
        *(names(**{f"{letter}{n}": "x" for n in range(400)}) for letter in "ABC")
    ),
    ("connection.open", "virtual-path", 402): greeting(w.ConnectionOpen(0, "/no", "x")),
    ("connection.open", "client-name", 320): twice,
    ("channel.open", "channel-id", 502): inside(w.ChannelOpen(0)),
    ("channel.open", "channel-id", 503): inside(w.ChannelOpen(1)),
    ("channel.open", "out-of-band", 540): inside(w.ChannelOpen(2, out_of_band="x")),
    ("channel.ack", "channel-id", 504): inside(w.ChannelAck(2)),
    ("channel.commit", "channel-id", 503): inside(w.ChannelCommit(1)),
    ("channel.rollback", "channel-id", 503): inside(w.ChannelRollback(1)),
    ("channel.close", "channel-id", 504): inside(w.ChannelClose(2)),
    ("handle.open", "channel-id", 504): inside(w.HandleOpen(2, 2, 1)),
    ("handle.open", "handle-id", 502): inside(w.HandleOpen(1, 0, 1)),
    ("handle.open", "handle-id", 503): inside(opened(1)),
    ("handle.open", "handle-id", 506): crowded,
    ("handle.open", "service-type", 401): inside(opened(2, 4)),
    ("handle.open", "producer", 403): inside(
        w.HandleSend(2, 1, 15), EMPTY, before=(opened(2, dest_name="test", producer=False),)
    ),
    ("handle.open", "consumer", 403): inside(
        w.HandleConsume(2), before=(opened(2, dest_name="test", consumer=False),)
    ),
    ("handle.open", "consumer", 502): inside(opened(2, 3, consumer=True)),
    ("handle.open", "browser", 403): inside(
        w.HandleQuery(2), before=(opened(2, consumer=False, browser=False),)
    ),
    ("handle.open", "browser", 502): inside(opened(2, 3, browser=True)),
    ("handle.open", "temporary", 502): inside(opened(2, 3, temporary=True)),
    ("handle.open", "dest-name", 404): inside(opened(2, dest_name="none")),
    ("handle.open", "dest-name", 403): taken,
    ("handle.send", "handle-id", 505): inside(w.HandleSend(2, 0, 15), EMPTY),
    ("handle.send", "fragment-size", 501): inside(w.HandleSend(1, 0, 32769)),
    ("handle.send", "out-of-band", 540): inside(w.HandleSend(1, out_of_band=True)),
    ("handle.send", "recovery", 503): inside(w.HandleSend(1, recovery=True)),
    ("handle.send", "streaming", 503): inside(w.HandleSend(1, streaming=True, partial=True)),
    ("handle.send", "streaming", 502): inside(
        w.HandleSend(2, 0, 15, streaming=True), EMPTY, before=(PEER,)
    ),
    ("handle.send", "dest-name", 404): inside(w.HandleSend(1, 0, 15, dest_name="-no"), EMPTY),
    ("handle.consume", "handle-id", 505): inside(w.HandleConsume(2)),
    ("handle.consume", "dest-name", 404): inside(w.HandleConsume(1, dest_name="-no")),
    ("handle.consume", "identifier", 502): inside(w.HandleConsume(1, identifier="x")),
    ("handle.consume", "selector", 502): inside(w.HandleConsume(1, selector=b"= 1")),
    ("handle.consume", "mime-type", 540): inside(w.HandleConsume(1, mime_type="text/regex")),
    ("handle.cancel", "handle-id", 505): inside(w.HandleCancel(2)),
    ("handle.cancel", "handle-id", 503): inside(w.HandleCancel(1, identifier="x")),
    ("handle.cancel", "identifier", 502): inside(w.HandleCancel(2), before=(TOPIC,)),
    ("handle.cancel", "identifier", 404): inside(
        w.HandleCancel(2, identifier="x"), before=(TOPIC,)
    ),
    ("handle.flow", "handle-id", 505): inside(w.HandleFlow(2)),
    ("handle.flow", "handle-id", 503): inside(w.HandleFlow(2), before=(PEER,)),
    ("handle.unget", "handle-id", 505): inside(w.HandleUnget(2)),
    ("handle.unget", "handle-id", 503): inside(w.HandleUnget(2), before=(TOPIC,)),
    ("handle.unget", "message-nbr", 310): inside(w.HandleUnget(1, 0, 4)),
    ("handle.query", "handle-id", 505): inside(w.HandleQuery(2)),
    ("handle.query", "handle-id", 503): inside(w.HandleQuery(2), before=(PEER,)),
    ("handle.query", "dest-name", 404): inside(w.HandleQuery(1, 0, "-no")),
    ("handle.browse", "handle-id", 505): inside(w.HandleBrowse(2)),
    ("handle.browse", "handle-id", 503): inside(w.HandleBrowse(2), before=(PEER,)),
    ("handle.notify", "out-of-band", 540): to_client(w.HandleNotify(1, 1, out_of_band=True)),
    ("handle.send", "partial", 503): inside(
        w.HandleSend(1, 0, 15, partial=True), b"\0\0\0\1" + EMPTY[4:], w.HandleFlow(1)
    ),
    ("handle.prepare", "handle-id", 505): inside(w.HandlePrepare(2, 15), EMPTY),
    ("handle.prepare", "handle-id", 503): inside(w.HandlePrepare(1, 15), EMPTY),
    ("handle.prepare", "fragment-size", 501): inside(w.HandlePrepare(1, 32769)),
    ("handle.prepare", "content-hash", 502): inside(
        w.HandlePrepare(1, 15, "zz"), EMPTY, restartable=True
    ),
    ("handle.prepare", "content-hash", 542): hashed,
    ("handle.ready", "handle-id", 503): inside(w.HandleReady(1)),
    ("handle.close", "handle-id", 505): inside(w.HandleClose(2)),
    ("message", "body-size", 542): inside(w.HandleSend(1, 0, 16), EMPTY + b"x"),
    ("message", "body-size", 311): inside(w.HandleSend(1, 0, 15), b"\xff" + EMPTY[1:]),
    ("message", "headers", 542): inside(w.HandleSend(1, 0, 19), EMPTY[:-2] + b"\0\4\1KX\0"),
}

CLOSES = (w.ConnectionClose, w.ChannelClose, w.HandleClose)


def refusals() -> set[tuple[str, str, int]]:
    return {
        (command, field, int(code))
        for (command, field), (_, text) in rows().items()
        for code in re.findall(r"refused (\d+)", text)
    }


def test_every_refusal_is_tried() -> None:
    assert refusals() == set(PROBES)


@pytest.mark.parametrize("key", PROBES, ids=lambda key: f"{key[0]}.{key[1]}-{key[2]}")
def test_refused_as_the_document_says(harness: Harness, key: tuple[str, str, int]) -> None:
    said = PROBES[key](harness)
    close = next(record for record in said if isinstance(record, CLOSES))
    assert close.reply_code == key[2]
    text = rows()[key[0], key[1]][1]
    clause = next(part for part in text.split(";") if f"refused {key[2]}" in part)
    if "(connection)" in clause or key[0].startswith("connection."):
        assert isinstance(close, w.ConnectionClose)
    elif "(channel)" in clause or key[0].startswith("channel."):
        assert isinstance(close, w.ChannelClose | w.ConnectionClose)
    else:
        assert isinstance(close, w.HandleClose)
