"""The report from its counts: weighed for a target, as tables, and as a page. Without Spark."""

import json
import math
import random
from collections import Counter
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pyspark_amqp.options import OptionError
from pyspark_amqp.readiness.counts import Counted, flows_of
from pyspark_amqp.readiness.document import DAY, HOUR, MOST_HOURS, Document, document_of
from pyspark_amqp.readiness.drawing import NARROW, WIDE, Ribbons, Stream, merged, nice
from pyspark_amqp.readiness.forms import as_csv, share, show, verdict
from pyspark_amqp.readiness.page import as_html
from pyspark_amqp.readiness.sketch import bucket_of, quantile, value_of
from pyspark_amqp.readiness.weighing import Weights, weights_of

EVIL = "<script>alert(1)</script>\"'&\u202e=1+1"
HOURS = 495_000  # of the year 2026, since 1970


def counted(**given: Any) -> Counted:
    usual = {
        "vhost": "/", "address": "/queues/a", "protocol": "amqp-0-9-1", "client": "shop",
        "product": "pika", "product_version": "1", "user": "guest", "kind": "messages", "name": "",
        "detail": "", "bucket": None, "hour": HOURS * HOUR, "messages": 10, "octets": 100,
        "largest": 10, "first": HOURS * HOUR * 10**6, "last": HOURS * HOUR * 10**6, "looked": 10,
    }  # fmt: skip
    return Counted(**{**usual, **given})


def document(*rows: Counted, weights: Weights | None = None, by: str = "auto") -> Document:
    return document_of(flows_of(rows), weights or Weights("generic-1.0"), 1.0, by)


# --- quantiles ------------------------------------------------------------------------------------


def test_quantiles_are_within_two_percent() -> None:
    chance = random.Random(5)
    values = [int(chance.lognormvariate(7, 2.5)) for _ in range(5000)] + [0, 1, 2, 3, 1 << 40]
    counts = Counter(map(bucket_of, values))
    values.sort()
    for part in (0.01, 0.5, 0.95, 0.99, 0.999, 1.0):
        exact = values[max(1, math.ceil(part * len(values))) - 1]
        found = quantile(counts, part)
        assert found is not None
        assert abs(found - exact) <= 0.006 * exact
    assert quantile({}, 0.5) is None
    for small in range(200):
        assert round(value_of(bucket_of(small))) == pytest.approx(small, rel=0.0101)


# --- weighing -------------------------------------------------------------------------------------


def capabilities(path: Path, **abilities: Any) -> Path:
    known = dict.fromkeys(
        ("confirms", "transactions", "browsing", "draining", "counting", "declaring"), True
    )
    upstream = {
        "name": "new", "product": "apache-activemq-artemis", "product_version": "2.40",
        "abilities": {**known, "priorities": True, "streams": None, **abilities},
    }  # fmt: skip
    path.write_text(json.dumps({"upstreams": [upstream]}))
    return path


def test_what_the_target_lacks(tmp_path: Path) -> None:
    path = capabilities(tmp_path / "c.json", priorities=False, transactions=False)
    weights = weights_of(None, path, None)
    assert (weights.target, weights.product) == ("artemis", "apache-activemq-artemis 2.40")
    assert weights.advice("priority").severity == "major"
    assert Weights("artemis").advice("priority").severity == "none"
    assert weights.lacks == ("transactions", "queues with priorities")
    assert weights.unknown == ("stream queues",)
    found = document(counted(name="priority"), weights=weights)
    assert found["worst"] == "major"
    assert found["actions"][0]["feature"] == "priority"
    assert "The target lacks: transactions" in page(found)


def test_wrong_capabilities(tmp_path: Path) -> None:
    path = capabilities(tmp_path / "c.json", priorities=False)
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    for given, text in (
        (("rabbitmq", None, None), "--target: one of rabbitmq-4, artemis, generic-1.0"),
        ((None, None, "new"), "--upstream: only with"),
        ((None, path, "old"), "--upstream: one of new, not 'old'"),
        ((None, broken, None), "--capabilities: .* not an answer"),
        ((None, tmp_path / "none", None), "--capabilities: .*No such file"),
    ):
        with pytest.raises(OptionError, match=text):
            weights_of(*given)


def test_severities_of_messages_and_of_clients() -> None:
    """A message is as bad as its worst feature, a client as its worst message."""
    found = document(
        counted(messages=70),
        counted(messages=20, name="header-map,app-id"),
        counted(client="old", protocol="amqp-0.8a2", messages=5, name="out-of-band-message"),
        counted(client="new", protocol="amqp-1.0", messages=5),
    )
    shown = {name: tuple(one.values()) for name, one in found["readiness"].items()}
    assert shown == {"none": (5, 1), "minor": (70, 0), "major": (20, 1), "blocking": (5, 1)}
    assert [one["feature"] for one in found["actions"]] == [
        "out-of-band-message", "header-map", "app-id", "version",
    ]  # fmt: skip
    assert verdict(found).startswith("75 % of the messages are ready for any broker")
    assert "1 client cannot move before it is changed. 1 client needs work." in verdict(found)


