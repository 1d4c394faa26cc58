"""Proton in memory as the client of a server engine: octets are carried by hand, no sockets."""

from typing import Any

from gateway.adapters.contract import Role
from gateway.adapters.performatives.engine import Engine
from tests.adapters.performatives.broker import Broker
from tests.needs import package
from tests.pair import Users

proton = package("python-qpid-proton", "proton")


class Stranger:
    """An open proton connection with one session, and a ``Broker`` behind our engine."""

    def __init__(self, frame: int = 0, cut: int = 1 << 30, **options: Any) -> None:
        self.engine = Engine("1.0", Role.SERVER, authority=Users(anonymous="guest"), **options)
        self.broker = Broker(self.engine)
        self.cut = cut
        self.transport = proton.Transport(proton.Transport.CLIENT)
        if frame:
            self.transport.max_frame_size = frame
        self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.connection = proton.Connection()
        self.connection.container = "stranger"
        self.connection.hostname = "localhost"
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()
        self.talk()

    def talk(self) -> None:
        """Carry to and fro until both are silent."""
        while True:
            moved = False
            while (size := self.transport.pending()) > 0:
                octets = bytes(self.transport.peek(size))
                self.transport.pop(len(octets))
                moved = True
                for at in range(0, len(octets), self.cut):
                    self.broker.perform(self.engine.receive(octets[at : at + self.cut]))
            octets = b"".join(self.engine.output())
            while octets:
                moved = True
                room = self.transport.capacity()
                assert room > 0, self.transport.condition
                self.transport.push(octets[:room])
                octets = octets[room:]
            if not moved:
                return

    def sender(self, address: str | None, name: str = "in", **modes: int) -> Any:
        link = self.session.sender(name)
        link.target.address = address
        return self._attached(link, modes)

    def receiver(
        self, address: str | None, name: str = "out", credit: int = 0, **modes: int
    ) -> Any:
        link = self.session.receiver(name)
        link.source.address = address
        self._attached(link, modes)
        if credit:
            link.flow(credit)
            self.talk()
        return link

    def _attached(self, link: Any, modes: dict[str, int]) -> Any:
        for name, mode in modes.items():
            setattr(link, name, mode)
        link.open()
        self.talk()
        return link

    def send(self, link: Any, octets: bytes, tag: str) -> Any:
        delivery = link.delivery(tag)
        link.send(octets)
        link.advance()
        return delivery

    def take(self, link: Any) -> tuple[Any, bytes]:
        """The current delivery, whole."""
        delivery = link.current
        assert delivery is not None and not delivery.partial
        octets = bytes(link.recv(delivery.pending) or b"")
        link.advance()
        return delivery, octets


def message(body: Any, **fields: Any) -> bytes:
    found = proton.Message(body=body, **fields)
    return bytes(found.encode())


def body(octets: bytes) -> Any:
    found = proton.Message()
    found.decode(octets)
    return found.body
