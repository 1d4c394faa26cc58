"""Fast paths, caches and templates have the same results as the general path."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from gateway.adapters import Credentials, Limits, Role, adapter_for
from gateway.adapters.commands import client_outbound as requests
from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import COMMAND, read_head, read_header
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES
from gateway.message import Essentials, Message, Properties
from gateway.operations import (
    BeginSession,
    CloseDestination,
    Deliver,
    Done,
    Listen,
    Open,
    OpenDestination,
    Operation,
    Publish,
    SendTo,
    Service,
    Subscribe,
)
from gateway.sessions.publishes import one_by_one
from gateway.values import Int
from tests.adapters.commands.connected_pair import message
from tests.drawing import examples
from tests.pair import Users


class Both:
    """Client and server with channel 1 open, a producer's handle 1, a consumer's handle 2, and a
    broker that grants everything."""

    def __init__(self, content_type: str = "", limits: Limits = Limits()) -> None:  # noqa: B008
        self.server: Any = adapter_for("0.8a2", Role.SERVER, authority=Users(), limits=limits)
        self.client: Any = adapter_for(
            "0.8a2", Role.CLIENT, credentials=Credentials("guest", "guest"), limits=limits
        )
        self.asked: list[Operation] = []
        for operation in (
            Open("t", "/", "guest"),
            BeginSession(1, "t"),
            OpenDestination(
                1, "t", "1", Service.QUEUE, "", produce=True, content_type=content_type
            ),
            OpenDestination(1, "t", "2", Service.QUEUE, "", consume=True),
            Listen(1, "t", "2", "2", "q", 9),
        ):
            self.client.send(operation)
            self.run()

    def run(self) -> None:
        while True:
            up, down = b"".join(self.client.output()), b"".join(self.server.output())
            if not up and not down:
                return
            for op in one_by_one(self.server.receive(up) if up else []):
                self.asked.append(op)
                result = op.name if isinstance(op, Listen) else ""
                token = getattr(op, "token", None)
                if token is not None:
                    self.server.send(Done(getattr(op, "channel", 0), token, result))
            if down:
                self.client.receive(down)

    def put(self, octets: bytes, tag: int = 0, bits: int = 0) -> None:
        """A fragment from the client's producer."""
        record = w.HandleSend(1, tag, len(octets), bool(bits & 1), dest_name="q")
        self.client.connection.put_message(1, frame(record) + octets)


def plain(operations: list[Operation]) -> list[Any]:
    found: list[Any] = []
    for op in one_by_one(operations):
        if isinstance(op, SendTo | Deliver):
            m = op.message
            rest = [getattr(op, name) for name in dir(op) if name in FIELDS]
            exact = (m.header, m.body, m.exchange, m.key, m.essentials)
            found.append((type(op), exact, rest))
        else:
            found.append(op)
    return found


FIELDS = frozenset(
    ["channel", "token", "link", "name", "answered", "expires", "consumer", "delivery",
     "redelivered"]
)  # fmt: skip

# --- reading headers -----------------------------------------------------------------------------

FULL = COMMAND.write(
    Properties(
        durable=True, priority=3, content_type="t", message_id="m", absolute_expiry_time=9000,
        application={"a": "s", "b": Int(7)},
    )
)  # fmt: skip


@settings(max_examples=examples(200))
@given(at=some.integers(0, 60), octet=some.integers(0, 255), cut=some.integers(-1, 3))
@example(at=0, octet=255, cut=0)
def test_an_outline_agrees_with_full_decoding(at: int, octet: int, cut: int) -> None:
    header = bytearray(FULL)
    if at < len(header):
        header[at] = octet
    octets = bytes(header[: len(header) - cut]) if cut >= 0 else bytes(header) + b"\0"
    expected = None
    try:
        record = read_header(octets)
        table = fields.read_table(record.headers)
        headers = bool(table) and "CC" not in table and "BCC" not in table
        expected = Essentials(record.persistent, record.priority, has_headers=headers)
    except (ValueError, IndexError):
        pass
    try:
        found = COMMAND.essentials(octets)
    except ValueError:
        assert expected is None
    else:
        assert found == expected


@settings(max_examples=examples(200))
@given(some.lists(some.sampled_from([*b"SIDTab\0\1\2\3\4\xff"]), max_size=24).map(bytes))
def test_a_table_is_good_if_it_can_be_read(octets: bytes) -> None:
    def good(look: Any) -> bool:
        try:
            look(octets)
        except (ValueError, IndexError):
            return False
        return True

    assert good(fields.check_table) == good(fields.read_table)


# --- caches --------------------------------------------------------------------------------------


