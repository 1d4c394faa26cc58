"""The tables of states are closed, and a channel takes every step they name and no other."""

import pytest

from gateway.adapters import Role, adapter_for
from gateway.adapters.methods import states
from gateway.adapters.methods.channel import Channel
from gateway.errors import PeerError
from tests.pair import VERSIONS

WORDS = sorted({word for steps in states.CHANNEL.values() for word in steps})


@pytest.mark.parametrize("table", [states.CONNECTION, states.CHANNEL])
def test_every_state_can_be_left_and_reached(table: dict[str, dict[str, str]]) -> None:
    reached = {state for steps in table.values() for state in steps.values()}
    assert reached <= table.keys()
    assert table.keys() - reached <= {states.HEADER, states.CLOSED, states.CLOSING}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", list(states.CHANNEL))
@pytest.mark.parametrize("word", WORDS)
def test_channels_follow_the_table(version: str, state: str, word: str) -> None:
    channel = Channel(1, adapter_for(version, Role.SERVER))  # type: ignore[arg-type]
    channel.state = state
    expected = states.after(states.CHANNEL, state, word)
    if expected is None:
        with pytest.raises(PeerError):
            channel.move(word)
    else:
        channel.move(word)
        assert channel.state is expected
        assert channel.ready == (expected is states.OPEN)
