"""How many examples property tests draw: an eighth by default, all with ``THOROUGH=1``, and with a
share such as ``THOROUGH=0.25`` so many of them, as CI does within its time."""

import os

SHARE = float(os.environ.get("THOROUGH") or 0)
THOROUGH = SHARE > 0
FEW = 1 / 8
LEAST = 5


def examples(most: int, least: int = LEAST) -> int:
    """The number of examples, or of rounds with random data, out of ``most``. A test that does not
    call this itself, but uses a constant made by it, needs the mark ``thorough``."""
    return min(most, max(least, int(most * (SHARE or FEW))))
