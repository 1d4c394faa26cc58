"""Somebody who reads a page from top to bottom and pastes its commands.

A page has blocks in fences. ``sh`` is pasted into a terminal; ``text`` is what the last command
printed, or, if that has printed nothing, what a command that goes on has printed meanwhile, with
``…`` for any text. A block of another language has a file's name behind it, and is saved under that
name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests.examples.commands import environment
from tests.net.running import PATIENCE, until

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w+)(?: ([\w.-]+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENDLESS = re.compile(r"curl (-s )?-N |http\.server |amqp-gateway serve$", re.MULTILINE)
"""Commands that go on until they are stopped."""
SILENT = "http.server"
"""An endless command that prints nothing."""


SERVE = ".venv/bin/amqp-gateway serve"


class Block(NamedTuple):
    """A block in fences: its language, the name of the file that it becomes or "", and its text."""

    language: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCED.findall(page)]


def guide(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def settings(page: str) -> dict[str, str]:
    """Those with which a page starts the gateway, such as ``http__origins``."""
    (command,) = [one.text for one in blocks(page) if one.text.strip().endswith(SERVE)]
    assigned = shlex.split(command)[: -len(SERVE.split())]
    return {
        name.removeprefix("AMQP_GATEWAY_").lower(): value
        for name, _, value in (one.partition("=") for one in assigned)
    }


def pattern(shown: str) -> re.Pattern[str]:
    """``…`` is any text, of several lines too."""
    return re.compile(".*?".join(map(re.escape, shown.strip().split("…"))), re.DOTALL)


class Endless:
    """A terminal whose command goes on."""

    def __init__(
        self, command: str, folder: Path, given: Mapping[str, str], log: Path, patience: float
    ) -> None:
        self.command = command
        self.log = log
        self.patience = patience
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                ["sh", "-c", command], cwd=folder, env=given, stdin=subprocess.DEVNULL,
                stdout=sink, stderr=sink, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def shows(self, shown: str) -> None:
        """Wait until it has printed this."""
        wanted = pattern(shown)
        what = f"{self.command}: {shown}"
        until(lambda: wanted.search(self.printed) or self.ended, what, self.patience)
        assert wanted.search(self.printed), (self.command, self.printed)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        if not self.ended:
            os.killpg(self.process.pid, 15)
        self.process.wait(PATIENCE)


class Reader:
    """Use as a context manager: commands that go on are stopped at the end.

    ``instead``: texts of the page, such as ports, and what stands for them here. With ``programs``
    the folder gets an environment ``.venv`` whose programs are those of this process, and an
    installer that does nothing. ``patience``: seconds for one command.
    """

    def __init__(
        self,
        folder: Path,
        instead: Mapping[str, str],
        programs: bool = True,
        patience: float = PATIENCE,
        **more: str,
    ) -> None:
        self.folder = folder
        self.patience = patience
        self.instead = instead
        self.given = environment(**more)
        self.endless: list[Endless] = []
        self.printed = ""
        """By the last command, if it has ended."""
        if programs:
            self._equip()

    def _equip(self) -> None:
        python, curl = sys.executable, shutil.which("curl")
        scripts = {
            ".venv/bin/python": f'exec {python} "$@"',
            ".venv/bin/amqp-gateway": f'exec {python} -m gateway "$@"',
            ".venv/bin/pip": '[ "$1" = install ]',
            # An answer that is an error ends the command, unless its status is shown.
            "tools/curl": f'case " $*" in *" -w "*) exec {curl} "$@";; esac\n'
            f'exec {curl} --fail-with-body "$@"',
        }
        for name, script in scripts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.given["PATH"] = f"{self.folder / 'tools'}:{self.given['PATH']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        for one in self.endless:
            one.stop()

    def here(self, text: str) -> str:
        # In one go: a port that stands for one of the page's may have the digits of another.
        shown = re.compile("|".join(map(re.escape, self.instead)))
        return shown.sub(lambda found: self.instead[found[0]], text)

    def read(self, page: str, leave_out: Collection[str] = ()) -> None:
        """Do what the page says, but for blocks that have a text of ``leave_out``."""
        known = blocks(page)
        for text in leave_out:
            assert any(text in one.text for one in known), f"nothing to leave out: {text}"
        told = True
        for block in known:
            if any(text in block.text for text in leave_out):
                told = False
            elif block.language == "sh":
                told = True
                self.paste(self.here(block.text))
            elif block.language == "text":
                if told:
                    self.compare(block.text)
            else:
                assert block.name, f"a block of {block.language} without a file's name"
                (self.folder / block.name).write_text(self.here(block.text))

    def paste(self, command: str) -> None:
        if ENDLESS.search(command):
            log = self.folder / f"terminal-{len(self.endless)}"
            opened = Endless(command, self.folder, self.given, log, self.patience)
            self.endless.append(opened)
            self.printed = ""
            if SILENT not in command:
                opened.shows("gateway.open" if "curl" in command else "data in ")
            return
        done = subprocess.run(
            ["sh", "-e", "-c", command], cwd=self.folder, env=self.given, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=self.patience,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        self.printed = done.stdout

    def compare(self, shown: str) -> None:
        if self.printed.strip():
            assert pattern(shown).fullmatch(self.printed.strip()), (shown, self.printed)
        else:
            self.endless[-1].shows(shown)
