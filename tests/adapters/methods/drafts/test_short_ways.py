"""Fast paths, caches and templates have the same results as the general path."""

import contextlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.output import JOINED
from gateway.adapters.methods.contents.dialect import ClassDialect, child
from gateway.adapters.methods.contents.outline import time_to_live
from gateway.adapters.methods.drafts import channel as channels
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.adapters.methods.essentials import EPOCH_LIMIT
from gateway.errors import Condition
from gateway.message import Essentials, Message, Properties
from gateway.operations import (
    Closed,
    Deliver,
    Operation,
    Outcome,
    Publish,
    SessionLost,
    Settle,
    Subscribe,
    Unsubscribe,
)
from tests.adapters.methods.drafts.talking import VERSIONS, Both, singly
from tests.drawing import examples

EVERY = sorted({dialect.name: dialect for dialect in CONTENTS.values()}.items())
GROUPS = {"0-9a0": ("jms", "file", "stream"), "0-9a6": ("basic", "jms", "stream")}
GROUPS["0-9a0-7"] = GROUPS["0-9a0"]


def message(
    both: Both, body: bytes = b"body", group: str = "jms", key: str = "q", **given_: Any
) -> Message:
    dialect = both.server.channel(1).dialect(group)
    header = dialect.write(Properties(to=key, **given_))
    return Message(dialect, header, body, "", key, dialect.essentials(header))


def plain(operations: list[Operation]) -> list[Any]:
    """Operations with messages, as something to be compared."""
    found: list[Any] = []
    for op in singly(operations):
        if isinstance(op, Publish | Deliver):
            m = op.message
            rest = [getattr(op, name) for name in op.__slots__ if name != "message"]
            exact = (m.dialect.name, m.header, m.body, m.exchange, m.key, m.essentials)
            found.append((type(op), type(m), exact, rest))
        else:
            found.append(op)
    return found


# --- reading headers -----------------------------------------------------------------------------


def slowly(dialect: ClassDialect, header: bytes) -> tuple[Essentials, str]:
    """Everything decoded. Raises ``ValueError``."""
    record, _ = dialect.record(header)
    table = dialect.headers_of(record)
    ttl = time_to_live(getattr(record, "expiration", None))
    essentials = Essentials(
        getattr(record, "delivery_mode", None) == 2,
        getattr(record, "priority", None),
        None if ttl is not None and ttl > EPOCH_LIMIT else ttl,
        getattr(record, "user_id", None) or None,
        bool(table),
    )
    return essentials, getattr(record, "destination", None) or ""


FULL = Properties(
    durable=True, priority=3, ttl=77, message_id="m", user_id=b"u", to="d", content_type="t",
    application={"a": "s", "b": 7, "c": {"d": [1, "x"], "e": {"f": None}}, "g": True},
)  # fmt: skip


@pytest.mark.parametrize("name, dialect", EVERY)
@settings(max_examples=examples(60))
@given(at=some.integers(0, 200), octet=some.integers(0, 255), cut=some.integers(0, 3))
@example(at=0, octet=255, cut=0)
@example(at=1, octet=1, cut=0)
def test_an_outline_agrees_with_full_decoding(
    name: str, dialect: ClassDialect, at: int, octet: int, cut: int
) -> None:
    header = bytearray(dialect.write(FULL))
    if at < len(header):
        header[at] = octet
    octets = bytes(header[: len(header) - cut])
    expected = None
    with contextlib.suppress(ValueError):
        expected = slowly(dialect, octets)
    for _ in range(2):
        try:
            known = dialect.known(octets)
        except ValueError:
            assert expected is None
        else:
            assert (known.essentials, known.destination) == expected
            assert known.header == octets
            assert known.end == len(octets) or dialect.record(octets)[1] == octets[known.end :]


