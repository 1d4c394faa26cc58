"""Looking into queues, taking out of their middle, and notes on what is unsettled."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.browsing import Place, Seen
from gateway.broker.channel import Channel
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition
from gateway.operations import Outcome
from tests import in_memory
from tests.broker.fakes import House, declare, fetch_all, message, refused
from tests.drawing import examples


def pages(channel: Channel, queue: str, limit: int) -> list[Seen]:
    found: list[Seen] = []
    while page := channel.browse(queue, found[-1].place if found else None, limit):
        found += page
        assert len(page) <= limit
    return found


def bodies(seen: list[Seen]) -> list[str]:
    return [in_memory.text(one.message) for one in seen]


@settings(max_examples=examples(60), deadline=None)
@given(
    priorities=st.lists(st.integers(0, 2), max_size=30),
    limit=st.integers(1, 7),
    memory=st.integers(0, 6),
    taken=st.sets(st.integers(0, 29)),
    fetched=st.integers(0, 5),
)
def test_pages_show_everything_once_and_in_order(
    priorities: list[int], limit: int, memory: int, taken: set[int], fetched: int
) -> None:
    house = House(page_after_octets=0, keep_in_memory=memory, page_in_octets=4)
    channel, _ = house.channel()
    declare(channel, "q", durable=True, arguments={"x-max-priority": 2})
    for number, priority in enumerate(priorities):
        channel.publish(message(f"{number:02}", "q", durable=number % 2 == 0, priority=priority))
    held = [channel.fetch("q") for _ in range(min(fetched, len(priorities)))]
    expected = sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))[len(held) :]
    seen = pages(channel, "q", limit)
    assert bodies(seen) == [f"{n:02}" for n in expected]
    assert all(a.place != b.place for a, b in pairwise(seen))
    # Out of the middle, paged or not; what is left comes in order, and the counts agree.
    declare(channel, "to", durable=True)
    for index in sorted(taken):
        if index < len(seen):
            assert channel.move("q", seen[index].place, "", "to") == "moved"
            assert channel.move("q", seen[index].place, "", "to") == "gone"
    left = [n for index, n in enumerate(expected) if index not in taken]
    queue = house.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.backlog.octets) == (len(left), 2 * len(left))
    assert bodies(pages(channel, "q", 5)) == [f"{n:02}" for n in left]
    for found in held:
        assert found is not None
        channel.settlements.settle(found.delivery, False, Outcome.RELEASE)
    house.commit()
    everything = sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))
    gone = {expected[index] for index in taken if index < len(expected)}
    got = [int(body) for body in fetch_all(channel)]
    assert got == [n for n in everything if n not in gone]
    assert bodies(pages(channel, "to", 9)) == [f"{expected[i]:02}" for i in sorted(taken)
                                               if i < len(expected)]  # fmt: skip


def test_moving_says_why_it_cannot() -> None:
    house = House()
    channel, _ = house.channel()
    declare(channel, "q")
    declare(channel, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for _ in range(2):
        channel.publish(message("m", "q"))
    first, second = channel.browse("q")
    assert channel.move("q", first.place, "", "nowhere") == "unroutable"
    assert channel.move("q", first.place, "", "full") == "moved"
    assert channel.move("q", second.place, "", "full") == "full"
    assert channel.move("q", Place(3, 1), "", "full") == "gone"
    with refused(Condition.NOT_FOUND):
        channel.move("q", second.place, "none", "")
    assert bodies(channel.browse("q")) == ["m"]


def test_one_message_is_shown_however_large() -> None:
    house = House()
    channel, _ = house.channel()
    declare(channel, "q")
    for size in (10, 10, 10):
        channel.publish(message("x" * size, "q"))
    assert len(channel.browse("q", None, 10, 1)) == 1
    assert len(channel.browse("q", None, 10, 20)) == 2


def test_reading_needs_the_right() -> None:
    house = House()
    channel, _ = house.channel()
    declare(channel, "q")
    house.broker.access.add_user("weak", "weak", ())
    house.broker.access.set_permissions("weak", "/", ".*", ".*", "^$")
    other, _ = house.channel(house.another("weak"))
    with refused(Condition.ACCESS_REFUSED):
        other.browse("q")


def test_notes_on_an_unsettled_message_survive_a_restart() -> None:
    store = MemoryStore(volatile=False)
    house = House(store)
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    for body in ("a", "b"):
        channel.publish(message(body, "q", durable=True))
    house.commit()
    found = channel.fetch("q")
    assert found is not None
    channel.settlements.annotate(found.delivery, {"x-note": 1})
    channel.settlements.settle(found.delivery, False, Outcome.RELEASE)
    house.commit()
    again = House(store.survivors())
    channel, _ = again.channel()
    for body, notes in (("a", {"x-note": 1}), ("b", None)):
        found = channel.fetch("q")
        assert found is not None
        assert found.message.body == body.encode()
        assert found.message.added_headers == notes


def test_an_auto_delete_queue_is_spared() -> None:
    house = House()
    channel, _ = house.channel()
    declare(channel, "q", auto_delete=True)
    for keep_queue in (True, False):
        assert "q" in house.broker.vhosts["/"].queues
        channel.unsubscribe(channel.subscribe("q"), keep_queue)
    assert "q" not in house.broker.vhosts["/"].queues
