"""Moves of whole queues between two gateways, by the commands, in every version."""

import asyncio
import json
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.migration.identity import AGAIN, notes_of, origin_of
from gateway.bridge.migration.journal import Journal
from gateway.errors import ConfigError
from gateway.operations import DeclareQueue, Deliver, Outcome, Settle, Subscribe
from tests import in_memory
from tests.bridge.moving import declare, empty, entered, publish, taken
from tests.net.commands import completed, running
from tests.net.preloaded import Process
from tests.net.running import PATIENCE, Running, environment, until

VERSIONS = ("0.8a2", "0-8", "0-9", "0-9-1", "0-10", "1.0")


class Brokers:
    """An old and a new broker."""

    def __init__(self, old: Running, new: Running) -> None:
        self.old = old
        self.new = new


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("brokers")
    with Running(folder / "old") as old, Running(folder / "new") as new:
        yield Brokers(old, new)


def command(folder: Path, *words: object) -> list[str]:
    """The words of a command of ``bridge``, with a journal in the folder."""
    journal = () if "--no-journal" in words else ("--journal", str(folder / "journal.db"))
    given = [str(word) for word in words if word != "--no-journal"]
    return ["bridge", *given, *journal]


def run(folder: Path, *words: object, status: int = 0) -> Any:
    """Run a command; its JSON."""
    done = completed([*command(folder, *words), "--json"], environment())
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def ends(both: Brokers, source: str = "auto", destination: str = "auto") -> list[object]:
    return [
        "move", "--from", url(both.old), "--to", url(both.new),
        "--from-version", source, "--to-version", destination, "--grace", 0.3,
    ]  # fmt: skip


def url(running: Running) -> str:
    return f"amqp://guest@127.0.0.1:{running.port}"


@pytest.mark.parametrize("destination", ["0-9-1", "1.0"])
@pytest.mark.parametrize("source", VERSIONS)
def test_a_queue_is_moved(both: Brokers, tmp_path: Path, source: str, destination: str) -> None:
    moved(both, tmp_path, source, destination)


@pytest.mark.parametrize("destination", sorted(set(VERSIONS) - {"0-9-1", "1.0"}))
def test_a_queue_is_moved_to(both: Brokers, tmp_path: Path, destination: str) -> None:
    moved(both, tmp_path, "0-9-1", destination)


def moved(both: Brokers, tmp_path: Path, source: str, destination: str) -> None:
    """All messages, once, in their order, with a note of where they stood; the source is empty."""
    name, count = f"{source}.{destination}", 300
    declare(both.old, name)
    declare(both.new, name + ".new")
    publish(both.old.port, name, range(count))
    told = run(
        tmp_path, *ends(both, source, destination), "-q", f"{name}={name}.new", "--batch", 70
    )
    assert (told["state"], told["moved"], told["flagged"]) == ("done", count, 0)
    assert empty(both.old, name)
    found = taken(both.new.port, name + ".new", count)
    assert [in_memory.text(one.message) for one in found] == [f"body {n}" for n in range(count)]
    origins = [origin_of(one.message) for one in found]
    assert [one and one.number for one in origins] == list(range(1, count + 1))
    headers = [one.message.properties.application or {} for one in found]
    assert [one["text"] for one in headers] == [f"ü {n}" for n in range(count)]


def kill_and_go_on(folder: Path, words: list[object], turns: int, seed: int) -> Any:
    """Kill a mover again and again, then let it end; its JSON."""
    dice = random.Random(seed)
    for _ in range(turns):
        before = progress(folder)
        with running(command(folder, *words), environment()) as mover:
            until(partial(moves_or_ends, mover.process, folder, before), "it moves")
            time.sleep(dice.uniform(0.0, 0.15))
            mover.process.kill()
            errors = mover.done().stderr
        assert "error" not in errors, errors
    return run(folder, *words)


def moves_or_ends(mover: Process, folder: Path, before: int) -> bool:
    return mover.poll() is not None or progress(folder) > before


def progress(folder: Path) -> int:
    """Messages moved so far, read beside the process that moves them."""
    try:
        book = Journal(folder / "journal.db", reading=True)
    except ConfigError:
        return 0
    try:
        return sum(one.moved for move in book.moves() for one in book.queues(move.name))
    finally:
        book.close()


ENOUGH = 2000


