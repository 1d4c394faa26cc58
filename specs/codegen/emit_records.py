"""Emits a record: a plain class with slots and a constructor that sets them, nothing else.

A ``dataclass`` writes and compiles its methods whenever the module is imported; these are compiled
once. How records compare and show themselves stands in ``gateway/adapters/record.py``.
"""

from collections.abc import Iterable, Sequence

LIMIT = 100


def emit_class(
    head: str, constants: Iterable[str], parameters: Sequence[tuple[str, str, str]]
) -> list[str]:
    """A class. ``parameters``: name, annotation and default of each field."""
    slots = [f'"{name}"' for name, _, _ in parameters]
    lines = ["", "", f"class {head}:", *(f"    {constant}" for constant in constants)]
    lines += wrapped("    __slots__ = (", slots, "," if len(slots) == 1 else "", ")")
    if not parameters:
        return lines
    listed = [f"{name}: {kind} = {default}" for name, kind, default in parameters]
    lines += ["", *wrapped("    def __init__(", ["self", *listed], "", ") -> None:")]
    return lines + [f"        self.{name} = {name}" for name, _, _ in parameters]


def wrapped(opening: str, words: Sequence[str], comma: str, closing: str) -> list[str]:
    """One line, or as many lines as the words fill."""
    line = f"{opening}{', '.join(words)}{comma}{closing}"
    if len(line) <= LIMIT:
        return [line]
    indent = len(opening) - len(opening.lstrip())
    return [opening, *filled(words, indent + 4), " " * indent + closing]


def filled(words: Sequence[str], indent: int, more: int = 0) -> list[str]:
    """The words, each with its comma, on as few lines as hold them. ``more``: columns by which the
    lines are moved to the right later."""
    lines: list[str] = []
    for word in words:
        if lines and indent + more + len(lines[-1]) + len(word) + 2 <= LIMIT:
            lines[-1] += f" {word},"
        else:
            lines.append(f"{word},")
    return [" " * indent + line for line in lines]
