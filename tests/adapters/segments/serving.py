"""The server role of 0-10 with a session and a broker behind it, fed as a socket would."""

from typing import Any, NamedTuple

from gateway.adapters import Limits, Role
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.frames import Frames, command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER, OPERATIONS
from gateway.bodies import Body
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import Operation
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.pair import Users

LIMITS = Limits(channel_max=0, heartbeat=0, max_message_octets=200_000)


class Said(NamedTuple):
    """A control or a command of the server, with its content."""

    channel: int
    record: Any
    header: bytes | None = None
    body: Body | None = None

    @property
    def name(self) -> str:
        return str(self.record.NAME)


class Channel:
    """Commands of the server on one channel."""

    def __init__(self, number: int, said: list[Said]) -> None:
        self._number = number
        self._said = said

    def on_transfer(
        self, sync: bool, arguments: bytes, header: Any, body: Any, found: list[Operation]
    ) -> None:
        record = w.read_message_transfer(arguments, 0)[0]
        self._said.append(Said(self._number, record, header, body))

    def on_run(
        self, arguments: bytes, content: list[tuple[bytes, bytes]], found: list[Operation]
    ) -> None:
        for header, body in content:
            self.on_transfer(False, arguments, header, body, found)

    def on_command(
        self, code: int, sync: bool, buf: bytes, at: int, end: int, header: Any, body: Any, _: Any
    ) -> None:
        record = ops.read_fields(OPERATIONS[code], buf, at, end)
        self._said.append(Said(self._number, record, header, body))

    def on_violation(self, violation: Any, found: list[Operation]) -> None:
        raise AssertionError(violation)


class Channels(dict[int, Channel]):
    """Every channel that the server uses."""

    def __init__(self, said: list[Said]) -> None:
        super().__init__()
        self._said = said

    def __contains__(self, number: object) -> bool:
        return True

    def get(self, number: int, default: Any = None) -> Any:
        return self.setdefault(number, Channel(number, self._said))


class Decoder:
    """Reads the frames of one side, which opens with a header."""

    def __init__(self, from_client: bool = False) -> None:
        self._from_client = from_client
        self._said: list[Said] = []
        self._frames = Frames(self, Channels(self._said), max_body=0, limit=0xFFFF)
        self._greeted = False

    def read(self, data: bytes) -> list[Said]:
        if not self._greeted and data:
            assert data.startswith(HEADER)
            self._greeted = True
            data = data.removeprefix(HEADER)
        violation = self._frames.feed(data, [])
        assert violation is None, violation
        said = self._said[:]
        self._said.clear()
        return said

    def on_control(
        self, channel: int, code: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        kind = OPERATIONS[code]
        assert kind.from_client if self._from_client else kind.from_server, kind.name
        self._said.append(Said(channel, ops.read_fields(kind, buf, at, end)))

    def on_unattached(self, channel: int, found: list[Operation]) -> None:
        raise AssertionError("every channel is known")


class Served:
    """A server that is talked to."""

    def __init__(
        self, limits: Limits = LIMITS, beside: "Served | None" = None, **options: Any
    ) -> None:
        """``beside``: another connection of the same broker."""
        self.store: MemoryStore = MemoryStore(False) if beside is None else beside.store
        self.broker: Broker = Broker(self.store) if beside is None else beside.broker
        registry = SessionRegistry() if beside is None else beside.registry
        self.registry: SessionRegistry = options.pop("registry", registry)
        self.adapter = Engine(
            "0-10", Role.SERVER, authority=options.pop("authority", Users()), limits=limits,
            **options,
        )  # fmt: skip
        self.session = Session(
            self.broker,
            self.adapter,
            self.registry,
            address="127.0.0.1:1",
            loopback=True,
            since=0,
        )
        self.read = Decoder().read

    def receive(self, data: bytes) -> list[Said]:
        """What the server answers to these octets."""
        return self.read(self.octets(data))

    def octets(self, data: bytes) -> bytes:
        self.session.perform(self.adapter.receive(data))
        return self.rest()

    def rest(self) -> bytes:
        """What it has to say by itself."""
        for _ in range(3):  # what is stored may lead to answers, and they to operations
            self.session.perform(self.adapter.found())
            self.settle()
        return self.output()

    def settle(self) -> None:
        """The end of a turn: everything is stored."""
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.broker.committed(batch.mark)

    def output(self) -> bytes:
        """What the server writes."""
        said = b""
        while octets := b"".join(self.adapter.output()):
            said += octets
            self.adapter.refill()
        return said

    def lose(self) -> None:
        """The socket is gone: nothing is left."""
        self.session.peer_gone(self.adapter.lost())
        while self.session.finish():
            self.settle()
        assert self.session.closed and not self.session.channels


class Client:
    """Writes the frames of a client."""

    def __init__(self, **options: Any) -> None:
        self.served = Served(**options)

    def open(self, name: bytes = b"test") -> "Client":
        """Log in, and attach a session to channel 1."""
        served = self.served
        (start,) = served.receive(HEADER)
        assert start.name == "connection.start"
        self.control(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"))
        self.control(0, w.ConnectionTuneOk())
        (opened,) = self.control(0, w.ConnectionOpen())
        assert opened.name == "connection.open-ok"
        self.attach(1, name)
        return self

    def attach(self, channel: int, name: bytes) -> None:
        said = self.control(channel, w.SessionAttach(name))
        assert [each.name for each in said] == ["session.attached", "session.command-point"]
        assert not self.control(channel, w.SessionCommandPoint(0, 0))

    def control(self, channel: int, record: Any) -> list[Said]:
        return self.served.receive(control(channel, ops.write_control(record)))

    def say(self, *records: Any, sync: bool = True, channel: int = 1) -> list[Said]:
        """Commands without content; sync asks for the completion of each."""
        octets = [command(channel, ops.write_command(record, sync)) for record in records]
        return self.served.receive(b"".join(octets))

    def transfer(
        self,
        key: str,
        body: bytes | None = b"",
        *,
        exchange: str = "",
        mode: int | None = None,
        sync: bool = True,
        flags: int = 0,
    ) -> list[Said]:
        return self.served.receive(self.transferred(key, body, exchange, mode, sync, flags))

    def transferred(
        self,
        key: str,
        body: bytes | None = b"",
        exchange: str = "",
        mode: int | None = None,
        sync: bool = True,
        flags: int = 0,
    ) -> bytes:
        record = w.MessageTransfer(exchange, mode)
        properties = w.DeliveryProperties(bool(flags & 1), bool(flags & 2), routing_key=key)
        header = ops.coded(0x0401, w.write_delivery_properties(properties))
        return command(1, ops.write_command(record, sync), header, body)


def names(said: list[Said]) -> list[str]:
    return [each.name for each in said]