@pytest.mark.parametrize("first", [True, False])
@settings(max_examples=examples(200))
@given(some.lists(some.sampled_from([*b"SLIDTFAbtx\0\1\2\3\4\xff"]), max_size=24).map(bytes))
def test_a_table_is_good_if_it_can_be_read(first: bool, octets: bytes) -> None:
    """Also where lengths may be meant in two ways."""
    good = readable = True
    try:
        tables.read_table(octets, first)
    except ValueError:
        readable = False
    try:
        tables.check_table(octets, first)
    except ValueError:
        good = False
    assert good == readable


# --- caches --------------------------------------------------------------------------------------


def test_what_is_kept_has_bounds() -> None:
    kept: BoundedCache[Any, int] = BoundedCache(2)
    for number in range(5):
        assert kept.keep(bytes([number]), number) == number
        assert len(kept) <= 2
    kept.clear()
    kept.keep(bytes(513), 1)
    kept.keep((bytes(500), "x" * 13), 1)
    assert not kept


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_that_differ_by_one_octet_are_two(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the cache is full again and again."""
    both = Both(version).opened()
    sent = [message(both, message_id=f"m-{n}", priority=n % 9) for n in range(8)] * 2
    dialect = both.server.channel(1).dialect("jms")
    dialect.headers.clear()
    monkeypatch.setattr(dialect.headers, "entries", 3)
    for one in sent:
        both.client.send(Publish(1, one, False, False))
    both.run()
    found = [op.message for op in both.asked if isinstance(op, Publish)]
    assert [m.header for m in found] == [m.header for m in sent]
    assert [m.essentials.priority for m in found] == [m.essentials.priority for m in sent]
    assert len(dialect.headers) <= 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bad_header_is_refused_each_time(version: str) -> None:
    good = Both(version).opened()
    dialect = good.server.channel(1).dialect("jms")
    # The headers of a header are cut short, and nothing else is wrong.
    header = dialect.write(Properties(to="q", application={"a": "b"}))
    bad = dialect.write(Properties(application={"a": "b"}))[:-1]
    for _ in range(3):
        both = Both(version).opened()
        sent = Message(dialect, header, b"x", "", "q", Essentials())
        both.client.send(Publish(1, sent, False, False))
        octets = b"".join(both.client.output())
        frames = both.client.frames
        begin = octets.index(sent.header)
        head = frames.content_header(dialect.number, 0, 1, bad)
        start = frames.frame(frames.header, 1, frames.content_header(dialect.number, 0, 1, b""))
        begin -= len(start) - len(frames.tail)
        broken = octets[:begin] + frames.frame(frames.header, 1, head)
        closed = both.server.receive(broken + frames.bodies(1, b"x", 100)[0])
        assert [(type(op), getattr(op, "condition", None)) for op in closed] == [
            (Closed, Condition.SYNTAX_ERROR)
        ]
        assert bad not in dialect.headers


# --- in one step, and frame by frame -------------------------------------------------------------


def conversation(version: str, server: bool) -> tuple[Both, bytes]:
    """Messages of every class, and the octets that bring them to the server or to the client."""
    both = Both(version, results={}).opened()
    sent = []
    for group in GROUPS[version]:
        sent += [
            message(both, b"body", group, message_id="m", application={"a": "b"}),
            message(both, b"", group),
            message(both, b"other", group),
        ]
    if server:
        for one in sent:
            both.client.send(Publish(1, one, True, False))
        return both, b"".join(both.client.output())
    both.queues.add("q")
    both.client.send(Subscribe(1, "s", "q", "", True))
    both.run()
    (tag,) = both.server.channel(1).consumers
    both.forget()
    for number, one in enumerate(sent):
        if one.dialect is both.server.channel(1).dialect("jms"):
            both.server.outlet(1).deliver(tag, number + (1 << 40), number % 2 == 1, one)
    return both, b"".join(both.server.output())


@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_one_step_is_as_good_as_many(version: str, server: bool) -> None:
    """Any octet may be wrong."""
    _, octets = conversation(version, server)
    for at in range(-1, len(octets), 3):
        data = octets
        if at >= 0:
            changed = bytes([octets[at] ^ (1 if at % 2 else 0x41)])
            data = octets[:at] + changed + octets[at + 1 :]
        results = []
        for step in (True, False):
            both, _ = conversation(version, server)
            here = both.server if server else both.client
            if not step:
                here.frames._hot = {}
            results.append((plain(here.receive(data)), here.output(), here.announced))
        assert results[0] == results[1], at


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_is_heard_once_and_read_once(version: str) -> None:
    """Equal octets share its cache entry, and a ticket is checked each time."""
    both, octets = conversation(version, True)
    both.server.receive(octets)
    heard = dict(both.server.frames._content_methods)
    again, octets = conversation(version, True)
    again.server.receive(octets)
    assert all(again.server.frames._content_methods[raw] is said for raw, said in heard.items())
    dialect = both.server.channel(1).dialect("jms")
    layouts = both.client.mapping.layouts
    for _ in range(2):
        both = Both(version).opened()
        where = {"destination": "q", "service_type": 1} if both.client.is_0_9a0 else {}
        record = layouts.JmsPublish(ticket=9, **where)
        both.client.put(both.client.encoded(1, record))
        frames = both.client.frames
        head = frames.content_header(dialect.number, 0, 0, b"\0\0")
        both.client.put(frames.frame(frames.header, 1, head))
        both.run()
        lost = [op for op in both.asked if isinstance(op, SessionLost)]
        assert [op.condition for op in lost] == [Condition.ACCESS_REFUSED]


# --- writing -------------------------------------------------------------------------------------


def consuming(version: str, queue: str = "q") -> tuple[Both, str]:
    both = Both(version).opened()
    both.queues.add(queue)
    both.client.send(Subscribe(1, "s", queue, "", False))
    both.run()
    both.forget()
    (tag,) = both.server.channel(1).consumers
    return both, tag


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", [b"", b"b", bytes(4096)])
def test_cached_encodings_are_the_same_as_written_ones(
    version: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for joined in (JOINED, -1):
        monkeypatch.setattr(channels, "JOINED", joined)
        both, tag = consuming(version)
        pending = both.server.pending
        for number in (1, 2, 1 << 40):
            for one in (message(both, body), message(both, body, message_id="n")):
                both.server.outlet(1).deliver(tag, number, number == 2, one)
        assert (len(pending) == 6) == (joined > 0)
        delivered = b"".join(both.server.output())
        for exchange in ("", "amq.topic", ""):
            one = message(both, body)
            one.exchange = exchange
            both.client.send(Publish(1, one, True, exchange == ""))
        written.append((delivered, b"".join(both.client.output())))
    assert written[0] == written[1]


def test_children_go_out_whole() -> None:
    both, tag = consuming("0-9a6")
    inner = child(7, b"\x80\0\1x", [child(7, b"\0\0", [], b"deep")], b"inner")
    one = message(both)
    one.header += inner
    both.server.outlet(1).deliver(tag, 1, False, one)
    both.run()
    (found,) = [op for op in both.heard if isinstance(op, Deliver)]
    assert found.message.header == one.header
    assert found.message.body == b"body"


@pytest.mark.parametrize("version", sorted(DRAFTS))
def test_another_consumer_of_the_same_name_is_another(version: str) -> None:
    """A server's numbers come round again, and what was encoded for the old one is not said."""
    both, tag = consuming(version, "q")
    one = message(both)
    both.server.outlet(1).deliver(tag, 1, False, one)
    both.run()
    both.client.send(Settle(1, 1, False, Outcome.ACCEPT))
    both.client.send(Unsubscribe(1, "u", tag))
    both.run()
    both.server.channel(1)._tags = int(tag) - 1
    both.queues.add("another")
    both.client.send(Subscribe(1, "s", "another", "", False))
    both.run()
    assert list(both.server.channel(1).consumers) == [tag]
    both.forget()
    both.server.outlet(1).deliver(tag, 2, False, one)
    octets = b"".join(both.server.output())
    assert b"another" in octets
    (found,) = both.client.receive(octets)
    assert isinstance(found, Deliver)
    assert found.consumer == tag
