"""Numbers of commands, and the sets of them that are complete.

Both sides number their commands with 32 bits that wrap around. Here a number only grows; its lower
32 bits are sent, and those of the peer are completed by the number that comes next. A set of the
peer costs a step per command that it still concerns, not per number.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from gateway.adapters.segments.types import Ranges

SERIALS = 0xFFFFFFFF
HALF = 1 << 31
FEW = 64
"""Numbers of commands that are gone which are not worth removing."""
OFTEN = 1000
"""Complete commands after which the peer is told without having asked."""
MOST_GAPS = 1000
"""Ranges in a set that we send. Later ranges are sent when these have grown together."""

Value = TypeVar("Value")


def unwrapped(ranges: Ranges | None, following: int) -> list[tuple[int, int]]:
    """Ranges of the peer, ascending and apart, in numbers that do not wrap around; those that never
    existed are left out. ``following``: the next number of these commands."""
    found = []
    for first, last in ranges or ():
        low = following - ((following - first) & SERIALS)
        high = min(low + ((last - first) & SERIALS), following - 1)
        if high >= 0 and low <= high:
            found.append((max(low, 0), high))
    if len(found) < 2:
        return found
    found.sort()
    apart = [found[0]]
    for low, high in found:
        first, last = apart[-1]
        if low > last:
            apart.append((low, high))
        elif high > last:
            apart[-1] = first, high
    return apart


def ranges_of(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """The set of these numbers, which are in ascending order."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return ((numbers[0] & SERIALS, numbers[-1] & SERIALS),)
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple((first & SERIALS, last & SERIALS) for first, last in found)