def test_headers_that_differ_by_one_octet_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the cache is full again and again."""
    both = Both()
    monkeypatch.setattr(both.server.connection.headers._parsed, "entries", 3)
    sent = [message(b"b", message_id=f"m-{n}", priority=n % 9) for n in range(8)] * 2
    for one in sent:
        both.client.send(SendTo(1, None, "1", "q", one))
    both.run()
    found = [op.message for op in both.asked if isinstance(op, SendTo)]
    assert [m.header for m in found] == [m.header for m in sent]
    assert [m.essentials for m in found] == [m.essentials for m in sent]
    assert len(both.server.connection.headers._parsed) <= 3


def test_defaults_and_dictionaries_are_part_of_the_cache_key() -> None:
    """The same octets mean something else over another handle, and with other names."""
    one = message(b"b", application={"x": "y"})
    for content_type in ("a/b", "c/d", ""):
        both = Both(content_type)
        headers = both.server.connection.headers
        for _ in range(2):
            both.client.send(SendTo(1, None, "1", "q", one))
            both.run()
        headers.add(fields.write_table({"x": "long"}))
        both.client.send(SendTo(1, None, "1", "q", one))
        both.run()
        found = [op.message.properties for op in both.asked if isinstance(op, SendTo)]
        assert [p.content_type for p in found] == [content_type or None] * 3
        assert [p.application for p in found] == [{"x": "y"}, {"x": "y"}, {"long": "y"}]


def test_a_bad_header_is_refused_each_time() -> None:
    for _ in range(3):
        both = Both()
        both.put(b"\0\0\0\1" + FULL.replace(b"aS", b"aZ") + b"b")
        both.run()
        assert isinstance(both.asked[-1], CloseDestination)
        assert not both.server.connection.headers._parsed
    both = Both()
    both.put(b"\0\0\0\1" + FULL + b"b")
    both.put(b"\0\0\0\1" + FULL + b"bb")  # one octet too many
    octets = b"".join(both.client.output())
    found = both.server.receive(octets)
    assert [type(op) for op in found] == [SendTo, CloseDestination]
    code = REPLIES["invalid-message"].to_bytes(2, "big")
    assert code in b"".join(both.server.output())


# --- in one step, and by way of records ----------------------------------------------------------


def to_server(both: Both) -> bytes:
    for number, one in enumerate([message(b"body", message_id="m"), message(), message(b"x")]):
        both.client.send(SendTo(1, None, "1", "q", one))
        both.put(b"\0\0\0\2" + one.header + b"12", tag=number)
    both.put(b"\0\0\0\2" + message().header + b"1", bits=1)
    both.put(b"2")
    return b"".join(both.client.output())


def to_client(both: Both) -> bytes:
    outlet = both.server.outlet(1)
    for number, one in enumerate([message(b"body", message_id="m"), message(), message(b"x")]):
        outlet.deliver("2/1", number + 1, number == 1, one)
    return b"".join(both.server.output())


@pytest.mark.parametrize("server", [True, False])
def test_one_step_is_as_good_as_many(server: bool) -> None:
    """Any octet may be wrong."""
    say = to_server if server else to_client
    octets = say(Both())
    for at in range(-1, len(octets)):
        data = octets
        if at >= 0:
            changed = bytes([octets[at] ^ (1 if at % 2 else 0x41)])
            data = octets[:at] + changed + octets[at + 1 :]
        results = []
        for quick in (True, False):
            both = Both()
            say(both)
            here = both.server if server else both.client
            if not quick:
                here.frames._fast_path = lambda *_: 0
            results.append(
                (plain(here.receive(data)), here.output(), here.connection.incoming_octets)
            )
        assert results[0] == results[1], at


def test_a_message_is_never_larger_than_allowed() -> None:
    limits = Limits(max_message_octets=100)
    both = Both(limits=limits)
    both.client.send(SendTo(1, None, "1", "q", message(bytes(100))))
    both.client.send(SendTo(1, None, "1", "q", message(bytes(101))))
    both.run()
    assert [len(op.message.body) for op in both.asked if isinstance(op, SendTo)] == [100]


# --- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"b", bytes(4000), bytes(1 << 17)])
def test_cached_encodings_are_the_same_as_written_ones(body: bytes) -> None:
    written = []
    for quick in (True, False):
        both = Both()
        channel = both.server.table.channels[1]
        if not quick:
            channel._deliver_whole = lambda *_: False
        for number in (1, 2, (1 << 32) - 1):
            for one in (message(body), message(body, message_id="n")):
                channel.deliver("2/1", number, number == 2, one)
        written.append(b"".join(both.server.output()))
    assert written[0] == written[1]


def test_a_client_repeats_the_same_octets() -> None:
    both = Both()
    client, connection = both.client.table, both.client.connection
    handle = client.handles[1]
    for name, tag in (("q", 0), ("other", 7), ("q", 9)):
        one = message(b"body", message_id="m")
        requests.write_publish(client, handle, tag, name, one)
        quick = b"".join(both.client.output())
        head, body = connection.headers.for_peer(one, connection.frame_out)
        record = w.HandleSend(handle.number, tag)
        connection.write_message(handle.channel, record, name, head, body)
        assert quick == b"".join(both.client.output())
        assert read_head(quick, quick.index(head))[0].identifier == "m"


def test_common_words_go_the_same_way() -> None:
    """Publish and subscribe, which other versions have too."""
    both = Both()
    both.client.send(Subscribe(1, "s", "q", "mine", True))
    both.run()
    sent = Message(COMMAND, FULL, b"b", "", "q", COMMAND.essentials(FULL))
    both.client.send(Publish(1, sent, False, False))
    both.run()
    (found,) = [op for op in both.asked if isinstance(op, SendTo)]
    assert (found.name, found.expires, found.message.header) == ("q", 9000, FULL)