@pytest.mark.parametrize(
    "source, destination", [("0-9-1", "1.0"), ("1.0", "0-9-1"), ("0-10", "0-10")]
)
def test_a_killed_mover_goes_on(
    both: Brokers, tmp_path: Path, source: str, destination: str
) -> None:
    """Nothing is lost. Where the destination can be read without taking, nothing comes twice;
    elsewhere what comes twice has a flag."""
    name = f"killed.{source}"
    declare(both.old, name)
    declare(both.new, name)
    publish(both.old.port, name, range(ENOUGH))
    words = [*ends(both, source, destination), "-q", name, "--batch", 50, "--rate", 600]
    told = kill_and_go_on(tmp_path, words, 6, 11)
    assert told["state"] == "done"
    assert empty(both.old, name)
    depth = both.new.asked(f"/api/queues/%2F/{name}")["messages"]
    found = everything(both.new.port, name, depth)
    bodies = [in_memory.text(one.message) for one in found]
    assert sorted(set(bodies), key=bodies.index) == [f"body {n}" for n in range(ENOUGH)]
    flagged = [AGAIN in notes_of(one.message) for one in found]
    assert len(found) - ENOUGH <= sum(flagged) <= told["flagged"]
    seen: set[str] = set()
    for body, flag in zip(bodies, flagged, strict=True):
        assert flag or body not in seen, f"{body} came twice, without a flag"
        seen.add(body)
    assert told["moved"] == ENOUGH
    if destination != "0-9-1":
        assert len(found) == ENOUGH


def everything(port: int, queue: str, count: int) -> list[Any]:
    """Exactly so many messages, equal ones too."""
    found: list[Any] = []

    async def take() -> None:
        remote = await entered(port)
        await remote.request(Subscribe(1, None, queue))
        while len(found) < count:
            operation = await anext(remote)
            assert isinstance(operation, Deliver)
            found.append(operation)
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            remote.wake()
        await remote.close()

    asyncio.run(asyncio.wait_for(take(), PATIENCE))
    return found


def test_equal_messages_are_all_moved(both: Brokers, tmp_path: Path) -> None:
    """Messages without an id, all alike: a killed mover loses none."""
    name, count = "alike", 600
    declare(both.old, name)
    declare(both.new, name)
    publish(both.old.port, name, [7] * count)
    words = [*ends(both, "0-9-1", "0-10"), "-q", name, "--batch", 20, "--rate", 200]
    told = kill_and_go_on(tmp_path, words, 4, 5)
    depth = both.new.asked(f"/api/queues/%2F/{name}")["messages"]
    assert count <= told["moved"] <= depth  # nothing tells one from another that comes twice
    assert empty(both.old, name)
    found = everything(both.new.port, name, depth)
    assert depth - count <= sum(AGAIN in notes_of(one.message) for one in found)


def test_a_dry_run_counts(both: Brokers, tmp_path: Path) -> None:
    declare(both.old, "dry")
    declare(both.new, "dry")
    publish(both.old.port, "dry", range(5))
    counted = run(tmp_path, *ends(both), "-q", "dry", "--dry-run")["queues"]
    assert counted == [{"source": "dry", "destination": "dry", "messages": 5, "there": 0}]
    assert both.old.asked("/api/queues/%2F/dry")["messages"] == 5
    assert not (tmp_path / "journal.db").exists()


def test_many_queues_go_and_come_back(both: Brokers, tmp_path: Path) -> None:
    """In their order; what consumers took, and what others published there, is told."""
    names = [f"many.{n}" for n in range(5)]
    declare(both.old, *names)
    declare(both.new, *names)
    for n, name in enumerate(names):
        publish(both.old.port, name, range(20 * n + 20))
    file = tmp_path / "queues"
    file.write_text("\n".join(names))
    told = run(tmp_path, *ends(both), "--queue-file", file, "--name", "week")
    assert [one["moved"] for one in told["queues"]] == [20, 40, 60, 80, 100]
    taken(both.new.port, "many.4", 3)
    publish(both.new.port, "many.0", range(2))
    assert "no move 'other'" in run(tmp_path, "rollback", "other", status=2)
    publish(both.old.port, "many.1", range(100, 101))
    refused = run(tmp_path, "rollback", "week", status=2)
    assert "many.1: 1 messages stand before those that come back" in refused
    back = run(tmp_path, "rollback", "week", "--force")
    assert (back["state"], back["reverses"]) == ("done", "week")
    assert (back["returned"], back["taken"], back["strangers"]) == (297, 3, 2)
    found = everything(both.old.port, "many.4", 97)
    assert [in_memory.text(one.message) for one in found] == [f"body {n}" for n in range(3, 100)]
    found = everything(both.old.port, "many.1", 41)
    assert [in_memory.text(one.message) for one in found] == [
        f"body {n}" for n in (100, *range(40))
    ]
    moves = run(tmp_path, "status")["moves"]
    assert [one["state"] for one in moves] == ["done", "done"]


