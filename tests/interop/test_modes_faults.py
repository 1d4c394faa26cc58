"""RabbitMQ, Artemis or the gateway fails in the middle of a change from the one to the other."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.bridge import faults
from tests.bridge.relay import Relay
from tests.bridge.test_modes import between
from tests.bridge.test_modes_faults import CHANGES, SHARES, Change, Front, survive
from tests.interop import brokers, servers
from tests.interop.test_shovel_faults import Restarted, lacks_memory, needs

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]


KILLED = ("the gateway is killed", "Artemis is killed", "RabbitMQ is killed")


def fail(
    folder: Path,
    count: int,
    seed: int,
    kinds: Collection[str] = (),
    changes: list[Change] = CHANGES,
) -> None:
    needs(servers.rabbitmq_missing(), brokers.artemis_missing())
    with contextlib.ExitStack() as stack:
        old = Restarted(lambda port: servers.start_rabbitmq(folder / "rabbitmq", port=port))
        stack.callback(old.kill)
        new = Restarted(lambda port: brokers.start_artemis(folder / "artemis", port=port))
        stack.callback(new.kill)
        near, far = (stack.enter_context(Relay(one.port)) for one in (old, new))
        front = Front(stack.enter_context(between(folder / "front", near.port, far.port)))
        known = {
            "the gateway is killed": faults.kills(front),
            "Artemis is killed": faults.kills(new, far),
            "RabbitMQ is killed": faults.kills(old, near),
            "Artemis is cut off": faults.cuts(far),
            "Artemis is far away": faults.delays(far),
            "RabbitMQ has no memory": lacks_memory(old),
        }
        survive(front, {one: known[one] for one in kinds or known}, count, seed, changes)


def test_changes_of_mode_with_faults(tmp_path: Path) -> None:
    fail(tmp_path, 3, 5, KILLED)


@pytest.mark.long  # without peers it is among the short ones (tests/bridge)
def test_changes_of_shares_with_faults(tmp_path: Path) -> None:
    fail(tmp_path, 3, 5, KILLED, SHARES)


@pytest.mark.long
@pytest.mark.parametrize("changes", [CHANGES, SHARES], ids=["modes", "shares"])
def test_many_changes_of_mode_with_faults(tmp_path: Path, changes: list[Change]) -> None:
    fail(tmp_path, 60, 6, changes=changes)
