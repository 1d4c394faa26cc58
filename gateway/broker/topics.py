"""Topic patterns: words divided by dots, ``*`` for one word, ``#`` for any number of words.

A trie of words; each node holds the destinations whose pattern ends there, with the number of
bindings that put them there.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


def pattern_of(text: str) -> list[str]:
    """The words of a pattern; several ``#`` side by side mean the same as one."""
    words = words_of(text)
    return [w for at, w in enumerate(words) if w != "#" or not at or words[at - 1] != "#"]


def words_of(key: str) -> list[str]:
    """The words of a key or pattern; an empty one has none."""
    return key.split(".") if key else []


class Node(Generic[T]):
    __slots__ = ("children", "ends")

    def __init__(self) -> None:
        self.children: dict[str, Node[T]] = {}
        self.ends: dict[T, int] = {}


class Topics(Generic[T]):
    """Patterns and their destinations."""

    def __init__(self) -> None:
        self.root: Node[T] = Node()

    def add(self, pattern: str, destination: T) -> None:
        node = self.root
        for word in pattern_of(pattern):
            node = node.children.setdefault(word, Node())
        node.ends[destination] = node.ends.get(destination, 0) + 1

    def remove(self, pattern: str, destination: T) -> None:
        """Undo one ``add``; nodes that lead nowhere are pruned."""
        path: list[tuple[Node[T], str]] = []
        node = self.root
        for word in pattern_of(pattern):
            path.append((node, word))
            node = node.children[word]
        left = node.ends[destination] - 1
        if left:
            node.ends[destination] = left
            return
        del node.ends[destination]
        for parent, word in reversed(path):
            child = parent.children[word]
            if child.children or child.ends:
                break
            del parent.children[word]

    def match(self, key: str) -> Iterator[T]:
        """Destinations of all patterns that match; one may come more than once."""
        return self._walk(words_of(key))

    def _walk(self, words: Sequence[str]) -> Iterator[T]:
        # A visited set keeps patterns such as #.a.#.a.# from being walked exponentially often; each
        # node is looked at once for each place in the key.
        count = len(words)
        stack: list[tuple[Node[T], int, bool]] = [(self.root, 0, False)]
        seen: set[tuple[int, int]] = set()
        while stack:
            node, at, any_number = stack.pop()
            if (id(node), at) in seen:
                continue
            seen.add((id(node), at))
            if at == count and node.ends:
                yield from node.ends
            if any_number and at < count:
                stack.append((node, at + 1, True))
            children = node.children
            if not children:
                continue
            rest = children.get("#")
            if rest is not None:
                stack.append((rest, at, True))
            if at < count:
                for word in (words[at], "*"):
                    child = children.get(word)
                    if child is not None and word != "#":
                        stack.append((child, at + 1, False))
