"""What the original client of 0-9a6 wrote: read, written again, and answered."""

from typing import Any

import pytest

from gateway.adapters import Credentials, Limits, Role, adapter_for
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.wire.tables_0_9a6 import V0_9a6
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import (
    BeginSession,
    Bind,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    Done,
    FindQueue,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    QueueState,
    Returned,
    Settle,
    Subscribe,
)
from tests.adapters.methods.drafts.recorded import NAMES, Frame, frames, octets
from tests.adapters.methods.drafts.talking import singly
from tests.pair import Users

METHODS = [(name, at) for name in NAMES for at, _ in enumerate(frames(name))]


def payload_of(frame: Frame) -> bytes:
    size = int.from_bytes(frame.octets[4:8], "big")
    assert len(frame.octets) == 8 + size and frame.octets[-1] == 0xCE and frame.octets[1] == 0
    assert int.from_bytes(frame.octets[2:4], "big") == frame.facts["channel"]
    return frame.octets[8:-1]


def same_value(found: Any, told: Any) -> bool:
    if isinstance(told, dict):
        return bool(found == bytes.fromhex(told["hex"]))
    if isinstance(told, list):
        table = tables.read_table(found, False)
        return table == {entry["name"]: entry["value"] for entry in told}
    if isinstance(found, bytes):
        return bool(found.decode() == told)
    return bool(found == told)


@pytest.mark.parametrize(("name", "at"), METHODS)
def test_every_recorded_frame_is_read_and_written_again(name: str, at: int) -> None:
    frame = frames(name)[at]
    if frame.what == "protocol-header":
        assert frame.octets == V0_9a6.header
        return
    payload = payload_of(frame)
    if frame.what == "content-body":
        assert len(payload) == frame.facts.get("body_size", len(payload))
        if "text" in frame.facts:
            assert payload.decode() == frame.facts["text"]
        return
    if frame.what == "content-header":
        check_header(frame, payload)
        return
    method = V0_9a6.by_name[frame.what]
    assert payload[:4] == method.prefix
    record, end = method.read(payload, 4)
    assert end == len(payload)
    for field, told in frame.facts["args"].items():
        attribute = field.replace("-", "_")
        found = getattr(record, attribute + "_" if attribute == "class" else attribute)
        assert same_value(found, told), field
    assert method.prefix + method.write(record) == payload


def check_header(frame: Frame, payload: bytes) -> None:
    """The client writes class 2 for every class: all of them are JMS messages here."""
    layout = V0_9a6.geometry.content
    group, weight, _ = layout.unpack_from(payload, 0)
    facts = frame.facts
    if "class_id" in facts:
        assert (group, weight) == (facts["class_id"], facts["weight"])
    jms = V0_9a6.contents[7]
    record, end = jms.read(payload, layout.size)
    assert end == len(payload)
    for field, told in facts.get("properties", {}).items():
        assert same_value(getattr(record, field.replace("-", "_")), told), field
    assert jms.write(record) == payload[layout.size :]


# --- replayed against our server role ------------------------------------------------------------

DIFFERENCES = {
    "connection.tune": "channel-max and heartbeat are our own limits",
    "connection.open-ok": "contexts are not kept, so none is given out",
}
"""Where our answers differ from those of the scripted server, and why."""


class House:
    """Answers the requests of the server role, as the broker would."""

    def __init__(self) -> None:
        limits = Limits(channel_max=255, heartbeat=0)
        self.adapter = adapter_for("0-9a6", Role.SERVER, authority=Users(), limits=limits)
        self.heard: list[Operation] = []
        self.queues: set[str] = set()

    def receive(self, data: bytes) -> None:
        found = self.adapter.receive(data)
        while found:
            for operation in singly(found):
                self.heard.append(operation)
                token = getattr(operation, "token", None)
                if token is not None:
                    channel = getattr(operation, "channel", 0)
                    self.adapter.send(Done(channel, token, self.result(operation)))
            found = self.adapter.found()

    def result(self, operation: Operation) -> Any:
        if isinstance(operation, FindQueue):
            there = operation.name in self.queues
            return QueueState(operation.name, 0, 0) if there else None
        if isinstance(operation, DeclareQueue):
            self.queues.add(operation.name)
            return QueueState(operation.name, 0, 0)
        return operation.tag if isinstance(operation, Subscribe) else None


