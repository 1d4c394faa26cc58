"""What is wrong with a selector, and where; and how much of one is too much."""

LONGEST = 4096
"""Characters of a selector."""
DEEPEST = 64
"""Levels of its tree."""
MOST_TERMS = 512
"""Names and literals in it."""


class SelectorError(ValueError):
    """Not a selector. ``position`` counts characters from 0; the text may be shown to the peer."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(f"{text} at position {position + 1}")
        self.position = position
