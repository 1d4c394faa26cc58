"""Octets of a conversation, decoded by a tap without any socket."""

import asyncio

from gateway.inventory.inventory import BOUNDS, Bounds, Inventory
from gateway.inventory.observer import Observer
from gateway.inventory.tap import Decoding, Tap

Pieces = list[tuple[bool, bytes]]
"""From the client or not, and octets."""


def replayed(pieces: Pieces, bounds: Bounds = BOUNDS) -> Inventory:
    """What a tap says about these octets."""
    inventory = Inventory("test", bounds)

    async def work() -> None:
        decoding = Decoding()
        observer = Observer(inventory, lambda: 1.0, "here", 1, False)
        one = Tap(observer, decoding)
        for from_client, data in pieces:
            one.add(from_client, data)
            while one.step():
                pass
        one.end()
        while one.step():
            pass

    asyncio.run(work())
    return inventory