def said(adapter: Any) -> list[tuple[str, bytes]]:
    """What it has to say: names of methods and their payloads."""
    data = b"".join(adapter.output())
    found = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        payload = data[at + 8 : at + 7 + size]
        kind = data[at]
        number = int.from_bytes(payload[:4], "big")
        name = V0_9a6.methods[number].name if kind == 1 else {2: "header", 3: "body"}[kind]
        found.append((name, payload))
        at += 8 + size
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("whole", [True, False], ids=["frames", "octets"])
def test_a_recorded_client_talks_to_our_server(name: str, whole: bool) -> None:
    house = House()
    recorded = frames(name)
    for at, frame in enumerate(recorded):
        if not frame.from_client:
            continue
        size = len(frame.octets) if whole else 1
        for start in range(0, len(frame.octets), size):
            house.receive(frame.octets[start : start + size])
        answers = said(house.adapter)
        expected = []
        for later in recorded[at + 1 :]:
            if later.from_client or later.what in ("jms.deliver", "content-header"):
                break
            expected.append(later)
        assert [a[0] for a in answers] == [e.what for e in expected]
        for (what, payload), told in zip(answers, expected, strict=True):
            if what not in DIFFERENCES:
                assert payload == payload_of(told), what
    assert not house.adapter.closing
    check_heard(name, [operation for operation in house.heard])


def check_heard(name: str, heard: list[Operation]) -> None:
    kinds = [type(operation).__name__ for operation in heard]
    assert kinds[:2] == ["Open", "BeginSession"]
    opening = heard[0]
    assert isinstance(opening, Open) and opening.vhost == "/test" and opening.user == "guest"
    assert all(o.passive for o in heard if isinstance(o, DeclareExchange))  # built in
    if name == "publish":
        (publish,) = (o for o in heard if isinstance(o, Publish))
        message = publish.message
        assert (message.exchange, message.key, message.body) == (
            "amq.direct", "testq", b"mahnah mahnah",
        )  # fmt: skip
        assert publish.mandatory and publish.immediate
        assert message.properties.content_type == "text/plain"
        assert message.properties.creation_time == 1795163593279
        assert message.properties.to == "testq"
        assert message.essentials.ttl is None and message.essentials.user_id is None
    else:
        (bind,) = (o for o in heard if isinstance(o, Bind))
        assert bind.source == "amq.direct" and bind.key == bind.destination
        (subscribe,) = (o for o in heard if isinstance(o, Subscribe))
        assert subscribe.no_ack and subscribe.queue == bind.destination
    if name == "request-reply":
        (publish,) = (o for o in heard if isinstance(o, Publish))
        assert publish.message.properties.reply_to == "QTempResponse1795163646488"
        assert publish.message.properties.application == {"ltimeSent": -132683234}


def test_what_finds_nothing_in_queue_goes_to_the_queue_of_that_name_and_then_comes_back() -> None:
    house = House()
    house.receive(octets("publish", True))
    (publish,) = (o for o in house.heard if isinstance(o, Publish))
    house.adapter.output()
    house.adapter.send(Returned(1, publish.message, Condition.NO_ROUTE, ""))
    (again,) = house.adapter.found()
    assert isinstance(again, Publish)
    assert (again.message.exchange, again.message.key) == ("", "testq")
    assert again.mandatory and again.immediate and again.message.header == publish.message.header
    house.adapter.send(Returned(1, again.message, Condition.NO_CONSUMERS, "NO_CONSUMERS"))
    bounced = said(house.adapter)
    assert [name for name, _ in bounced] == ["jms.bounce", "header", "body"]
    record, _ = V0_9a6.by_name["jms.bounce"].read(bounced[0][1], 4)
    assert (record.reply_code, record.exchange) == (310, "queue")


