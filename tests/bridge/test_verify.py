"""Comparison of two sides: each seeded difference is named by its class."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.bridge.comparison.comparing import CLASSES, Comparison, Rules, out_of_order
from gateway.bridge.comparison.recording import Recording
from gateway.bridge.migration.identity import AGAIN
from gateway.bridge.migration.sides import Browsed
from gateway.bridge.repeats import NOTE as REPEATED
from gateway.errors import ConfigError
from gateway.message import Message, Properties
from gateway.values import Int, Symbol
from tests.bridge.moving import declare, publish_all
from tests.bridge.test_move import Brokers, both, command, ends, run, url
from tests.net.commands import running
from tests.net.running import PATIENCE, environment

__all__ = ["both"]

COUNT = 40


def message(n: int, queue: str = "q", **changed: Any) -> Message:
    given: dict[str, Any] = {
        "durable": True,
        "content_type": "text/plain",
        "priority": 3,
        "message_id": f"m-{n}",
        "group_id": f"g{n % 3}",
        "application": {"n": n, "text": "ü", "list": [1, {"a": True}], "none": None},
    }
    body = changed.pop("body", f"body {n}").encode()
    header = BASIC.write(Properties(**given | changed))
    return Message(BASIC, header, body, "", queue, BASIC.essentials(header))


def headers(number: int, **changed: Any) -> dict[str, Any]:
    return {"n": number, "text": "ü", "list": [1, {"a": True}], "none": None} | changed


def recorded(path: Path, messages: list[Message], form: str = "0-9-1") -> Recording:
    made = Recording(path, form)

    async def browsed() -> Any:
        for one in messages:
            yield Browsed(one, False)

    asyncio.run(made.record("q", browsed(), lambda count: None))
    return made


def compared(
    folder: Path, one: list[Message], other: list[Message], form: str = "0-9-1", **rules: Any
) -> Any:
    left, right = recorded(folder / "left", one, form), recorded(folder / "right", other, form)
    try:
        return Comparison(left, "q", right, "q", Rules(**rules)).run()
    finally:
        left.close()
        right.close()


def numbers(found: Any) -> dict[str, int]:
    return {name: one.number for name, one in found.classes.items() if one.number}


ALL = [message(n) for n in range(COUNT)]


def changed(n: int, **given: Any) -> list[Message]:
    return [message(one, **given) if one == n else message(one) for one in range(COUNT)]


MUTATIONS = [
    (ALL, {}),
    (ALL[:7] + ALL[8:], {"missing": 1}),
    ([*ALL, message(99)], {"extra": 1}),
    ([*ALL[:5], *ALL[6:], ALL[5]], {"reordered": 1}),
    ([ALL[-1], *ALL[:-1]], {"reordered": 1}),
    (ALL[::-1], {"reordered": COUNT - 1}),
    (changed(4, body="other"), {"body": 1}),
    (changed(4, priority=4), {"property": 1}),
    (changed(4, application=headers(4, n=5)), {"property": 1}),
    (changed(4, application=headers(4, more=1)), {"property": 1}),
    (changed(4, application=headers(4, n=Int(4))), {"type": 1}),
    (changed(4, application=headers(4, list=[Int(1), {"a": True}])), {"type": 1}),
    (changed(4, body="other", application=headers(4, n=Int(4))), {"body": 1, "type": 1}),
    ([*ALL[:9], ALL[8], *ALL[9:]], {"duplicate": 1}),
    (
        [*ALL[:9], message(8, application=headers(8, **{AGAIN: True})), *ALL[9:]],
        {"flagged duplicate": 1},
    ),
    (
        [*ALL[:9], message(8, application=headers(8, **{REPEATED: "possible"})), *ALL[9:]],
        {"flagged duplicate": 1},
    ),
    (changed(4, application=headers(4, **{REPEATED: "possible"})), {}),
]


@pytest.mark.parametrize("other, classes", MUTATIONS)
def test_a_difference_has_its_class(
    tmp_path: Path, other: list[Message], classes: dict[str, int]
) -> None:
    found = compared(tmp_path, ALL, other)
    assert numbers(found) == classes
    assert found.equal == (not classes or classes == {"flagged duplicate": 1})
    assert set(classes) <= set(CLASSES)


def test_messages_without_id(tmp_path: Path) -> None:
    """They are paired by their content, then by what is the same of it."""

    def without(*given: Message) -> list[Message]:
        return [with_no_id(one) for one in given]

    one = without(*ALL)
    assert numbers(compared(tmp_path, one, one)) == {}
    assert numbers(compared(tmp_path, one, one[1:])) == {"missing": 1}
    assert numbers(compared(tmp_path, one, without(*changed(4, priority=4)))) == {"property": 1}
    assert numbers(compared(tmp_path, one, without(*changed(4, body="new")))) == {"body": 1}
    alike = without(*[ALL[0]] * 10)
    assert numbers(compared(tmp_path, alike, alike[:8])) == {"missing": 2}
    assert numbers(compared(tmp_path, alike[:8], alike)) == {"duplicate": 2}
    keyed = compared(tmp_path, one, without(*changed(4, body="new", priority=9)), key="header.n")
    assert numbers(keyed) == {"body": 1, "property": 1}


def with_no_id(message: Message) -> Message:
    properties = BASIC.read(message.header)
    properties.message_id = None
    header = BASIC.write(properties)
    return Message(BASIC, header, message.body, "", "q", BASIC.essentials(header))


def test_what_may_differ(tmp_path: Path) -> None:
    other = changed(4, priority=9, application=headers(4, extra=1))
    found = compared(tmp_path, ALL, other, ignore=("priority", "header.ext*"))
    assert found.equal
    assert found.left.digest == found.right.digest
    found = compared(tmp_path, ALL, ALL[::-1], order="none")
    assert found.equal
    assert found.left.content == found.right.content
    assert found.left.digest != found.right.digest
    by_group = sorted(ALL, key=lambda one: one.properties.group_id or "")
    assert compared(tmp_path, ALL, by_group, order="group").equal
    assert not compared(tmp_path, ALL, by_group).equal
    assert not compared(tmp_path, ALL, by_group[::-1], order="group").equal


def test_the_fewest_are_out_of_order() -> None:
    from array import array

    cases = {(): 0, (1,): 0, (2, 3, 4, 5, 1): 1, (5, 1, 2, 3, 4): 1, (3, 2, 1): 2, (1, 3, 2, 4): 1}
    for places, count in cases.items():
        assert len(list(out_of_order(array("q", places)))) == count, places


# --- the command ----------------------------------------------------------------------------------


def verify(folder: Path, *words: object, status: int = 0) -> Any:
    return run(folder, "verify", *words, status=status)


@pytest.fixture
def queues(both: Brokers, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"verify.{request.node.name}"
    declare(both.old, name)
    declare(both.new, name)
    publish_all(both.old.port, [message(n, name) for n in range(COUNT)])
    yield name


@pytest.mark.parametrize("source", ["0-9-1", "1.0", "0-10"])
@pytest.mark.parametrize("destination", ["0-9-1", "1.0", "0-10"])
def test_a_moved_queue_is_equal(
    both: Brokers, queues: str, tmp_path: Path, source: str, destination: str
) -> None:
    """A recording of the old side is compared with the new one, in versions that browse and in one
    that does not. Nothing is taken by the comparison."""
    file = tmp_path / "before"
    there = (
        ["--from-version", source, "--taking"] if source == "0-9-1" else ["--from-version", source]
    )
    words = ["--from", url(both.old), *there, "-q", queues, "--record", file]
    assert verify(tmp_path, *words) == {"queues": {queues: COUNT}}
    told = run(tmp_path, *ends(both, source, destination), "-q", queues)
    assert told["moved"] == COUNT
    version = destination if destination != "0-9-1" else "0-10"
    words = ["--from", file, "--to", url(both.new), "--to-version", version, "-q", queues]
    told = verify(tmp_path, *words)
    (one,) = told["queues"]
    assert (told["equal"], one["classes"]) == (True, {}), told
    assert one["left"] == one["right"]
    assert both.new.asked(f"/api/queues/%2F/{queues}")["messages"] == COUNT


def test_both_sides_at_once(both: Brokers, queues: str, tmp_path: Path) -> None:
    """The report names what is not the same; a queue of 0-9-1 is taken only if that is asked
    for."""
    other = changed(4, body="other")
    publish_all(both.new.port, [one.routed_as("", queues) for one in other[1:]])
    words = ["--from", url(both.old), "--to", url(both.new), "-q", queues]
    refused = verify(tmp_path, *words, status=2)
    assert "0-9-1 reads a queue only by taking" in refused
    told = verify(tmp_path, *words, "--to-version", "1.0", "--taking", status=1)
    (one,) = told["queues"]
    assert {name: found["count"] for name, found in one["classes"].items()} == {
        "missing": 1,
        "body": 1,
    }
    assert one["classes"]["missing"]["examples"] == [
        {"left": 1, "right": 0, "id": "m-0", "what": ""}
    ]
    assert both.old.asked(f"/api/queues/%2F/{queues}")["messages_ready"] == COUNT


def test_late_messages_are_waited_for(both: Brokers, queues: str, tmp_path: Path) -> None:
    publish_all(both.new.port, [message(n, queues) for n in range(COUNT - 1)])
    words = ["verify", "--from", url(both.old), "--to", url(both.new), "-q", queues]
    words += ["--from-version", "1.0", "--to-version", "0-10", "--late", str(PATIENCE), "--json"]
    with running(command(tmp_path, *words), environment()) as verifier:
        browsed(both, queues)
        publish_all(both.new.port, [message(COUNT - 1, queues)])
        told = json.loads(verifier.done().stdout)
    (one,) = told["queues"]
    assert told["equal"]
    assert {name: found["count"] for name, found in one["classes"].items()} == {"late": 1}


def browsed(both: Brokers, queue: str) -> None:
    """Wait until somebody has read the queue."""
    from tests.net.running import until

    def reads() -> bool:
        return any(one["name"] == "verify" for one in both.new.connections())

    until(lambda: "verify" in str(both.new.connections()), "it reads")
    until(lambda: "verify" not in str(both.new.connections()), "it has read")


def test_types_of_1_0(tmp_path: Path) -> None:
    """A symbol is no string."""
    other = changed(4, application=headers(4, text=Symbol("ü")))
    assert compared(tmp_path, ALL, other).equal


def test_the_work_grows_with_the_messages(tmp_path: Path) -> None:
    """And not with their square: steps of the database are counted."""

    def steps(count: int) -> int:
        done = 0

        def step() -> int:
            nonlocal done
            done += 1
            return 0

        messages = [message(n) for n in range(count)]
        left = recorded(tmp_path / "left", messages)
        right = recorded(tmp_path / "right", messages[1:])
        comparison = Comparison(left, "q", right, "q", Rules())
        comparison._db.set_progress_handler(step, 100)
        assert numbers(comparison.run()) == {"missing": 1}
        left.close()
        right.close()
        return done

    assert steps(1200) < 6 * steps(300)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE messages",
        "UPDATE messages SET fields = 'nonsense'",
        "UPDATE messages SET fields = '[[1]]'",
        "UPDATE messages SET fields = NULL",
        "UPDATE messages SET body = 7",
        "DELETE FROM facts WHERE name = 'form'",
    ],
)
def test_a_damaged_recording_is_an_error(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a.db"
    recorded(file, ALL[:3]).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(damage)
        db.commit()
    with pytest.raises(ConfigError), closing(Recording(file)) as found:
        Comparison(found, "q", found, "q", Rules()).run()
