"""Errors in selectors, and the limits of their size."""

LONGEST = 4096
"""Maximum characters of a selector."""
DEEPEST = 64
"""Maximum depth of its tree."""
MOST_TERMS = 512
"""Maximum number of names and literals."""


class SelectorError(ValueError):
    """The text is not a valid selector. ``position`` counts characters from 0; the message may be
    shown to the peer."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(f"{text} at position {position + 1}")
        self.position = position