class ReceivedCommands:
    """The commands of the peer: everything below ``following`` that is not pending is complete."""

    __slots__ = (
        "following", "pending", "wanted", "repeated", "gaps", "_first", "_begun", "_syncs",
        "_completed",
    )  # fmt: skip

    def __init__(self, following: int = 0) -> None:
        self.following = following
        """The number of the next command."""
        self.pending: dict[int, None] = {}
        """Commands that are not complete, ascending."""
        self.wanted = following - 1
        """The peer wants to know when commands up to this one are complete."""
        self._first = following
        """The peer knows that the commands before it are complete."""
        self._syncs: deque[int] = deque()
        """Commands execution.sync that wait for earlier commands alone."""
        self._completed = 0
        """Commands completed since the peer was told."""
        self._begun: int | None = None
        self.repeated: int | None = None
        """The number of the next command, while the peer repeats commands that have come."""
        self.gaps: list[tuple[int, int]] = []
        """Commands to come that never will, ascending."""

    def next(self) -> int:
        """The number of a command that has come; it is pending."""
        number = self.following
        self.following = number + 1
        self.pending[number] = None
        return number

    def next_run(self, count: int) -> range:
        """The same of so many commands."""
        numbers = range(self.following, self.following + count)
        self.following += count
        self.pending.update(dict.fromkeys(numbers))
        return numbers

    @property
    def any(self) -> bool:
        """Whether a command has come, or is known not to come."""
        return self._begun is not None and self.following != self._begun

    @property
    def plain(self) -> bool:
        """The next command has the next number, and has not come before."""
        return self.repeated is None and not self.gaps

    def begin(self, following: int) -> None:
        """The first command has this number."""
        self.following = self._first = self._begun = following

    def point(self, serial: int) -> bool:
        """The peer continues with this number; commands that have come are repeated. False if
        commands are missing before it."""
        begun, back = self._begun, (self.following - serial) & SERIALS
        if begun is None:
            self.begin(serial)
        elif back >= HALF or self.following - back < begun:
            return False
        else:
            self.repeated = self.following - back if back else None
        return True

    def admit(self) -> bool:
        """A command has come while ``plain`` is false. Whether it is to be performed: it has not
        come before."""
        if self.repeated is not None:
            self.repeated += 1
            if self.repeated >= self.following:
                self.repeated = None
                self._pass_gaps()
            return False
        self._pass_gaps()
        return True

    def skip(self, ranges: Ranges | None) -> bool:
        """These never come (session.gap), and count as complete unless they have come. False if
        they are too many."""
        for first, last in ranges or ():
            count = ((last - first) & SERIALS) + 1
            ahead = (first - self.following) & SERIALS
            if ahead >= HALF:  # it begins with commands that have come
                past = SERIALS + 1 - ahead
                low = self.following - past
                if self.repeated is not None and low <= self.repeated < low + count:
                    self.repeated = low + count if count < past else None
                ahead, count = 0, count - past
            if count > 0:
                start = self.following + ahead
                self.gaps.append((start, start + count - 1))
        self.gaps.sort()
        if self.repeated is None:
            self._pass_gaps()
        return len(self.gaps) <= MOST_GAPS

    def _pass_gaps(self) -> None:
        gaps = self.gaps
        while gaps and gaps[0][0] <= self.following:
            self.following = max(self.following, gaps.pop(0)[1] + 1)

    def complete(self, *numbers: int) -> bool:
        """Commands are performed. Whether the peer is to be told: it wants to know, an
        execution.sync is reached, or there are many."""
        return self.complete_all(dict.fromkeys(numbers))

    def complete_all(self, numbers: Mapping[int, object]) -> bool:
        """The same of the keys, which ascend. Hot."""
        pending = self.pending
        if pending.keys() == numbers.keys():
            pending.clear()
        else:
            for number in numbers:
                pending.pop(number, None)
        due = next(iter(numbers), self.following) <= self.wanted
        syncs = self._syncs
        while syncs and self.oldest == syncs[0]:
            del pending[syncs.popleft()]
            due = True
        self._completed += len(numbers)
        if due or self._completed >= OFTEN:
            self._completed = 0
            return True
        return False

    def synchronized(self, number: int) -> bool:
        """An execution.sync has come: it is complete when no earlier command is pending. Returns as
        ``complete``."""
        self.wanted = max(self.wanted, number)
        if self.oldest == number:
            return self.complete(number)
        self._syncs.append(number)
        return False

    @property
    def oldest(self) -> int:
        """The first command that is not complete, or the next one."""
        return next(iter(self.pending), self.following)

    def complete_ranges(self) -> Ranges:
        """The complete commands of which the peer does not know it yet, as they are sent."""
        found: list[tuple[int, int]] = []
        first = self._first
        for number in self.pending:
            if number > first:
                found.append((first & SERIALS, (number - 1) & SERIALS))
                if len(found) == MOST_GAPS:
                    return tuple(found)
            first = max(first, number + 1)
        if self.following > first:
            found.append((first & SERIALS, (self.following - 1) & SERIALS))
        return tuple(found)

    def known(self, ranges: Ranges | None) -> None:
        """The peer knows that these are complete (session.known-completed)."""
        for low, high in unwrapped(ranges, self.following):
            if low <= self._first <= high:
                self._first = min(high + 1, self.oldest)


class SentCommands(Generic[Value]):
    """Commands of ours that are still of interest, each with a value, by their numbers.

    The number of one that is gone stays in the list of numbers until a range passes it, or until
    most of them are gone: no range costs more than the commands that it has to pass once."""

    __slots__ = ("_values", "_numbers")

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> Iterable[Value]:
        """The values, in the order of their commands."""
        return self._values.values()

    def add(self, number: int, value: Value) -> None:
        """A command was sent, behind all others. Hot."""
        self._values[number] = value
        self._numbers.append(number)

    def restore(self, values: dict[int, Value]) -> None:
        """Commands that were taken are here again."""
        if values:
            self._values.update(values)
            self._numbers[:] = sorted(self._values)

    def look(self, ranges: list[tuple[int, int]]) -> dict[int, Value]:
        """Those in these ranges, which stay."""
        values, numbers = self._values, self._numbers
        found: dict[int, Value] = {}
        for first, last in ranges:
            low, high = bisect_left(numbers, first), bisect_right(numbers, last)
            found.update((each, values[each]) for each in numbers[low:high] if each in values)
        return found

    def take(self, ranges: list[tuple[int, int]]) -> dict[int, Value]:
        """Take out those in these ranges, which ``unwrapped`` gave."""
        found: dict[int, Value] = {}
        values, numbers = self._values, self._numbers
        passed: list[tuple[int, int]] = []
        for first, last in ranges:
            if first == last:
                value = values.pop(first, None)
                if value is not None:
                    found[first] = value
                continue
            low, high = bisect_left(numbers, first), bisect_right(numbers, last)
            for number in numbers[low:high]:
                value = values.pop(number, None)
                if value is not None:
                    found[number] = value
            if low < high:
                passed.append((low, high))
        if len(passed) == 1:
            ((low, high),) = passed
            del numbers[low:high]
        elif passed:
            kept: list[int] = []
            start = 0
            for low, high in passed:
                kept += numbers[start:low]
                start = high
            numbers[:start] = kept
        if len(numbers) > 2 * len(values) + FEW:
            numbers[:] = sorted(values)
        return found

    def clear(self) -> None:
        self._values.clear()
        self._numbers.clear()


