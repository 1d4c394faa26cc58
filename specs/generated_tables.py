"""Tables in a document between ``<!-- generated: NAME -->`` and ``<!-- end -->``, and the command
that writes them."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n)(?:(?!<!--).)*(<!-- end -->)", re.DOTALL)


class GeneratedTables:
    """The tables of one document, by the names of their blocks, and the module that writes them."""

    def __init__(
        self, document: Path, module: str, blocks: Mapping[str, Callable[[], str]]
    ) -> None:
        self.document = document
        self.command = f"python -m {module}"
        self._blocks = blocks

    def render(self, text: str) -> str:
        """The document with its tables written anew. Raises ``KeyError`` for an unknown block."""
        return BLOCK.sub(lambda one: one[1] + self._blocks[one[2]]() + "\n" + one[3], text)

    def drift(self) -> str:
        """What would change in the document, as a unified diff; empty if nothing would."""
        written = self.document.read_text()
        old, new = written.splitlines(), self.render(written).splitlines()
        return "\n".join(difflib.unified_diff(old, new, "written", "generated", lineterm=""))

    def main(self) -> int:
        """Write the tables; with ``--check`` show the differences. The exit status."""
        description = f"Write the tables of docs/{self.document.name}."
        parser = argparse.ArgumentParser(prog=self.command, description=description)
        parser.add_argument(
            "--check", action="store_true", help="show the differences, write nothing"
        )
        if parser.parse_args().check:
            difference = self.drift()
            sys.stdout.write(difference)
            return 1 if difference else 0
        self.document.write_text(self.render(self.document.read_text()))
        return 0
