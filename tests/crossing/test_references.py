"""Replies whose correlation id is a notation of another version: one user's requests take no reply
of another's away."""

from uuid import UUID

import pytest

from gateway.adapters.methods.content import reference
from gateway.adapters.segments.content import uuid_of
from gateway.crossing import references
from gateway.crossing.crossing import Crossing
from gateway.crossing.legacy_forms import FORMS
from gateway.crossing.references import MOST, MOST_OCTETS, References
from gateway.message import Message, Properties
from gateway.operations import DeclareQueue
from tests.broker.fakes import House
from tests.crossing.test_round_trips import KEY, over

NOT_0_10 = [name for name in FORMS if name != "0-10"]
LONG = "m-" + 30 * "1234567890"


def request(name: str, user: str, id_: str | UUID, reply_to: str = "replies") -> Message:
    dialect = FORMS[name].dialect
    header = dialect.write(Properties(message_id=id_, reply_to=reply_to))
    return Message(dialect, header, b"?", "", "q", dialect.essentials(header), user=user)


def correlated(crossing: Crossing, id_: object, reader: str, asker: str) -> object:
    """The correlation id of a reply, as the requester gets it."""
    dialect = FORMS[reader].dialect
    header = dialect.write(Properties(correlation_id=id_))
    reply = Message(dialect, header, b"!", "", "replies", dialect.essentials(header))
    back, _ = over(crossing, reply, FORMS[asker].dialect)
    return back.properties.correlation_id


def asking(form: str) -> bool:
    """Whether a message of it can have an id and a reply address."""
    found = request(form, "a", "m-1").properties
    return found.message_id == "m-1" and found.reply_to == "replies"


ASKERS = [name for name in NOT_0_10 if asking(name)]


def test_all_versions_ask() -> None:
    assert {"0-9-1", "1.0", "0.8a2", "0-9a0-jms", "0-9a6-jms", "0-9a6-basic"} <= set(ASKERS)


@pytest.mark.parametrize("asker", ASKERS)
def test_a_flood_of_another_user_loses_no_reply(asker: str) -> None:
    """Readers of 0-10 know a UUID alone."""
    crossing = Crossing(KEY)
    over(crossing, request(asker, "alice", "m-1"), FORMS["0-10"].dialect)
    for number in range(2 * MOST):
        over(crossing, request(asker, "bob", f"o-{number}"), FORMS["0-10"].dialect)
    assert correlated(crossing, f"ID:{uuid_of('m-1')}", "0-10", asker) == "m-1"
    first = f"ID:{uuid_of('o-0')}"
    assert correlated(crossing, first, "0-10", asker) != "o-0", "bob's own oldest is forgotten"


@pytest.mark.parametrize("asker", ASKERS)
def test_the_same_reply_before_and_behind_its_request(asker: str) -> None:
    """What was found for its header without the request is not kept."""
    crossing = Crossing(KEY)
    text = f"ID:{uuid_of('m-1')}"
    for _ in range(3):
        assert correlated(crossing, text, "0-10", asker) != "m-1"
    over(crossing, request(asker, "alice", "m-1"), FORMS["0-10"].dialect)
    for _ in range(3):
        assert correlated(crossing, text, "0-10", asker) == "m-1"


def test_ids_that_are_too_long_before_1_0() -> None:
    crossing = Crossing(KEY)
    dialect = FORMS["0-9-1"].dialect
    over(crossing, request("1.0", "alice", LONG), dialect)
    for number in range(2 * MOST):
        over(crossing, request("1.0", "bob", f"{LONG}{number}"), dialect)
    assert correlated(crossing, reference(LONG), "0-9-1", "1.0") == LONG


def test_the_same_request_of_two_users() -> None:
    """The second is remembered too, although the conversion of the first would do for both."""
    crossing = Crossing(KEY)
    for user in ("bob", "alice"):
        over(crossing, request("0-9-1", user, "m-1"), FORMS["0-10"].dialect)
    for number in range(MOST):
        over(crossing, request("0-9-1", "bob", f"o-{number}"), FORMS["0-10"].dialect)
    assert correlated(crossing, f"ID:{uuid_of('m-1')}", "0-10", "0-9-1") == "m-1"


def test_every_user_has_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MOST_USERS", 3)
    found = References()
    for number in range(100):
        found.remember("a", f"a{number}", "x" * (MOST_OCTETS // 10))
    assert len(found) == 10 and found.get("a0") is None
    for user in "bcd":
        found.remember(user, f"of {user}", user)
    assert found.get("a99") is None and found.get("of b") == "b" and len(found) == 3
    found.remember("b", "of b", "anew")
    assert found.get("of b") == "anew"
    found.remember("d", "of b", UUID(int=1))
    assert found.get("of b") == "anew", "a UUID stands behind"


def test_the_user_is_that_of_the_publisher() -> None:
    house = House()
    channel, _ = house.channel()
    channel.topology.declare_queue(DeclareQueue(1, None, "q"))
    message = request("0-9-1", "", "m-1")
    channel.publish_path.publish(message)
    got = channel.fetch("q")
    assert got is not None and got.message.user == house.client.user
    assert got.message.routed_as("x", "k").user == house.client.user
