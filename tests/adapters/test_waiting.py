"""Logins whose answer comes later: nothing that follows is looked at until then, and nothing of it
is lost, in every version and however the octets are cut."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.adapters import Credentials, Role, adapter_for
from gateway.adapters.contract import Answer
from gateway.errors import Condition
from gateway.operations import BeginSession, Closed, Done, Open
from tests.pair import Cut, Pair, Users, pieces, sized, whole

VERSIONS = (
    "0-8", "0-9", "0-9-1", "0-9a0", "0-9a6", "0.8a2", "0-10-07-24", "0-10-07-27", "0-10", "1.0",
)  # fmt: skip
CUTS = {"whole": whole, "octets": sized(1), "sevens": sized(7)}


class Late(Users):
    """An authority that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Callable[[], None]] = []

    def password(self, user: str, password: str, answer: Answer) -> None:
        right = self.passwords.get(user) == password
        self.asked.append(lambda: answer(right))

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        self.asked.append(lambda: answer(right))


def said(version: str, password: str = "guest") -> bytes:
    """All that a client says from its header to the opening of a channel, in one piece."""
    pair = Pair(version, credentials=Credentials("guest", password))
    octets = bytearray()
    receive = pair.server.receive

    def listening(data: bytes) -> Any:
        octets.extend(data)
        return receive(data)

    pair.server.receive = listening  # type: ignore[method-assign]
    pair.client.send(Open("open", "/", "guest"))
    grant(pair)
    if password == "guest":
        pair.client.send(BeginSession(1, "begin"))
        grant(pair)
    return bytes(octets)


def grant(pair: Pair) -> None:
    """Exchange octets, and grant the requests of the client."""
    for _ in range(20):
        for asked in pair.to_server():
            if isinstance(asked, Open | BeginSession):
                pair.server.send(Done(getattr(asked, "channel", 0), asked.token))
        pair.to_client()


class House:
    """A server that has been told everything, while its authority has not answered."""

    def __init__(self, version: str, octets: bytes, cut: Cut) -> None:
        self.authority = Late()
        self.woken = 0
        self.server: Any = adapter_for(
            version, Role.SERVER, authority=self.authority, wake=self.wake
        )
        self.before: list[Any] = []
        for piece in pieces(octets, cut()):
            self.before += self.server.receive(piece)
        self.server.output()
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def answer(self) -> list[Any]:
        (asked,) = self.authority.asked
        self.authority.asked.clear()
        asked()
        return list(self.server.found())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_what_follows_a_login_waits_for_its_answer(version: str, cut: Cut) -> None:
    house = House(version, said(version), cut)
    assert house.before == []
    assert len(house.authority.asked) == 1
    found = house.answer()
    assert house.woken
    kinds = [type(one) for one in found]
    if version != "0-9a6":  # its virtual host comes with the first channel
        assert kinds[0] is Open and found[0].user == "guest"
    assert BeginSession in kinds or Open in kinds
    assert not house.server.closing and house.server.output()
    more: list[Any] = house.server.receive(b"")
    assert any(isinstance(one, Closed) for one in more)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_password_ends_it_later(version: str) -> None:
    house = House(version, said(version, "wrong"), whole)
    assert house.before == [] and not house.server.closing
    found = house.answer()
    (closed,) = [one for one in found if isinstance(one, Closed)]
    assert closed.condition is Condition.ACCESS_REFUSED
    assert house.server.closing and house.woken
    assert not any(isinstance(one, Open) for one in found)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_hangs_up_meanwhile_needs_no_answer(version: str) -> None:
    house = House(version, said(version), whole)
    assert any(isinstance(one, Closed) for one in house.server.receive(b""))
    assert house.answer() == []
    assert house.server.output() == []


@pytest.mark.parametrize("version", ["0-9-1", "0-10", "1.0"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN", "SCRAM-SHA-256"])
def test_every_mechanism_that_needs_a_password(version: str, mechanism: str) -> None:
    authority = Late()
    pair = Pair(version, credentials=Credentials("guest", "guest", mechanism), authority=authority)
    pair.client.send(Open("open", "/", "guest"))
    server, _ = pair.talk()
    assert server == [] and len(authority.asked) == 1
    authority.asked.pop()()
    server, _ = pair.talk()
    assert [type(one) for one in server] == [Open]
