"""Links: addresses, what is made for them, what outlives them."""

from typing import Any

import pytest

from gateway.adapters.contract import Capability
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.broker.answers import Answer, Answers
from gateway.broker.channel import Channel
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Essentials, Message, Properties
from gateway.operations import (
    Attached,
    AttachSource,
    AttachTarget,
    BeginSession,
    Cancelled,
    Closed,
    Credit,
    DeclareQueue,
    DeclareTransaction,
    DeleteQueue,
    Deliver,
    DetachLink,
    Discharge,
    Done,
    EndSession,
    Manage,
    Modify,
    Open,
    Operation,
    Outcome,
    Post,
    Publish,
    Refused,
    Retire,
    Settle,
    Stolen,
    Terminus,
)
from gateway.sessions.destinations import subscribe
from gateway.sessions.management_requests import NODE
from gateway.sessions.subscriptions import CLIENT, USER
from gateway.values import Array, Described, Symbol
from tests import in_memory
from tests.broker.fakes import message
from tests.sessions.test_session import House, Peer

SELECTOR = "apache.org:selector-filter:string"


class LinkPeer(Peer):
    """A peer whose adapter speaks of links. ``stolen`` answers ``Stolen`` as an adapter does."""

    def __init__(self, house: House, user: str = "guest", container: str = "me") -> None:
        super().__init__(house)
        self.container = container
        self.adapter.capabilities = Capability.LINKS | Capability.HANDLES
        self.session = type(self.session)(
            house.broker,
            self.adapter,
            house.registry,
            address="x:1",
            loopback=True,
            since=0,
        )
        self.tags: dict[int, bytes] = {}
        self.adapter.found = self.found  # type: ignore[method-assign]
        self.session.perform([Open("open", "/", user)])
        self.heard()
        self.done(BeginSession(1, "begin"))
        self.serial = 0

    def found(self) -> list[Operation]:
        return [
            DetachLink(said.channel, None, said.link, unsettled=dict(self.tags))
            for said in self.adapter.said
            if isinstance(said, Stolen)
        ]

    def source(self, address: str | None, **more: Any) -> tuple[str, Attached]:
        """Attach and receive; the link and what is in place."""
        link, operation = self.asking(address, **more)
        return link, self.done(operation)

    def asking(self, address: str | None, **more: Any) -> tuple[str, AttachSource]:
        self.serial += 1
        link = str(self.serial)
        name = more.pop("name", link)
        settled, unsettled = more.pop("settled", False), more.pop("unsettled", None)
        channel = more.pop("channel", 1)
        terminus = Terminus(address, **more)
        who = self.container
        return link, AttachSource(channel, "a", link, name, who, terminus, settled, unsettled)

    def target(self, address: str | None, **more: Any) -> tuple[str, Attached]:
        self.serial += 1
        link = str(self.serial)
        name, unsettled = more.pop("name", link), more.pop("unsettled", None)
        terminus = Terminus(address, **more)
        operation = AttachTarget(1, "a", link, name, "me", terminus, unsettled)
        return link, self.done(operation)

    def receives(self, link: str, credit: int = 10) -> list[Deliver]:
        self.says(*[])
        return [
            said for said in self.says(Credit(1, None, link, credit)) if isinstance(said, Deliver)
        ]


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> LinkPeer:
    return LinkPeer(house)


def declare(peer: Peer, *names: str) -> None:
    for name in names:
        peer.done(DeclareQueue(1, "d", name, durable=True))


def publish(peer: Peer, key: str, *bodies: str, exchange: str = "") -> None:
    for body in bodies:
        peer.says(Publish(1, message(body, key, exchange), True, False))


def bodies(found: list[Deliver]) -> list[str]:
    return [in_memory.text(one.message) for one in found]


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("/queues/a%2Fb", ("", "a/b")),
        ("/exchanges/amq.direct/k%20k", ("amq.direct", "k k")),
        ("/exchanges/amq.fanout", ("amq.fanout", "")),
        ("/queue/a/b", ("", "a/b")),
        ("/amq/queue/a/b", ("", "a/b")),
        ("/exchange/amq.direct/k/l", ("amq.direct", "k/l")),
        ("/topic/x.y", ("amq.topic", "x.y")),
        ("a/b", ("", "a/b")),
        ("amq.topic/x.y", ("amq.topic", "x.y")),
        ("queue://a/b", ("", "a/b")),
        ("topic://x", ("amq.topic", "x")),
        ("new", ("", "new")),
    ],
)
def test_targets(peer: LinkPeer, address: str, place: tuple[str, str]) -> None:
    declare(peer, "a/b")
    _, attached = peer.target(address)
    assert (attached.exchange, attached.key) == place


def test_a_plain_exchange_takes_the_subject(peer: LinkPeer) -> None:
    _, attached = peer.target("amq.topic")
    assert attached.exchange is None and attached.place is not None
    assert attached.place(None, "a.b", True) == ("amq.topic", "a.b")


