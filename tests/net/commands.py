"""Commands of the gateway, in forks of the process with the imports."""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.net.preloaded import ROOT, Process, start

SECONDS = 300.0
"""How long a command may take on a busy machine."""
Done = subprocess.CompletedProcess[str]


class Command:
    """A running ``python -m gateway WORDS`` and its files."""

    def __init__(self, words: list[str], process: Process, out: IO[str], errors: IO[str]) -> None:
        self.process = process
        self._words = words
        self._files = out, errors

    def done(self) -> Done:
        """Its status and output; waits for its end."""
        status = self.process.wait(SECONDS)
        for file in self._files:
            file.seek(0)
        return Done(self._words, status, *(file.read() for file in self._files))


@contextmanager
def running(
    words: Sequence[object], environment: Mapping[str, str], text: str = "", folder: Path = ROOT
) -> Iterator[Command]:
    """Start a command in a folder; ``text`` is its standard input. It is killed at the end."""
    given = [str(word) for word in words]
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
    ):
        stdin.write(text)
        stdin.seek(0)
        process = start(
            "gateway", given, environment, stdin=stdin, stdout=out, stderr=errors, folder=folder
        )
        try:
            yield Command(given, process, out, errors)
        finally:
            process.kill()
            process.wait()


def completed(
    words: Sequence[object], environment: Mapping[str, str], text: str = "", folder: Path = ROOT
) -> Done:
    with running(words, environment, text, folder) as command:
        return command.done()
