"""Users, passwords, permissions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.access import MOST_PASSWORD_OCTETS, Access, fits, verifier_of
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition, Lost, Refusal
from tests.broker.fakes import (
    House,
    bind,
    declare,
    delete_exchange,
    delete_queue,
    exchange,
    message,
    purge,
    put,
    refused,
    unbind,
)


def knows(access: Access, user: str, password: str) -> bool:
    """Whether it is the user's password."""
    if access.refresh is not None:
        access.refresh()
    found = access.user(user)
    return found is not None and fits(found.verifier, password)


def test_first_user(house: House) -> None:
    access = house.broker.access
    guest = access.user("guest")
    assert guest is not None
    assert guest.loopback_only
    assert guest.tags == ("administrator",)
    assert knows(access, "guest", "guest")
    assert knows(access, "guest", "guest")
    assert not knows(access, "guest", "Guest")
    assert not knows(access, "nobody", "guest")
    assert not knows(access, "guest", "")
    assert not knows(access, "guest", "\udcff")
    assert not access.change_password("guest", "secret").loopback_only
    assert knows(access, "guest", "secret")
    assert not knows(access, "guest", "guest")


def test_nothing_is_made_in_a_store_with_users(house: House) -> None:
    house.broker.access.add_user("ann", "pw")
    house.broker.access.remove_user("guest")
    later = house.store.survivors()
    access = Access(later)
    assert [user.name for user in access.list_users()] == ["ann"]
    assert knows(access, "ann", "pw")


def test_scram(house: House) -> None:
    from scramp import ScramClient, ScramMechanism  # type: ignore[import-untyped]

    access = house.broker.access
    client = ScramClient(["SCRAM-SHA-256"], "guest", "guest")
    server = ScramMechanism("SCRAM-SHA-256").make_server(access.scram)
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


@given(st.text(max_size=12) | st.text(st.characters(max_codepoint=127), max_size=12))
def test_verifiers_are_those_of_scram(password: str) -> None:
    from scramp import ScramException, ScramMechanism

    salt = b"salt of 32 octets, or of some others"
    try:
        wanted = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, 4096, salt)
    except ScramException:
        with pytest.raises(ValueError):
            verifier_of(password, salt, 4096)
    else:
        assert verifier_of(password, salt, 4096) == wanted


def test_scram_does_not_reveal_users(house: House) -> None:
    """What the server's first message says: salt and iterations."""
    access = house.broker.access
    access.add_user("ann", "pw")
    real, decoy = access.scram("ann"), access.scram("nobody")
    assert (len(real.salt), real.iterations) == (len(decoy.salt), decoy.iterations)
    assert access.scram("nobody") == decoy != access.scram("anybody")
    access.reload(house.store.records())
    assert access.scram("nobody") == decoy and access.scram("ann") == real
    later = Access(house.store.survivors(), access.iterations)
    assert later.scram("nobody") != decoy
    later.decoy_key = access.decoy_key  # which the gateway keeps with its data
    assert later.scram("nobody") == decoy
    assert not fits(decoy, "") and not fits(decoy, "nobody")


def test_a_password_has_a_largest_size(house: House) -> None:
    house.broker.access.add_user("ann", "x" * MOST_PASSWORD_OCTETS)
    with refused(Condition.PRECONDITION_FAILED, "longer than"):
        house.broker.access.add_user("bob", "x" * (MOST_PASSWORD_OCTETS + 1))
    with refused(Condition.PRECONDITION_FAILED, "longer than"):
        house.broker.access.change_password("ann", "\N{SNOWMAN}" * MOST_PASSWORD_OCTETS)


def test_removed_users_are_reported(house: House) -> None:
    access = house.broker.access
    gone: list[str] = []
    access.removed = gone.append
    for name in ("ann", "bob"):
        access.add_user(name, "pw")
    access.change_password("ann", "other")
    access.remove_user("ann")
    assert gone == ["ann"]
    there = Access(house.store)
    there.remove_user("bob")
    access.reload(house.store.records())
    assert gone == ["ann", "bob"]


def test_other_ways_in(house: House) -> None:
    access = house.broker.access
    assert access.external("guest") == "guest"
    assert access.external("CN=guest") is None
    access.external_user = lambda subject: subject.removeprefix("CN=")
    assert access.external("CN=guest") == "guest"


def test_bad_requests(house: House) -> None:
    access = house.broker.access
    with refused(Condition.PRECONDITION_FAILED, "exists already"):
        access.add_user("guest", "x")
    with refused(Condition.PRECONDITION_FAILED, "needs a name"):
        access.add_user("", "x")
    with refused(Condition.PRECONDITION_FAILED, "no tag 'king'"):
        access.add_user("x", "x", ["king"])
    with refused(Condition.NOT_FOUND, "no user 'x'"):
        access.change_password("x", "x")
    with refused(Condition.PRECONDITION_FAILED, "not a regular expression"):
        access.set_permissions("guest", "/", "(", "", "")


