"""The files and commands of docs/migrate.md, in their order."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.interop.servers import ROOT, environment
from tests.net.running import PATIENCE

GUIDE = ROOT / "docs" / "migrate.md"
BLOCK = re.compile(
    r"^```(?:toml (?P<file>\S+)|console)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)


class File(NamedTuple):
    """The reader writes it."""

    name: str
    text: str


def steps() -> list[File | str]:
    """Files, and commands."""
    found: list[File | str] = []
    for block in BLOCK.finditer(GUIDE.read_text()):
        if block["file"]:
            found.append(File(block["file"], block["text"]))
        else:
            found += [line.removeprefix("$ ") for line in block["text"].splitlines()]
    return found


def file(name: str) -> str:
    """The text of one of its files, as it is at the end."""
    return [one.text for one in steps() if isinstance(one, File) and one.name == name][-1]


class Reader:
    """Does what the guide says, in a folder. ``places`` are what the names and ports of the guide
    are here; ``said`` is the output of each command."""

    def __init__(self, folder: Path, places: dict[str, str]) -> None:
        self.folder = folder
        self.places = places
        self.said: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        program = folder / "bin" / "amqp-gateway"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gateway "$@"\n')
        program.chmod(0o755)
        given = environment(COLUMNS="200")
        self._environment = {**given, "PATH": f"{program.parent}:{given['PATH']}"}

    def here(self, text: str) -> str:
        for name, place in self.places.items():
            text = text.replace(name, place)
        return text

    def write(self, one: File) -> None:
        (self.folder / one.name).write_text(self.here(one.text))

    def run(self, command: str) -> str:
        """Raises ``AssertionError`` if it fails."""
        done = subprocess.run(
            ["sh", "-c", self.here(command)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        self.said[command] = done.stdout
        return done.stdout

    def begin(self, command: str) -> Path:
        """Start a command that goes on until ``end``; the file of its output."""
        log = self.folder / f"{len(self._running)}.log"
        with log.open("wb") as sink:
            self._running[command] = subprocess.Popen(
                ["sh", "-c", "exec " + self.here(command)],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        return log

    def end(self, command: str) -> None:
        process = self._running[command]
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
