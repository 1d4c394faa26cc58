"""Conversations as text: input and expected output of an adapter, however it is cut.

``<`` is fed, ``>`` must come out; octets are hexadecimal, words after ``#`` are for people. The
adapter is a server with the stub broker behind it.
"""

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.adapters import Product, Role, adapter_for
from gateway.adapters.methods.trace import Reader
from gateway.operations import Closed
from tests.adapters.stub import Stub
from tests.pair import Users, pieces

ROOT = Path(__file__).parent.parent / "vectors"
FILES = sorted(ROOT.glob("0-[89]*/server-*.txt"))
PRODUCT = Product("gateway", "1", "test")


def turns(path: Path) -> Iterator[tuple[str, bytes]]:
    """Runs of lines with the same mark, joined."""
    lines = [line for line in path.read_text().splitlines() if line and line[0] in "<>"]
    for mark, run in itertools.groupby(lines, key=lambda line: line[0]):
        yield mark, b"".join(bytes.fromhex(line[1:].partition("#")[0]) for line in run)


def fed(path: Path) -> bytes:
    return b"".join(data for mark, data in turns(path) if mark == "<")


def play(path: Path, sizes: Iterator[int]) -> Stub:
    adapter = adapter_for(path.parent.name, Role.SERVER, authority=Users(), product=PRODUCT)
    stub = Stub(adapter)
    said = b""
    for mark, data in turns(path):
        if mark == "<":
            for piece in pieces(data, sizes):
                stub.receive(piece)
                said += b"".join(adapter.output())
        else:
            assert said[: len(data)] == data, f"{path.name}: {data.hex(' ')}"
            said = said[len(data) :]
    assert said == b""
    return stub


def test_there_are_vectors() -> None:
    assert {path.parent.name for path in FILES} == {"0-8", "0-9", "0-9-1"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_vectors(path: Path) -> None:
    chance = random.Random(path.name)
    stub = play(path, itertools.repeat(1 << 30))
    assert isinstance(stub.heard[-1], Closed)
    words = shown(stub)
    for sizes in (
        itertools.repeat(1),
        itertools.repeat(13),
        iter(lambda: chance.randint(1, 90), 0),
    ):
        assert shown(play(path, sizes)) == words


def shown(stub: Stub) -> list[str]:
    """The operations, without the addresses of functions."""
    return [re.sub(" at 0x[0-9a-f]+", "", repr(word)) for word in stub.heard]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_frame_is_described(path: Path) -> None:
    for _, data in turns(path):
        for line in Reader(path.parent.name).frames(data):
            assert line.kind != "broken" or path.stem == "server-frame-error", line