def test_a_reload_shows_changes_of_another_process() -> None:
    store = MemoryStore(volatile=False)
    mine, theirs = Access(store), Access(store)
    theirs.add_user("ann", "pw", ["monitoring"])
    assert not knows(mine, "ann", "pw")
    mine.refresh = lambda: mine.reload(store.records())
    assert knows(mine, "ann", "pw")
    theirs.change_password("ann", "new")
    assert not knows(mine, "ann", "pw")
    assert knows(mine, "ann", "new")
    theirs.set_permissions("ann", "/", "", "a", "b")
    mine.reload(store.records())
    assert [tuple(p) for p in mine.permissions_of("ann")] == [("/", "", "a", "b")]


def test_vhosts(house: House) -> None:
    broker = house.broker
    with refused(Condition.NOT_ALLOWED, "vhost none not found", Lost.CONNECTION):
        broker.attach("none", "guest", "x")
    broker.access.add_user("ann", "pw")
    with refused(Condition.NOT_ALLOWED, "refused for user 'ann'", Lost.CONNECTION):
        broker.attach("/", "ann", "x")
    broker.create_vhost("more")
    broker.create_vhost("more")
    client = broker.attach("more", "guest", "x")
    channel, heard = house.channel(client)
    declare(channel, durable=True)
    put(channel, "a")
    assert house.channel()[0].vhost.queues == {}
    assert set(house.restart().broker.vhosts) == {"/", "more"}
    broker.delete_vhost("more")
    assert set(house.restart().broker.vhosts) == {"/"}
    with refused(Condition.NOT_FOUND, "no vhost 'more'"):
        broker.delete_vhost("more")
    assert broker.snapshot().totals.published == 1
    assert broker.state.octets == 0
    assert heard.cancels == []


def with_rights(house: House, configure: str, write: str, read: str) -> object:
    access = house.broker.access
    if access.user("ann") is None:
        access.add_user("ann", "pw")
    access.set_permissions("ann", "/", configure, write, read)
    return house.another("ann")


RIGHTS = [
    ("declare queue", lambda c: declare(c, "mine"), "c:mine"),
    ("delete queue", lambda c: delete_queue(c, "q"), "c:q"),
    ("purge", lambda c: purge(c, "q"), "r:q"),
    ("fetch", lambda c: c.fetch("q"), "r:q"),
    ("subscribe", lambda c: c.subscribe("q"), "r:q"),
    ("publish", lambda c: put(c, "a"), "w:amq.default"),
    ("publish to", lambda c: c.publish(message("a", "", "x")), "w:x"),
    ("declare exchange", lambda c: exchange(c, "mine"), "c:mine"),
    ("delete exchange", lambda c: delete_exchange(c, "x"), "c:x"),
    ("bind", lambda c: bind(c, "q", "x"), "w:q r:x"),
    ("unbind", lambda c: unbind(c, "q", "x"), "w:q r:x"),
    ("bind exchange", lambda c: bind(c, "y", "x", to_exchange=True), "w:y r:x"),
    (
        "dead letters",
        lambda c: declare(c, "mine", arguments={"x-dead-letter-exchange": "x"}),
        "c:mine r:mine w:x",
    ),
    (
        "alternate",
        lambda c: exchange(c, "mine", arguments={"alternate-exchange": "x"}),
        "c:mine r:mine w:x",
    ),
]


@pytest.mark.parametrize(("what", "attempt", "needs"), RIGHTS, ids=[r[0] for r in RIGHTS])
def test_every_right_is_needed(house: House, what: str, attempt: object, needs: str) -> None:
    owner, _ = house.channel()
    declare(owner)
    exchange(owner, "x")
    exchange(owner, "y")
    wanted = needs.split()
    everything = {"c": ".*", "w": ".*", "r": ".*"}
    for need in wanted:
        right, name = need.split(":")
        lacking = everything | {right: f"^(?!{name}$)"}
        channel, _ = house.channel(
            with_rights(house, lacking["c"], lacking["w"], lacking["r"])  # type: ignore[arg-type]
        )
        word = {"c": "configure", "w": "write", "r": "read"}[right]
        with refused(
            Condition.ACCESS_REFUSED,
            f"'{name}' in vhost '/' refused for user 'ann': the {word} permission is "
            f"'{lacking[right]}'",
        ):
            attempt(channel)  # type: ignore[operator]
    exact = {
        letter: "|".join(f"^{n.split(':')[1]}$" for n in wanted if n.startswith(letter))
        for letter in "cwr"
    }
    channel, _ = house.channel(
        with_rights(house, exact["c"], exact["w"], exact["r"])  # type: ignore[arg-type]
    )
    attempt(channel)  # type: ignore[operator]


