"""The process that ``test_kill`` kills: says what it will do, does it, says that it is done."""

import random
import sys

from gateway.store import SqliteStore
from tests.store.samples import message


def main(directory: str, seed: str) -> None:
    chance = random.Random(seed)
    store = SqliteStore(directory)
    found = {queue: [k.position for k in store.read(queue, 0, 10**6)] for queue in (1, 2)}
    following = 1 + max((max(held) for held in found.values() if held), default=0)
    say = sys.stdout.write
    say(f"start {following}\n")
    while True:
        added, removed = [], []
        for _ in range(chance.choice([1, 5, 60])):
            # the position is in the body; even ones go to both queues, large ones are shared
            sent = message(b"%d " % following * chance.choice([1, 500]))
            for queue in (1, 2)[: 1 + (following % 2 == 0)]:
                store.append(queue, following, sent, None, True)
                added.append((queue, following))
            following += 1
        for queue, held in found.items():
            for _ in range(chance.randrange(min(len(held), 60) + 1)):
                position = held.pop(chance.randrange(len(held)))
                store.remove(queue, position)
                removed.append((queue, position))
        for queue, position in added:
            found[queue].append(position)
        say(f"try {added!r}; {removed!r}\n")
        sys.stdout.flush()
        batch = store.take()
        assert batch is not None
        store.write(batch)
        say("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
