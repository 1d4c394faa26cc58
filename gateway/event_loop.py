"""How the programs of the gateway run: the event loop, and the garbage collector while it runs."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

COLLECTOR = (5_000, 5, 10_000)
"""Thresholds of the garbage collector. A collection stops the process: one of 100 000 new objects
took up to 45 ms, which delayed an import of definitions. The first two bound the number of objects
per young collection. Full collections are rare, since queues hold strings and bytes, which form no
cycles (DESIGN.md, "One process, one loop")."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


def hold_collector() -> None:
    """No collections until ``freeze``: what is imported and built at the start is there to stay."""
    gc.disable()


def freeze() -> None:
    """Leave present objects out of later collections, and set their thresholds. Nothing is
    collected before: at the end of the start 1800 of 250 000 objects are garbage, and to find them
    takes a tenth of the whole start."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR)
    gc.enable()
