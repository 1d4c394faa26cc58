"""Recorded clients of July 2007 talk to our server role: it answers as their brokers did."""

from collections import defaultdict
from typing import Any

import pytest

from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from tests.adapters.methods.transitional.recorded import NAMES, Frame, frames, version_of
from tests.adapters.methods.transitional.serving import Decoder, Said, Served

THEIR_TAG = "sgen1"
"""Consumer tag that a recorded broker made up."""


def recorded_replies(name: str) -> list[Said]:
    decoder = Decoder(version_of(name))
    octets = b"".join(frame.octets for frame in frames(name) if not frame.from_client)
    return decoder.read(octets)


def sorted_out(said: list[Said]) -> dict[tuple[int, str], list[Any]]:
    """What was said of each kind on each channel, in order: how the kinds mix depends on when a
    broker delivers."""
    found: dict[tuple[int, str], list[Any]] = defaultdict(list)
    pieces: list[bytes] = []
    for item in said:
        record = item.record
        if isinstance(record, w.MessageOpen):
            pieces = []
        elif isinstance(record, w.MessageAppend):
            pieces.append(record.bytes)
        elif not isinstance(record, w.MessageClose):
            found[item.channel, item.name].append(common(record, pieces))
    return found


def common(record: Any, pieces: list[bytes]) -> Any:
    """What two brokers have in common, as a comparable value."""
    if isinstance(record, bytes):
        return record
    fields = {name: getattr(record, name) for name in record.__slots__}
    if isinstance(record, w.ConnectionStart):
        fields["server_properties"] = fields["mechanisms"] = b""
    elif isinstance(record, w.MessageTransfer):
        fields["application_headers"] = types.read_table(record.application_headers)
        body = types.read_body(record.body)
        # A body that fits a frame goes inline here, however it came; the bug is theirs: a large
        # message has the consumer's name for its exchange.
        fields["body"] = b"".join(pieces) if body.is_reference else body.octets
        if body.is_reference and fields["exchange"] == fields["destination"]:
            fields["exchange"] = ""
    elif isinstance(record, w.ExchangeQueryOk):
        fields["durable"] = True  # the exchanges that are always there
    elif isinstance(record, w.ChannelClose | w.ConnectionClose):
        fields["reply_text"] = ""
    elif "consumer_tag" in fields and record.consumer_tag not in ("MyTag",):
        fields["consumer_tag"] = THEIR_TAG
    return fields


NO_NAME, GUEST = b"\0\0\0\2\0\0", b"\0\0\0\x0c\0guest\0guest"
"""Responses of PLAIN: the recorded C++ client has neither name nor password."""


def adapted(frame: Frame, tag: str) -> bytes:
    """The frame of a client, with our consumer tag instead of theirs, and with a name."""
    payload = frame.octets[7:-1]
    if "mechanism: PLAIN" in frame.meaning:
        payload = payload.replace(NO_NAME, GUEST)
    if tag:
        payload = payload.replace(short(THEIR_TAG), short(tag))
    if payload == frame.octets[7:-1]:
        return frame.octets
    return frame.octets[:3] + len(payload).to_bytes(4, "big") + payload + b"\xce"


def short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 17, 1 << 20])
def test_a_recorded_client_talks_to_our_server(name: str, size: int) -> None:
    served = Served(version_of(name))
    said: list[Said] = []
    tag = ""
    for frame in frames(name):
        if not frame.from_client:
            continue
        octets = adapted(frame, tag)
        for at in range(0, len(octets), size):
            said += served.receive(octets[at : at + size])
        tag = next((s.record.consumer_tag for s in said if s.name == "basic.consume-ok"), "")
    check_numbers(said, version_of(name))
    assert sorted_out(said) == sorted_out(recorded_replies(name))
    assert served.adapter.closing
    served.lose()


def check_numbers(said: list[Said], version: str) -> None:
    """Requests and responses count from 1 on each channel; a plain method has no number."""
    last: dict[tuple[int, bool], int] = defaultdict(int)
    for item in said:
        if item.name == "content":
            continue
        assert (item.carried is not None) == (version == "0-10-07-24"), item
        if item.carried is not None:
            key = item.channel, item.carried.is_response
            last[key] += 1
            assert item.carried.identifier == last[key], item
