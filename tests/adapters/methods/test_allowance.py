"""How many values a table may hold that a peer sends: the first too many ends the reading."""

import math
from collections.abc import Callable

import pytest

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods import essentials
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.drafts import types as drafts
from gateway.adapters.methods.tags import ALLOWANCE, TooManyValues
from gateway.adapters.methods.types import write_table
from gateway.adapters.methods.wire import layouts as w
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import DeclareQueue, Publish, SessionLost
from tests.adapters.methods.closes import PUBLISH, channel_dies, connection_dies
from tests.adapters.methods.drafts.talking import VERSIONS as DRAFTS
from tests.adapters.methods.drafts.talking import Both
from tests.pair import VERSIONS
from tests.talk import Talk, header

FILLED: dict[str, Callable[[int], bytes]] = {
    "entries": lambda count: b"\0V" * count,
    "items": lambda count: b"\x01aA" + count.to_bytes(4) + b"V" * count,
    "tables": lambda count: b"\0F\0\0\0\0" * count,
    "arrays": lambda count: b"\x01aA" + (5 * count).to_bytes(4) + b"A\0\0\0\0" * count,
    "tables of sixteen": lambda count: (b"\0F\0\0\0\x20" + b"\0V" * 16) * (count // 16),
}


def properties(entries: bytes) -> bytes:
    return b"\x20\0" + len(entries).to_bytes(4) + entries


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each value that is stepped over."""
    found: list[int] = []
    before = essentials.check_value

    def counted(buf: bytes, at: int, end: int, depth: int) -> int:
        found.append(at)
        return before(buf, at, end, depth)

    monkeypatch.setattr(essentials, "check_value", counted)
    monkeypatch.setattr(drafts, "check_value", counted)
    return found


@pytest.mark.parametrize("kind", FILLED)
def test_no_more_are_looked_at_than_a_message_may_hold(kind: str, looked: list[int]) -> None:
    for count in (MOST_VALUES + 32, 12 * MOST_VALUES):
        looked.clear()
        raw = properties(FILLED[kind](count))
        with pytest.raises(TooManyValues):
            essentials.arrived(raw)
        assert len(looked) <= 2 * MOST_VALUES
        assert ALLOWANCE.left == math.inf
        with pytest.raises(TooManyValues):
            essentials.count_arguments(FILLED[kind](count))
        for first in (True, False):
            with pytest.raises(TooManyValues):
                drafts.read_arguments(FILLED[kind](count), first)
    assert essentials.arrived(properties(FILLED[kind](MOST_VALUES // 2))).has_headers
    # Messages accepted before are read without a bound.
    assert BASIC.essentials(properties(FILLED[kind](2 * MOST_VALUES))).has_headers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", FILLED)
def test_a_message_with_too_many_costs_its_channel(version: str, kind: str) -> None:
    raw = properties(FILLED[kind](MOST_VALUES + 32))
    talk = Talk(version).opened(1)
    talk.says(1, PUBLISH)
    channel_dies(talk, talk.sends(header(1, 0, raw)), 311, Condition.CONTENT_TOO_LARGE)
    few = properties(FILLED[kind](MOST_VALUES // 2))
    talk = Talk(version).opened(1)
    talk.says(1, PUBLISH)
    (published,) = talk.sends(header(1, 0, few))
    assert isinstance(published, Publish) and published.message.header == few


@pytest.mark.parametrize("version", VERSIONS)
def test_arguments_with_too_many_cost_the_connection(version: str) -> None:
    """506: the server lacks the resources for it (0-9-1 §1.2, a connection exception)."""
    talk = Talk(version).opened(1)
    few = write_table({f"x-{each}": True for each in range(100)})
    (declared,) = talk.says(1, w.QueueDeclare(queue="q", arguments=few))
    assert isinstance(declared, DeclareQueue) and len(declared.arguments) == 100
    many = FILLED["entries"](MOST_VALUES + 1)
    words = talk.says(1, w.QueueDeclare(queue="q", arguments=many))
    connection_dies(talk, words, 506, Condition.RESOURCE_ERROR)


@pytest.mark.parametrize("version", DRAFTS)
def test_a_message_of_a_draft_with_too_many_costs_its_channel(version: str) -> None:
    both = Both(version).opened()
    for count, refused in ((MOST_VALUES // 2, False), (MOST_VALUES + 32, True)):
        table = {"x": [True] * count}
        raw = BASIC.write(Properties(application=table))
        message = Message(BASIC, raw, b"", "", "q", BASIC.essentials(raw))
        both.client.send(Publish(1, message, False, False))
        both.run()
        lost = [each for each in both.asked if isinstance(each, SessionLost)]
        assert bool(lost) is refused
        if lost:
            assert lost[0].condition is Condition.CONTENT_TOO_LARGE
        else:
            assert any(isinstance(each, Publish) for each in both.asked)
