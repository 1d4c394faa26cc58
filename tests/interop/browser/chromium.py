"""Debian's Chromium driven by Playwright, whose wheel brings its driver but no browser."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.servers import INSTALL

PROGRAM = "chromium"
USER = {"username": "guest", "password": "guest"}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
"""For one step in a page on a busy machine."""


def missing() -> str | None:
    """Why there is no browser to test with, or None."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed; {INSTALL} (apt-get install {PROGRAM})"
    if importlib.util.find_spec("playwright") is None:
        return f"playwright is not installed; {INSTALL} (pip install playwright)"
    return None


@contextmanager
def browser(profile: Path, **options: Any) -> Iterator[Any]:
    """A browser context with a new profile; it answers challenges with our credentials."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            profile,
            executable_path=shutil.which(PROGRAM),
            headless=True,
            args=FLAGS,
            timeout=2 * PATIENCE_MS,
            **{"http_credentials": USER, **options},
        )
        context.set_default_timeout(PATIENCE_MS)
        try:
            yield context
        finally:
            context.close()
