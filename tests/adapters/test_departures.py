"""What the documents say is not done as the definitions have it: a row is there for a reason
that can be tried, and goes when the reason does."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as commands
from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.operations import Bind, DeclareQueue
from gateway.sessions.subscriptions import CLIENT, USER
from tests.adapters.commands.harness import Harness, Peer
from tests.adapters.methods.drafts.house import Guest, House, bodies, named
from tests.adapters.methods.transitional import departures as transitional
from tests.adapters.segments import departures as segments

ROOT = Path(__file__).parents[2]
TRANSITIONAL = "0-10-07"


def table(document: str) -> list[list[str]]:
    """The rows under the heading, without the two of the table's own."""
    text = (ROOT / "docs" / document).read_text("utf-8").partition("\n## Departures\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def departures() -> Iterator[tuple[str, str]]:
    """Version and name."""
    for row in table("0-8a2.md"):
        yield "0.8a2", row[0]
    for row in table("drafts.md"):
        for version in row[1].split(", "):
            yield version, row[0]
    for row in table("0-10-transitional.md"):
        yield TRANSITIONAL, row[0]
    for row in table("0-10.md"):
        yield "0-10", row[0]


Probe = Callable[[str], None]
"""A version -> it is found to do as the table says."""


def of_one(probe: Callable[[], None]) -> Probe:
    """One that knows its version."""
    return lambda _: probe()


def closed(heard: list[tuple[str, Any]], code: int) -> None:
    (close,) = [record for name, record in heard if name.endswith(".close")]
    assert close.reply_code == code


def define(guest: Guest, name: str, template: str = "") -> list[tuple[str, Any]]:
    w = guest.w
    if guest.version == "0-9a0":
        return guest.says(w.DestinationDefine(0, 1, name, template))
    return guest.says(w.QueueDeclare(0, "", name, template))


def publish(guest: Guest, name: str, body: bytes, priority: int = 4) -> list[tuple[str, Any]]:
    w = guest.w
    if guest.version == "0-9a0":
        record, more = w.JmsPublish(0, 1, name), {}
    else:
        record, more = w.JmsPublish(0, "queue"), {"destination": name}
    return guest.says(OutgoingMethod(record, guest.content(body=body, priority=priority, **more)))


def out_of_band(version: str) -> None:
    guest = Guest(House(), version)
    closed(guest.says(guest.w.ChannelOpen(out_of_band="shared memory"), channel=2), 540)


def ticket_zero(version: str) -> None:
    guest = Guest(House(), version)
    define(guest, "q")
    assert publish(guest, "q", b"x") == []
    assert guest.house.queues["q"].depth == 1


def drop_low_first(version: str) -> None:
    house = House()
    house.broker.templates = {"short": {"x-max-length": 1}}
    guest = Guest(house, version)
    define(guest, "q", "short")
    publish(guest, "q", b"high", 9)
    publish(guest, "q", b"low", 0)
    (seen,) = guest.session.channels[1].browse("q")
    assert seen.message.body == b"low"


def synch(version: str) -> None:
    guest = Guest(House(), version)
    octets = bytearray(guest.client.encoded(1, guest.w.ChannelFlow(False)))
    octets[7] |= 0x80
    assert guest.puts(bytes(octets)) == b""


def names(version: str) -> None:
    guest = Guest(House(), version)
    assert named(define(guest, "_ünder %"), "destination.define-ok")


def topics_undefined(version: str) -> None:
    guest = Guest(House(), version)
    content = guest.content()
    assert guest.says(OutgoingMethod(guest.w.JmsPublish(0, 2, "never.defined"), content)) == []


def dead_letter_on_cancel(version: str) -> None:
    house = House()
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    house.broker.templates = {"lettered": letters}
    guest = Guest(house, version)
    define(guest, "dead")
    define(guest, "q", "lettered")
    publish(guest, "q", b"x")
    guest.says(guest.w.DestinationCancel(0, 1, "q"))
    assert house.queues["dead"].depth == 0 and "q" not in house.queues


def delivery_count(version: str) -> None:
    house = House()
    house.broker.templates = {"counts": {"x-queue-type": "quorum", "x-delivery-limit": 1}}
    guest = Guest(house, version)
    define(guest, "plain")
    define(guest, "counting", "counts")
    for queue, left in (("plain", 1), ("counting", 0)):
        publish(guest, queue, b"x")
        for _ in range(7):
            guest.says(guest.w.ChannelOpen(), channel=2)
            guest.says(guest.w.JmsConsume(0, 1, queue), channel=2)
            guest.says(guest.w.ChannelClose(), channel=2)
        assert house.queues[queue].depth == left


def auto_cancel(version: str) -> None:
    house = House()
    guest = Guest(house, version)
    define(guest, "q")
    guest.says(guest.w.JmsConsume(0, 1, "q", auto_ack=True, auto_cancel=1))
    assert bodies(publish(guest, "q", b"1")) == [b"1"]
    assert publish(guest, "q", b"2") == []
    assert len(house.queues["q"].consumers) == 1


def others_subscriptions(version: str) -> None:
    house = House()
    guest = Guest(house, version)
    channel = guest.session.channels[1]
    name, given = "subscription:them:news", {USER: "them", CLIENT: "them"}
    channel.topology.declare_queue(DeclareQueue(1, None, name, durable=True, arguments=given))
    channel.topology.bind(Bind(1, None, name, "amq.topic", "a"))
    assert named(guest.says(guest.w.DestinationCancel(0, 2, "a")), "destination.cancel-ok")
    assert name in house.queues


def one_virtual_host(version: str) -> None:
    guest = Guest(House(), version)
    closed(guest.says(guest.w.ChannelOpen("/other"), channel=2), 507)


def settling_between(version: str) -> None:
    house = House()
    guest = Guest(house, version)
    define(guest, "q")
    publish(guest, "q", b"x")
    guest.says(guest.w.JmsConsume(0, "", "q"))
    record = OutgoingMethod(
        guest.w.JmsPublish(0, "queue"), guest.content(body=b"y", destination="q")
    )
    octets = guest.spoken(record)
    body = guest.client.frames.frame(3, 1, b"y")
    assert octets.endswith(body)
    guest.puts(octets[: -len(body)] + guest.client.encoded(1, guest.w.JmsAck(1)) + body)
    assert house.queues["q"].unsettled == 1, "the first is settled, the second delivered"


def header_class(version: str) -> None:
    house = House()
    guest = Guest(house, version)
    define(guest, "q")
    content = guest.content(body=b"x", destination="q")
    octets = bytearray(guest.spoken(OutgoingMethod(guest.w.JmsPublish(0, "queue"), content)))
    at = octets.index(bytes((2, 0, 0, 1)))
    octets[at + 8 : at + 10] = b"\0\2"
    guest.puts(bytes(octets))
    assert house.queues["q"].depth == 1


# --- 0.8a2 ----------------------------------------------------------------------------------------

EMPTY = bytes(4) + b"\0\4" + bytes(4) + bytes(5)


def entered(transacted: bool = False) -> tuple[Harness, Peer]:
    house = Harness()
    house.queue("q")
    guest = house.peer()
    guest.feed(b"\x80\x01")
    w = commands
    guest.says(w.ConnectionResponse("NONE"), w.ConnectionOpen(0, "/test", "me"))
    guest.says(w.ChannelOpen(1, 0, transacted))
    guest.says(w.HandleOpen(1, 1, 1, 0, True, True, True, dest_name="q"))
    return house, guest


def send(guest: Peer, count: int = 1) -> None:
    guest.feed((frame(commands.HandleSend(1, 0, len(EMPTY))) + EMPTY) * count)


def commands_out_of_band(_: str) -> None:
    _house, guest = entered()
    (close,) = guest.says(commands.ChannelOpen(2, 1, out_of_band="shared memory"))
    assert close.reply_code == 540


def temporary_life(_: str) -> None:
    house, guest = entered()
    guest.says(commands.HandleOpen(1, 2, 1, 0, True, True, temporary=True, dest_name="mine"))
    guest.says(commands.ChannelClose(1, 200))
    assert "mine" in house.broker.vhosts["/test"].queues
    guest.disconnect()
    assert "mine" not in house.broker.vhosts["/test"].queues


def rollback_notify(_: str) -> None:
    house, guest = entered(transacted=True)
    send(guest)
    said = guest.says(commands.ChannelCommit(1), commands.HandleConsume(1, 0, 5))
    assert [type(one) for one in said] == [commands.HandleNotify]
    assert guest.says(commands.ChannelAck(1, 0, 1), commands.ChannelRollback(1)) == []
    assert house.broker.vhosts["/test"].queues["q"].unsettled == 1


def query_from(_: str) -> None:
    _house, guest = entered()
    send(guest, 3)
    guest.says(commands.HandleQuery(1))
    (index,) = guest.says(commands.HandleQuery(1, 1))
    assert index.message_list == b"1-2"


def commands_names(_: str) -> None:
    house, guest = entered()
    guest.says(commands.HandleOpen(1, 2, 1, 0, True, True, temporary=True, dest_name="a/b#&"))
    assert "a/b#&" in house.broker.vhosts["/test"].queues


PROBES: dict[tuple[str, str], Probe] = {
    **{
        (version, name): probe
        for version in ("0-9a0", "0-9a6")
        for name, probe in {
            "out-of-band": out_of_band,
            "ticket-zero": ticket_zero,
            "drop-low-first": drop_low_first,
        }.items()
    },
    ("0-9a0", "synch"): synch,
    ("0-9a0", "names"): names,
    ("0-9a0", "topics-undefined"): topics_undefined,
    ("0-9a0", "dead-letter-on-cancel"): dead_letter_on_cancel,
    ("0-9a0", "delivery-count"): delivery_count,
    ("0-9a0", "auto-cancel"): auto_cancel,
    ("0-9a0", "others-subscriptions"): others_subscriptions,
    ("0-9a6", "one-virtual-host"): one_virtual_host,
    ("0-9a6", "settling-between"): settling_between,
    ("0-9a6", "header-class"): header_class,
    ("0.8a2", "out-of-band"): commands_out_of_band,
    ("0.8a2", "temporary-life"): temporary_life,
    ("0.8a2", "rollback-notify"): rollback_notify,
    ("0.8a2", "query-from"): query_from,
    ("0.8a2", "names"): commands_names,
    **{(TRANSITIONAL, name): probe for name, probe in transitional.PROBES.items()},
    **{("0-10", name): of_one(probe) for name, probe in segments.PROBES.items()},
}


def test_every_departure_is_tried() -> None:
    found = list(departures())
    assert len(found) == len(set(found))
    assert set(found) == set(PROBES)


@pytest.mark.parametrize("key", PROBES, ids="-".join)
def test_it_is_as_the_table_says(key: tuple[str, str]) -> None:
    PROBES[key](key[0])


def test_only_versions_without_departures_are_called_complete() -> None:
    """README says "complete" of no version that has a row, and shows where the rows are."""
    departing = {version for version, _ in departures()}
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    for version in ("0.8a2", "0-9a0", "0-9a6"):
        (line,) = [line for line in readme if line.startswith(f"| {version} |")]
        assert ("complete" in line) is (version not in departing)
        assert "departures" in line or version not in departing
