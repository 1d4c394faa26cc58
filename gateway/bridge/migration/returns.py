"""Whether a source has taken back what was under way when a move was interrupted.

A source that has not noticed the end of the last connection delivers other messages first, which
would overtake those that it still holds for that connection.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing

from gateway.bridge.migration.identity import Identity, identify
from gateway.bridge.migration.recovery import Unfinished
from gateway.bridge.migration.sides import Side
from gateway.errors import GatewayError


async def is_back(side: Side, queue: str, unfinished: Sequence[Unfinished], most: int) -> bool:
    """Where a queue can be browsed, whether its first messages, no more than ``most``, have all
    that was not confirmed; elsewhere whether it has no consumer. True if the broker does not tell.
    Raises ``OSError``."""
    try:
        if await side.browses():
            sent = Counter(one.identity for one in unfinished if not one.settling)
            return await _has(side, queue, sent, most)
        return not await side.consumers(queue)
    except GatewayError:  # the user may move messages, and not browse
        return True


async def _has(side: Side, queue: str, wanted: Counter[Identity], most: int) -> bool:
    messages = side.browse(queue)
    async with aclosing(messages) as browsing:  # type: ignore[type-var]
        async for one in browsing:
            if not wanted or most == 0:
                break
            wanted -= Counter([identify(one.message)])
            most -= 1
    return not wanted
