"""Names have 255 octets at most, whatever they name; what was kept from before is borne with."""

from collections.abc import Callable

import pytest

from gateway.broker.access import Access
from gateway.errors import Condition
from gateway.operations import Bind
from tests.broker.fakes import House, bind, declare, exchange, limited, message, refused

LONG = "ä" * 128
"""256 octets, and fewer characters."""
JUST = "ä" * 127 + "x"
RAW = "\udcff" * 255
"""Octets of a legacy wire that are no UTF-8."""
HALF = "\ud83d"
"""What JSON may hold and no wire."""

DOORS: dict[str, Callable[[House, str], object]] = {
    "exchange": lambda house, name: exchange(house.channel()[0], name),
    "alternate": lambda house, name: exchange(
        house.channel()[0], f"e{house.count}", arguments={"alternate-exchange": name}
    ),
    "queue": lambda house, name: declare(house.channel()[0], name),
    "binding": lambda house, name: bind(house.channel()[0], "there", "amq.topic", name),
    "exchange binding": lambda house, name: house.channel()[0].topology.bind(
        Bind(1, None, "amq.fanout", "amq.topic", name, {}, to_exchange=True)
    ),
    "consumer": lambda house, name: house.channel()[0].subscribe("there", name),
    "vhost": lambda house, name: house.broker.create_vhost(name),
    "user": lambda house, name: house.broker.access.add_user(name, "password"),
    "key": lambda house, name: house.channel()[0].publish(message(key=name, exchange="amq.fanout")),
    "key of a transaction": lambda house, name: promised(house, name),
}


def promised(house: House, key: str) -> None:
    channel, _ = house.channel()
    channel.transactions.post(
        channel.transactions.declare(), message(key=key, exchange="amq.fanout")
    )


@pytest.mark.parametrize("door", DOORS)
def test_a_name_has_255_octets_at_most(house: House, door: str) -> None:
    channel, _ = house.channel()
    declare(channel, "there")
    DOORS[door](house, JUST)
    DOORS[door](house, RAW)
    with refused(Condition.COMMAND_INVALID, "has 256 octets, and 255 are allowed"):
        DOORS[door](house, LONG)


@pytest.mark.parametrize("door", [door for door in DOORS if not door.startswith("key")])
def test_a_name_can_be_written(house: House, door: str) -> None:
    channel, _ = house.channel()
    declare(channel, "there")
    with refused(Condition.COMMAND_INVALID, "is not text that can be written as UTF-8"):
        DOORS[door](house, HALF)


@pytest.mark.parametrize("argument", ["dead_letter_exchange", "dead_letter_routing_key"])
def test_names_in_arguments(house: House, argument: str) -> None:
    channel, _ = house.channel()
    given = {"dead_letter_exchange": "amq.fanout", argument: LONG}
    with refused(Condition.PRECONDITION_FAILED, f"invalid arg 'x-{argument.replace('_', '-')}'"):
        limited(channel, "q", **given)


def test_a_refused_name_leaves_nothing_behind(house: House) -> None:
    for name in DOORS:
        channel, _ = house.channel()
        if name == "exchange":
            with refused(Condition.COMMAND_INVALID):
                exchange(channel, LONG, durable=True)
    with refused(Condition.COMMAND_INVALID):
        house.broker.create_vhost(LONG)
    vhost = house.broker.vhosts["/"]
    assert LONG not in vhost.exchanges
    assert set(house.broker.vhosts) == {"/"}
    assert not house.store.dirty


def test_names_that_are_kept_from_before_come_back(house: House) -> None:
    """A store of an earlier version may hold them; their messages are worth more than the rule."""
    far = "x" * 70_000
    house.store.save(
        "exchange",
        ("/", far),
        {"type": "fanout", "auto_delete": False, "internal": False, "arguments": {}},
    )
    house.store.save("user", (far,), dict(_record(house.broker.access)))
    house = house.restart()
    assert far in house.broker.vhosts["/"].exchanges
    assert house.broker.access.user(far) is not None


def _record(access: Access) -> dict[str, object]:
    [(_, _, value)] = [r for r in access.records.records("user") if r[1] == ("guest",)]
    return dict(value)
