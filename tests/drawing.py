"""How many examples property tests draw: few by default, all with ``THOROUGH=1``, as CI does."""

import os

THOROUGH = os.environ.get("THOROUGH", "") not in ("", "0")
PART = 8
LEAST = 5


def examples(most: int, least: int = LEAST) -> int:
    """The number of examples, or of rounds with random data, out of ``most``. A test that does not
    call this itself, but uses a constant made by it, needs the mark ``thorough``."""
    return most if THOROUGH else min(most, max(least, most // PART))
