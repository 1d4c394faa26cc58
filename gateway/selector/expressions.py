"""Regular expressions over the keys of topics, as 0-9a0 has them and every binding may.

The engine is RE2, whose time is that of one look at the text whatever the expression; so what is
not regular (references back, looking around) is not an expression here. Without its package there
are none at all.
"""

from typing import Any

try:
    import re2
except ImportError:
    re2 = None

MEMORY = 1 << 18
"""Octets that one expression may take."""


class ExpressionError(ValueError):
    """Not an expression; the text may be shown to the peer."""


class NoExpressions(ExpressionError):
    """There is no engine for them."""


class Expression:
    """Looked for anywhere in a key, as Perl does; ``^`` and ``$`` hold it to the ends."""

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