@pytest.mark.parametrize("version", ["0-9-1", "1.0"])
def test_what_is_wrong_is_told(both: Brokers, tmp_path: Path, version: str) -> None:
    """A queue that is not there, and a password in the URL."""
    declare(both.new, "there")
    told = run(tmp_path, *ends(both, version), "-q", "nowhere=there", status=1)
    assert told["state"] == "failed"
    assert "nowhere" in told["error"]
    words = ["move", "--from", "amqp://guest:geheim@127.0.0.1", "--to", url(both.new), "-q", "a"]
    told = run(tmp_path, *words, status=2)
    assert "a password does not belong into a URL" in told
    assert "geheim" not in told


def test_a_message_that_is_not_taken_stays(both: Brokers, tmp_path: Path) -> None:
    """The move ends at it and says so; those around it have moved once. Given again when the queue
    has room, it goes on."""
    declare(both.old, "narrow")
    asyncio.run(narrow(both.new.port, "narrow", 30))
    publish(both.old.port, "narrow", range(50))
    words = [*ends(both), "-q", "narrow", "--batch", 20, "--retries", 0]
    told = run(tmp_path, *words, status=1)
    assert (told["state"], told["moved"]) == ("failed", 30)
    assert "a queue refused" in told["error"] or "refused" in told["error"]
    assert both.old.asked("/api/queues/%2F/narrow")["messages"] == 20
    found = everything(both.new.port, "narrow", 30)
    told = run(tmp_path, *words)
    assert (told["state"], told["moved"], told["flagged"]) == ("done", 50, 0)
    found += everything(both.new.port, "narrow", 20)
    assert [in_memory.text(one.message) for one in found] == [f"body {n}" for n in range(50)]


async def narrow(port: int, name: str, length: int) -> None:
    arguments = {"x-max-length": length, "x-overflow": "reject-publish"}
    remote = await entered(port)
    await remote.request(DeclareQueue(1, None, name, durable=True, arguments=arguments))
    await remote.close()


def test_an_interrupt_pauses_after_the_batch(both: Brokers, tmp_path: Path) -> None:
    """Ctrl-C leaves nothing in doubt: what goes on afterwards sends nothing again."""
    declare(both.old, "interrupted")
    declare(both.new, "interrupted")
    publish(both.old.port, "interrupted", range(400))
    words = [*ends(both, "0-9-1", "0-9-1"), "-q", "interrupted", "--batch", 20, "--rate", 100]
    with running([*command(tmp_path, *words), "--json"], environment()) as mover:
        until(partial(moves_or_ends, mover.process, tmp_path, 0), "it moves")
        mover.process.send_signal(signal.SIGINT)
        done = mover.done()
    paused = json.loads(done.stdout)
    assert (done.returncode, paused["state"]) == (1, "paused"), done.stderr
    assert 0 < paused["moved"] < 400
    assert both.old.asked("/api/queues/%2F/interrupted")["messages"] == 400 - paused["moved"]
    told = run(tmp_path, *words, "--name", paused["name"])
    assert (told["state"], told["moved"], told["flagged"]) == ("done", 400, 0)
    assert both.new.asked("/api/queues/%2F/interrupted")["messages"] == 400


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("move", "--from", "amqp://old:70000", "--to", "amqp://new", "--queue", "q"), "70000"),
        (("move", "--from", "amqp://old", "--to", "http://new", "--queue", "q"), "http"),
        (("rollback", "week"), "no such file"),
        (("forget", "week"), "no such file"),
    ],
)
def test_a_wrong_command_leaves_no_journal(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = completed(command(tmp_path, *words), environment())
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