def test_a_topic_that_is_nothing_else(peer: LinkPeer) -> None:
    _, attached = peer.target("prices", capabilities=("topic",))
    assert (attached.exchange, attached.key) == ("amq.topic", "prices")
    assert attached.terminus.capabilities == ("topic",)


@pytest.mark.parametrize(
    ("address", "capabilities", "mandatory"),
    [
        ("q", (), True),
        ("/exchanges/amq.topic/k", (), True),
        ("/exchanges/amq.topic/k", ("topic",), False),
        ("amq.topic/k", (), False),
        ("prices", ("topic",), False),
        (None, (), True),
    ],
)
def test_links_may_request_notice_of_unroutable_messages(
    peer: LinkPeer, address: str | None, capabilities: tuple[str, ...], mandatory: bool
) -> None:
    _, attached = peer.target(address, capabilities=capabilities)
    assert attached.mandatory is mandatory


def test_the_anonymous_terminus(peer: LinkPeer) -> None:
    declare(peer, "q")
    _, attached = peer.target(None)
    assert attached.place is not None
    assert attached.place("/queues/q", None, True) == ("", "q")
    assert attached.place("q", None, True) == ("", "q")
    assert attached.place("amq.topic", "s", True) == ("amq.topic", "s")
    with pytest.raises(Exception, match="no 'to'"):
        attached.place(None, None, False)


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/queues/none", Condition.NOT_FOUND),
        ("/exchanges/none/k", Condition.NOT_FOUND),
        ("/queues/", Condition.COMMAND_INVALID),
        ("/queues/%ff", Condition.COMMAND_INVALID),
        ("/nothing/known", Condition.COMMAND_INVALID),
        ("/", Condition.COMMAND_INVALID),
        ("x" * 3000, Condition.COMMAND_INVALID),
        ("", Condition.NOT_FOUND),
    ],
)
def test_addresses_that_are_nowhere(peer: LinkPeer, address: str, condition: Condition) -> None:
    operation = AttachTarget(1, "a", "l", "n", "me", Terminus(address))
    refused = peer.refused(operation)
    assert (refused.condition, refused.lost) == (condition, Lost.LINK)
    assert peer.session.channels, "the session goes on"


def test_plain_names_make_no_queues_where_that_is_switched_off(house: House) -> None:
    house.registry.create_queues = False
    peer = LinkPeer(house)
    operation = AttachTarget(1, "a", "l", "n", "me", Terminus("new"))
    assert peer.refused(operation).condition is Condition.NOT_FOUND


# --- receiving ------------------------------------------------------------------------------------


