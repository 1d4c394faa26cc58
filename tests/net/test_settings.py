"""Settings that peers see, over a real gateway."""

from pathlib import Path

import pytest

from gateway.adapters.performatives.wire import layouts as w
from tests.net.running import Running
from tests.net.wire_1_0 import Wire10


def attached(wire: Wire10, sends: bool) -> str | None:
    """Why a link to a name that is nothing yet is refused; ``None``: it is not."""
    if sends:
        wire.sender(1, "newcomer", wait=False)
    else:
        wire.receiver(1, "newcomer", 1, wait=False)
    attach = wire.heard_among(w.Attach)
    end = attach.target if sends else attach.source
    if end is not None:
        return None
    detach = wire.heard_among(w.Detach)
    assert detach.closed and detach.error is not None
    return str(detach.error.condition)


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("create", ["", "false", "true"])
def test_create_queues(tmp_path: Path, create: str, sends: bool) -> None:
    """``amqp.create_queues``: a plain name that is nothing yet makes a queue, or is refused."""
    settings = {"amqp__create_queues": create} if create else {}
    with Running(tmp_path, **settings) as gateway:
        wire = gateway.wire_1_0()
        refused = attached(wire, sends)
        assert refused == ("amqp:not-found" if create == "false" else None)
        assert gateway.queues() == (set() if create == "false" else {"newcomer"})
        wire.ended()
