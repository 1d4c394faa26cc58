"""A gateway that says in its log how many objects each garbage collection after its start looks
at."""

import gc
import sys
from typing import Any

from gateway.__main__ import main

COUNTED = "objects looked at: "


def look(phase: str, info: dict[str, Any]) -> None:
    if phase == "start":
        young = sum(len(gc.get_objects(age)) for age in range(info["generation"] + 1))
        sys.stdout.write(f"{COUNTED}{young}\n")
        sys.stdout.flush()


def freeze(real: Any = gc.freeze) -> None:
    """The last that the gateway does before it is ready."""
    real()
    gc.callbacks.append(look)


if __name__ == "__main__":
    gc.freeze = freeze
    main()
