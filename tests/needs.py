"""Packages that `[test]` does not bring: tests that import one skip without it."""

import warnings
from typing import Any

import pytest


def package(name: str, module: str) -> Any:
    """The imported module; skips the importing test file, with the reason, where it is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of while they are imported
        reason = f"{name} is not installed: run tests/interop/install-peers"
        return pytest.importorskip(module, reason=reason)
