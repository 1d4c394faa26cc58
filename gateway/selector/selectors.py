"""Compiled selectors."""

from gateway.message import Message
from gateway.selector.evaluation import compiled, cost, counted
from gateway.selector.like import EFFORT, STEPS_OF_A_TERM
from gateway.selector.names import resolve
from gateway.selector.parser import parse
from gateway.selector.tree import Node

FEW_STEPS = 16 * STEPS_OF_A_TERM
"""Steps up to which the terms of a selector are not counted."""


class Selector:
    """A compiled selector. Raises ``SelectorError`` if the text is not a condition. Decodes the
    properties of a message only if it names one; the owner of the message drops the decoded
    view."""

    __slots__ = ("text", "tree", "_read")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree: Node = parse(text)
        self._read = compiled(self.tree, resolve)
        steps = cost(self.tree)
        if steps > FEW_STEPS:
            self._read = counted(self._read, steps)

    def matches(self, message: Message) -> bool:
        """Whether the condition is true, neither false nor unknown. Never raises, whatever the
        message contains: a message with unreadable properties matches no selector that names them,
        and a message on which it exceeds ``like.MOST_STEPS`` matches no selector."""
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
