"""Publishes of a client of a draft that come together, and where each of them goes."""

from typing import Any

import pytest

from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.adapters.methods.drafts import types as tables
from gateway.broker.publish_path import PublishPath
from gateway.broker.runs import publish_run
from gateway.errors import Condition
from gateway.message import Message
from gateway.sessions import publishes
from tests.adapters.methods.drafts.house import Guest, House, bodies, named


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def guest(house: House) -> Guest:
    made = Guest(house, "0-9a6")
    for name in ("one", "two", "bound"):
        made.says(made.w.QueueDeclare(0, "", name))
    made.says(made.w.QueueBind(0, "", "bound", "queue", destination(made, "two")))
    return made


def destination(guest: Guest, name: str) -> bytes:
    return tables.write_table({"destination": name}, False)


def publish(guest: Guest, *names: str, mandatory: bool = False) -> list[tuple[str, Any]]:
    """In one read, each with a number as its body."""
    w = guest.w
    return guest.says(
        *[
            OutgoingMethod(
                w.JmsPublish(0, "queue", mandatory, False),
                guest.content(body=b"%d" % number, destination=name),
            )
            for number, name in enumerate(names)
        ]
    )


def depths(house: House) -> dict[str, int]:
    return {name: queue.depth for name, queue in house.queues.items()}


def test_what_no_binding_takes_goes_to_the_queue_of_that_name(guest: Guest, house: House) -> None:
    assert publish(guest, "one", "one", "two", "one", "none") == []
    assert depths(house) == {"one": 3, "two": 0, "bound": 1}
    heard = publish(guest, "none", "one", mandatory=True)
    assert [name for name, _ in heard] == ["jms.bounce", "header", "body"]
    assert depths(house) == {"one": 4, "two": 0, "bound": 1}


def test_so_it_does_in_a_transaction(guest: Guest, house: House) -> None:
    guest.says(guest.w.TxSelect())
    publish(guest, "one", "two")
    assert depths(house) == {"one": 0, "two": 0, "bound": 0}
    guest.says(guest.w.TxCommit())
    assert depths(house) == {"one": 1, "two": 0, "bound": 1}


def test_they_are_handed_to_their_consumer_in_one_run(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def counted(*given: Any) -> int:
        runs.append(publish_run(*given))
        return runs[-1]

    monkeypatch.setattr(publishes, "publish_run", counted)
    guest.says(guest.w.JmsConsume(0, "", "one", auto_ack=True))
    publish(guest, "one")  # now it is known that the user may
    heard = publish(guest, *["one"] * 200)
    assert bodies(heard) == [b"%d" % number for number in range(200)]
    assert sum(runs) == 200 and len(runs) <= 6, runs


def test_one_that_may_not_write_there_is_refused(guest: Guest, house: House) -> None:
    house.broker.access.set_permissions("guest", "/", ".*", "^$", ".*")
    heard = publish(guest, "one", "one")
    (closed,) = named(heard, "channel.close")
    assert closed.reply_code == 403
    assert depths(house) == {"one": 0, "two": 0, "bound": 0}


def test_an_upstream_is_asked_which_alone_knows_its_bindings(guest: Guest, house: House) -> None:
    sent: list[tuple[str, str, bool]] = []

    class Upstream:
        def publish(
            self, path: PublishPath, sequence: int, message: Message, mandatory: bool
        ) -> None:
            sent.append((message.exchange, message.key, mandatory))
            if message.exchange:
                path.give_back(message, Condition.NO_ROUTE, "NO_ROUTE")

    upstream: Any = Upstream()
    guest.house.broker.vhosts["/"].outbound = upstream
    guest.says(guest.w.ChannelOpen(), channel=2)
    guest.says(
        *[
            OutgoingMethod(guest.w.JmsPublish(0, "queue"), guest.content(destination=name))
            for name in ("one", "two")
        ],
        channel=2,
    )
    assert sorted(sent) == [
        ("", "one", False), ("", "two", False),
        ("amq.direct", "one", True), ("amq.direct", "two", True),
    ]  # fmt: skip


def test_behind_one_that_ends_its_channel_nothing_is_published(house: House) -> None:
    guest = Guest(house, "0-9a0")
    w = guest.w
    guest.says(w.DestinationDefine(0, 1, "q"))
    heard = guest.says(
        *[
            OutgoingMethod(w.JmsPublish(0, 1, name), guest.content(body=b"x"))
            for name in ("q", "q", "missing", "q")
        ]
    )
    assert [name for name, _ in heard] == ["channel.close"]
    assert house.queues["q"].depth == 2
