"""A gateway whose store has a bug: a batch with a certain body brings its thread down."""

from typing import Any

from gateway import __main__ as command
from gateway.store.writer import Writer

POISON = b"poison"

write = Writer.write


def broken(self: Writer, batch: Any) -> None:
    for puts in batch.puts.values():
        for put in puts.values():
            if put[0].body == POISON:
                raise TypeError("a bug of the writer's")
    write(self, batch)


if __name__ == "__main__":
    Writer.write = broken  # type: ignore[method-assign]
    command.main()
