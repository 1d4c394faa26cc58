"""Transfers that are like the one before are taken in runs, and mean what they mean one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frame_format import HEAD
from gateway.adapters.segments.frames import MOST_VAIN, command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import AcceptMode
from gateway.operations import Operation
from tests.adapters.segments.receiving import Channel, Heard
from tests.adapters.segments.serving import Client, names

Run = list[tuple[bytes, bytes]]


def header(number: int, key: str = "q", id_: bool = True, time: int | None = None) -> bytes:
    delivery = w.DeliveryProperties(routing_key=key, timestamp=time)
    message = w.MessageProperties(
        message_id=number.to_bytes(16, "big") if id_ else None, content_type="text/plain"
    )
    return ops.coded(0x0401, w.write_delivery_properties(delivery)) + ops.coded(
        0x0403, w.write_message_properties(message)
    )


def segment(sync: bool = False, exchange: str = "", mode: int = AcceptMode.NONE) -> bytes:
    return ops.write_command(w.MessageTransfer(exchange, mode), sync)


def message(number: int, body: bytes = b"body", channel: int = 1, **more: Any) -> bytes:
    return command(channel, segment(), header(number, **more), body)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many transfers each run had."""
    found: list[int] = []
    one_by_one = Channel.on_run

    def noted(self: Channel, arguments: bytes, content: Run, said: list[Operation]) -> None:
        found.append(len(content))
        one_by_one(self, arguments, content, said)

    monkeypatch.setattr(Channel, "on_run", noted)
    return found


def heard(*pieces: bytes) -> list[Any]:
    """The operations of these octets, each fed by itself."""
    one = Heard(limit=200)
    one.feed(*pieces)
    said = one.heard
    return [*said, one.violation.condition] if one.violation is not None else said


KINDS = [
    lambda n: message(n),
    lambda n: message(n, b"x" * (n % 3)),
    lambda n: message(n, b"another size"),
    lambda n: message(n, id_=False),
    lambda n: message(n, key="other"),
    lambda n: message(n, time=n // 4),
    lambda n: message(n, channel=2),
    lambda n: command(1, segment(sync=True), header(n), b"body"),
    lambda n: command(1, segment(mode=AcceptMode.EXPLICIT), header(n), b"body"),
    lambda n: command(1, segment(exchange="amq.topic"), header(n), b"body"),
    lambda n: command(1, segment(), header(n), None),
    lambda n: command(1, segment(), None, b"body"),
    lambda n: command(1, segment(), header(n), b"y" * 300, 200),
    lambda n: command(1, ops.write_command(w.MessageAccept(((0, n),)))),
    lambda n: control(1, ops.write_control(w.SessionFlush(completed=True))),
]


@given(
    some.lists(some.tuples(some.sampled_from(KINDS), some.integers(1, 6)), max_size=6), some.data()
)
def test_they_are_heard_as_if_each_came_alone(stretches: Any, data: Any) -> None:
    pieces: list[bytes] = []
    for kind, count in stretches:
        pieces += [kind(len(pieces) + at) for at in range(count)]
    octets = b"".join(pieces)
    cut = data.draw(some.integers(0, len(octets)))
    assert heard(octets[:cut], octets[cut:]) == heard(*pieces)


@given(some.integers(0, 400), some.binary(min_size=1, max_size=12))
def test_damaged_octets_are_heard_as_if_each_came_alone(place: int, wrong: bytes) -> None:
    pieces = [message(number) for number in range(6)]
    octets = b"".join(pieces)
    damaged = octets[:place] + wrong + octets[place + len(wrong) :]
    assert heard(damaged) == heard(*(damaged[at : at + 1] for at in range(len(damaged))))


def test_runs(runs: list[int]) -> None:
    """The first two say what is the same; a size of a body is not."""
    heard(b"".join(message(number) for number in range(10)))
    assert runs == [8]
    heard(b"".join(message(number, b"x" * (number % 4)) for number in range(10)))
    assert runs == [8, 8]
    heard(b"".join(message(number, id_=False) for number in range(10)))
    assert runs == [8, 8, 8]


def test_a_run_ends_with_the_read(runs: list[int]) -> None:
    octets = b"".join(message(number) for number in range(10))
    whole = heard(octets)
    runs.clear()
    assert heard(octets[:-1], octets[-1:]) == whole
    assert runs == [7]


def test_a_run_ends_at_another_header(runs: list[int]) -> None:
    heard(b"".join(message(number, time=number // 5) for number in range(10)))
    assert runs == [3, 4]


def test_headers_that_all_differ_are_not_prepared_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, runs: list[int]
) -> None:
    made: list[bytes] = []

    def none(octets: bytes) -> int:
        made.append(octets)
        return 0

    monkeypatch.setattr("gateway.adapters.segments.transfer_template.place_of_id", none)
    said = heard(b"".join(message(number, time=number) for number in range(50)))
    assert len(said) == 50 and not runs
    assert len(made) == MOST_VAIN


@pytest.mark.parametrize("size", [11, 12 + 200])
def test_the_frame_of_a_body_is_looked_at_in_a_run(size: int) -> None:
    """One that is shorter than its header, or larger than allowed."""
    good = b"".join(message(number, b"x" * 8) for number in range(3))
    bad = bytearray(message(3, b"x" * 200))
    bad[-212:-200] = HEAD.pack(0x0703, size, 1, 1)
    said = heard(good + bytes(bad))
    assert said == heard(good, bytes(bad)) and len(said) == 4


def pulled(client: Client) -> list[tuple[bytes, bytes]]:
    """Message ids and bodies of the queue."""
    client.say(w.MessageSubscribe("q", "d", AcceptMode.NONE, 0), w.MessageFlow("d", 1, 0xFFFFFFFF))
    said = client.say(w.MessageFlow("d", 0, 1000))
    content = [each for each in said if each.name == "message.transfer"]
    return [(bytes(each.header or b""), bytes((each.body or b"")[:])) for each in content]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (AcceptMode.NONE, ["session.completed"]),
        (AcceptMode.EXPLICIT, ["message.accept", "session.completed"]),
    ],
)
def test_a_session_takes_them_in_their_order(mode: int, said: list[str]) -> None:
    """Half of them with the sizes of others; the last asks for the completion of all."""
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    sent = [(number, b"x" * (number % 3 * (number > 10))) for number in range(20)]
    octets = [command(1, segment(mode=mode), header(n), body) for n, body in sent]
    octets.append(command(1, segment(sync=True, mode=mode), header(20), b"last"))
    answer = client.served.receive(b"".join(octets))
    assert names(answer) == said
    assert answer[-1].record.commands == ((0, 21),)  # with the declaration
    found = pulled(client)
    assert [body for _, body in found] == [body for _, body in sent] + [b"last"]
    assert [number.to_bytes(16, "big") in octets for number, (octets, _) in enumerate(found)] == (
        [True] * 21
    )


def test_those_behind_a_refused_one_are_not_published() -> None:
    """A session that ends in the middle of a run."""
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    lost = [command(1, segment(exchange="nowhere"), header(n), b"") for n in range(4)]
    good = [message(number) for number in range(4)]
    said = client.served.receive(b"".join(good + lost + good))
    assert names(said)[-2:] == ["execution.exception", "session.detach"]
    (queue,) = client.served.broker.vhosts["/"].queues.values()
    assert queue.depth == 4
