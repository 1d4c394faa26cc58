"""Random clients of 0-10: whatever they send, the server answers what can be read, and lives."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.assembly import MOST_HELD
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.frame_format import COMMAND_TRACK
from gateway.adapters.segments.frames import command, control, frames_of
from gateway.adapters.segments.session_state import ATTACHED
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER, OPERATIONS, SegmentType
from specs.codegen import ir
from specs.codegen.layouts import snake
from tests.adapters.segments.recorded import NAMES, frames
from tests.adapters.segments.records import PROTOCOL, STRUCTS
from tests.adapters.segments.serving import Client, Served, names
from tests.adapters.test_fuzz import Anyone, mutate
from tests.drawing import examples
from tests.pair import pieces

LIMITS = Limits(channel_max=4, heartbeat=0, max_message_octets=20_000)
FIELDS = {f"{c.name}.{o.name}": o.fields for c in PROTOCOL.classes for o in c.operations}
KINDS = [kind for kind in OPERATIONS.values() if kind.from_client]
COMMANDS = [kind for kind in KINDS if not kind.control]
SESSION_CONTROLS = [kind for kind in KINDS if kind.control and kind.code >> 8 == 2]
CONNECTION_CONTROLS = [kind for kind in KINDS if kind.control and kind.code >> 8 == 1]
OF_MESSAGES = [kind for kind in COMMANDS if kind.name.startswith("message.")]
USUAL = [
    kind
    for kind in COMMANDS
    if kind.name.split(".")[0] in ("message", "queue", "exchange", "tx", "dtx", "execution")
]
NAMED = {
    "queue": (*["q0"] * 9, *["q1"] * 9, "gone", "", "amq.x", "q" * 255, None),
    "exchange": (*["amq.topic", "amq.match", "e0"] * 5, "", "gone", "e" * 255, None),
    "alternate_exchange": (None, None, None, "amq.fanout", "gone"),
    "destination": (*["d0", "d1", "d2"] * 5, "", "q0", None),
    "binding_key": ("q0", "#", "a.*.b", "", None),
    "type": (*["topic"] * 5, "direct", "headers", "fanout", "nonsense", None),
    "name": ("q0", "e0", "gone", "", None),
    "accept_mode": (0, 0, 0, 1, None, 77), "acquire_mode": (0, 0, 0, 1, None, 77),
    "unit": (0, 0, 1, 1, None, 9), "value": (1, 10, 0xFFFFFFFF, 0, None),
    "flow_mode": (0, 1, None, 9), "durable": (False,), "auto_delete": (False, False, True),
    "passive": (False, False, False, True), "exclusive": (*[False] * 9, True),
}  # fmt: skip
"""Likely values of fields, by their names."""
ARGUMENTS = (
    None, b"", write_map({}), write_map({"x-filter-jms-selector": "JMSPriority > 3"}),
    write_map({"x-filter-jms-selector": "((("}), write_map({"x-match": "any", "a": 1}),
    write_map({"qpid.max_count": 3, "qpid.policy_type": "ring"}), write_map({"x-max-length": -1}),
    write_map({"qpid.max_size": "many"}), write_map({"x-message-ttl": 1}),
    write_map({"x-match": "all", "deep": {"a": [{"b": [1, "2", 3.0]}]}}),
    b"\0\0\0\2\1a", b"\xff\xff\xff\xff", b"\0\0\0\1\1a\xaa\0\0\0\5\xf0\0\0\0\xff",
)  # fmt: skip


TYPES = {"text": str | None, "unsigned": int | None, "bit": bool}


class Draw:
    """Records, commands and frames with random contents."""

    def __init__(self, seed: object) -> None:
        self.chance = random.Random(str(seed))

    def ranges(self) -> tuple[tuple[int, int], ...] | None:
        chance = self.chance
        many = chance.choice([0, 1, 1, 1, 2, 5, 300])
        if not many:
            return chance.choice([None, ()])
        top = chance.choice([3, 10, 40, 0xFFFFFFFF])
        pairs = [(chance.randint(0, top), chance.randint(0, top)) for _ in range(many)]
        return tuple(sorted(pair) if chance.random() < 0.9 else pair for pair in pairs)  # type: ignore[misc]

    def value(self, item: ir.Field) -> Any:
        chance, name = self.chance, snake(item.name)
        if item.type in STRUCTS:
            return self.struct(STRUCTS[item.type][1])
        wire = PROTOCOL.wire_type(item.type)
        likely = chance.choice(NAMED.get(name, (b"",)))
        if isinstance(likely, TYPES.get(wire.kind, ())) and chance.random() < 0.95:
            return likely
        if wire.kind == "bit":
            return chance.random() < 0.3
        if chance.random() < 0.2:
            return None
        if wire.kind in ("unsigned", "time"):
            most = (1 << 8 * wire.width) - 1
            return chance.choice([0, 1, 2, chance.randint(0, most), most])
        if wire.kind == "text":
            return chance.choice(["", "PLAIN", "text", "\udcff\udcfe", "x" * 255])
        if wire.kind == "octets":
            octets = chance.randbytes(chance.choice([1, 100, 255]))
            return chance.choice([b"", b"s1", b"s2", b"\0guest\0guest", octets])
        if wire.kind == "uuid":
            return chance.randbytes(16)
        if wire.kind == "set":
            return self.ranges() if wire.name == "sequence-set" else ((0, 5),)
        if wire.kind == "map":
            return chance.choice(ARGUMENTS)
        return chance.choice([b"", b"\xf0\0\0\0\0", chance.randbytes(20)])

    def struct(self, struct: ir.Struct) -> Any:
        from specs.codegen.layouts import camel

        record = getattr(w, camel(struct.name))
        return record(**{snake(item.name): self.value(item) for item in struct.fields})

    def record(self, kinds: list[Any]) -> Any:
        kind = self.chance.choice(kinds)
        given = {snake(item.name): self.value(item) for item in FIELDS[kind.name]}
        return kind.record(**given)

    def header(self) -> bytes | None:
        chance = self.chance
        if chance.random() < 0.1:
            return chance.choice([None, b"", chance.randbytes(chance.randint(1, 40))])
        delivery = w.DeliveryProperties(
            chance.random() < 0.3, chance.random() < 0.1, priority=chance.choice([None, 0, 9, 200]),
            delivery_mode=chance.choice([None, 1, 2, 9]),
            ttl=chance.choice([None, None, 0, 1, 10**18]),
            expiration=chance.choice([None, None, 0, 1, (1 << 64) - 1]),
            timestamp=chance.choice([None, (1 << 64) - 1]), exchange=chance.choice([None, "e0"]),
            routing_key=chance.choice(["q0", "q0", "q1", "gone", "", None]),
        )  # fmt: skip
        message = w.MessageProperties(
            message_id=chance.choice([None, chance.randbytes(16)]),
            reply_to=chance.choice([None, w.ReplyTo("a", "b"), w.ReplyTo()]),
            user_id=chance.choice([None, None, None, b"guest", b"other"]),
            application_headers=chance.choice(ARGUMENTS),
        )
        structs = [
            ops.coded(0x0401, w.write_delivery_properties(delivery)),
            ops.coded(0x0403, w.write_message_properties(message)),
            ops.coded(0x0999, b"\0\0"),
        ]
        return b"".join(chance.sample(structs, chance.randint(0, 3)))

    def frames(self, channel: int) -> bytes:
        """A few frames of a client."""
        chance, kind = self.chance, self.chance.random()
        limit = chance.choice([20, 100, 4096, 4096, 4096])
        if kind < 0.35:
            body = chance.choice([None, b"", b"body", chance.randbytes(3000)])
            record = w.MessageTransfer(chance.choice(["", "", "amq.topic", "gone"]), self.mode())
            segment = ops.write_command(record, chance.random() < 0.3)
            return command(channel, segment, self.header(), body, limit)
        if kind < 0.93:
            record = self.record(USUAL if chance.random() < 0.98 else COMMANDS)
            if chance.random() < 0.5:
                record = self.record(OF_MESSAGES)
            segment = ops.write_command(record, chance.random() < 0.3)
            header = self.header() if chance.random() < 0.05 else None
            return command(channel, segment, header, b"" if header else None, limit)
        if kind < 0.993:
            segment = ops.write_control(self.record(SESSION_CONTROLS))
            return control(channel, segment, limit)
        if kind < 0.995:
            return control(0, ops.write_control(self.record(CONNECTION_CONTROLS)), limit)
        if kind < 0.997:
            return chance.randbytes(chance.randint(1, 60))
        place, track = chance.randrange(16), chance.choice([0, COMMAND_TRACK, 7])
        kind = chance.choice([SegmentType.CONTROL, SegmentType.COMMAND, SegmentType.BODY])
        octets = chance.randbytes(chance.choice([0, 5, 300]))
        return b"".join(frames_of(kind, place & 0xC, octets, channel, track, limit))

    def channel(self) -> int:
        """Mostly one with a session."""
        usual = self.chance.random() < 0.99
        return self.chance.choice([1, 1, 1, 2] if usual else [0, 3, 4, 60000])

    def mode(self) -> int | None:
        return self.chance.choice([0, 0, 1, None])

    def cut(self, octets: bytes) -> Iterator[bytes]:
        sizes = self.chance.choice([[1, 3, 50], [50, 400], [100_000]])
        return iter(pieces(octets, iter(lambda: self.chance.choice(sizes), 0)))


def check(served: Served) -> None:
    """The memory that a peer can make us hold is bounded."""
    adapter = served.adapter
    assert adapter.frames.held <= MOST_HELD
    if adapter.closing:
        assert not adapter.sessions and not adapter.frames.held
    assert len(adapter.sessions) <= LIMITS.channel_max


def works(served: Served) -> None:
    """The broker behind this connection serves another one."""
    other = Client(limits=LIMITS, beside=served).open(b"other")
    assert names(other.say(w.QueueDeclare("sound"))) == ["session.completed"]
    other.transfer("sound", b"body")
    other.say(w.MessageSubscribe("sound", "d"))
    said = other.say(w.MessageFlow("d", 1, 1000), w.MessageFlow("d", 0, 1))
    assert [each.body for each in said if each.name == "message.transfer"] == [b"body"]
    other.served.lose()


def begin(client: Client, channel: int, chance: random.Random) -> None:
    """A new session has transactions or not, and deliveries."""
    usual = [
        w.QueueDeclare("q0"), w.QueueDeclare("q1"), w.TxSelect(),
        w.MessageSubscribe("q0", "d0", 0, chance.choice([0, 1])), w.MessageSubscribe("q1", "d1"),
        w.MessageFlow("d0", 0, 100), w.MessageFlow("d0", 1, 5000), w.MessageFlow("d1", 0, 50),
        w.MessageFlow("d1", 1, 0xFFFFFFFF),
    ]  # fmt: skip
    if chance.random() < 0.3:
        return
    del usual[2 : chance.choice([2, 3])]
    client.say(*usual, channel=channel)
    body = chance.choice([b"", b"body"])
    if channel == 1:
        for _ in range(chance.choice([0, 1, 20])):
            client.transfer("q0", body)


@pytest.mark.parametrize("seed", range(examples(400)))
def test_random_commands(seed: int) -> None:
    """Commands and controls with random fields, in the right frames and in wrong ones, whatever
    the state of their session."""
    draw = Draw(seed)
    client = Client(limits=LIMITS, authority=Anyone()).open()
    client.say(w.QueueDeclare("q0"), w.QueueDeclare("q1"), w.ExchangeDeclare("e0", "topic"))
    begin(client, 1, draw.chance)
    served = client.served
    for _ in range(60):
        channel = draw.channel()
        for piece in draw.cut(draw.frames(channel)):
            served.receive(piece)
            check(served)
        number = draw.chance.choice([1, 1, 1, 2])
        session = served.adapter.sessions.get(number)
        if not served.adapter.closing and (session is None or session.state is not ATTACHED):
            client.control(number, w.SessionAttach(b"s%d" % number))
            client.control(number, w.SessionCommandPoint(0, 0))
            begin(client, number, draw.chance)
    served.lose()
    works(served)


@pytest.mark.parametrize("seed", range(examples(200)))
def test_random_handshakes(seed: int) -> None:
    """The controls of a handshake, in any order and with any content."""
    draw = Draw(f"handshake {seed}")
    served = Served(LIMITS)
    served.receive(HEADER)
    for _ in range(20):
        record = draw.record(CONNECTION_CONTROLS + SESSION_CONTROLS[:2])
        if draw.chance.random() < 0.5:
            record = draw.chance.choice([
                w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest"), w.ConnectionTuneOk(),
                w.ConnectionOpen("/"), w.ConnectionStartOk(b"", "PLAIN"),
                w.ConnectionSecureOk(b"\0guest\0guest"), w.ConnectionStartOk(b"", "SCRAM-SHA-256"),
            ])  # fmt: skip
        for piece in draw.cut(control(0, ops.write_control(record), 4096)):
            served.receive(piece)
        check(served)
    served.lose()
    works(served)


def said_by_client(name: str) -> list[bytes]:
    """The octets of each recorded client."""
    found: dict[str, bytes] = {}
    for frame in frames(name):
        if frame.from_client:
            found[frame.connection] = found.get(frame.connection, b"") + frame.octets
    return [octets for octets in found.values() if len(octets) > 60]


@pytest.mark.parametrize("name", NAMES)
def test_mutated_recordings(name: str) -> None:
    """Recorded clients, with mistakes in what they say."""
    draw = Draw(name)
    for whole in said_by_client(name):
        for _ in range(examples(80)):
            served = Served(LIMITS, authority=Anyone(anonymous="guest"))
            served.broker.create_vhost("test")
            for piece in draw.cut(mutate(whole, draw.chance)):
                served.receive(piece)
                check(served)
            served.lose()
            works(served)
