"""The server role with a session and a broker behind it, fed as a socket would."""

import struct
from typing import Any, NamedTuple

from gateway.adapters import Limits, Role
from gateway.adapters.contract import Answer
from gateway.adapters.methods.transitional.engine import Engine
from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.transitional.versions import REVISIONS, Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.pair import Users

LIMITS = Limits(frame_max=65536, channel_max=32767, heartbeat=0, max_message_octets=200_000)


class Anyone(Users):
    """Accepts every password."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        answer(True)


class Said(NamedTuple):
    """One frame of the server; of a content frame, ``record`` is its payload."""

    channel: int
    carried: Carried | None
    record: Any

    @property
    def name(self) -> str:
        return str(getattr(self.record, "NAME", "content"))


class Decoder:
    """Reads frames of a server."""

    def __init__(self, version: str) -> None:
        self._table = REVISIONS[version]
        self._frames = Frames(self._table, self, 1 << 20)
        self._said: list[Said] = []

    def read(self, data: bytes) -> list[Said]:
        self._frames.feed(data, [])
        said, self._said = self._said, []
        return said

    def on_method(
        self, channel: int, carried: Carried | None, buf: bytes, at: int, end: int, found: Any
    ) -> None:
        method = self._table.methods[int.from_bytes(buf[at : at + 4], "big")]
        assert method.from_server, method.name
        record, stop = method.read(buf, at + 4)
        assert stop == end
        self.keep(channel, carried, record)

    def keep(self, channel: int, carried: Carried | None, record: Any) -> None:
        self._said.append(Said(channel, carried, record))

    def on_header(self, channel: int, buf: bytes, at: int, end: int, found: Any) -> None:
        self._said.append(Said(channel, None, buf[at:end]))

    on_body = on_header


class Served:
    """A server that is talked to."""

    def __init__(
        self,
        version: str,
        limits: Limits = LIMITS,
        spoken: str = "",
        beside: "Served | None" = None,
        **options: Any,
    ) -> None:
        """``spoken``: the revision of the client, if it is the other one. ``beside``: another
        connection to the same broker."""
        self.store: MemoryStore = MemoryStore(False) if beside is None else beside.store
        self.broker: Broker = Broker(self.store) if beside is None else beside.broker
        self.registry: SessionRegistry = SessionRegistry() if beside is None else beside.registry
        self.adapter = Engine(version, Role.SERVER, authority=Anyone(), limits=limits, **options)
        self.session = Session(
            self.broker,
            self.adapter,
            self.registry,
            address="127.0.0.1:1",
            loopback=True,
            since=0,
        )
        self._decoder = Decoder(spoken or version)

    def receive(self, data: bytes) -> list[Said]:
        """What the server answers to these octets."""
        return self._decoder.read(self.octets(data))

    def octets(self, data: bytes) -> bytes:
        self.session.perform(self.adapter.receive(data))
        for _ in range(3):  # what is stored may lead to answers, and they to operations
            self.session.perform(self.adapter.found())
            self.commit()
        said = b""
        while octets := b"".join(self.adapter.output()):
            said += octets
            self.adapter.refill()
        return said

    def commit(self) -> None:
        """The end of a turn of the broker."""
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.broker.committed(batch.mark)

    def lose(self) -> None:
        """The socket is gone: nothing is left."""
        self.session.peer_gone(self.adapter.lost())
        while self.session.finish():
            self.commit()
        assert self.session.closed and not self.session.channels
        self.session.release()


class Client:
    """Writes the frames of a client, as requests or as plain methods."""

    def __init__(self, version: str, requests: bool | None = None, **options: Any) -> None:
        self.requests = version == "0-10-07-24" if requests is None else requests
        spoken = "0-10-07-24" if self.requests else "0-10-07-27"
        self.served = Served(version, spoken=spoken, **options)
        self.table = REVISIONS[spoken]
        self._ids: dict[int, int] = {}
        self._responses: dict[int, int] = {}
        self._frames = Frames(self.table, Decoder(spoken), 1 << 20)

    def open(self) -> "Client":
        """Log in, and open channel 1."""
        served = self.served
        (start,) = served.receive(self.table.header)
        assert start.name == "connection.start"
        self.answer(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"), 1)
        self.answer(0, w.ConnectionTuneOk(0, 4096, 0), 2)
        assert [said.name for said in self.say(0, w.ConnectionOpen("/"))] == ["connection.open-ok"]
        assert [said.name for said in self.say(1, w.ChannelOpen())] == ["channel.open-ok"]
        return self

    def restarted(self, channel: int) -> "Client":
        """The client, which numbers a channel from the beginning."""
        self._ids.pop(channel, None)
        self._responses.pop(channel, None)
        return self

    def say(self, channel: int, record: Any) -> list[Said]:
        """A request; returns the answers of the server."""
        return self.served.receive(self.octets(channel, record))

    def octets(self, channel: int, record: Any) -> bytes:
        identifier = self._ids[channel] = self._ids.get(channel, 0) + 1
        return self.encoded(channel, record, Carried(False, identifier, 0, 0))

    def answer(self, channel: int, record: Any, request: int, batch: int = 0) -> list[Said]:
        """A response."""
        return self.served.receive(self.answered(channel, record, request, batch))

    def answered(self, channel: int, record: Any, request: int, batch: int = 0) -> bytes:
        identifier = self._responses[channel] = self._responses.get(channel, 0) + 1
        return self.encoded(channel, record, Carried(True, identifier, request, batch))

    def encoded(self, channel: int, record: Any, carried: Carried) -> bytes:
        method = self.table.by_record[type(record)]
        payload = method.prefix + method.write(record)
        return self._frames.method_frame(channel, carried if self.requests else None, payload)

    def content(self, channel: int, header: bytes, body: bytes) -> bytes:
        """Header and body frames of the class ``basic``."""
        head = struct.pack(">HHQ", 60, 0, len(body)) + header
        frames = self._frames
        return frames.frame(2, channel, head) + frames.frame(3, channel, body) * bool(body)
