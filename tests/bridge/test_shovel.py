"""A shovel whose ends misbehave."""

import asyncio
from typing import Any, NoReturn

from gateway.bridge.ends import Ends
from gateway.bridge.shovel import Shovel
from gateway.config.bridge import ShovelDestination, ShovelSettings, ShovelSource


def test_an_unforeseen_error_does_not_end_a_shovel() -> None:
    """It is shown, and the ends are opened again."""
    opened: list[None] = []
    again = asyncio.Event()

    async def destination(report: Any) -> NoReturn:
        opened.append(None)
        if len(opened) == 2:
            again.set()
        raise KeyError("unforeseen")

    async def run() -> None:
        settings = ShovelSettings(
            name="a", source=ShovelSource(queue="q"), destination=ShovelDestination(queue="r")
        )
        shovel = Shovel(settings, Ends(destination, destination, destination))  # type: ignore[arg-type]
        task = asyncio.create_task(shovel.run())
        await asyncio.wait_for(again.wait(), 60)
        assert "unforeseen" in shovel.info().error
        assert not task.done()
        task.cancel()

    asyncio.run(run())
