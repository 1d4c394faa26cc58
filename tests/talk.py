"""A conversation with one adapter in terms of methods: ``says`` what the peer sends, ``hears`` what
the adapter has answered, each as ``(channel, record)`` or ``(channel, octets of content)``.
"""

from typing import Any

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.operations import BeginSession, Done, Open, Operation
from tests.pair import Users, told


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return (
        kind.to_bytes(1) + channel.to_bytes(2) + len(payload).to_bytes(4) + payload + bytes([end])
    )


def method(version: str, channel: int, record: Any) -> bytes:
    found = complete(version).by_record[type(record)]
    return frame(1, channel, found.prefix + found.encode(record))


def header(channel: int, size: int, properties: bytes = b"\0\0", group: int = 60) -> bytes:
    return frame(2, channel, group.to_bytes(2) + b"\0\0" + size.to_bytes(8) + properties)


def body(channel: int, octets: bytes) -> bytes:
    return frame(3, channel, octets)


def frames(version: str, data: bytes) -> list[tuple[int, Any]]:
    """Everything in these octets, read with the tables alone."""
    found: list[tuple[int, Any]] = []
    while data:
        kind, channel = data[0], int.from_bytes(data[1:3])
        size = int.from_bytes(data[3:7])
        payload = data[7 : 7 + size]
        assert data[7 + size] == 0xCE
        data = data[8 + size :]
        if kind == 1:
            row = VERSIONS[version].methods[int.from_bytes(payload[:4])]
            record, end = row.read(payload, 4)
            assert end == len(payload)
            found.append((channel, record))
        else:
            found.append((channel, payload))
    return found


class Talk:
    """The peer of one server-role adapter, speaking in records."""

    def __init__(
        self,
        version: str = "0-9-1",
        limits: Limits = Limits(),  # noqa: B008
        capabilities: tuple[str, ...] = ("authentication_failure_close",),
        product: str = "test",
        **options: Any,
    ) -> None:
        options.setdefault("authority", Users())
        self.version = version
        self.adapter = adapter_for(version, Role.SERVER, limits=limits, **options)
        self.properties = fields.write_table(
            {"product": product, "capabilities": dict.fromkeys(capabilities, True)}
        )

    def says(self, channel: int, *records: Any) -> list[Operation]:
        return self.sends(b"".join(method(self.version, channel, r) for r in records))

    def sends(self, octets: bytes) -> list[Operation]:
        return told(self.adapter, self.adapter.receive(octets))

    def hears(self) -> list[tuple[int, Any]]:
        return frames(self.version, b"".join(self.adapter.output()))

    def heard(self, kind: type[Any]) -> Any:
        """The only thing that was said, which is of this kind."""
        ((_, record),) = self.hears()
        assert type(record) is kind, record
        return record

    def started(self) -> "Talk":
        assert self.sends(VERSIONS[self.version].header) == []
        self.heard(w.ConnectionStart)
        return self

    def logged_in(self) -> "Talk":
        self.started()
        ok = w.ConnectionStartOk(self.properties, "PLAIN", b"\0guest\0guest", "en_US")
        assert self.says(0, ok) == []
        self.heard(w.ConnectionTune)
        return self

    def opened(self, *channels: int) -> "Talk":
        """Connection open, and these channels."""
        self.logged_in()
        (word,) = self.says(0, w.ConnectionTuneOk(0, 0, 0), w.ConnectionOpen("/"))
        assert isinstance(word, Open)
        self.adapter.send(Done(0, word.token))
        self.heard(w.ConnectionOpenOk)
        for channel in channels:
            (begun,) = self.says(channel, w.ChannelOpen())
            assert isinstance(begun, BeginSession)
            self.adapter.send(Done(channel, begun.token))
            self.heard(w.ChannelOpenOk)
        return self
