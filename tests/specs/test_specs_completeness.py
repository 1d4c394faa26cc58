"""Nothing was forgotten: methods counted class by class, and the rows that brokers added.

The counts of published methods were taken from the published definitions, not from our files.
"""

import pytest

from gateway.adapters.commands.wire import tables as commands
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire import layouts
from gateway.adapters.methods.wire.tables import V0_8, V0_9, V0_9_1, VERSIONS
from gateway.errors import Condition

PUBLISHED = {
    "0-8": {
        "connection": 11, "channel": 7, "access": 2, "exchange": 4, "queue": 8, "basic": 15,
        "file": 14, "stream": 9, "tx": 6, "dtx": 4, "tunnel": 1, "test": 8,
    },
    "0-9": {
        "connection": 11, "channel": 10, "access": 2, "exchange": 4, "queue": 10, "basic": 15,
        "file": 14, "stream": 9, "tx": 6, "dtx": 4, "tunnel": 1, "message": 15,
    },
    "0-9-1": {
        "connection": 10, "channel": 6, "exchange": 4, "queue": 10, "basic": 17, "tx": 6,
    },
}  # fmt: skip

CONTENTS = {
    "0-8": {60: ("basic", 14), 70: ("file", 9), 80: ("stream", 5), 110: ("tunnel", 5),
            120: ("test", 0)},
    "0-9": {60: ("basic", 14), 70: ("file", 9), 80: ("stream", 5), 110: ("tunnel", 5)},
    "0-9-1": {60: ("basic", 14)},
}  # fmt: skip

ADDED = {
    "0-8": {
        "connection.update-secret": (70, 10), "connection.update-secret-ok": (71, 10),
        "exchange.bound": (22, 40), "exchange.bound-ok": (23, 40),
        "exchange.bind": (30, 40), "exchange.bind-ok": (31, 40),
        "exchange.unbind": (40, 40), "exchange.unbind-ok": (51, 40),
        "queue.unbind": (50, 50), "queue.unbind-ok": (51, 50),
        "basic.recover-ok": (101, 60), "basic.nack": (120, 60),
        "confirm.select": (10, 85), "confirm.select-ok": (11, 85),
    },
    "0-9": {
        "connection.blocked": (60, 10), "connection.unblocked": (61, 10),
        "connection.update-secret": (70, 10), "connection.update-secret-ok": (71, 10),
        "exchange.bound": (22, 40), "exchange.bound-ok": (23, 40),
        "exchange.bind": (30, 40), "exchange.bind-ok": (31, 40),
        "exchange.unbind": (40, 40), "exchange.unbind-ok": (51, 40),
        "basic.recover-sync-ok": (101, 60), "basic.recover-sync": (102, 60),
        "basic.recover": (110, 60), "basic.recover-ok": (111, 60), "basic.nack": (120, 60),
        "confirm.select": (10, 85), "confirm.select-ok": (11, 85),
    },
    "0-9-1": {
        "connection.blocked": (60, 10), "connection.unblocked": (61, 10),
        "connection.update-secret": (70, 10), "connection.update-secret-ok": (71, 10),
        "access.request": (10, 30), "access.request-ok": (11, 30),
        "exchange.bound": (22, 40), "exchange.bound-ok": (23, 40),
        "exchange.bind": (30, 40), "exchange.bind-ok": (31, 40),
        "exchange.unbind": (40, 40), "exchange.unbind-ok": (51, 40),
        "basic.nack": (120, 60),
        "confirm.select": (10, 85), "confirm.select-ok": (11, 85),
    },
}  # fmt: skip

every_version = pytest.mark.parametrize(
    "version", list(map(complete, VERSIONS)), ids=list(VERSIONS)
)


@every_version
def test_published_methods(version: Version) -> None:
    counts: dict[str, int] = {}
    for method in version.methods.values():
        if not method.extension:
            prefix = method.name.partition(".")[0]
            counts[prefix] = counts.get(prefix, 0) + 1
    assert counts == PUBLISHED[version.name]


@every_version
def test_added_methods(version: Version) -> None:
    added = {m.name: (m.number & 0xFFFF, m.number >> 16) for m in version.methods.values()
             if m.extension}  # fmt: skip
    assert added == ADDED[version.name]


