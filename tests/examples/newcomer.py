"""A newcomer: a copy of the project without an environment, and the README from top to bottom.

    python -m tests.examples.newcomer [FOLDER]

Every command of the README is given as it stands there, in the order of the page, with two
changes: the gateway listens on free ports, and of the tests one file is run. Installing takes
packages from pip's index, so this is no test that pytest runs; test_guides.py runs the same
commands with the programs that are there. The folder is new, and stays if it is named. The exit
status is 1 if a command fails or the followed exchange shows no message.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.examples.reader import ROOT, Reader, blocks
from tests.interop.servers import free_ports

TESTS = "tests/test_values.py"
PIP_SECONDS = 900


def copy(folder: Path) -> None:
    """The files of a fresh clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)


def read(folder: Path) -> None:
    copy(folder)
    amqp, http = free_ports(2)
    instead = {
        "8080": str(http),
        "5672": str(amqp),
        "publish_and_consume.py\n": f"publish_and_consume.py {amqp}\n",
    }
    settings = {
        "AMQP_GATEWAY_AMQP__PORT": str(amqp),
        "AMQP_GATEWAY_HTTP__PORT": str(http),
        "AMQP_GATEWAY_DATA_DIR": str(folder / "data"),
        "PYTEST_ADDOPTS": TESTS,
    }
    page = (folder / "README.md").read_text()
    with Reader(folder, instead, programs=False, patience=PIP_SECONDS, **settings) as reader:
        # Nothing of the environment that this program runs in.
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            reader.given.pop(name, None)
        for block in blocks(page):
            print(block.text.strip(), flush=True)
            reader.paste(reader.here(block.text))
            print("  " + reader.printed.strip().replace("\n", "\n  "), flush=True)
        follower = reader.endless[-1]
        follower.shows('"order":…42')


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder that is not there yet")
    given = parser.parse_args().folder
    if given is not None:
        given.mkdir(parents=True)
    with nullcontext(given) if given else tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder).resolve())
        except (AssertionError, subprocess.SubprocessError) as error:
            print(f"newcomer: {error}", file=sys.stderr)
            return 1
    print("the README does what it says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