Run = tuple[int, int, Value]
"""Commands with the same value, one behind the other: the first and the last number."""


class SentRuns(Generic[Value]):
    """As ``SentCommands``, for commands of which many in a row have one and the same value. They
    are kept as runs: ascending and apart."""

    __slots__ = ("_runs", "_number", "_value")

    def __init__(self) -> None:
        self._runs: list[Run[Value]] = []
        """Of the last one only where it begins is true."""
        self._number = -1
        """Of the last command."""
        self._value: Value | None = None

    def add(self, number: int, value: Value) -> None:
        """A command was sent, behind all others. Hot."""
        if value is not self._value or number != self._number + 1:
            self._close()
            self._runs.append((number, number, value))
            self._value = value
        self._number = number

    def _close(self) -> None:
        """Nothing is added to the last run any more."""
        if self._value is not None:
            first, _, value = self._runs[-1]
            self._runs[-1] = first, self._number, value
            self._value = None

    def take(self, ranges: list[tuple[int, int]]) -> list[tuple[Value, int]]:
        """Take out those in these ranges, which ``unwrapped`` gave: values, and how many commands
        have each."""
        self._close()
        runs = self._runs
        found: list[tuple[Value, int]] = []
        kept: list[Run[Value]] = []
        begun = at = bisect_left(runs, ranges[0][0], key=end_of_run) if ranges else 0
        left: Run[Value] | None = None
        """The part of the run before ``at`` that the ranges so far have left."""
        for low, high in ranges:
            while True:
                if left is None:
                    if at == len(runs):
                        break
                    left = runs[at]
                    at += 1
                first, last, value = left
                if first > high:
                    break
                left = None
                if last < low:
                    kept.append((first, last, value))
                    after = bisect_left(runs, low, at, key=end_of_run)
                    kept += runs[at:after]
                    at = after
                    continue
                if first < low:
                    kept.append((first, low - 1, value))
                found.append((value, min(last, high) - max(first, low) + 1))
                if last > high:
                    left = high + 1, last, value
                    break
        if left is not None:
            kept.append(left)
        runs[begun:at] = kept
        return found

    def clear(self) -> None:
        self._runs.clear()
        self._value = None


def end_of_run(run: Run[Value]) -> int:
    """The number of its last command."""
    return run[1]


class BrowsedTransfers(SentCommands[int]):
    """Transfers of messages that were browsed with accept-mode none, with the numbers of their
    deliveries: the peer may acquire them until it has completed them. As it need not complete any,
    the older half of more than ``most`` is given to ``forget``."""

    __slots__ = ("_forget", "_most")

    def __init__(self, forget: Callable[[list[int]], None], most: int) -> None:
        super().__init__()
        self._forget = forget
        self._most = most

    def add(self, number: int, value: int) -> None:
        super().add(number, value)
        if len(self) > self._most:
            oldest = list(self._values)[: (len(self) + 1) // 2]
            self._forget(list(self.take([(oldest[0], oldest[-1])]).values()))
