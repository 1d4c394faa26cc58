"""Filters, formats, event names: what a stream asks for is what it gets, and its cursor holds."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.access.principal import Principal
from gateway.http.events.opening import open_stream
from gateway.http.events.stream import CHUNK_OCTETS, LOOK_STEPS
from gateway.http.events.views import STEPS_OF_AN_OCTET, event_line
from gateway.http.filters import BadFilter, Filter, Term, read_filter, read_selector
from gateway.http.publish.templates import encode
from gateway.message import DIALECTS, Essentials, Message, Properties
from gateway.selector.like import EFFORT, LONGEST_TEXT, MOST_STEPS
from tests.http.stream_words import ALL, TEXT, publish, read_query, texts

JSON = {"Content-Type": "application/json"}


def filtered(*filters: str) -> str:
    return ALL + "".join("&filter=" + quote(one, safe="") for one in filters)


def message(body: bytes = b"", key: str = "a.b", **properties: Any) -> Message:
    dialect = DIALECTS["0-9-1"]
    header = dialect.write(Properties(**properties))
    return Message(dialect, header, body, "prices", key, Essentials())


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("key=a.b", True),
        ("key^=a.", True),
        ("key!=a.b", False),
        ("exchange=prices", True),
        ("exchange^=p", True),
        ("subject^=a", True),
        ("type=order", True),
        ("type=orde", False),
        ("type^=ord", True),
        ("property.n=3", True),
        ("property.n=3.0", True),
        ("property.n!=3", False),
        ("property.big=9007199254740993", True),
        ("property.big=9007199254740992", False),
        ("property.flag=true", True),
        ("property.flag=1", False),
        ("property.gone", False),
        ("property.gone!=x", True),
        ("property.gone^=", False),
        ("property.n", True),
        ("property.octets=x", False),
        ("property.with space=y=z", True),
        ("priority=4", True),
        ("id=17", True),
        ("correlation_id!=17", True),
    ],
)
def test_terms(text: str, passed: bool) -> None:
    one = message(
        type="order",
        message_id="17",
        priority=4,
        application={
            "n": 3,
            "big": 2**53 + 1,
            "flag": True,
            "octets": b"x",
            "with space": "y=z",
        },
    )
    assert Filter((read_filter(text),)).passes(one) is passed


@pytest.mark.parametrize("text", ["", "=x", "color=x", "key~x", "property.", "x" * 2000])
def test_invalid_filters(text: str) -> None:
    with pytest.raises(BadFilter):
        read_filter(text)


@given(st.text(max_size=50))
def test_reading_a_filter_never_fails_otherwise(text: str) -> None:
    try:
        found = read_filter(text)
    except BadFilter:
        return
    Filter((found,)).passes(message())


def test_unreadable_properties_pass_no_filter_but_on_places() -> None:
    broken = Message(DIALECTS["0-9-1"], b"\xff\xff\xff", b"", "prices", "a", Essentials())
    assert Filter((Term("key", "=", "a"),)).passes(broken)
    assert not Filter((Term("property.x", "!=", "1"),)).passes(broken)
    assert Filter((), read_selector("JMSPriority = 4")).passes(broken)
    assert not Filter((), read_selector("x IS NULL")).passes(broken)


class Counting:
    """The dialect 0-9-1, counting how often properties are decoded."""

    def __init__(self) -> None:
        self.real = DIALECTS["0-9-1"]
        self.name = self.real.name
        self.reads = 0

    def read(self, header: bytes) -> Properties:
        self.reads += 1
        return self.real.read(header)


@pytest.mark.parametrize(
    ("terms", "selector", "passed", "reads"),
    [
        ((), "JMSPriority > 3 AND amqp.durable", False, 0),
        ((), "JMSPriority > 3 AND n = 3", True, 1),
        ((), "JMSPriority < 3 AND n = 3", False, 0),
        (("key=a.b", "property.n=3"), "kind = 'x' OR n BETWEEN 2 AND 4", True, 1),
        (("key=a.c",), "n = 3", False, 0),
        (("property.n=3",), "n = '3'", False, 1),
        (("property.n!=3",), "n = 3", False, 1),
    ],
)
def test_filters_and_a_selector(
    terms: tuple[str, ...], selector: str, passed: bool, reads: int
) -> None:
    """All must hold. Properties are decoded once, if they must be, and not kept."""
    dialect = Counting()
    one = message(application={"n": 3})
    one = Message(dialect, one.header, b"", "prices", "a.b", Essentials())  # type: ignore[arg-type]
    wanted = Filter(tuple(map(read_filter, terms)), read_selector(selector))
    assert wanted.passes(one) is passed
    assert dialect.reads == reads and one._properties is None


async def test_all_filters_must_hold_and_the_cursor_moves_on(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    query = filtered("key^=eur.", "property.kind=spot")
    spot = {"Amqp-Property": '"kind";v="spot"'} | TEXT
    async with rig.served() as port:
        async with listener(port, query) as reader:
            await reader.opened()
            before = reader.cursor
            await publish(rig, "eur.a", b"1", **spot)
            await publish(rig, "usd.a", b"2", **spot)
            await publish(rig, "eur.a", b"3", **TEXT)
            assert await texts(reader, 1) == ["1"]
            # What was left out moves the cursor.
            after = reader.cursor
            frame = await reader.until("gateway.cursor")
            assert frame.id == frame.data["cursor"] not in ("", before, after)
        await publish(rig, "usd.b", b"4", **spot)
        await publish(rig, "eur.b", b"5", **spot)
        async with listener(port, query, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            assert await texts(again, 1) == ["5"]
        async with listener(port, ALL, after) as plain:
            assert await texts(plain, 4) == ["2", "3", "4", "5"]
    assert not any(source.views for source in rig.app.state.hub.sources.values())


async def test_a_filter_over_several_sources(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    rig.exchange("news", "fanout")
    query = filtered("key^=eur.") + "&source=exchange:news"
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        await publish(rig, "eur.a", b"1", **TEXT)
        await publish(rig, "no", b"2", exchange="news", **TEXT)
        await publish(rig, "eur.b", b"3", exchange="news", **TEXT)
        assert await texts(reader, 2) == ["1", "3"]
        stream = next(iter(rig.app.state.hub.streams))
        await publish(rig, "no", b"4", exchange="news", **TEXT)
        await rig.until(
            lambda: stream.readings[1].position == stream.readings[1].source.journal.head
        )
        assert (await reader.event()).id


async def test_a_selector(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    query = filtered("key^=eur.") + "&selector=" + quote("kind LIKE 's%' AND n >= 2", safe="")
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        for n in range(4):
            headers = {"Amqp-Property": f'"kind";v="spot", "n";v={n}'} | TEXT
            await publish(rig, "eur.a", b"%d" % n, **headers)
            await publish(rig, "usd.a", b"no", **headers)
        assert await texts(reader, 2) == ["2", "3"]
        # Who says the same in other words reads by the same view.
        again = filtered("key^=eur.") + "&selector=" + quote("(kind like 's%') and n>=2", safe="")
        async with listener(port, again) as other:
            await other.opened()
            (source,) = rig.app.state.hub.sources.values()
            assert [view.readers for view in source.views.values()] == [2]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("selector=n%20%3D", "selector: expected a value, found the end at position 4"),
        ("selector=n%20%3D)", "selector: expected a value, found ')' at position 4"),
        ("selector=17", "expected a condition"),
        ("selector=", "selector: "),
        ("selector=" + "x" * 4097, "at most 4096 characters"),
        ("selector=a&selector=b", "selector given twice"),
        ("selector=%ED%A0%80", "UTF-8"),
    ],
)
async def test_invalid_selectors(rig: Any, query: str, detail: str) -> None:
    rig.exchange("prices")
    async with rig.http() as http:
        answer = await http.get(f"/v1/%2F/events?{ALL}&{query}")
        assert answer.status_code == 400 and detail in answer.json()["detail"]
        assert answer.headers["content-type"] == "application/problem+json"


async def test_readers_of_one_view_share_its_frames(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    query = filtered("key^=eur.") + "&format=full"
    async with (
        rig.served() as port,
        listener(port, query) as one,
        listener(port, query) as two,
    ):
        await one.opened()
        await two.opened()
        (source,) = rig.app.state.hub.sources.values()
        (view,) = source.views.values()
        assert view.readers == 2
        await publish(rig, "eur.a", b"1", **TEXT)
        assert (await one.until()).data == (await two.until()).data
        assert len(view.kept) == 1


async def test_full_has_every_section_typed(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL + "&format=full") as reader:
        await reader.opened()
        await publish(
            rig,
            "a",
            b"{1}",
            **JSON,
            **{"Amqp-Message-Id": '"m"', "Amqp-Property": '"n";v=3;t=ubyte'},
        )
        data = (await reader.until()).data
        assert data["source"] == "exchange:prices?binding=#" and data["position"] > 0
        assert data["view"] == "full"
        assert data["properties"]["message_id"] == "m"
        assert data["legacy"]["routing_key"] == "a"
        assert data["application_properties"] == {"n": {"$type": "ubyte", "value": 3}}
        assert data["body"] == {"kind": "data", "base64": "ezF9"}


async def test_cloudevents_made_and_passed_on(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL + "&format=cloudevents") as reader:
        await reader.opened()
        await publish(rig, "eur.a", b'{"p":12345678901234567890}', **JSON)
        made = (await reader.until()).data
        assert made["specversion"] == "1.0" and made["type"] == "amqp.message"
        assert made["source"] == "/v1/%2F/exchanges/prices" and made["subject"] == "eur.a"
        assert made["id"] and made["datacontenttype"] == "application/json"
        assert made["data"] == {"p": 12345678901234567890}
        await publish(rig, "a", b"\xff\x00", **{"Amqp-Type": '"T"', "Amqp-Message-Id": '"m"'})
        binary = (await reader.until()).data
        assert (binary["type"], binary["id"], binary["data_base64"]) == ("T", "m", "/wA=")
        await publish(rig, "a", b"line\r\n", **TEXT)
        assert (await reader.until()).data["data"] == "line\r\n"
        attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "ext": "x"}
        headers = ", ".join(f'"cloudEvents:{k}";v="{v}"' for k, v in attributes.items())
        await publish(rig, "a", b"[]", **JSON, **{"Amqp-Property": headers})
        passed = (await reader.until()).data
        assert passed == attributes | {"datacontenttype": "application/json", "data": []}
        structured = {"specversion": "1.0", "id": "2", "source": "/s", "type": "t", "data": 1}
        await publish(
            rig,
            "a",
            json.dumps(structured, indent=1).encode(),
            **{"Content-Type": "application/cloudevents+json; charset=utf-8"},
        )
        assert (await reader.until()).data == structured


async def test_payload_is_always_base64(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port:
        for form in ("json", "cloudevents"):
            query = f"{ALL}&format={form}&payload=base64"
            async with listener(port, query) as reader:
                await reader.opened()
                await publish(rig, "a", b"{}", **JSON)
                data = (await reader.until()).data
                assert data.get("data_base64", data.get("body")) in ("e30=", {"base64": "e30="})
        async with listener(port, ALL + "&format=text&payload=base64") as reader:
            assert reader.status == 400


async def test_event_names(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL + "&event=type") as reader:
        await reader.opened()
        await publish(rig, "a", b"1", **TEXT, **{"Amqp-Type": '"order"'})
        assert (await reader.until("order")).body == {"text": "1"}
        for name in ('"gateway.close"', '"error"', '"open"', '%"two%0alines"'):
            await publish(rig, "a", b"2", **TEXT, **{"Amqp-Type": name})
            assert (await reader.event()).kind == "message"
        async with listener(port, ALL + "&event=subject") as other:
            await other.opened()
            await publish(rig, "a.key", b"3", **TEXT)
            await publish(rig, "a.key", b"4", **TEXT, **{"Amqp-Subject": '"subject"'})
            assert (await other.event()).kind == "a.key"
            assert (await other.event()).kind == "subject"
        async with listener(port, ALL + "&event=source") as other:
            await other.opened()
            await publish(rig, "a", b"5", **TEXT)
            assert (await other.event()).kind == "exchange:prices?binding=#"


@given(st.text(max_size=300))
def test_no_name_breaks_out_of_its_line(name: str) -> None:
    line = event_line(name)
    assert line == b"" or (line.count(b"\n") == 1 and line.endswith(b"\n"))
    assert b"\r" not in line and b"\x00" not in line
    assert not line.startswith(b"event: gateway.")


async def test_a_hard_selector_looks_at_few_events_at_once(rig: Any, listener: Any) -> None:
    """Events are read until what a turn may give is reached; what a selector has cost counts as
    octets, so that a stream of what is left out holds up nobody."""
    rig.exchange("prices")
    hard = " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50)
    query = f"{ALL}&selector={quote(hard, safe='')}"
    spent: list[int] = []
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        (source,) = rig.app.state.hub.sources.values()
        (view,) = source.views.values()
        read = view.frames

        def frames(after: int, most: int) -> Any:
            before = EFFORT.steps
            found = read(after, most)
            spent.append(EFFORT.steps - before)
            return found

        view.frames = frames
        header, essentials = encode(Properties(application={"t": "a" * 16_000}))
        found, wanted = encode(
            Properties(application={"t": "a" * 41 + "b"}, content_type="text/plain")
        )
        rig.begin()
        for number in range(61):
            last = number == 60
            head, kind = (found, wanted) if last else (header, essentials)
            body = b"found" if last else b"x"
            rig.channel.publish(Message(DIALECTS["0-9-1"], head, body, "prices", "k", kind))
        rig.end()
        assert await texts(reader, 1) == ["found"]
    each = max(spent)
    assert len([steps for steps in spent if steps]) >= 10
    assert each <= (CHUNK_OCTETS << STEPS_OF_AN_OCTET) + MOST_STEPS + LONGEST_TEXT


async def test_latest_looks_at_few_events_at_once(rig: Any) -> None:
    """``slow=latest`` looks ahead for a newer event of the same key: no further than its steps."""
    rig.exchange("prices")
    hard = " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50)
    asked = read_query(f"{ALL}&slow=latest&selector={quote(hard, safe='')}".encode(), None, 15)
    stream = open_stream(rig.app.state.hub, "/", Principal("alice"), asked)
    stream.take()
    header, essentials = encode(Properties(application={"t": "a" * 16_000}))
    found, wanted = encode(Properties(application={"t": "a" * 41 + "b"}))
    for number in range(62):
        head, kind = (found, wanted) if number >= 60 else (header, essentials)
        body = b"%d" % number
        rig.channel.publish(Message(DIALECTS["0-9-1"], head, body, "prices", "k", kind))
    spent: list[int] = []
    said = b""
    while stream.more():
        before = EFFORT.steps
        said += bytes(stream.take())
        spent.append(EFFORT.steps - before)
    # An event is asked about twice: ahead, and as it is shown.
    assert max(spent) <= 2 * (LOOK_STEPS + MOST_STEPS + LONGEST_TEXT)
    assert len(spent) >= 10
    assert said.count(b"\ndata:") == 1
    rig.app.state.hub.leave(stream)
    await rig.app.state.hub.close()
