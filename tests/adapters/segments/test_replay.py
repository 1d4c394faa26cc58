"""Recorded clients of Qpid talk to our server role: it says what their brokers said."""

from collections import defaultdict
from typing import Any

import pytest

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.content import canonical
from gateway.adapters.segments.frames import control
from gateway.adapters.segments.splicing import delivery_properties, message_properties
from gateway.adapters.segments.wire import layouts as w
from gateway.operations import SessionLimits
from gateway.sessions.named import NamedSessions
from gateway.sessions.registry import SessionRegistry
from tests.adapters.segments.recorded import NAMES, Frame, frames
from tests.adapters.segments.serving import LIMITS, Decoder, Said, Served
from tests.pair import Users

TOLD_WHEN_IT_SUITS = {
    "session.completed", "session.flush", "session.known-completed", "connection.heartbeat",
    "session.command-point", "session.confirmed", "session.request-timeout",
    "connection.start", "connection.tune",
}  # fmt: skip
"""What brokers say at different times, or of themselves."""


def sorted_out(said: list[Said]) -> dict[tuple[int, str], list[Any]]:
    """What was said of each kind on each channel, in order: how the kinds mix depends on when a
    broker delivers."""
    found: dict[tuple[int, str], list[Any]] = defaultdict(list)
    for each in said:
        if each.name not in TOLD_WHEN_IT_SUITS:
            found[each.channel, each.name].append(common(each))
    return dict(found)


def common(said: Said) -> Any:
    """What two brokers have in common, as a comparable value."""
    record = said.record
    fields = {name: getattr(record, name) for name in record.__slots__}
    if isinstance(record, w.MessageTransfer):
        header = said.header or b""
        properties = canonical(delivery_properties(header)[0], message_properties(header)[0])
        properties.ttl = properties.absolute_expiry_time = properties.creation_time = None
        body = said.body if said.body is None else bytes(said.body[:])
        fields["content"] = properties.given(), body or b""
    elif isinstance(record, w.ExecutionResult):
        result = ops.read_struct(record.value or b"")
        fields["value"] = {name: getattr(result, name) for name in result.__slots__}
        fields["value"].pop("arguments", None)
        if isinstance(result, w.QueueQueryResult):
            fields["value"]["alternate_exchange"] = result.alternate_exchange or None
    elif isinstance(record, w.ExecutionException | w.ConnectionClose):
        fields = {
            name: fields.get(name) or 0 for name in ("error_code", "command_id", "reply_code")
        }
    elif isinstance(record, w.MessageReject):
        fields["text"] = None
    elif isinstance(record, w.ConnectionOpenOk | w.SessionExpected):
        fields = {"commands": fields.get("commands")}
    return fields


def replies(name: str) -> dict[str, list[Said]]:
    """Those of the recorded broker, by connection."""
    decoders: dict[str, Decoder] = defaultdict(Decoder)
    found: dict[str, list[Said]] = defaultdict(list)
    for frame in frames(name):
        if not frame.from_client:
            found[frame.connection] += decoders[frame.connection].read(frame.octets)
    return dict(found)


def replayed(name: str) -> dict[str, list[Said]]:
    """Ours."""
    served: dict[str, Served] = {}
    found: dict[str, list[Said]] = defaultdict(list)
    for frame in frames(name):
        if frame.from_client:
            one = served.get(frame.connection)
            if one is None:
                first = next(iter(served.values()), None)
                one = served[frame.connection] = Served(
                    LIMITS,
                    beside=first,
                    authority=Users(anonymous="guest"),
                    registry=SessionRegistry(named=NamedSessions(SessionLimits(0))),
                )
            found[frame.connection] += said(one, frame)
    return dict(found)


def said(served: Served, frame: Frame) -> list[Said]:
    octets = frame.octets
    if "connection.open " in frame.meaning and "virtual-host" in frame.meaning:
        octets = control(0, ops.write_control(w.ConnectionOpen()))  # theirs has another name
    return served.receive(octets) if octets else []


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_server_says_what_the_recorded_broker_said(name: str) -> None:
    theirs, ours = replies(name), replayed(name)
    assert theirs.keys() == ours.keys()
    for connection, said in theirs.items():
        assert sorted_out(ours[connection]) == sorted_out(said), connection


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7])
def test_octets_may_be_cut_anywhere(name: str, size: int) -> None:
    for connection, whole in replayed(name).items():
        octets = b"".join(
            frame.octets
            for frame in frames(name)
            if frame.from_client and frame.connection == connection
        )
        assert whole
        served = Served(LIMITS, authority=Users(anonymous="guest"))
        for at in range(0, len(octets), size):
            served.receive(octets[at : at + size])
        served.lose()
