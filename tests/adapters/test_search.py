"""The search for a server's version: first octets of ours and of recorded servers, cut anywhere."""

from collections.abc import Iterator

import pytest

from gateway.adapters import Adapter, Credentials, Role, adapter_for
from gateway.adapters.registry import PREFERRED, header_meanings, sharing
from gateway.adapters.search import Answer, Search, answer_of
from gateway.errors import Condition, Refusal
from tests.adapters.commands import recorded as commands
from tests.adapters.methods.drafts import recorded as drafts
from tests.adapters.methods.transitional import recorded as transitional
from tests.adapters.segments import recorded as segments
from tests.adapters.test_vectors import FILES, turns
from tests.pair import Users

HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
SHARED_0_9 = sharing("0-9")
SHARED_0_10 = sharing("0-10")


def client(version: str, mechanism: str = "PLAIN") -> Adapter:
    return adapter_for(version, Role.CLIENT, credentials=Credentials(mechanism=mechanism))


def search(*versions: str) -> Search:
    return Search(versions, client)


def served(version: str, header: bytes) -> bytes:
    """The first words of our own server role."""
    server = adapter_for(version, Role.SERVER, authority=Users())
    server.receive(header)
    return b"".join(server.output())


def heard(octets: bytes, asked: str) -> Answer | None:
    """The answer, which comes once and does not change, however the octets are cut."""
    found = [answer_of(octets[:at], asked) for at in range(len(octets) + 1)]
    told = [answer for answer in found if answer is not None]
    assert found[: len(found) - len(told)] == [None] * (len(found) - len(told))
    assert len(set(told)) <= 1
    return told[0] if told else None


@pytest.mark.parametrize("version", PREFERRED)
def test_our_own_server(version: str) -> None:
    looking = search(*sharing(version))
    header = looking.begin()
    octets = served(version, header)
    found = next(filter(None, (looking.hear(octets[:at]) for at in range(1, len(octets) + 1))))
    assert found.version == version and not looking.more
    assert found.output() == [], "the header is said"
    found.receive(octets)
    assert found.output() and not found.closing, "it answers"
    assert all(heard(octets, asked) == Answer(version) for asked in sharing(version))


@pytest.mark.parametrize(
    ("octets", "version"),
    [
        # Tags, flags and a revision as other servers may send them.
        ("0100 0013 01 01 00 00 00000009 00 09 05 504c41494e 0000", "0-9a0"),
        ("0100 0010 01 01 00 f0 00090009 00 09 05 504c41494e", "0-9a0"),
        ("0100 0010 01 01 10 00 000900ff 00 09 05 504c41494e", "0-9a0"),
        ("0100 000f 01 01 00 00000009 00 09 05 504c41494e", "0-9a0-7"),
        ("0100 000f 01 01 f0 00090009 00 09 05 504c41494e", "0-9a0-7"),
        ("0100 0100 01 01 00 ffffffff 00 09 f6", "0-9a0-7"),
        ("01ff 0000 00000019 0001 0001 0009", "0-9a6"),
        ("0100 0000 000000ce 0001 0001 0009", "0-9a6"),
        ("01 0000 00010101 000a 000a 0009", "0-9"),
        ("01 0000 000000ce 000a 000a 0800", "0-9"),
        ("09 0000 000000ce 0000000000000001 0000000000000000 00000000 000a 000a", "0-10-07-24"),
        ("09 0000 00010101 ffffffffffffffff 0000000000000007 00000009 000a 000a", "0-10-07-24"),
        ("01 0000 000000ce 000a 000a 000a", "0-10-07-27"),
    ],
)
def test_layouts_of_connection_start(octets: str, version: str) -> None:
    asked = SHARED_0_10[0] if version in SHARED_0_10 else "0-9"
    assert heard(bytes.fromhex(octets), asked) == Answer(version)


def recorded() -> Iterator[tuple[str, bytes]]:
    """Every recording's first words of a server, and the version in which it was asked."""
    for path in FILES:
        yield path.parent.name, next(octets for mark, octets in turns(path) if mark == ">")
    for name in drafts.NAMES:
        yield "0-9a6", drafts.octets(name, False)
    for name in transitional.NAMES:
        yield transitional.version_of(name), transitional.octets(name, False)
    for name in segments.NAMES:
        yield "0-10", next(each.octets for each in segments.frames(name) if not each.from_client)
    for path in sorted(commands.FOLDER.glob("*.txt")):
        lines = [line for line in commands.read(path.stem) if line.connection == "A"]
        yield "0.8a2", b"".join(line.octets for line in lines if not line.from_client)


def test_recorded_servers() -> None:
    seen = set()
    for version, octets in recorded():
        if octets[2:3] == b"\x0a" or version != "0.8a2":
            asked = sharing(version)[0]
            assert heard(octets[:64], asked) == Answer(version)
            seen.add(version)
    assert seen == {"0-8", "0-9", "0-9-1", "0-9a6", "0.8a2", *SHARED_0_10}


