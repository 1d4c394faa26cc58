"""Attempts of work that needs other brokers, and pauses between them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.errors import GatewayError
from gateway.net.pauses import Pauses

log = logging.getLogger("gateway.bridge")


async def attempt(name: str, work: Awaitable[None], failed: Callable[[str], None]) -> None:
    """Do some work; ``failed`` is told why it has ended. ``name`` is for the log. An internal error
    is a failure too: the rest of the work must not be left undone for ever."""
    try:
        await work
    except (OSError, GatewayError) as error:
        failed(str(error) or type(error).__name__)
    except Exception as error:
        log.exception("%s: internal error", name)
        failed(f"internal error: {error!r}")


async def keep_attempting(
    name: str,
    work: Callable[[], Awaitable[None]],
    failed: Callable[[str], None],
    done: Callable[[], int],
    pauses: Pauses,
) -> None:
    """Attempt some work until cancelled. ``done``: how much was done, in all; the pauses begin
    anew after an attempt in which that has risen."""
    while True:
        before = done()
        await attempt(name, work(), failed)
        if done() > before:
            pauses.reset()
        await asyncio.sleep(pauses.next())