@every_version
def test_content_classes(version: Version) -> None:
    found = {
        content.number: (content.name, len(content.record.__slots__))
        for content in version.contents.values()
    }
    assert found == CONTENTS[version.name]
    carried = {m.number >> 16 for m in version.methods.values() if m.content}
    assert carried == set(version.contents)


@every_version
def test_every_condition_has_a_code_and_every_code_its_scope(version: Version) -> None:
    assert set(version.codes) == {condition.value for condition in Condition}
    for code, text, hard in version.codes.values():
        assert version.constants[text.lower().replace("_", "-")] == code
        # What the three specifications agree on: which codes close only the channel.
        assert hard == (code not in (310, 311, 312, 313, 403, 404, 405, 406))


@every_version
def test_indexes_agree_and_prefixes_are_the_numbers(version: Version) -> None:
    assert len(version.by_name) == len(version.by_record) == len(version.methods)
    for number, method in version.methods.items():
        assert method.number == number == int.from_bytes(method.prefix, "big")
        assert method.prefix == version.geometry.method.pack(number >> 16, number & 0xFFFF)
        assert method.name == method.record.NAME
        assert version.by_record[method.record] is version.by_name[method.name] is method
        assert method.from_client or method.from_server
        for reply in method.replies:
            assert reply in version.by_name


@every_version
def test_geometry(version: Version) -> None:
    geometry = version.geometry
    assert geometry.head.unpack(bytes.fromhex("01000200000003")) == (1, 2, 3)
    assert geometry.order == (0, 1, 2) and geometry.tail == b"\xce"
    assert not geometry.size_counts_tail and not geometry.meta and geometry.longstr == 4
    assert geometry.content.size == 12
    assert geometry.heartbeat == bytes.fromhex("08000000000000ce")


def test_openings() -> None:
    assert [v.header for v in VERSIONS.values()] == [
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x01\x01\x00\x09",
        b"AMQP\x00\x00\x09\x01",
    ]
    assert [(v.major, v.minor, v.revision) for v in VERSIONS.values()] == [
        (8, 0, 0),
        (0, 9, 0),
        (0, 9, 1),
    ]


def test_numbers_that_moved_between_versions() -> None:
    close = [v.by_name["connection.close"].number & 0xFFFF for v in VERSIONS.values()]
    assert close == [60, 50, 50]
    assert V0_8.by_name["basic.recover"].number & 0xFFFF == 100
    assert V0_9.by_name["basic.recover-async"].number & 0xFFFF == 100
    assert V0_9_1.by_name["basic.recover-async"].number & 0xFFFF == 100
    assert V0_9_1.by_name["basic.recover"].replies == ("basic.recover-ok",)


def test_records_have_the_fields_of_all_versions() -> None:
    assert layouts.BasicConsume.__slots__ == (
        "ticket", "queue", "consumer_tag", "no_local", "no_ack", "exclusive", "no_wait",
        "arguments",
    )  # fmt: skip
    assert layouts.BasicQos(global_=True).global_
    assert "ticket" in layouts.QueueDeclare.__slots__
    assert "reserved_1" not in layouts.QueueDeclare.__slots__


@every_version
def test_cancel_may_come_from_the_broker(version: Version) -> None:
    for name in ("basic.cancel", "basic.cancel-ok"):
        method = version.by_name[name]
        assert method.from_client and method.from_server


def test_layouts_that_versions_share_exist_once() -> None:
    for name in ("basic.deliver", "basic.ack", "connection.tune", "channel.close"):
        assert len({v.by_name[name].read for v in VERSIONS.values()}) == 1
    assert V0_8.by_name["queue.bind"].read is V0_9.by_name["queue.bind"].read
    assert V0_9.by_name["queue.bind"].read is not V0_9_1.by_name["queue.bind"].read


def test_commands_of_0_8a2() -> None:
    """28 commands (AMQ RFC 006 §3.1.1), and every condition has a code of RFC 011."""
    groups = [command.name.split(".")[0] for command in commands.COMMANDS]
    assert {name: groups.count(name) for name in groups} == {
        "connection": 7, "channel": 6, "handle": 15,
    }  # fmt: skip
    assert len({command.number for command in commands.COMMANDS}) == 28
    assert set(commands.CODES) == {condition.value for condition in Condition}
    assert set(commands.CODES.values()) <= set(commands.REPLIES.values())
    assert len(commands.REPLIES) == 18
