"""Random faults at both ends of a shovel, of the network between, and of the gateway itself:
nothing that the source has confirmed is lost."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge import faults, moving
from tests.bridge.faults import SOURCE, TARGET, Fault, Traffic
from tests.bridge.relay import Relay
from tests.net.running import Running, until


class House:
    """A source, a target, the relays before them, and the gateway with the shovel between."""

    def __init__(
        self, stack: contextlib.ExitStack, folder: Path, versions: tuple[str, str]
    ) -> None:
        self.source = stack.enter_context(Running(folder / "source"))
        self.target = stack.enter_context(Running(folder / "target"))
        for broker in (self.source, self.target):
            faults.permit(broker)
        moving.declare(self.source, SOURCE)
        faults.limited(self.target.port)
        self.before_source = stack.enter_context(Relay(self.source.port))
        self.before_target = stack.enter_context(Relay(self.target.port))
        file = faults.configured(
            folder / "bridge", self.before_source, self.before_target, versions, "mover", TARGET
        )
        self.bridge = stack.enter_context(Running(folder / "bridge", "--config", file))
        self.traffic = stack.enter_context(Traffic(self.source, faults.taking(self.target)))

    def faults(self) -> dict[str, Fault]:
        return {
            "the gateway is killed": faults.kills(self.bridge),
            "the source is killed": faults.kills(self.source, self.before_source),
            "the target is killed": faults.kills(self.target, self.before_target),
            "the source is cut off": faults.cuts(self.before_source),
            "the target is cut off": faults.cuts(self.before_target),
            "the source is far away": faults.delays(self.before_source),
            "the target is far away": faults.delays(self.before_target),
            "the target is full": faults.slows(self.traffic, 0.5),
            "the target is slow": faults.slows(self.traffic, 0.01),
            "other password at the source": faults.forgets(self.source, self.before_source),
            "other password at the target": faults.forgets(self.target, self.before_target),
        }


@pytest.fixture
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        yield House(stack, tmp_path, request.param)


def survive(house: House, count: int, seed: int) -> None:
    faults.survive(house.faults(), house.traffic, house.bridge, count, seed)
    until(lambda: moving.empty(house.source, SOURCE), "the source is settled")


@pytest.mark.parametrize("house", [("0-9-1", "1.0")], indirect=True)
def test_nothing_is_lost_by_a_few_faults(house: House) -> None:
    survive(house, 5, 3)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "house", [("0-9-1", "1.0"), ("0-10", "0-9-1"), ("1.0", "0-10")], indirect=True
)
def test_nothing_is_lost_by_a_hundred_faults(house: House) -> None:
    survive(house, 110, 11)