def test_nothing_without_credit_and_no_more_than_it(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q")
    publish(peer, "q", "1", "2", "3")
    assert bodies(peer.receives(link, 2)) == ["1", "2"]
    assert bodies(peer.receives(link, 1)) == ["3"]


def test_drain(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q")
    publish(peer, "q", "1")
    said = peer.says(Credit(1, "t", link, 5, True))
    assert [type(one) for one in said] == [Deliver, Done]
    assert said[1] == Done(1, "t", 4)
    publish(peer, "q", "2")
    assert not [one for one in peer.heard() if isinstance(one, Deliver)]


def test_selector_and_copy(peer: LinkPeer) -> None:
    declare(peer, "q")
    filters = {"jms": (Symbol(SELECTOR), "n > 1"), "unknown": (Symbol("x"), 1)}
    link, attached = peer.source("q", filters=filters)
    assert set(attached.terminus.filters) == {"jms"}
    look, _ = peer.source("q", copy=True)
    for n in range(4):
        peer.says(Publish(1, message(str(n), "q", application={"n": n}), True, False))
    assert bodies(peer.receives(link)) == ["2", "3"]
    assert bodies(peer.receives(look)) == ["0", "1"]


def test_a_bad_selector_costs_the_link(peer: LinkPeer) -> None:
    _, operation = peer.asking("new", filters={"s": (Symbol(SELECTOR), "n >")})
    refused = peer.refused(operation)
    assert (refused.condition, refused.lost) == (Condition.COMMAND_INVALID, Lost.LINK)


def test_an_exchange_as_source(peer: LinkPeer) -> None:
    link, _ = peer.source("amq.topic", filters={"k": (0x468C00000001, "a.*")})
    publish(peer, "a.b", "yes", exchange="amq.topic")
    publish(peer, "b.b", "no", exchange="amq.topic")
    assert bodies(peer.receives(link)) == ["yes"]
    peer.done(DetachLink(1, "t", link, closed=True))
    assert not peer.house.broker.vhosts["/"].queues


def test_a_direct_exchange_needs_a_key(peer: LinkPeer) -> None:
    _, operation = peer.asking("amq.direct")
    assert peer.refused(operation).condition is Condition.PRECONDITION_FAILED
    assert not peer.house.broker.vhosts["/"].queues


def test_a_queue_that_is_deleted_ends_its_links(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q")
    peer.session.perform([DeleteQueue(1, "t", "q")])
    peer.house.commit()
    assert Cancelled(1, link) in peer.heard()


def test_and_those_that_send_to_it(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.target("q")
    gone, _ = peer.target("q")
    away, _ = peer.target("q", name="l", expiry="never")
    queue = peer.house.broker.vhosts["/"].queues["q"]
    peer.done(DetachLink(1, "t", gone, closed=True))
    peer.says(DetachLink(1, None, away))
    again, _ = peer.target("q", name="l", expiry="never")
    assert len(queue.senders) == 2
    peer.session.perform([DeleteQueue(1, "t", "q")])
    peer.house.commit()
    told = [said for said in peer.heard() if isinstance(said, Cancelled)]
    assert told == [Cancelled(1, link), Cancelled(1, again)]


def test_a_sender_is_told_on_the_wire() -> None:
    from gateway.adapters.performatives.wire import layouts as w
    from tests.sessions.test_wire_1_0 import Linked

    house = House()
    peer, other = Linked(house), Linked(house, "other")
    peer.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q", durable=True))
    peer.sender(0, "in", w.Target("/queues/q"))
    vhost = house.broker.vhosts["/"]
    vhost.remove_queue(vhost.queues["q"])
    peer.turn()
    (detach,) = peer.hears()
    assert detach.closed and detach.error.condition == "amqp:resource-deleted"
    assert not peer.engine.closing and not other.hears()


# --- outcomes -------------------------------------------------------------------------------------


def test_modified_counts_and_annotates(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q")
    publish(peer, "q", "1")
    (first,) = peer.receives(link, 1)
    peer.says(Modify(1, first.delivery, True, False, {"x-opt-why": "busy"}))
    (again,) = peer.receives(link, 1)
    assert again.redelivered
    assert again.message.added_headers == {"x-opt-why": "busy", "x-delivery-count": 1}


def test_undeliverable_here_goes_to_the_dead_letters(peer: LinkPeer) -> None:
    declare(peer, "dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer.done(DeclareQueue(1, "d", "q", durable=True, arguments=letters))
    link, _ = peer.source("q")
    publish(peer, "q", "1")
    (first,) = peer.receives(link)
    peer.says(Modify(1, first.delivery, False, True))
    assert peer.house.broker.vhosts["/"].queues["dead"].depth == 1


def undeliverable(peer: LinkPeer, found: list[Deliver]) -> None:
    peer.says(*[Modify(1, one.delivery, False, True) for one in found])


@pytest.mark.parametrize("transacted", [False, True])
def test_undeliverable_here_is_still_there_for_others(peer: LinkPeer, transacted: bool) -> None:
    """§3.4.5: not to this link again. Without a dead letter exchange it stays in its queue."""
    declare(peer, "q")
    link, _ = peer.source("q")
    publish(peer, "q", "1", "2")
    one, two = peer.receives(link)
    if transacted:
        work = peer.done(DeclareTransaction(1, "t", "c"))
        peer.says(Retire(1, work, one.delivery, Modify(1, one.delivery, False, True), False))
        peer.done(Discharge(1, "t", "c", work, False))
    else:
        undeliverable(peer, [one])
    assert peer.house.broker.vhosts["/"].queues["q"].depth == 1
    assert peer.receives(link) == []
    other, _ = peer.source("q")
    assert bodies(peer.receives(other)) == ["1"]


@pytest.mark.parametrize("late", [False, True])
def test_a_link_that_is_resumed_does_not_get_it_either(peer: LinkPeer, late: bool) -> None:
    """Whether its outcome came before the detach or after it (§2.7.6)."""
    declare(peer, "q")
    queue = peer.house.broker.vhosts["/"].queues["q"]
    link, _ = peer.source("q", name="l", expiry="never")
    publish(peer, "q", "1", "2")
    found = peer.receives(link, 1)
    if not late:
        undeliverable(peer, found)
    suspended(peer, link, found if late else [])
    if late:
        undeliverable(peer, found)
    assert len(queue.excluded) == 1
    again, attached = peer.source("q", name="l", expiry="never", unsettled={})
    assert attached.resumed == []
    assert bodies(peer.receives(again)) == ["2"]
    suspended(peer, again, [])
    anew, _ = peer.source("q", name="l", expiry="never")
    assert not queue.excluded, "a new link, though it has the name of an old one"
    assert bodies(peer.receives(anew)) == ["1", "2"]


@pytest.mark.parametrize("end", ["close", "expire", "lose"])
def test_exclusions_end_with_the_link(peer: LinkPeer, end: str) -> None:
    declare(peer, "q")
    queue = peer.house.broker.vhosts["/"].queues["q"]
    link, _ = peer.source("q", name="l", expiry="link-detach", timeout=1)
    publish(peer, "q", "1")
    undeliverable(peer, peer.receives(link))
    assert queue.excluded
    if end == "lose":
        peer.says(Closed())
    else:
        peer.says(DetachLink(1, None, link, closed=end == "close"))
        peer.house.broker.state.tick(peer.house.broker.state.now + 2_000)
    assert queue.depth == 1 and not queue.excluded


def test_of_many_messages_those_that_are_refused_cost_themselves(peer: LinkPeer) -> None:
    """They come back, and all others of the same read are published."""
    from gateway.operations import Confirm, PublishMany, Returned, SelectConfirms

    declare(peer, "q")
    peer.says(SelectConfirms(1, None))
    peer.heard()
    many = [message(str(n), "q", "gone" if n in (0, 3, 4) else "") for n in range(7)]
    many[5].key = "nowhere"
    said = peer.says(PublishMany(1, many, True))
    peer.house.commit()
    said += peer.heard()
    returned = [one.sequence for one in said if isinstance(one, Returned)]
    confirmed = [(one.sequence, one.accepted) for one in said if isinstance(one, Confirm)]
    assert returned == [1, 4, 5, 6]
    assert confirmed == [(1, False), (3, True), (5, False), (7, True)]
    queue = peer.house.broker.vhosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.backlog.lanes[0].ready] == [b"1", b"2", b"6"]


def test_a_message_that_is_refused_costs_the_message(peer: LinkPeer) -> None:
    from gateway.operations import Confirm, Returned, SelectConfirms

    peer.says(SelectConfirms(1, None))
    peer.says(Publish(1, message("x", "k", "gone"), True, False))
    peer.says(Publish(1, message("x", "nowhere"), True, False))
    declare(peer, "q")
    said = peer.says(Publish(1, message("x", "q"), True, False))
    peer.house.commit()
    said += peer.heard()
    assert not [one for one in said if isinstance(one, Refused)]
    returned = [one for one in said if isinstance(one, Returned)]
    confirms = [one for one in said if isinstance(one, Confirm)]
    assert peer.session.channels
    assert not returned and confirms[-1].accepted


# --- transactions ---------------------------------------------------------------------------------


def transaction(peer: LinkPeer) -> bytes:
    return bytes(peer.done(DeclareTransaction(1, "t", "c")))


def test_commit_and_rollback(peer: LinkPeer) -> None:
    declare(peer, "q", "r")
    link, _ = peer.source("q")
    publish(peer, "q", "1", "2")
    one, two = peer.receives(link, 2)
    work = transaction(peer)
    assert peer.done(Post(1, "p", "c", work, message("sent", "r"))) is True
    assert peer.done(Post(1, "p", "c", work, message("sent", "nowhere"))) is False
    peer.says(Retire(1, work, one.delivery, Outcome.ACCEPT, True))
    queues = peer.house.broker.vhosts["/"].queues
    assert queues["r"].depth == 0
    peer.done(Discharge(1, "t", "c", work, False))
    assert queues["r"].depth == 1 and queues["q"].unsettled == 1
    again = transaction(peer)
    peer.done(Post(1, "p", "c", again, message("sent", "r")))
    peer.says(Retire(1, again, two.delivery, Outcome.ACCEPT, True))
    peer.done(Discharge(1, "t", "c", again, True))
    assert queues["r"].depth == 1
    assert bodies(peer.receives(link)) == ["2"]


def test_an_unknown_transaction_is_refused(peer: LinkPeer) -> None:
    refused = peer.refused(Discharge(1, "t", "c", b"none", False))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)


def test_the_end_of_its_link_rolls_back(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q")
    publish(peer, "q", "1")
    (one,) = peer.receives(link, 1)
    work = transaction(peer)
    peer.says(Retire(1, work, one.delivery, Outcome.ACCEPT, True))
    peer.says(DetachLink(1, None, "c", closed=True))
    assert bodies(peer.receives(link)) == ["1"]


def test_all_or_nothing(peer: LinkPeer) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    peer.done(DeclareQueue(1, "d", "small", durable=True, arguments=limits))
    work = transaction(peer)
    for _ in range(2):
        peer.done(Post(1, "p", "c", work, message("x", "small")))
    refused = peer.refused(Discharge(1, "t", "c", work, False))
    assert refused.condition is Condition.PRECONDITION_FAILED
    assert peer.house.broker.vhosts["/"].queues["small"].depth == 0


# --- what outlives a link -------------------------------------------------------------------------


def suspended(peer: LinkPeer, link: str, found: list[Deliver], **more: Any) -> None:
    tags = {one.delivery: b"tag%d" % n for n, one in enumerate(found)}
    peer.says(DetachLink(1, None, link, unsettled=tags, **more))


def test_resuming(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l", expiry="never")
    publish(peer, "q", "1", "2", "3")
    found = peer.receives(link, 2)
    suspended(peer, link, found)
    again, attached = peer.source("q", name="l", expiry="never", unsettled={b"tag0": None})
    assert [one.tag for one in attached.resumed] == [b"tag0", b"tag1"]
    assert [one.message.body for one in attached.resumed if one.message] == [b"1", b"2"]
    for one in attached.resumed:
        peer.says(Settle(1, one.delivery, False, Outcome.ACCEPT))
    assert bodies(peer.receives(again)) == ["3"]


@pytest.mark.parametrize("refused", [False, True])
def test_resuming_waits_for_an_upstream(
    house: House, peer: LinkPeer, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l", expiry="never")
    publish(peer, "q", "1", "2", "3")
    suspended(peer, link, peer.receives(link, 2))
    answers, subscribe = [Answer(), Answer()], Channel.subscribe

    def asking(channel: Channel, *given: Any, **more: Any) -> str:
        for answer in answers:
            answer.value()
        if refused:
            raise Refusal(Condition.NOT_FOUND, "the upstream has no such queue")
        return subscribe(channel, *given, **more)

    monkeypatch.setattr(Channel, "subscribe", asking)
    peer.session.channels[1].topology.answers = Answers()
    _, attach = peer.asking("q", name="l", expiry="never", unsettled={b"tag0": None})
    assert peer.says(attach) == []
    links = house.registry.links
    for answer in answers:
        (kept,) = links.by_key.values()
        assert kept.owner is None and len(kept.parked) == 2 and links.suspended.total() == 1
        answer.resolve(None)
    house.commit()
    told = [one for one in peer.heard() if isinstance(one, Done | Refused)]
    assert len(told) == 1 and links.suspended.total() == 0
    queue = house.broker.vhosts["/"].queues["q"]
    if refused:
        assert not links.by_key and (queue.depth, queue.unsettled) == (3, 0)
    else:
        assert isinstance(told[0], Done)
        assert [one.tag for one in told[0].result.resumed] == [b"tag0", b"tag1"]
        assert (queue.depth, queue.unsettled) == (1, 2)


def test_resuming_over_another_connection(house: House, peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l", expiry="never")
    publish(peer, "q", "1", "2")
    found = peer.receives(link, 1)
    suspended(peer, link, found, lost=True)
    peer.says(Closed())
    other = LinkPeer(house)
    _, attached = other.source("q", name="l", expiry="never", unsettled={})
    assert [one.tag for one in attached.resumed] == [b"tag0"]


def test_a_link_that_is_not_resumed_is_new(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l", expiry="never")
    publish(peer, "q", "1", "2")
    suspended(peer, link, peer.receives(link, 1))
    again, attached = peer.source("q", name="l", expiry="never")
    assert attached.resumed == []
    assert bodies(peer.receives(again)) == ["1", "2"]


def test_the_session_ends_nodes_with_its_lifetime(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l")
    publish(peer, "q", "1")
    suspended(peer, link, peer.receives(link, 1))
    queue = peer.house.broker.vhosts["/"].queues["q"]
    assert queue.unsettled == 1
    peer.says(EndSession(1, None))
    assert (queue.unsettled, queue.depth) == (0, 1)
    assert not peer.house.registry.links.suspended
    assert not peer.house.registry.links.by_key


def test_timeout(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l", expiry="link-detach", timeout=5)
    publish(peer, "q", "1")
    suspended(peer, link, peer.receives(link, 1))
    broker = peer.house.broker
    queue = broker.vhosts["/"].queues["q"]
    broker.state.tick(broker.state.now + 4_000)
    assert queue.unsettled == 1
    broker.state.tick(broker.state.now + 2_000)
    assert (queue.unsettled, queue.depth) == (0, 1)


def test_stealing(house: House, peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.source("q", name="l")
    publish(peer, "q", "1", "2")
    (one,) = peer.receives(link, 1)
    peer.tags = {one.delivery: b"tag0"}
    thief = LinkPeer(house)
    _, attached = thief.source("q", name="l", unsettled={})
    assert Stolen(1, link) in peer.heard()
    assert [one.tag for one in attached.resumed] == [b"tag0"]


def test_outcomes_sent_before_are_known_on_resuming(peer: LinkPeer) -> None:
    declare(peer, "q")
    link, _ = peer.target("q", name="l", expiry="never")
    peer.says(DetachLink(1, None, link, outcomes={b"a": Outcome.ACCEPT, b"b": Outcome.REJECT}))
    _, attached = peer.target("q", name="l", expiry="never", unsettled={b"a": None, b"c": None})
    assert [(one.tag, one.outcome) for one in attached.resumed] == [(b"a", Outcome.ACCEPT)]


# --- subscriptions --------------------------------------------------------------------------------


def test_a_durable_subscription(house: House, peer: LinkPeer) -> None:
    asked: dict[str, Any] = {"durable": 2, "expiry": "never", "capabilities": ("topic",)}
    link, attached = peer.source("news", name="sub", **asked)
    assert attached.terminus.durable == 1
    suspended(peer, link, [], lost=True)
    peer.says(Closed())
    other = LinkPeer(house)
    publish(other, "news", "while away", exchange="amq.topic")
    again, _ = other.source("news", name="sub", **asked)
    assert bodies(other.receives(again)) == ["while away"]
    other.done(DetachLink(1, "t", again, closed=True))
    assert not house.broker.vhosts["/"].queues


def test_unsubscribing_without_an_address(house: House, peer: LinkPeer) -> None:
    link, _ = peer.source("news", name="sub", durable=1, expiry="never", capabilities=("topic",))
    suspended(peer, link, [])
    again, attached = peer.source(None, name="sub")
    assert attached.terminus.address
    peer.done(DetachLink(1, "t", again, closed=True))
    assert not house.broker.vhosts["/"].queues
    _, operation = peer.asking(None, name="sub")
    assert peer.refused(operation).condition is Condition.NOT_FOUND


@pytest.mark.parametrize("shared", [(), ("shared",)])
def test_a_subscription_is_its_users(house: House, peer: LinkPeer, shared: tuple[str, ...]) -> None:
    """Anybody may call his container the same, and come first; names may contain what divides
    them."""
    house.broker.access.add_user("other", "secret")
    house.broker.access.set_permissions("other", "/", ".*", ".*", ".*")
    capabilities = ("topic", *shared)
    asked: dict[str, Any] = {"durable": 1, "expiry": "never", "capabilities": capabilities}
    links: list[tuple[LinkPeer, str, str]] = []
    peers = LinkPeer(house, "other"), peer, LinkPeer(house, "guest", "me:a")
    for number, one in enumerate(peers):
        name = "b" if one.container == "me:a" else "a:b"
        _, operation = one.asking(None, name=name)
        assert one.refused(operation).condition is Condition.NOT_FOUND
        link, _ = one.source(f"news{number}", name=name, **asked)
        suspended(one, link, [], lost=True)
        links.append((one, name, link))
    for number in range(3):
        publish(peer, f"news{number}", f"kept{number}", exchange="amq.topic")
    for number, (one, name, _) in enumerate(links):
        again, _ = one.source(f"news{number}", name=name, **asked)
        assert bodies(one.receives(again)) == [f"kept{number}"]
        one.done(DetachLink(1, "t", again, closed=True))
        assert len(house.broker.vhosts["/"].queues) == 2 - number


def test_a_queue_that_says_it_is_anothers_is_not_read(house: House, peer: LinkPeer) -> None:
    channel = peer.session.channels[1]
    given = {USER: "other", CLIENT: "me"}
    channel.topology.declare_queue(
        DeclareQueue(1, None, "subscription:guest:me:sub", arguments=given)
    )
    asked: dict[str, Any] = {"durable": 1, "expiry": "never", "capabilities": ("topic",)}
    for address in ("news", None):
        _, operation = peer.asking(address, name="sub", **asked)
        said = peer.refused(operation)
        assert said.condition in (Condition.ACCESS_REFUSED, Condition.PRECONDITION_FAILED)
        assert said.lost is Lost.LINK


def test_subscriptions_of_handles_are_their_users_too(house: House, peer: LinkPeer) -> None:
    house.broker.access.add_user("other", "secret")
    house.broker.access.set_permissions("other", "/", ".*", ".*", ".*")
    other = LinkPeer(house, "other")
    taken, _ = subscribe(other.session.channels[1], "news", "me", "sub")
    name, _ = subscribe(peer.session.channels[1], "news", "me", "sub")
    assert name != taken
    assert subscribe(peer.session.channels[1], "news", "me", "sub") == (name, False)
    _, attached = peer.source(None, name="sub")  # the same subscription in 1.0
    assert attached.terminus.address == name
    _, attached = other.source(None, name="sub")
    assert attached.terminus.address == taken


def test_a_subscription_needs_a_container(house: House, peer: LinkPeer) -> None:
    """Or it would be one of those that are everybody's."""
    nameless = LinkPeer(house, container="")
    asked: dict[str, Any] = {"durable": 1, "expiry": "never"}
    _, operation = nameless.asking("/exchanges/amq.topic/#", name="sub", **asked)
    assert nameless.refused(operation).condition is Condition.PRECONDITION_FAILED
    everybodys = {**asked, "capabilities": ("topic", "shared", "global")}
    for one in (nameless, peer):
        one.source("news", name="sub", **everybodys)
    assert list(house.broker.vhosts["/"].queues) == ["subscription::sub"]


def test_a_copy_of_a_subscription_is_the_subscription(house: House, peer: LinkPeer) -> None:
    """JMS asks of every topic to be copied: what stands in a subscription is that copy."""
    asked: dict[str, Any] = {"durable": 1, "expiry": "never", "capabilities": ("topic",)}
    link, attached = peer.source("news", name="sub", copy=True, **asked)
    assert attached.terminus.copy
    publish(peer, "news", "once", exchange="amq.topic")
    (found,) = peer.receives(link)
    peer.says(Settle(1, found.delivery, False, Outcome.ACCEPT))
    (queue,) = house.broker.vhosts["/"].queues.values()
    assert not queue.depth
    suspended(peer, link, [])
    again, _ = peer.source("news", name="sub", copy=True, **asked)
    assert peer.receives(again) == []


def test_another_topic_is_another_subscription(peer: LinkPeer) -> None:
    asked: dict[str, Any] = {"durable": 1, "expiry": "never", "capabilities": ("topic",)}
    link, _ = peer.source("old", name="sub", **asked)
    suspended(peer, link, [])
    again, _ = peer.source("new", name="sub", **asked)
    publish(peer, "old", "old", exchange="amq.topic")
    publish(peer, "new", "new", exchange="amq.topic")
    assert bodies(peer.receives(again)) == ["new"]


def test_a_shared_subscription(house: House, peer: LinkPeer) -> None:
    asked: dict[str, Any] = {"capabilities": ("topic", "shared")}
    one, _ = peer.source("news", name="sub", **asked)
    two, _ = peer.source("news", name="sub|2", **asked)
    publish(peer, "news", "1", "2", exchange="amq.topic")
    assert len(house.broker.vhosts["/"].queues) == 1
    assert bodies(peer.receives(one, 1) + peer.receives(two, 1)) == ["1", "2"]
    peer.done(DetachLink(1, "t", one, closed=True))
    assert len(house.broker.vhosts["/"].queues) == 1
    peer.done(DetachLink(1, "t", two, closed=True))
    assert not house.broker.vhosts["/"].queues


# --- dynamic nodes --------------------------------------------------------------------------------


def policy(code: int) -> dict[str, Any]:
    return {"lifetime-policy": Described(code, [])}


def test_delete_on_close(house: House, peer: LinkPeer) -> None:
    link, attached = peer.source(None, dynamic=True)
    name = str(attached.terminus.address).removeprefix("/queues/")
    assert name in house.broker.vhosts["/"].queues
    peer.done(DetachLink(1, "t", link, closed=True))
    assert not house.broker.vhosts["/"].queues


def test_a_place_for_replies_ends_with_its_link(house: House, peer: LinkPeer) -> None:
    volatile = ("rabbitmq:volatile-queue",)
    vhost = house.broker.vhosts["/"]
    for closed in (True, False):
        link, _ = peer.source(None, dynamic=True, settled=True, capabilities=volatile)
        assert vhost.replies
        peer.done(DetachLink(1, "t", link, closed=closed))
        assert not vhost.replies


def test_delete_on_no_links(house: House, peer: LinkPeer) -> None:
    link, attached = peer.target(None, dynamic=True, properties=policy(0x2C))
    other, _ = peer.source(attached.terminus.address)
    peer.done(DetachLink(1, "t", link, closed=True))
    assert house.broker.vhosts["/"].queues
    peer.done(DetachLink(1, "t", other, closed=True))
    assert not house.broker.vhosts["/"].queues


def test_delete_on_no_messages(house: House, peer: LinkPeer) -> None:
    link, attached = peer.target(None, dynamic=True, properties=policy(0x2D))
    name = str(attached.terminus.address).removeprefix("/queues/")
    publish(peer, name, "1")
    peer.done(DetachLink(1, "t", link, closed=True))
    other, _ = peer.source(name)
    (one,) = peer.receives(other)
    peer.says(Settle(1, one.delivery, False, Outcome.ACCEPT))
    house.broker.state.tick(house.broker.state.now + 2_000)
    assert not house.broker.vhosts["/"].queues


def test_an_unknown_policy_is_refused(peer: LinkPeer) -> None:
    _, operation = peer.asking(None, dynamic=True, properties=policy(0x99))
    assert peer.refused(operation).condition is Condition.COMMAND_INVALID


def test_a_lost_connection_ends_dynamic_nodes(house: House, peer: LinkPeer) -> None:
    link, _ = peer.source(None, dynamic=True)
    suspended(peer, link, [], lost=True)
    peer.says(Closed())
    assert not house.broker.vhosts["/"].queues
    assert not house.registry.links.dynamic and not house.registry.links.by_key


# --- management -----------------------------------------------------------------------------------


class Manager:
    """Asks the management node over a pair of links."""

    def __init__(self, peer: LinkPeer) -> None:
        self.peer = peer
        self.sender, _ = peer.target("/management", name="pair")
        self.receiver, _ = peer.source("/management", name="pair", settled=True)
        peer.says(Credit(1, None, self.receiver, 100))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        properties = Properties(to=path, subject=method, message_id="m", reply_to="$me")
        properties.body_kind = "value"
        octets = b"\x00\x53\x77" + write_value(body)
        header = SECTIONS.write(properties)
        request = Message(SECTIONS, header, octets, "", "", Essentials())
        self.peer.session.perform([Manage(1, "t", self.sender, request)])
        self.peer.house.commit()
        said = self.peer.heard()
        (answer,) = [one for one in said if isinstance(one, Deliver)]
        assert (answer.consumer, answer.delivery) == (self.receiver, 0)
        assert answer.message.properties.correlation_id == "m"
        octets = in_memory.octets(answer.message)
        status = int(answer.message.properties.subject or 0)
        return status, read_value(octets, 3, len(octets))[0]


def test_topology_by_management(house: House, peer: LinkPeer) -> None:
    manager = Manager(peer)
    asked = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    assert manager.ask("PUT", "/queues/a%2Fb", asked)[0] == 201
    status, queue = manager.ask("PUT", "/queues/a%2Fb", asked)
    assert (status, queue["name"], queue["type"]) == (200, "a/b", "quorum")
    # RabbitMQ's Java client takes no list for it.
    assert isinstance(queue["replicas"], Array) and queue["replicas"] == Array([NODE], 0xA1)
    assert manager.ask("PUT", "/queues/a%2Fb", {"durable": False})[0] == 409
    exchange = {"type": "topic", "durable": True}
    assert manager.ask("PUT", "/exchanges/x", exchange) == (204, None)
    binding = {"source": "x", "destination_queue": "a/b", "binding_key": "k.#", "arguments": {}}
    assert manager.ask("POST", "/bindings", binding) == (204, None)
    status, found = manager.ask("GET", "/bindings?src=x&dstq=a%2Fb&key=k.%23")
    assert status == 200 and found[0]["binding_key"] == "k.#"
    publish(peer, "k.1", "1", exchange="x")
    assert manager.ask("GET", "/queues/a%2Fb")[1]["message_count"] == 1
    assert manager.ask("DELETE", "/queues/a%2Fb/messages") == (200, {"message_count": 1})
    assert manager.ask("DELETE", "/bindings/src=x;dstq=a%2Fb;key=k.%23;args=") == (204, None)
    assert manager.ask("GET", "/bindings?src=x&dstq=a%2Fb") == (200, [])
    assert manager.ask("DELETE", "/exchanges/x") == (204, None)
    assert manager.ask("DELETE", "/queues/a%2Fb") == (200, {"message_count": 0})
    assert manager.ask("PUT", "/auth/tokens", b"guest") == (204, None)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/queues/none", None, 404),
        ("PATCH", "/queues/none", None, 405),
        ("GET", "/nothing", None, 404),
        ("PUT", "/queues/", None, 404),
        ("PUT", "/queues/%ff", None, 400),
        ("PUT", "/queues/q", [1], 400),
        ("PUT", "/queues/q", {"durable": "yes"}, 400),
        ("PUT", "/queues/amq.mine", {}, 403),
        ("PUT", "/exchanges/x", {"type": "strange"}, 400),
        ("POST", "/bindings", {"source": "amq.topic"}, 400),
        ("POST", "/bindings", {"source": "none", "destination_queue": "q"}, 404),
        ("DELETE", "/bindings/nonsense", None, 400),
        ("PUT", "/auth/tokens", b"anything", 204),
        ("PUT", "/auth/tokens", "text", 400),
    ],
)
def test_management_reports_errors(
    peer: LinkPeer, method: str, path: str, body: Any, status: int
) -> None:
    assert Manager(peer).ask(method, path, body)[0] == status


def test_nowhere_to_answer(peer: LinkPeer) -> None:
    sender, _ = peer.target("/management")
    header = SECTIONS.write(Properties(to="/queues/q", subject="GET"))
    request = Message(SECTIONS, header, b"", "", "", Essentials())
    refused = peer.refused(Manage(1, "t", sender, request))
    assert (refused.condition, refused.lost) == (Condition.PRECONDITION_FAILED, Lost.LINK)


def test_deliveries_are_parked_with_each_of_many_links(house: House, peer: LinkPeer) -> None:
    """However deliveries, outcomes, rollbacks and the ends of links take turns."""
    declare(peer, "q")
    publish(peer, "q", *[str(number) for number in range(300)])
    links = [peer.source("q", name=f"l{number}", expiry="never")[0] for number in range(10)]
    channel = peer.session.channels[1]
    held: dict[str, list[int]] = {}
    for count, link in zip([7, 1, 0, 30, 12, 5, 9, 3, 20, 2], links, strict=True):
        held[link] = [said.delivery for said in peer.receives(link, count)]
    channel.fetch("q")
    for gone in ("1", "4", "8"):
        for link in sorted(held.keys() - {gone}):
            held[link] += [said.delivery for said in peer.receives(link, len(held[link]) + 2)]
            if held[link]:
                peer.says(Settle(1, held[link].pop(0), False, Outcome.ACCEPT))
        work = peer.done(DeclareTransaction(1, "t", "coordinator"))
        other = "10"
        peer.says(*[Retire(1, work, one, Outcome.ACCEPT, False) for one in held[other]])
        peer.done(Discharge(1, "t", "coordinator", work, True))
        found = channel.links.park(gone)
        assert list(found) == held.pop(gone)
    for link, numbers in held.items():
        assert list(channel.links.park(link)) == numbers
    assert len(channel.window.unsettled) == 1 and not channel.window.index.numbers