def test_a_close_behind_the_publish_stops_nothing() -> None:
    house = House()
    house.receive(octets("publish", True))
    (publish,) = (o for o in house.heard if isinstance(o, Publish))
    close = V0_9a6.by_name["channel.close"]
    payload = close.prefix + close.write(close.record(200, "bye"))
    house.adapter.receive(house.adapter.frames.frame(1, 1, payload))  # type: ignore[attr-defined]
    house.adapter.send(Returned(1, publish.message, Condition.NO_ROUTE, ""))
    (again,) = house.adapter.found()
    assert isinstance(again, Publish) and again.message.exchange == ""


# --- replayed against our client role ------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_recorded_server_talks_to_our_client(size: int) -> None:
    """The scripted half of ``consume``: our client sends the requests of the original."""
    client = adapter_for("0-9a6", Role.CLIENT, credentials=Credentials())
    recorded = [frame for frame in frames("consume") if not frame.from_client]
    script = iter(recorded)
    heard: list[Operation] = []

    def hear(what: str) -> None:
        frame = next(script)
        assert frame.what == what
        for start in range(0, len(frame.octets), size):
            heard.extend(client.receive(frame.octets[start : start + size]))

    def says(frame: Frame) -> bool:
        return b"".join(client.output()) == frame.octets

    theirs = {frame.what: frame for frame in frames("consume") if frame.from_client}
    assert says(theirs["protocol-header"])
    client.send(Open("o", "/test", "guest"))
    hear("connection.start")
    assert says(theirs["connection.start-ok"])
    hear("connection.tune")
    assert said(client)[-1][1] == payload_of(theirs["connection.open"])
    hear("connection.open-ok")
    client.send(BeginSession(1, "b"))
    assert [name for name, _ in said(client)] == ["channel.open"]  # we name no prefetch-max
    hear("channel.open-ok")
    client.send(DeclareExchange(1, "e", "amq.direct"))
    assert says(theirs["exchange.declare"])
    hear("exchange.declare-ok")
    client.send(DeclareQueue(1, "q", "testq"))
    assert says(theirs["queue.declare"])
    hear("queue.declare-ok")
    client.send(Bind(1, "i", "testq", "amq.direct", "testq"))
    assert says(theirs["queue.bind"])
    hear("queue.bind-ok")
    client.send(Prefetch(1, None, 100))
    client.send(Subscribe(1, "c", "testq", "mine", no_ack=True))
    assert says(theirs["jms.consume"])
    hear("jms.consume-ok")
    assert [o.token for o in heard if isinstance(o, Done)] == ["o", "b", "e", "q", "i", "c"]
    for _ in range(2):
        for what in ("jms.deliver", "content-header", "content-body"):
            hear(what)
    delivered = [o for o in heard if isinstance(o, Deliver)]
    assert [(d.consumer, d.delivery) for d in delivered] == [("mine", 1), ("mine", 2)]
    for deliver in delivered:
        assert deliver.message.exchange == "amq.direct" and deliver.message.key == "testq"
        assert deliver.message.properties.to == "testq"
    client.send(Settle(1, 2, True, Outcome.RELEASE))
    assert [name for name, _ in said(client)] == ["jms.reject", "jms.reject"]


def test_the_properties_cross_to_0_9_1_and_back() -> None:
    """All fourteen, and the destination."""
    (header,) = (f for f in frames("request-reply") if f.what == "content-header")
    jms = CONTENTS["0-9a6", 7]
    octets = payload_of(header)[V0_9a6.geometry.content.size :]
    message = Message(jms, octets, b"", "", "", jms.essentials(octets))
    crossed = BASIC.write(message.properties)
    assert BASIC.read(crossed) == message.properties
    assert jms.read(jms.write(BASIC.read(crossed))) == message.properties
