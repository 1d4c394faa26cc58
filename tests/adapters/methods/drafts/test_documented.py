"""docs/drafts.md has a row for every frame type, flag and exchange class."""

from pathlib import Path

from gateway.adapters.methods.drafts.v0_9a6.names import TYPES
from gateway.adapters.methods.drafts.versions import DRAFTS

TEXT = (Path(__file__).parents[4] / "docs" / "drafts.md").read_text("utf-8")
ROWS = [line for line in TEXT.partition("## Frames")[2].splitlines() if line.startswith("|")]


def test_every_frame_type() -> None:
    numbers = {
        value
        for version in DRAFTS.values()
        for name, value in version.constants.items()
        if name.startswith("frame-") and value <= 0xFF and name != "frame-end"
    }
    written = {
        int(number)
        for row in ROWS[:9]
        for number in row.split("|")[2].replace(",", " ").split()
        if number.isdigit()
    }
    assert written == numbers == set(range(1, 10))


def test_every_flag() -> None:
    for flag in ("SYNCHREQ", "UNREAL", "TRACER"):
        assert any(row.startswith(f"| {flag} |") for row in ROWS)


def test_every_exchange_class() -> None:
    written = {
        word for row in ROWS for word in " ".join(row.split("|")[1:3]).replace(",", " ").split()
    }
    assert set(TYPES) >= {"matcher", "selector", "lossy"} and set(TYPES) <= written
