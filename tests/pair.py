"""Two adapters back to back, and the octets between them cut as told.

``Pair`` carries what one says to the other; ``cut`` names the sizes of the pieces. ``Users`` is a
complete ``Authority`` over a dictionary.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scramp import ScramMechanism  # type: ignore[import-untyped]

from gateway.adapters import Credentials, Limits, Role, adapter_for
from gateway.adapters.contract import Answer
from gateway.operations import (
    BeginSession,
    Closed,
    Done,
    Open,
    Operation,
    Refused,
    SessionLost,
)

Cut = Callable[[], Iterator[int]]
"""Sizes of pieces, without end."""

VERSIONS = ("0-8", "0-9", "0-9-1")


def whole() -> Iterator[int]:
    return itertools.repeat(1 << 30)


def single() -> Iterator[int]:
    return itertools.repeat(1)


def sized(size: int) -> Cut:
    return lambda: itertools.repeat(size)


def after(first: int) -> Cut:
    """One cut, after so many octets."""
    return lambda: itertools.chain([first], itertools.repeat(1 << 30))


def pieces(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size


def told(adapter: Any, words: list[Operation]) -> list[Operation]:
    """Tell a server's adapter what its session would: that all before is answered, so that it may
    say why it closes a channel, or let its peer go."""
    heard: list[Operation] = []
    for word in words:
        if isinstance(word, SessionLost) and word.token is not None:
            adapter.send(Refused(word.channel, word.token, word.condition, word.text))
        if isinstance(word, Closed) and word.token is not None:
            adapter.send(Done(0, word.token))
            heard += adapter.found()
        else:
            heard.append(word)
    return heard


class Users:
    """Users with passwords; ``guest`` is anonymous, ``CN=guest`` external."""

    def __init__(self, passwords: dict[str, str] | None = None, anonymous: str | None = None):
        self.passwords = passwords or {"guest": "guest"}
        self._anonymous = anonymous

    def password(self, user: str, password: str, answer: Answer) -> None:
        answer(self.passwords.get(user) == password)

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        if user not in self.passwords:
            return b"salt" * 4, bytes(32), bytes(32), 4096
        found: tuple[bytes, bytes, bytes, int] = ScramMechanism("SCRAM-SHA-256").make_auth_info(
            self.passwords[user], 4096, b"salt" * 4
        )
        return found

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        answer(right)

    def anonymous(self) -> str | None:
        return self._anonymous

    def external(self, subject: str) -> str | None:
        name = subject.removeprefix("CN=")
        return name if name in self.passwords else None


class Pair:
    """A client and a server of one version."""

    def __init__(
        self,
        version: str,
        cut: Cut = whole,
        limits: Limits = Limits(),  # noqa: B008
        client_limits: Limits = Limits(),  # noqa: B008
        credentials: Credentials = Credentials(),  # noqa: B008
        authority: Any = None,
        **options: Any,
    ) -> None:
        self.cut = cut
        self.carried = 0
        """Octets, both ways."""
        self.server = adapter_for(
            version, Role.SERVER, authority=authority or Users(), limits=limits, **options
        )
        self.client = adapter_for(
            version, Role.CLIENT, limits=client_limits, credentials=credentials
        )

    def to_server(self) -> list[Operation]:
        return self._carry(self.client, self.server)

    def to_client(self) -> list[Operation]:
        return self._carry(self.server, self.client)

    def _carry(self, one: Any, other: Any) -> list[Operation]:
        data = b"".join(one.output())
        self.carried += len(data)
        found: list[Operation] = []
        for piece in pieces(data, self.cut()):
            found += told(other, other.receive(piece))
        return found

    def talk(self) -> tuple[list[Operation], list[Operation]]:
        """Exchange octets until both are idle; the operations found by server and client."""
        heard: tuple[list[Operation], list[Operation]] = ([], [])
        while True:
            before = self.carried
            heard[0].extend(self.to_server())
            heard[1].extend(self.to_client())
            if self.carried == before:
                return heard

    def open(self, vhost: str = "/") -> Open:
        """Log in and open; returns the requests of the server."""
        self.client.send(Open("opening", vhost, "guest"))
        for _ in range(8):
            for operation in self.to_server():
                if isinstance(operation, Open):
                    self.server.send(Done(0, operation.token))
                    assert [type(word) for word in self.to_client()] == [Done]
                    return operation
            self.to_client()
        raise AssertionError("the connection does not open")

    def begin(self, channel: int = 1) -> None:
        """Open a channel."""
        self.client.send(BeginSession(channel, "beginning"))
        (begun,) = self.to_server()
        assert isinstance(begun, BeginSession), begun
        self.server.send(Done(channel, begun.token))
        assert self.to_client() == [Done(channel, "beginning")]


def opened(version: str, cut: Cut = whole, **options: Any) -> Pair:
    """A pair with an open channel 1."""
    pair = Pair(version, cut, **options)
    pair.open()
    pair.begin()
    return pair


def without_token(operation: Operation) -> Operation:
    """The same word, with nothing secret in it."""
    if hasattr(operation, "token"):
        operation.token = None
    return operation
