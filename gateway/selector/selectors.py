"""A selector, ready to be asked about messages."""

from gateway.message import Message
from gateway.selector.evaluation import compiled
from gateway.selector.like import EFFORT
from gateway.selector.names import resolve
from gateway.selector.parser import parse
from gateway.selector.tree import Node


class Selector:
    """Raises ``SelectorError`` if the text is not a condition. Decodes the properties of messages
    only if it names one; whoever keeps the messages lets go of what was decoded."""

    __slots__ = ("text", "tree", "_read")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree: Node = parse(text)
        self._read = compiled(self.tree, resolve)

    def matches(self, message: Message) -> bool:
        """Whether the condition is true: neither false nor unknown. Never raises for what is in a
        message: one whose properties cannot be read matches nothing that names them, and one about
        which the patterns would take too many steps (``like.MOST_STEPS``) matches nothing."""
        EFFORT.begin()
        try:
            return self._read(message) is True
        except ValueError:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and other.tree == self.tree

    def __hash__(self) -> int:
        return hash(self.tree)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"
