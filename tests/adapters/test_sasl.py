"""Client and server of each mechanism, and responses that a server must refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.core.sasl import (
    Challenge,
    ClientExchange,
    Failure,
    ServerExchange,
    Step,
    Success,
)
from gateway.adapters.methods import types as fields
from gateway.adapters.options import Credentials
from tests.pair import Users

ALL = ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL")


def login(credentials: Credentials, server: ServerExchange, first: bool = True) -> Step:
    client = ClientExchange(credentials)
    assert client.choose(server.mechanisms()) == credentials.mechanism
    step = server.start(credentials.mechanism, client.first() if first else b"")
    for _ in range(5):
        if not isinstance(step, Challenge):
            return step
        step = server.next(client.answer(step.data))
    raise AssertionError("the exchange does not end")


def server(**options: str) -> ServerExchange:
    return ServerExchange(Users(anonymous="guest"), options.get("subject", "CN=guest"))


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("first", [True, False])
def test_there_and_back(mechanism: str, first: bool) -> None:
    assert login(Credentials("guest", "guest", mechanism), server(), first) == Success("guest")


@pytest.mark.parametrize("mechanism", ALL[:3])
@pytest.mark.parametrize("login_", [("guest", "wrong"), ("nobody", "guest")])
def test_wrong_passwords(mechanism: str, login_: tuple[str, str]) -> None:
    assert isinstance(login(Credentials(*login_, mechanism), server()), Failure)


def test_scram_has_no_nameless_users() -> None:
    with pytest.raises(ValueError):
        ClientExchange(Credentials("", "", "SCRAM-SHA-256")).first()


def test_offers() -> None:
    assert ServerExchange(Users()).mechanisms() == ["PLAIN", "AMQPLAIN", "SCRAM-SHA-256"]
    assert ServerExchange(None).mechanisms() == []
    assert server().mechanisms()[3:] == ["ANONYMOUS", "EXTERNAL"]
    assert isinstance(ServerExchange(Users()).start("EXTERNAL", b""), Failure)
    assert isinstance(ServerExchange(Users()).start("ANONYMOUS", b""), Failure)
    assert isinstance(server(subject="CN=other").start("EXTERNAL", b""), Failure)
    assert ClientExchange(Credentials()).choose(["EXTERNAL"]) is None


@pytest.mark.parametrize(
    ("response", "step"),
    [
        (b"\0guest\0guest", Success("guest")),
        (b"guest\0guest\0guest", Success("guest")),
        (b"root\0guest\0guest", Failure("guest")),
        (b"\0guest\0gu\0est", Failure()),
        (b"\0guest", Failure()),
        (b"\xff\0\xff\0x", Failure()),
    ],
)
def test_plain(response: bytes, step: Step) -> None:
    assert server().start("PLAIN", response) == step


def test_amqplain_with_a_length() -> None:
    raw = fields.write_table({"LOGIN": "guest", "PASSWORD": b"guest"})
    assert server().start("AMQPLAIN", raw) == Success("guest")
    assert server().start("AMQPLAIN", len(raw).to_bytes(4) + raw) == Success("guest")
    assert isinstance(server().start("AMQPLAIN", b"\x05LOGIN"), Failure)


def test_scram_needs_its_last_answer() -> None:
    one = server()
    client = ClientExchange(Credentials("guest", "guest", "SCRAM-SHA-256"))
    step = one.start("SCRAM-SHA-256", client.first())
    assert isinstance(step, Challenge)
    step = one.next(client.answer(step.data))
    assert isinstance(step, Challenge) and step.data.startswith(b"v=")
    assert isinstance(one.next(b"more"), Failure)
    with pytest.raises(ValueError):
        client.answer(b"v=AAAA")


@given(some.sampled_from(ALL[:3]), some.lists(some.binary(min_size=1, max_size=60), max_size=4))
def test_nonsense_is_refused(mechanism: str, responses: list[bytes]) -> None:
    one = server()
    step = one.start(mechanism, b"")
    for response in responses:
        step = one.next(response)
        assert isinstance(step, Challenge | Failure)
