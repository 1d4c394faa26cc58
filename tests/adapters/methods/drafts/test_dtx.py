"""Class dtx: the work of a channel is a branch, which its coordinator completes."""

from typing import Any

import pytest

from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.adapters.methods.drafts import types as tables
from gateway.broker.branches import Branches
from gateway.operations import BranchStatus, Done, SelectBranches, StartBranch, Xid
from tests.adapters.methods.drafts.house import Guest, House

VERSIONS = ["0-9a0", "0-9a6"]
X = Xid(0, b"x")


def define(guest: Guest) -> None:
    w = guest.w
    if guest.version == "0-9a0":
        guest.says(w.DestinationDefine(0, 1, "q"))
    else:
        guest.says(w.QueueDeclare(0, "", "q"))
        # In a transaction the exchange of queues goes by bindings.
        arguments = tables.write_table({"destination": "q"}, False)
        assert names(guest.says(w.QueueBind(0, "", "q", "queue", arguments))) == ["queue.bind-ok"]


def publish(guest: Guest) -> None:
    w = guest.w
    if guest.version == "0-9a0":
        record, more = w.JmsPublish(0, 1, "q"), {}
    else:
        record, more = w.JmsPublish(0, "queue"), {"destination": "q"}
    guest.says(OutgoingMethod(record, guest.content(body=b"m", priority=4, **more)), channel=2)


def selected(house: House, version: str) -> Guest:
    """Channel 2 has the mode of distributed transactions."""
    guest = Guest(house, version)
    define(guest)
    if version == "0-9a0":
        assert names(guest.says(guest.w.ChannelOpen(0, "", 3), channel=2)) == ["channel.open-ok"]
    else:
        guest.says(guest.w.ChannelOpen("/"), channel=2)
        assert names(guest.says(guest.w.DtxSelect(), channel=2)) == ["dtx.select-ok"]
    return guest


def names(heard: list[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in heard]


def branches(house: House) -> Branches:
    return house.broker.branches(house.broker.vhosts["/"])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_completes_it_after_the_close(version: str) -> None:
    house = House()
    guest = selected(house, version)
    assert names(guest.says(guest.w.DtxStart("x"), channel=2)) == ["dtx.start-ok"]
    publish(guest)
    assert names(guest.says(guest.w.ChannelClose(200, ""), channel=2)) == ["channel.close-ok"]
    assert house.queues["q"].depth == 0
    _, steps = branches(house).prepare(X, "guest")
    assert not list(steps)
    _, steps = branches(house).commit(X, "guest", False)
    assert not list(steps)
    assert house.queues["q"].depth == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_connection_rolls_it_back(version: str) -> None:
    house = House()
    guest = selected(house, version)
    guest.says(guest.w.DtxStart("x"), channel=2)
    publish(guest)
    guest.leaves()
    (branch,) = branches(house).known.values()
    assert (branch.status, branches(house).octets) == (BranchStatus.ROLLBACK, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_failures_are_channel_exceptions(version: str) -> None:
    house = House()
    guest = selected(house, version)
    for identifier, channel, code in (("", 2, 503), ("x", 1, 503)):
        ((name, close),) = guest.says(guest.w.DtxStart(identifier), channel=channel)
        assert (name, close.reply_code) == ("channel.close", code)


def test_our_client() -> None:
    """Of 0-9a6."""
    guest = Guest(House(), "0-9a6")
    found: list[Any] = []
    for request in (SelectBranches(1, "s"), StartBranch(1, "t", X)):
        guest.client.send(request)
        back = guest.puts(b"".join(guest.client.output()))
        found += guest.client.receive(back)
    assert found == [Done(1, "s"), Done(1, "t", BranchStatus.OK)]
