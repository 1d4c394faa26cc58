"""The file of an inventory: read at the start, and written whole beside the old one, whose place it
takes, so that a power cut leaves one of both."""

import asyncio
import json
import os
import time
from pathlib import Path

from gateway.inventory.inventory import BOUNDS, Bounds, Inventory, InventoryError

SLICE_SECONDS = 0.005


def load(path: Path, bounds: Bounds = BOUNDS) -> Inventory:
    """The inventory in a file. Raises ``InventoryError``."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InventoryError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InventoryError(f"{path}: not valid JSON: {error}") from None
    try:
        return Inventory.read(data, bounds)
    except InventoryError as error:
        raise InventoryError(f"{path}: {error}") from None


def load_or_begin(path: Path, upstream: str, now: float) -> Inventory:
    """The inventory in a file, or a new one. Raises ``InventoryError``, also for the inventory of
    another broker."""
    if path.exists():
        found = load(path)
        if found.upstream != upstream:
            raise InventoryError(f"{path} is the inventory of {found.upstream}, not of {upstream}")
        return found
    made = Inventory(upstream)
    made.started = now
    return made


async def save(inventory: Inventory, path: Path) -> None:
    """Write the inventory. The loop is held a few milliseconds at a time; the file is written on a
    thread. Raises ``OSError``."""
    texts = []
    end = time.perf_counter() + SLICE_SECONDS
    for piece in inventory.pieces():
        texts.append(piece)
        if time.perf_counter() > end:
            await asyncio.sleep(0)
            end = time.perf_counter() + SLICE_SECONDS
    await asyncio.to_thread(_write, path, texts)


def _write(path: Path, texts: list[str]) -> None:
    beside = path.with_name(f".{path.name}.new")
    # Names of users, hosts and queues are for the owner alone.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.writelines(texts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