def test_passive_declarations_need_no_right(house: House) -> None:
    declare(house.channel()[0])
    channel, _ = house.channel(with_rights(house, "", "", ""))  # type: ignore[arg-type]
    assert declare(channel, passive=True).name == "q"
    exchange(channel, "amq.direct", passive=True)


def test_changes_are_seen_at_the_next_operation(house: House) -> None:
    declare(house.channel()[0])
    channel, _ = house.channel(with_rights(house, "", ".*", ".*"))  # type: ignore[arg-type]
    put(channel, "a")
    channel.fetch("q")
    house.broker.access.set_permissions("ann", "/", "", "", "other")
    with refused(Condition.ACCESS_REFUSED, "access to exchange 'amq.default'"):
        put(channel, "b")
    with refused(Condition.ACCESS_REFUSED, "access to queue 'q'"):
        channel.fetch("q")
    house.broker.access.set_permissions("ann", "/", "", ".*", ".*")
    put(channel, "c")
    house.broker.access.remove_user("ann")
    with refused(Condition.ACCESS_REFUSED):
        put(channel, "d")


def test_user_id(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    put(channel, "a", user_id=b"guest")
    with refused(
        Condition.PRECONDITION_FAILED,
        "user_id property set to 'ann' but authenticated user was 'guest'",
    ):
        put(channel, "b", user_id=b"ann")
    house.broker.access.set_tags("guest", ["impersonator"])
    put(channel, "c", user_id=b"ann")


def test_alarms(house: House) -> None:
    broker = house.broker
    assert broker.blocked is None
    broker.alarm("memory", True)
    broker.alarm("disk", True)
    assert broker.blocked == "low on disk & low on memory"
    broker.alarm("memory", False)
    broker.alarm("memory", False)
    assert broker.blocked == "low on disk"
    broker.alarm("disk", False)
    assert broker.blocked is None


AMBIGUOUS = "^((?!x)a|a|aa)+$"
"""A look-ahead, which only an engine that backtracks knows, and ways without end."""


def test_a_pattern_may_not_hold_the_gateway(house: House) -> None:
    access = house.broker.access
    access.add_user("ann", "pw")
    with refused(Condition.PRECONDITION_FAILED, "could take too long"):
        access.set_permissions("ann", "/", "", "", AMBIGUOUS)
    with refused(Condition.PRECONDITION_FAILED, "more than 4096 characters"):
        access.set_permissions("ann", "/", "", "x" * 5000, "")
    assert access.permissions_of("ann") == []
    many = "|".join(f"queue-{number}" for number in range(300))
    access.set_permissions("ann", "/", f"^({many})$", "", "")
    assert access.allows("ann", "/", "configure", "queue-299")
    # Backtracking tries 2 ** 200 ways here; an engine in linear time answers, or it is refused.
    try:
        access.set_permissions("ann", "/", "", "", "(a+)+$")
    except Refusal:
        return
    assert not access.allows("ann", "/", "read", "a" * 200 + "!")
    assert access.allows("ann", "/", "read", "a" * 200)


def test_a_kept_pattern_that_could_take_too_long_permits_nothing(house: House) -> None:
    access = house.broker.access
    access.add_user("ann", "pw")
    value = {"configure": ".*", "write": "", "read": AMBIGUOUS}
    house.store.save("permission", ("ann", "/"), value)
    access.reload(house.store.records("user", "permission"))
    assert access.allows("ann", "/", "configure", "a" * 200)
    assert not access.allows("ann", "/", "read", "a" * 200 + "!")
    assert not access.allows("ann", "/", "read", "a")


def test_a_long_name_costs_no_more_than_the_longest_there_is(house: House) -> None:
    asked: list[int] = []
    access = house.broker.access
    access.add_user("ann", "pw")
    access.set_permissions("ann", "/", "", "", "[a-z]+-[0-9]+!")

    def ask(name: str) -> bool:
        asked.append(len(name))
        return False

    access._patterns["[a-z]+-[0-9]+!"] = ask
    access.allows("ann", "/", "read", "a" * 100_000)
    assert asked == [256]


@pytest.mark.parametrize(
    ("vhost", "hint"),
    [("", "the URL ends with a slash"), ("%2F", "write /%2F once"), ("shop", "shop not found")],
)
def test_virtual_hosts_that_urls_make(house: House, vhost: str, hint: str) -> None:
    with refused(Condition.NOT_ALLOWED, hint, Lost.CONNECTION):
        house.broker.attach(vhost, "guest", "a test")
