"""A gateway that never collects garbage and counts its objects: run as a program by tests.

``SIGUSR1`` makes it write how many objects there are of each type, as JSON, to the file named by
``COUNTING``; what is in reference cycles is counted too, as nobody frees it here.
"""

import gc
import json
import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

from gateway.__main__ import cli


def written(number: int, frame: FrameType | None) -> None:
    """Count, and write the file in one step."""
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    target = Path(os.environ["COUNTING"])
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps(found))
    draft.rename(target)


if __name__ == "__main__":
    gc.disable()
    gc.collect = lambda generation=2: 0
    gc.freeze = lambda: None
    signal.signal(signal.SIGUSR1, written)
    cli()
