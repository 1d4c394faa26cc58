"""Topic patterns: words divided by dots, ``*`` for one word, ``#`` for any number of words.

A trie of words; each node holds the destinations whose pattern ends there, with the number of
bindings that put them there.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


def words_of(key: str) -> list[str]:
    """The words of a key or pattern; an empty one has none."""
    return key.split(".") if key else []


class Node(Generic[T]):
    __slots__ = ("children", "ends")

    def __init__(self) -> None:
        self.children: dict[str, Node[T]] = {}
        self.ends: dict[T, int] = {}


class Topics(Generic[T]):
    """Patterns and what they lead to."""

    def __init__(self) -> None:
        self.root: Node[T] = Node()

    def add(self, pattern: str, destination: T) -> None:
        node = self.root
        for word in words_of(pattern):
            node = node.children.setdefault(word, Node())
        node.ends[destination] = node.ends.get(destination, 0) + 1

    def remove(self, pattern: str, destination: T) -> None:
        """Undo one ``add``; nodes that lead nowhere are pruned."""
        path: list[tuple[Node[T], str]] = []
        node = self.root
        for word in words_of(pattern):
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
        # A visited set keeps patterns such as #.#.# from being walked exponentially often.
        count = len(words)
        stack: list[tuple[Node[T], int]] = [(self.root, 0)]
        seen: set[tuple[int, int]] = set()
        while stack:
            node, at = stack.pop()
            if (id(node), at) in seen:
                continue
            seen.add((id(node), at))
            if at == count and node.ends:
                yield from node.ends
            children = node.children
            if not children:
                continue
            rest = children.get("#")
            if rest is not None:
                stack.extend((rest, later) for later in range(at, count + 1))
            if at < count:
                for word in (words[at], "*"):
                    child = children.get(word)
                    if child is not None and word != "#":
                        stack.append((child, at + 1))
