"""Operations in, answers out: a recording adapter on one side, the real broker on the other."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.adapters.contract import Capability, Role
from gateway.adapters.core.frame_reader import FrameReader
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition, LocalError, Lost
from gateway.message import Message
from gateway.operations import (
    BeginSession,
    Bind,
    Blocked,
    Cancelled,
    Close,
    Closed,
    Commit,
    Confirm,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndSession,
    EnterRealm,
    Fetch,
    Fetched,
    FindExchange,
    FindQueue,
    Flow,
    FoundExchange,
    FoundQueue,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    Refused,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Synchronize,
    Unbind,
    Unblocked,
    Unsubscribe,
    UpdateSecret,
)
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.broker.fakes import message


class RecordingOutlet:
    allow_deliveries: Callable[[bool], None]

    def __init__(self, said: list[Operation], channel: int) -> None:
        self._said = said
        self._channel = channel

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        self._said.append(Deliver(self._channel, consumer, delivery, redelivered, message))

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        self._said.append(Confirm(self._channel, sequence, multiple, accepted))


class RecordingAdapter:
    """An adapter without octets: remembers what it was told to say. ``missing`` are channels that
    do not exist any more: whoever speaks on them has made a mistake."""

    version = "test"
    role = Role.SERVER
    capabilities = Capability.NONE

    def __init__(self) -> None:
        self.closing = False
        self.said: list[Operation] = []
        self.missing: set[int] = set()
        self.wake: Callable[[], None] = lambda: None
        self.output_congested: Callable[[], None] = lambda: None

    @property
    def frames(self) -> FrameReader:
        raise NotImplementedError

    def receive(self, data: bytes) -> list[Operation]:
        return []

    def read_on(self) -> list[Operation]:
        return []

    def found(self) -> list[Operation]:
        return []

    def send(self, operation: Operation) -> None:
        if getattr(operation, "channel", None) in self.missing:
            raise LocalError(f"no such channel: {operation}")
        self.said.append(operation)

    def outlet(self, channel: int) -> RecordingOutlet:
        return RecordingOutlet(self.said, channel)

    def output(self) -> list[bytes]:
        return []

    @property
    def more(self) -> int:
        return 0

    def refill(self) -> None:
        pass

    def tick(self, now: float) -> list[Operation]:
        return []

    def excuse_silence(self) -> None:
        pass

    def release(self) -> None:
        """Keeps what it has recorded."""

    def lost(self) -> list[Operation]:
        return [Closed(Condition.CONNECTION_FORCED, "lost")]


class House:
    """One broker on a store that makes safe when it is told to."""

    def __init__(self, volatile: bool = False) -> None:
        self.store = MemoryStore(volatile)
        self.broker = Broker(self.store)
        self.registry = SessionRegistry()
        self.commit()

    def commit(self) -> None:
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.broker.committed(batch.mark)
        self.broker.end_turn()

    def enter(self, *, user: str = "guest", vhost: str = "/", loopback: bool = True) -> "Peer":
        peer = Peer(self, loopback)
        peer.says(Open("open", vhost, user))
        return peer


class Peer:
    """A session, and what its adapter has said since it was last asked."""

    def __init__(self, house: House, loopback: bool = True) -> None:
        self.house = house
        self.adapter = RecordingAdapter()
        self.session = Session(
            house.broker,
            self.adapter,
            house.registry,
            address="192.0.2.1:5",
            loopback=loopback,
            since=0,
        )

    def says(self, *operations: Operation) -> list[Operation]:
        self.session.perform(list(operations))
        self.house.broker.end_turn()
        return self.heard()

    def heard(self) -> list[Operation]:
        heard = list(self.adapter.said)
        self.adapter.said.clear()
        return heard

    def done(self, operation: Any) -> Any:
        """Say it, let it become safe; the result of the one answer."""
        self.session.perform([operation])
        self.house.commit()
        (answer,) = self.heard()
        assert isinstance(answer, Done), answer
        assert answer.token == operation.token
        return answer.result

    def refused(self, operation: Any) -> Refused:
        self.session.perform([operation])
        self.house.commit()
        (answer,) = self.heard()
        assert isinstance(answer, Refused), answer
        assert answer.token == getattr(operation, "token", None)
        return answer


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> Peer:
    peer = house.enter()
    peer.heard()
    peer.done(BeginSession(1, "begin"))
    return peer


# --- the connection -------------------------------------------------------------------------------


def test_open_and_end(house: House) -> None:
    peer = Peer(house)
    assert peer.says(Open("t", "/", "guest")) == [Done(0, "t")]
    assert peer.session.opened and peer.session.user == "guest" and peer.session.vhost == "/"
    assert list(house.registry) == [peer.session]
    assert house.broker.snapshot().clients == 1
    peer.says(Closed())
    assert peer.session.closed and peer.session.ending == ""
    assert len(house.registry) == 0
    assert house.broker.snapshot().clients == 0
    peer.session.end()


@pytest.mark.parametrize(
    ("vhost", "user", "condition"),
    [("/none", "guest", Condition.NOT_ALLOWED), ("/", "nobody", Condition.NOT_ALLOWED)],
)
def test_open_refused(house: House, vhost: str, user: str, condition: Condition) -> None:
    answer = Peer(house).refused(Open("t", vhost, user))
    assert (answer.condition, answer.lost) == (condition, Lost.CONNECTION)


def test_guest_comes_from_this_machine_only(house: House) -> None:
    answer = Peer(house, loopback=False).refused(Open("t", "/", "guest"))
    assert (answer.condition, answer.lost) == (Condition.ACCESS_REFUSED, Lost.CONNECTION)
    house.broker.access.add_user("anyone", "secret")
    house.broker.access.set_permissions("anyone", "/", "", "", "")
    house.commit()
    far = house.enter(user="anyone", loopback=False)
    assert far.session.opened
    house.broker.access.change_password("guest", "own")
    assert house.enter(loopback=False).session.opened


def test_a_new_secret(peer: Peer) -> None:
    """A password does not expire: any secret will do, while there is such a user."""
    assert peer.says(UpdateSecret("s", b"anything", "")) == [Done(0, "s")]
    peer.house.broker.access.remove_user("guest")
    answer = peer.refused(UpdateSecret("s", b"guest", ""))
    assert (answer.condition, answer.lost) == (Condition.NOT_ALLOWED, Lost.CONNECTION)


def test_blocked_is_said_at_once_and_later(house: House) -> None:
    house.broker.alarm("disk", True)
    peer = house.enter()
    assert peer.heard() == []
    late = Peer(house)
    assert late.says(Open("t", "/", "guest")) == [Done(0, "t"), Blocked("low on disk")]
    unopened = Peer(house)
    for each in (late, unopened):
        each.session.tell_blocked()
        assert each.heard() == []
    house.broker.alarm("disk", False)
    for each in (late, unopened):
        each.session.tell_blocked()
    assert (late.heard(), unopened.heard()) == ([Unblocked()], [])


def test_what_blocks_one_virtual_host_is_said_there(house: House) -> None:
    peer = house.enter()
    house.broker.vhosts["/"].blocked = "low there"
    peer.session.tell_blocked()
    assert peer.heard() == [Blocked("low there")]
    late = Peer(house)
    assert late.says(Open("t", "/", "guest")) == [Done(0, "t"), Blocked("low there")]
    assert house.broker.blocked is None


def test_our_close(peer: Peer) -> None:
    peer.session.close(Condition.CONNECTION_FORCED, "bye")
    assert peer.heard() == [Close(Condition.CONNECTION_FORCED, "bye")]
    peer.says(Closed(Condition.CONNECTION_FORCED, "bye", theirs=False))
    peer.session.close(Condition.CONNECTION_FORCED, "again")
    peer.session.broker.alarm("disk", True)
    peer.session.tell_blocked()
    assert peer.heard() == []
    assert peer.session.ending == "connection-forced: bye"


# --- every request has its answer -----------------------------------------------------------------


def test_the_whole_vocabulary(peer: Peer) -> None:
    done = peer.done
    assert done(DeclareExchange(1, 1, "x", "topic", durable=True)) is None
    assert done(DeclareQueue(1, 2, "q", durable=True)) == QueueState("q", 0, 0)
    assert done(DeclareQueue(1, 3, "")).name.startswith("amq.gen-")
    assert done(Bind(1, 4, "q", "x", "a.*")) is None
    assert done(SelectConfirms(1, 5)) is None
    assert done(Prefetch(1, 6, 10)) is None
    first = message("one", "a.b", "x", durable=True)
    peer.session.perform([Publish(1, first, False, False)])
    peer.house.broker.end_turn()
    assert peer.heard() == [], "confirmed before it is safe"
    peer.house.commit()
    assert peer.heard() == [Confirm(1, 1, False, True)]
    fetched = done(Fetch(1, 7, "q"))
    assert isinstance(fetched, Fetched)
    assert (fetched.delivery, fetched.redelivered, fetched.remaining) == (1, False, 0)
    assert fetched.message.body == b"one"
    assert done(Recover(1, 8, requeue=True)) is None
    assert done(Fetch(1, 9, "q")).redelivered
    assert done(Fetch(1, 10, "q")) is None
    assert peer.says(Settle(1, 2, False, Outcome.RELEASE)) == []
    said = peer.says(Subscribe(1, 11, "q", "tag"))
    assert said[0] == Done(1, 11, "tag"), "the delivery has overtaken the answer"
    assert isinstance(said[1], Deliver) and said[1].delivery == 3 and said[1].redelivered
    assert peer.says(Settle(1, 3, False, Outcome.ACCEPT)) == []
    assert done(Unsubscribe(1, 12, "tag")) == "tag"
    assert done(Flow(1, 13, True)) is True
    lost = message("nowhere", "nowhere", "x")
    peer.house.commit()
    said = peer.says(Publish(1, lost, True, False))
    assert isinstance(said[0], Returned) and said[0].condition is Condition.NO_ROUTE
    assert said[1:] == [Confirm(1, 2, False, True)]
    assert done(Unbind(1, 14, "q", "x", "a.*")) is None
    assert done(PurgeQueue(1, 15, "q")) == 0
    assert done(DeleteQueue(1, 16, "q")) == 0
    assert done(DeleteExchange(1, 17, "x")) is None
    assert done(EndSession(1, 18)) is None
    assert done(BeginSession(1, 19)) is None
    assert done(Select(1, 20)) is None
    assert done(Rollback(1, 21)) is None
    assert done(Commit(1, 22)) is None


def test_synchronized_when_earlier_messages_are_safe(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "q", durable=True))
    peer.done(Bind(1, 2, "q", "amq.topic", "a", {"x-selector": "n = 1"}))
    said = peer.says(Publish(1, message("one", "q", durable=True), False, False), Synchronize(1, 3))
    assert said == [], "answered before it is safe"
    peer.house.commit()
    assert peer.heard() == [Done(1, 3)]
    found = peer.says(FindQueue(1, 4, "q"))
    bindings = (("amq.topic", "a", {"x-selector": "n = 1"}),)
    assert found == [Done(1, 4, FoundQueue("q", 1, 0, {}, bindings, durable=True))]
    assert peer.says(FindQueue(1, 5, "none")) == [Done(1, 5)]


def test_an_exchange_is_found_by_its_name(peer: Peer) -> None:
    alternate = {"alternate-exchange": "amq.fanout"}
    peer.done(DeclareExchange(1, 1, "x", "topic", durable=True, arguments=alternate))
    said = peer.says(FindExchange(1, 2, "x"), FindExchange(1, 3, "none"))
    assert said == [Done(1, 2, FoundExchange("x", "topic", True, alternate)), Done(1, 3)]


def test_a_realm_is_shared_or_somebodys_alone(house: House, peer: Peer) -> None:
    other = house.enter()
    other.heard()
    for number in (1, 2):
        other.done(BeginSession(number, "begin"))
    peer.done(EnterRealm(1, 1, "/data"))
    peer.done(EnterRealm(1, 2, "/data", True))
    refused = other.refused(EnterRealm(1, 1, "/data"))
    assert (refused.condition, refused.lost) == (Condition.ACCESS_REFUSED, Lost.SESSION)
    other.done(EnterRealm(2, 2, "/data/mine"))
    peer.done(EndSession(1, 3))
    other.done(EnterRealm(2, 4, "/data"))
    peer.done(BeginSession(1, 5))
    peer.refused(EnterRealm(1, 6, "/data", True))
    other.says(Closed())
    assert not house.registry.realms


def neighbour(house: House) -> Peer:
    """Another user of the virtual host, with every permission."""
    house.broker.access.add_user("other", "secret")
    house.broker.access.set_permissions("other", "/", ".*", ".*", ".*")
    return house.enter(user="other")


def test_no_user_locks_another_out_of_a_realm(house: House, peer: Peer) -> None:
    other = neighbour(house)
    other.heard()
    other.done(BeginSession(1, "begin"))
    other.done(EnterRealm(1, 1, "/data", True))
    peer.done(EnterRealm(1, 1, "/data"))
    peer.done(EnterRealm(1, 2, "/data", True))


def test_client_names_are_those_of_their_user(house: House) -> None:
    first = neighbour(house)
    house.broker.access.set_permissions("guest", "/", ".*", ".*", ".*")
    assert first.session.opened
    taken = Peer(house)
    assert taken.says(Open("t", "/", "other", client="me")) == [Done(0, "t")]
    mine = Peer(house)
    assert mine.says(Open("t", "/", "guest", client="me")) == [Done(0, "t")]
    again = Peer(house)
    assert (
        again.refused(Open("t", "/", "guest", client="me")).condition is Condition.RESOURCE_LOCKED
    )
    mine.session.end()
    later = Peer(house)
    assert later.says(Open("t", "/", "guest", client="me")) == [Done(0, "t")]


def test_the_connections_of_a_user_that_is_no_more_are_closed(house: House) -> None:
    other, stays = neighbour(house), house.enter()
    other.heard()
    stays.heard()
    house.broker.access.removed = house.registry.user_removed
    house.broker.access.remove_user("other")
    assert other.heard() == [Close(Condition.CONNECTION_FORCED, "user 'other' was deleted")]
    assert stays.heard() == []


def test_credit_filter_and_copy(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "q"))
    for body in ("a", "b", "c"):
        peer.says(Publish(1, message(body, "q"), False, False))

    def wanted(one: Message) -> bool:
        return one.body != b"b"

    assert peer.says(Subscribe(1, 2, "q", "t", True, filter=wanted, credit=0)) == [Done(1, 2, "t")]
    said = peer.says(Credit(1, 3, "t", 1))
    assert [o.message.body for o in said[:-1] if isinstance(o, Deliver)] == [b"a"]
    assert said[-1] == Done(1, 3, 0)
    said = peer.says(Credit(1, 4, "t", 5, drain=True))
    assert [o.message.body for o in said[:-1] if isinstance(o, Deliver)] == [b"c"]
    assert said[-1] == Done(1, 4, 4)
    said = peer.says(Subscribe(1, 5, "q", "copy", copy=True))
    assert said[0] == Done(1, 5, "copy") and isinstance(said[1], Deliver)
    assert peer.says(Settle(1, said[1].delivery, False, Outcome.ACCEPT)) == []
    assert peer.done(Fetch(1, 6, "q")).message.body == b"b"
    assert peer.done(Credit(1, 7, "nobody", 5, drain=True)) == 0


def test_a_drain_that_ends_with_its_channel_is_not_answered(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "q"))
    peer.done(Subscribe(1, 2, "q", "t", credit=3))
    peer.session.pause()
    assert peer.says(Credit(1, 3, "t", 3, drain=True)) == []
    assert peer.says(EndSession(1, 4)) == [Done(1, 4)]
    peer.session.resume()
    assert peer.heard() == []


def test_no_token_no_answer(peer: Peer) -> None:
    said = peer.says(
        DeclareQueue(1, None, "q"),
        Subscribe(1, None, "q", "t"),
        Unsubscribe(1, None, "t"),
        Prefetch(1, None, 1),
        SelectConfirms(1, None),
        DeleteQueue(1, None, "q"),
    )
    peer.house.commit()
    assert said + peer.heard() == []


@pytest.mark.parametrize(
    ("operation", "condition", "lost"),
    [
        (DeclareQueue(1, "t", "no", passive=True), Condition.NOT_FOUND, Lost.SESSION),
        (DeclareQueue(1, "t", "amq.mine"), Condition.ACCESS_REFUSED, Lost.SESSION),
        (DeclareExchange(1, "t", "x", "magic"), Condition.COMMAND_INVALID, Lost.CONNECTION),
        (PurgeQueue(1, "t", "no"), Condition.NOT_FOUND, Lost.SESSION),
        (Bind(1, "t", "no", "amq.topic"), Condition.NOT_FOUND, Lost.SESSION),
        (Subscribe(1, "t", "no"), Condition.NOT_FOUND, Lost.SESSION),
        (Fetch(1, "t", "no"), Condition.NOT_FOUND, Lost.SESSION),
        (Commit(1, "t"), Condition.PRECONDITION_FAILED, Lost.SESSION),
        (Settle(1, 9, False, Outcome.ACCEPT), Condition.PRECONDITION_FAILED, Lost.SESSION),
        (Publish(1, message(exchange="no"), False, False), Condition.NOT_FOUND, Lost.SESSION),
    ],
)
def test_refusals(peer: Peer, operation: Any, condition: Condition, lost: Lost) -> None:
    answer = peer.refused(operation)
    assert (answer.channel, answer.condition, answer.lost) == (1, condition, lost)
    assert 1 not in peer.session.channels, "nothing that is asked behind it is done"


# --- order ----------------------------------------------------------------------------------------


def test_answers_keep_their_order_behind_a_durable_declaration(peer: Peer) -> None:
    said = peer.says(
        DeclareQueue(1, 1, "d", durable=True),
        Prefetch(1, 2, 1),
        DeclareQueue(1, 3, "t"),
        Fetch(1, 4, "d"),
    )
    assert said == [], "answered before it is safe"
    peer.house.commit()
    assert [getattr(answer, "token", None) for answer in peer.heard()] == [1, 2, 3, 4]


def test_other_channels_do_not_wait(peer: Peer) -> None:
    peer.done(BeginSession(2, "b"))
    said = peer.says(DeclareQueue(1, 1, "d", durable=True), Prefetch(2, 2, 1))
    assert said == [Done(2, 2)]


def test_a_commit_waits_for_the_store(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "d", durable=True))
    peer.done(Select(1, 2))
    stored = message("x", "d", durable=True)
    assert peer.says(Publish(1, stored, False, False), Commit(1, 3)) == []
    peer.house.commit()
    assert peer.heard() == [Done(1, 3)]


# --- channels that are lost -----------------------------------------------------------------------


def test_nothing_after_a_channel_is_lost(peer: Peer) -> None:
    said = peer.says(
        DeclareQueue(1, 1, "d", durable=True),
        PurgeQueue(1, 2, "no such queue"),
        Publish(1, message("x", "d"), False, False),
        DeclareQueue(1, 3, "after"),
    )
    peer.house.commit()
    assert [type(operation) for operation in said + peer.heard()] == [Done, Refused]
    assert "after" not in peer.house.broker.vhosts["/"].queues


def test_the_end_of_a_channel_waits_for_the_answers_before_it(peer: Peer) -> None:
    """Declared, closed and opened again before the store has it."""
    said = peer.says(
        DeclareQueue(1, "old", "d", durable=True), EndSession(1, "end"), BeginSession(1, "new")
    )
    peer.house.commit()
    said += peer.heard()
    assert [o.token for o in said if isinstance(o, Done)] == ["old", "end", "new"]
    assert peer.done(Prefetch(1, "p", 1)) is None


def test_the_store_goes_on_when_a_channel_is_gone(peer: Peer) -> None:
    """The callback of a dead channel must not stand in the way of the others."""
    peer.says(DeclareQueue(1, 1, "d", durable=True), SessionLost(1, Condition.NOT_FOUND, ""))
    peer.adapter.missing.add(1)
    other = peer.house.enter()
    other.heard()
    other.says(BeginSession(1, "b"))
    assert other.says(DeclareQueue(1, 2, "e", durable=True)) == []
    peer.house.commit()
    assert [getattr(answer, "token", None) for answer in other.heard()] == [2]
    assert peer.heard() == []


def test_a_queue_deleted_under_a_consumer(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "q"))
    peer.says(Subscribe(1, 2, "q", "tag"))
    other = peer.house.enter()
    other.heard()
    other.says(BeginSession(1, "b"))
    assert other.done(DeleteQueue(1, 3, "q")) == 0
    assert peer.heard() == [Cancelled(1, "tag")]


def test_deleted_by_its_own_consumer_and_gone_before_it_is_safe(peer: Peer) -> None:
    peer.done(DeclareQueue(1, 1, "q", durable=True))
    peer.says(Subscribe(1, 2, "q", "tag"))
    peer.says(DeleteQueue(1, 3, "q"), EndSession(1, "end"))
    assert peer.heard() == []
    peer.house.commit()
    assert peer.heard() == [Done(1, 3, 0), Cancelled(1, "tag"), Done(1, "end")]


def test_begun_and_lost_in_one_read(peer: Peer) -> None:
    """The adapter has found a mistake behind the request to open."""
    peer.adapter.closing = True
    said = peer.says(
        BeginSession(2, "b"),
        DeclareQueue(2, "q", "late"),
        Closed(Condition.FRAME_ERROR, "noise"),
    )
    assert said == []
    assert peer.session.closed
    assert len(peer.house.registry) == 0


# --- the end --------------------------------------------------------------------------------------


def test_nothing_leaks(house: House) -> None:
    watcher = house.enter()
    watcher.says(BeginSession(1, "b"), DeclareQueue(1, 1, "q"))
    house.commit()
    watcher.heard()
    peer = house.enter()
    peer.says(
        BeginSession(1, "b"),
        BeginSession(7, "b"),
        DeclareQueue(1, 1, "mine", exclusive=True),
        Subscribe(7, 2, "q", "tag"),
        Publish(1, message("held", "q"), False, False),
        DeclareQueue(1, 3, "pending", durable=True),
    )
    assert house.broker.vhosts["/"].queues["q"].unsettled == 1
    peer.session.perform(peer.adapter.lost())
    peer.session.end()
    peer.adapter.missing |= {0, 1, 7}
    house.commit()
    snapshot = house.broker.snapshot()
    assert (snapshot.clients, snapshot.channels, snapshot.consumers) == (1, 1, 0)
    assert (snapshot.ready, snapshot.unsettled) == (1, 0)
    assert "mine" not in house.broker.vhosts["/"].queues
    assert list(house.registry) == [watcher.session]
    assert house.broker.confirming == {}
    fetched = watcher.done(Fetch(1, 4, "q"))
    assert fetched.message.body == b"held" and fetched.redelivered


def test_pause_and_resume(peer: Peer) -> None:
    """Nothing is delivered to a peer whose socket is full, whenever the channel was opened."""
    peer.done(DeclareQueue(1, 1, "q"))
    peer.says(Subscribe(1, 2, "q", "one", no_ack=True))
    peer.session.pause()
    peer.says(BeginSession(2, 3))
    peer.says(Subscribe(2, 4, "q", "two", no_ack=True))
    publish = [Publish(1, message(str(n), "q"), False, False) for n in range(4)]
    assert peer.says(*publish) == []
    peer.session.resume()
    bodies = [o.message.body for o in peer.heard() if isinstance(o, Deliver)]
    assert bodies == [b"0", b"1", b"2", b"3"]


def test_publishers_are_known(peer: Peer) -> None:
    peer.says(Publish(1, message(exchange="no"), False, False))
    peer.heard()
    assert not peer.session.publisher
    peer.says(BeginSession(2, "b"), Publish(2, message("x", "nowhere"), False, False))
    assert peer.session.publisher


def test_numbers_are_not_used_again(house: House) -> None:
    first = house.enter().session
    first.end()
    second = house.enter().session
    assert second.number == first.number + 1
    assert house.registry.opened == 2
    assert house.registry.find(first.number) is None
    assert house.registry.find(second.number) is second
