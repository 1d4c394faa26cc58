"""Every rule a client can break, the close it gets, and how much dies with it."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.errors import Condition
from gateway.operations import (
    Closed,
    EndSession,
    Publish,
    SessionLost,
)
from tests.adapters.methods.closes import PUBLISH, channel_dies, connection_dies
from tests.pair import VERSIONS
from tests.talk import Talk, body, frame, header, method

# --- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "octets",
    [
        frame(1, 1, b"\0\x3c\0\x50" + b"\0" * 9, end=0xCD),
        frame(9, 1, b"unknown type"),
        frame(4, 1, b"out of band"),
        frame(8, 1, b""),
        b"\x03\0\1\xff\xff\xff\xff",
    ],
    ids=["end", "type", "oob", "heartbeat on a channel", "too large"],
)
def test_bad_frames(version: str, octets: bytes) -> None:
    talk = Talk(version).opened(1)
    connection_dies(talk, talk.sends(octets + bytes(8)), 501, Condition.FRAME_ERROR)


def test_a_frame_above_the_negotiated_size() -> None:
    talk = Talk(limits=Limits(frame_max=8192)).opened(1)
    assert talk.says(1, PUBLISH) == []
    assert talk.sends(header(1, 9000) + body(1, b"x" * 8184)) == []
    words = talk.sends(b"\x03\0\x01" + (8185).to_bytes(4))
    words = words or talk.sends(b"\0")
    connection_dies(talk, words, 501, Condition.FRAME_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_is_no_news(version: str) -> None:
    talk = Talk(version).opened(1)
    assert talk.sends(frame(8, 0, b"") * 3) == []
    assert talk.hears() == []


# --- methods -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_methods(version: str) -> None:
    for number in (b"\0\x3c\x03\xe7", b"\x03\xe7\0\x0a"):
        talk = Talk(version).opened(1)
        words = talk.sends(frame(1, 1, number))
        close = connection_dies(talk, words, 503, Condition.COMMAND_INVALID)
        assert (close.class_id, close.method_id) == (
            int.from_bytes(number[:2]),
            int.from_bytes(number[2:]),
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "record", [w.QueueDeclareOk("q"), w.BasicDeliver("t"), w.BasicConsumeOk("t")]
)
def test_methods_of_the_server(version: str, record: Any) -> None:
    talk = Talk(version).opened(1)
    connection_dies(talk, talk.says(1, record), 503, Condition.COMMAND_INVALID)


@pytest.mark.parametrize("version", VERSIONS)
def test_methods_on_the_wrong_channel(version: str) -> None:
    talk = Talk(version).opened(1)
    words = talk.says(0, w.QueueDeclare(queue="q"))
    connection_dies(talk, words, 503, Condition.COMMAND_INVALID)
    talk = Talk(version).opened(1)
    words = talk.says(1, w.ConnectionClose(200))
    connection_dies(talk, words, 503, Condition.COMMAND_INVALID)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", [b"", b"\0\0\x05abc", b"\0\0\0\0\0\0\0\0more"])
def test_malformed_arguments(version: str, arguments: bytes) -> None:
    talk = Talk(version).opened(1)
    words = talk.sends(frame(1, 1, b"\0\x32\0\x0a" + arguments))
    close = connection_dies(talk, words, 502, Condition.SYNTAX_ERROR)
    assert (close.class_id, close.method_id) == (50, 10)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("table", [b"\x01aZ", b"\x05abc", b"\x01aS\0\0\0\x05abc", b"\x01as\x01"])
def test_malformed_tables(version: str, table: bytes) -> None:
    talk = Talk(version).opened(1)
    words = talk.says(1, w.QueueDeclare(queue="q", arguments=table))
    connection_dies(talk, words, 502, Condition.SYNTAX_ERROR)


def test_tables_that_nest_too_deep() -> None:
    table = b""
    for _ in range(2000):
        table = b"\x01aF" + len(table).to_bytes(4) + table
    talk = Talk().opened(1)
    words = talk.says(1, w.QueueDeclare(queue="q", arguments=table))
    connection_dies(talk, words, 502, Condition.SYNTAX_ERROR)


def test_classes_that_are_not_done() -> None:
    for name in ("message.transfer", "message.consume"):
        talk = Talk("0-9").opened(1)
        row = complete("0-9").by_name[name]
        close = connection_dies(talk, talk.says(1, row.record()), 540, Condition.NOT_IMPLEMENTED)
        assert close.class_id << 16 | close.method_id == row.number


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("in_pieces", [False, True])
def test_immediate(version: str, in_pieces: bool) -> None:
    talk = Talk(version).opened(1)
    record = w.BasicPublish(0, "x", "k", False, True)
    content = header(1, 1) + body(1, b"1")
    words = talk.says(1, record) if in_pieces else []
    words += talk.sends(content if in_pieces else method(version, 1, record) + content)
    if version == "0-9-1":
        close = connection_dies(talk, words, 540, Condition.NOT_IMPLEMENTED)
        assert close.reply_text == "NOT_IMPLEMENTED - immediate=true"
    else:
        assert isinstance(words[0], Publish) and words[0].immediate


# --- channels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_channel_that_is_not_open(version: str) -> None:
    talk = Talk(version).opened(1)
    words = talk.says(2, w.QueueDeclare(queue="q"))
    connection_dies(talk, words, 504, Condition.CHANNEL_ERROR)
    talk = Talk(version).opened(1)
    connection_dies(talk, talk.sends(header(2, 1)), 504, Condition.CHANNEL_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_open(version: str) -> None:
    talk = Talk(version).opened(1)
    connection_dies(talk, talk.says(1, w.ChannelOpen()), 504, Condition.CHANNEL_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
def test_too_many_channels(version: str) -> None:
    talk = Talk(version, limits=Limits(channel_max=5)).opened(5, 6, 7, 8, 65535)
    connection_dies(talk, talk.says(9, w.ChannelOpen()), 530, Condition.NOT_ALLOWED)


@pytest.mark.parametrize("version", VERSIONS)
def test_methods_before_the_connection_is_open(version: str) -> None:
    talk = Talk(version).logged_in()
    connection_dies(talk, talk.says(1, w.ChannelOpen()), 503, Condition.COMMAND_INVALID)
    talk = Talk(version).started()
    connection_dies(talk, talk.says(0, w.ConnectionOpen("/")), 503, Condition.COMMAND_INVALID)


@pytest.mark.parametrize("version", VERSIONS)
def test_more_on_a_channel_they_closed(version: str) -> None:
    talk = Talk(version).opened(1)
    (ended,) = talk.says(1, w.ChannelClose(200, "bye"))
    assert isinstance(ended, EndSession)
    words = talk.says(1, w.QueueDeclare(queue="q"))
    connection_dies(talk, words, 504, Condition.CHANNEL_ERROR)


# --- content -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "octets",
    [header(1, 5), body(1, b"12345")],
    ids=["header", "body"],
)
def test_content_without_a_method(version: str, octets: bytes) -> None:
    talk = Talk(version).opened(1)
    code = 505 if version == "0-9-1" else TABLES[version].codes["unexpected-frame"][0]
    connection_dies(talk, talk.sends(octets), code, Condition.UNEXPECTED_FRAME)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_inside_a_content(version: str) -> None:
    code = TABLES[version].codes["unexpected-frame"][0]
    for octets in (b"", header(1, 5), header(1, 5) + body(1, b"123")):
        talk = Talk(version).opened(1)
        assert talk.says(1, PUBLISH) == []
        assert talk.sends(octets) == [] if octets else True
        words = talk.says(1, w.QueueDeclare(queue="q"))
        connection_dies(talk, words, code, Condition.UNEXPECTED_FRAME)
    talk = Talk(version).opened(1)
    words = talk.says(1, PUBLISH) + talk.sends(body(1, b"no header"))
    connection_dies(talk, words, code, Condition.UNEXPECTED_FRAME)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "octets",
    [header(1, 3, group=50), header(1, 3) + body(1, b"1234")],
    ids=["class", "longer"],
)
def test_content_that_contradicts_itself(version: str, octets: bytes) -> None:
    talk = Talk(version).opened(1)
    words = talk.sends(method(version, 1, PUBLISH) + octets)
    connection_dies(talk, words, 501, Condition.FRAME_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("properties", [b"", b"\x80\0\x05abc", b"\0\1\0\0", b"\x20\0\0\0\0\x09\1a"])
def test_malformed_properties(version: str, properties: bytes) -> None:
    talk = Talk(version).opened(1)
    octets = method(version, 1, PUBLISH) + header(1, 0, properties)
    connection_dies(talk, talk.sends(octets), 502, Condition.SYNTAX_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
def test_content_too_large_is_not_kept(version: str) -> None:
    talk = Talk(version, limits=Limits(max_message_octets=1000)).opened(1)
    words = talk.sends(method(version, 1, PUBLISH) + header(1, 1001) + body(1, b"x" * 1001))
    close = channel_dies(talk, words, 311, Condition.CONTENT_TOO_LARGE)
    assert (close.class_id, close.method_id) == (60, 40)
    assert isinstance(words[0], SessionLost)


@pytest.mark.parametrize("version", VERSIONS)
def test_too_much_under_way(version: str) -> None:
    talk = Talk(version, limits=Limits(max_message_octets=1000)).opened(*range(1, 7))
    for _ in range(9):  # what was completed does not count
        octets = method(version, 6, PUBLISH) + header(6, 900) + body(6, b"x" * 450)
        assert talk.sends(octets) == []
        assert len(talk.sends(body(6, b"x" * 450))) == 1
    for channel in range(1, 5):
        assert talk.sends(method(version, channel, PUBLISH) + header(channel, 1000)) == []
    words = talk.sends(method(version, 5, PUBLISH) + header(5, 1))
    connection_dies(talk, words, 506, Condition.RESOURCE_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [0, 200])
def test_a_normal_end(version: str, code: int) -> None:
    talk = Talk(version).opened(1)
    assert talk.says(0, w.ConnectionClose(code, "bye")) == [Closed(None, "bye")]
    talk.heard(w.ConnectionCloseOk)


def test_an_expiration_that_is_no_number() -> None:
    talk = Talk().opened(1)
    octets = method("0-9-1", 1, PUBLISH) + header(1, 1, b"\x01\0\x03abc") + body(1, b"1")
    close = channel_dies(talk, talk.sends(octets), 406, Condition.PRECONDITION_FAILED)
    assert close.reply_text == "PRECONDITION_FAILED - invalid expiration 'abc'"
