"""How many examples property tests draw: few by default, all with ``THOROUGH=1``, as CI does."""

import os

THOROUGH = os.environ.get("THOROUGH", "") not in ("", "0")
PART = 8
LEAST = 5


def examples(most: int) -> int:
    """The number of examples, or of rounds with random data, out of ``most``."""
    return most if THOROUGH else min(most, max(LEAST, most // PART))