def test_losses_are_scaled_flow_by_flow() -> None:
    found = document(
        counted(messages=100, looked=10),
        counted(kind="loss", name="headers.a", detail="warning", messages=5, looked=5),
        counted(address="/queues/b", messages=100, looked=100),
        counted(address="/queues/b", kind="loss", name="headers.a", detail="warning", messages=7),
    )
    (loss,) = found["losses"]
    assert (loss["messages"], loss["seen"]) == (57, 12)
    assert found["sample"]["looked"] == 110
    assert "110 messages of 200 were looked at" in page(found)
    assert "about 57" in page(found)


def test_steps_of_the_trend() -> None:
    early, late = counted(), counted(hour=(HOURS + MOST_HOURS + 1) * HOUR, messages=3)
    found = document(early, late)["trend"]
    assert found["step"] == DAY
    assert found["protocols"]["amqp-0-9-1"][0] == 10
    assert sum(found["protocols"]["amqp-0-9-1"]) == 13
    hours = document(early, late, by="hour")["trend"]
    assert len(hours["periods"]) == MOST_HOURS + 2


# --- forms ----------------------------------------------------------------------------------------


def page(found: Document) -> str:
    return as_html(found, "1")


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def evil() -> Document:
    """Every text that a peer chooses is a script."""
    names = {"client": EVIL, "product": EVIL, "user": EVIL, "vhost": EVIL, "address": EVIL}
    return document(
        counted(**names, name="header-map"),
        counted(**names, kind="loss", name=EVIL, detail="warning"),
        counted(**names, kind="hop", name=EVIL, bucket=100),
        counted(**names, kind="size", bucket=50),
        counted(**{**names, "protocol": EVIL}, hour=(HOURS + 1) * HOUR),
    )


def test_the_page_has_no_text_of_peers_as_markup() -> None:
    text = page(evil())
    found = Reader(text)
    assert found.open == []
    tags = {tag for tag, _ in found.tags}
    assert not tags & {"script", "link", "img", "iframe", "a", "object", "form"}
    for _, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "href"} & attributes.keys()
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert "url(" not in text
    policy = [one for tag, one in found.tags if tag == "meta" and "http-equiv" in one]
    assert str(policy[0]["content"]).startswith("default-src 'none'")


def test_drawings_have_words_for_those_who_do_not_see_them() -> None:
    drawings = [given for tag, given in Reader(page(evil())).tags if tag == "svg"]
    assert len(drawings) > 6
    assert all(one["role"] == "img" and one["aria-label"] for one in drawings)


def test_what_is_not_there_is_said() -> None:
    text = page(document(counted()))
    assert "Not recorded" in text
    assert "Nothing is lost on 1.0 of any message." in text
    assert "There are no messages" in page(document())


def test_csv_is_no_formula() -> None:
    tables = as_csv(document(counted(client="=cmd()", address="/queues/=b"), counted(user="@x")))
    assert "'=cmd()" in tables["clients.csv"]
    assert "\r\n=cmd" not in tables["clients.csv"]
    assert tables["trend.csv"].splitlines()[0] == "period,amqp-0-9-1"
    assert set(tables) == {
        f"{name}.csv" for name in ("protocols", "clients", "users", "addresses", "flows",
                                   "features", "losses", "usage", "hops", "trend")
    }  # fmt: skip


def test_the_terminal_takes_names_as_text() -> None:
    out = StringIO()
    show(document(counted(client="[red]x[/red]")), Console(file=out, width=200))
    assert "[red]x[/red], pika 1" in out.getvalue()
    assert "not recorded" in out.getvalue()


def test_a_narrow_terminal_has_whole_names() -> None:
    out = StringIO()
    address = "/queues/a-name-that-is-much-longer-than-the-column-it-stands-in"
    show(document(counted(address=address)), Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert address in "".join(cells)


def test_shares_are_never_rounded_to_nothing_or_all() -> None:
    assert [share(*one) for one in ((0, 9), (1, 1000), (999, 1000), (5, 5), (1, 3))] == [
        "0 %", "<1 %", ">99 %", "100 %", "33 %",
    ]  # fmt: skip


# --- drawings -------------------------------------------------------------------------------------


def test_ribbons_are_as_wide_as_their_messages_and_do_not_overlap() -> None:
    streams = [
        Stream(f"c{n % 3}", f"v{n % 2}", f"a{n % 5}", (n + 1) * 100, "none") for n in range(12)
    ]
    streams = merged(streams, 3, 3)
    assert {one.target for one in streams} == {"a0", "a1", "3 others"} or len(
        {one.target for one in streams}
    ) == 3
    assert sum(one.messages for one in streams) == 7800
    for layout in (WIDE, NARROW):
        made = Ribbons(streams, layout)
        for ends, key in ((made.source, 0), (made.into, 1), (made.out, 1), (made.target, 2)):
            for name in {one[key] for one in streams}:
                spans = sorted(
                    (ends[one], ends[one] + made.heights[one])
                    for one in streams
                    if one[key] == name
                )
                for (_, low), (high, _) in zip(spans, spans[1:], strict=False):
                    assert low == pytest.approx(high)
        for nodes in made.columns:
            for upper, lower in zip(nodes, nodes[1:], strict=False):
                assert upper.y + upper.height < lower.y


def test_axes_have_round_numbers() -> None:
    assert [nice(value) for value in (1, 4, 5, 13_200, 99)] == [4, 4, 6, 16_000, 120]
