"""Topic permissions: which routing keys a user may publish to a topic exchange and bind to it."""

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.channel import Channel
from gateway.broker.local import LocalClient, LocalTransaction
from gateway.broker.topic_permissions import TopicPermission
from gateway.errors import Condition
from gateway.store.sqlite import SqliteStore
from tests.broker.fakes import House, bind, declare, exchange, message, refused, unbind

REFUSED = Condition.ACCESS_REFUSED


def narrowed(house: House, write: str, read: str, name: str = "t") -> Channel:
    """A channel of a user who may do everything, but for these routing keys."""
    access = house.broker.access
    if access.user("ann") is None:
        access.add_user("ann", "pw")
        access.set_permissions("ann", "/", ".*", ".*", ".*")
    access.topics.set(TopicPermission("ann", "/", name, write, read))
    return house.channel(house.another("ann"))[0]


@pytest.fixture
def made(house: House) -> House:
    channel = house.channel()[0]
    for name, kind in (("t", "topic"), ("d", "direct")):
        exchange(channel, name, kind)
        declare(channel, f"of-{name}")
        bind(channel, f"of-{name}", name, "#" if kind == "topic" else "b")
    return house


def test_publishes(made: House) -> None:
    channel = narrowed(made, "^a", ".*")
    for _ in range(2):  # also once the exchange is known
        channel.publish(message("x", "a.b", "t"))
        with refused(REFUSED, "write access to topic 'b.a' in exchange 't' in vhost '/' refused"):
            channel.publish(message("x", "b.a", "t"))
    assert made.broker.vhosts["/"].queues["of-t"].depth == 2
    with refused(REFUSED, "topic 'b'"):
        channel.publish(message("x", "a", "t", application={"CC": ["b"]}))


def test_only_of_the_topic_exchange_and_the_user_it_is_set_for(made: House) -> None:
    channel = narrowed(made, "^a", "^a", "d")
    channel.publish(message("x", "b", "d"))
    channel.publish(message("x", "b", "t"))
    narrowed(made, "^a", "^a")
    other = made.channel()[0]
    other.publish(message("x", "b", "t"))
    bind(other, "of-d", "t", "b")


def test_changes_count_at_once(made: House) -> None:
    channel = narrowed(made, "^a", "^a")
    channel.publish(message("x", "a", "t"))
    made.broker.access.topics.clear("ann", "/")
    channel.publish(message("x", "b", "t"))
    narrowed(made, "^a", "^a")
    with refused(REFUSED):
        channel.publish(message("x", "b", "t"))


def test_bindings(made: House) -> None:
    channel = narrowed(made, ".*", "^a")
    bind(channel, "of-d", "t", "a.#")
    unbind(channel, "of-d", "t", "a.#")
    for action in (bind, unbind):
        with refused(REFUSED, "read access to topic '#' in exchange 't'"):
            action(channel, "of-d", "t", "#")
    with refused(REFUSED):
        bind(channel, "d", "t", "#", to_exchange=True)


def test_an_empty_pattern_matches_the_empty_key_alone(made: House) -> None:
    channel = narrowed(made, "", "")
    channel.publish(message("x", "", "t"))
    with refused(REFUSED):
        channel.publish(message("x", "a", "t"))


def test_names_stand_in_patterns(made: House) -> None:
    channel = narrowed(made, "^{username}-{vhost}$", ".*")
    channel.publish(message("x", "ann-/", "t"))
    with refused(REFUSED):
        channel.publish(message("x", "bob-/", "t"))


def test_names_are_no_patterns(house: House) -> None:
    topics = house.broker.access.topics
    one = TopicPermission("a.c", "/", "t", "^{username}$", "")
    topics.set(one)
    assert topics.allows(one, "write", "a.c")
    assert not topics.allows(one, "write", "abc")


def test_messages_are_moved_within_them(made: House) -> None:
    made.channel()[0].publish(message("x", "b", "d"))
    channel = narrowed(made, "^a", ".*")
    (seen,) = channel.browse("of-d")
    with refused(REFUSED):
        channel.move("of-d", seen.place, "t", "b")
    assert channel.move("of-d", seen.place, "t", "a") == "moved"


def test_a_local_transaction(made: House) -> None:
    narrowed(made, "^a", ".*")
    client = LocalClient(made.broker, "/", "ann", "local")
    transaction: LocalTransaction = client.transaction()
    assert transaction.publish(message("x", "a", "t")) == ""
    with refused(REFUSED):
        transaction.publish(message("x", "b", "t"))


@pytest.mark.parametrize("pattern", ["(", "(?=a)(a*)*$"])
def test_patterns_that_are_none_or_take_too_long(house: House, pattern: str) -> None:
    with refused(Condition.PRECONDITION_FAILED):
        narrowed(house, pattern, "")
    assert house.broker.access.topics.all() == []


def test_kept_over_restarts_and_gone_with_users_and_virtual_hosts(tmp_path: Path) -> None:
    def opened() -> tuple[SqliteStore, Any]:
        from gateway.broker.broker import Broker

        store = SqliteStore(tmp_path)
        return store, Broker(store, None, 1_000_000)

    def written(store: SqliteStore) -> None:
        batch = store.take()
        assert batch is not None
        store.write(batch)
        store.close()

    store, broker = opened()
    broker.create_vhost("more")
    broker.access.add_user("ann", "pw")
    for vhost in ("/", "more"):
        for name in ("t", "u"):
            broker.access.topics.set(TopicPermission("ann", vhost, name, "a", "b"))
    broker.access.topics.clear("ann", "/", "u")
    written(store)
    store, broker = opened()
    shown = [(one.vhost, one.exchange) for one in broker.access.topics.all()]
    assert shown == [("/", "t"), ("more", "t"), ("more", "u")]
    broker.delete_vhost("more")
    assert [one.vhost for one in broker.access.topics.all()] == ["/"]
    broker.access.remove_user("ann")
    written(store)
    store, broker = opened()
    assert broker.access.topics.all() == []
    store.close()
