"""Regular expressions over the keys of topics, as 0-9a0 has them and every binding may.

The engine is RE2, which runs in linear time for any expression and therefore has no back-references
and no look-around. Without its package, regular expressions are not available.
"""

from typing import Any

try:
    import re2
except ImportError:
    re2 = None

MEMORY = 1 << 18
"""Maximum octets of memory of one compiled expression."""


class ExpressionError(ValueError):
    """Not a valid expression. The message may be shown to the peer."""


class NoExpressions(ExpressionError):
    """The package of the engine is not installed."""


class Expression:
    """A regular expression. It may match anywhere in a key, as in Perl; ``^`` and ``$`` anchor
    it."""

    __slots__ = ("text", "_found")

    def __init__(self, text: str) -> None:
        """Raises ``ExpressionError``."""
        if re2 is None:
            raise NoExpressions("regular expressions need the package google-re2")
        self.text = text
        options = re2.Options()
        options.max_mem = MEMORY
        options.log_errors = False
        try:
            self._found: Any = re2.compile(text, options).search
        except UnicodeEncodeError:
            raise ExpressionError("a regular expression is text") from None
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise ExpressionError(f"not a regular expression: {shown}") from None

    def matches(self, key: str) -> bool:
        try:
            return self._found(key) is not None
        except UnicodeEncodeError:
            return False