@pytest.mark.parametrize("mechanism", ["PLAIN", ""])
def test_layers_of_1_0_are_left_to_its_engine(mechanism: str) -> None:
    """A server that wants another layer speaks 1.0 all the same."""
    for answer in (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"):
        looking = Search(["1.0"], lambda name: client(name, mechanism))
        looking.begin()
        adapter = looking.hear(answer)
        assert adapter is not None and adapter.version == "1.0"
    assert answer_of(b"AMQP\x02\x01\x00\x00", "1.0") == Answer(header=b"AMQP\x02\x01\x00\x00")


# --- one connection after another -----------------------------------------------------------------


def opened(looking: Search) -> str:
    """What the next connection asks for."""
    octets = looking.begin()
    assert octets in (*header_meanings().versions, b"\x80\x01")
    return looking.asking


def test_the_header_that_the_server_likes_is_next() -> None:
    looking = search(*PREFERRED)
    assert opened(looking) == "0-9-1"
    with pytest.raises(Refusal):
        looking.hear(b"AMQP\x01\x01\x08\x00")
    assert looking.more and opened(looking) == "0-8"
    found = looking.hear(served("0-8", b"AMQP\x01\x01\x08\x00"))
    assert found is not None and found.version == "0-8"


@pytest.mark.parametrize("version", [name for name in PREFERRED if name not in SHARED_0_10])
def test_a_broker_of_24_july_2007_refuses_no_header(version: str) -> None:
    """Its first frame tells what it speaks, and its own header is next."""
    looking = search(version, *(name for name in PREFERRED if name != version))
    looking.begin()
    octets = served("0-10-07-24", b"AMQP\x01\x01\x00\x0a")
    assert heard(octets, version) == Answer("0-10-07-24")
    with pytest.raises(Refusal, match="it speaks 0-10-07-24"):
        looking.hear(octets)
    assert looking.begin() == b"AMQP\x01\x01\x00\x0a"
    found = looking.hear(octets)
    assert found is not None and found.version == "0-10-07-24"


def test_a_layer_of_1_0_is_1_0() -> None:
    looking = search("0-9-1", "0-8", "1.0")
    looking.begin()
    with pytest.raises(Refusal):
        looking.hear(b"AMQP\x00\x01\x00\x00")
    assert opened(looking) == "1.0"


def test_a_header_that_is_not_ours_leads_to_the_next_of_ours() -> None:
    looking = search("1.0", "0-9", "0-9a6", "0-8")
    order = []
    for answer in (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x0a", b"AMQP\x01\x01\x00\x09"):
        order.append(opened(looking))
        with pytest.raises(Refusal) as caught:
            looking.hear(answer)
    assert order == ["1.0", "0-9 or 0-9a6", "0-8"] and not looking.more
    assert caught.value.condition is Condition.NOT_IMPLEMENTED
    assert caught.value.text == (
        "the server does not speak 1.0 (it answers AMQP 0 0 9 1), "
        "nor 0-9 or 0-9a6 (it answers AMQP 1 1 0 10), nor 0-8 (it answers AMQP 1 1 0 9)"
    )


def test_each_header_once() -> None:
    """Whatever a server answers, the search comes to an end."""
    looking = search(*PREFERRED)
    begun = []
    while looking.more:
        begun.append(looking.begin())
        with pytest.raises(Refusal):
            looking.hear(b"AMQP\x00\x00\x09\x01")
    assert len(begun) == len(set(begun)) == 6
    assert begun[-2:] == [b"AMQP\x01\x01\x00\x0a", b"\x80\x01"]


def test_a_server_that_hangs_up_may_come_back() -> None:
    looking = search("0-9a0", "0-9-1")
    looking.begin()
    first = looking.hung_up(b"")
    looking.begin()
    last = looking.hung_up(b"\x01\0")
    assert first.condition is last.condition is Condition.CONNECTION_FORCED
    assert "0-9a0 (it hangs up without a word)" in last.text
    assert "nor 0-9-1 (it hangs up after 01 00)" in last.text


def test_a_version_that_was_not_asked_for() -> None:
    for wished in (["0-9"], ["0-9a0"], ["0-9a0-7", "0-9a6"]):
        looking = search(*wished)
        looking.begin()
        spoken = "0-9a6" if "0-9a6" not in wished else "0-9a0"
        with pytest.raises(Refusal, match=rf"speaks {spoken}") as caught:
            looking.hear(served(spoken, HEADER_0_9))
        assert caught.value.condition is Condition.NOT_IMPLEMENTED


@pytest.mark.parametrize(
    ("octets", "shown"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "'HTTP/1.1 400 Bad Request'"),
        (b"SSH-2.0-OpenSSH_9\r\n", "'SSH-2.0-OpenSSH_9'"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it answers in TLS"),
        (b"\x01\x00\x00\x00\xff\xff\xff\xff", "01 00 00 00 ff"),
        (b"\x08\0\0\0\0\0\0\xce", "this is no AMQP"),
        (b"AMQ!", "'AMQ!'"),
    ],
)
@pytest.mark.parametrize("version", PREFERRED)
def test_other_protocols_end_the_search(octets: bytes, shown: str, version: str) -> None:
    looking = search(version, *(name for name in PREFERRED if name != version))
    looking.begin()
    with pytest.raises(Refusal) as caught:
        looking.hear(octets)
    assert caught.value.condition is Condition.NOT_IMPLEMENTED
    assert shown in caught.value.text and not looking.more
