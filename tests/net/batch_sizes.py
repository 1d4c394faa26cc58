"""A gateway that says in its log how many messages each batch of its store has."""

import sys
from typing import Any

from gateway import __main__ as command
from gateway.store.writer import Writer

write = Writer.write


def counted(self: Writer, batch: Any) -> None:
    sys.stdout.write(f"batch of {sum(map(len, batch.puts.values()))}\n")
    sys.stdout.flush()
    write(self, batch)


if __name__ == "__main__":
    Writer.write = counted  # type: ignore[method-assign]
    command.main()
