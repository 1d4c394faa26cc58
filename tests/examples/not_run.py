"""Blocks of guides that no test pastes into a terminal as they stand, and why.

Those of the other pages are run by `test_guides.py` and by the tests that `test_shown_commands.py`
stands beside."""

from tests.examples.reader import guide

NOT_RUN: dict[str, dict[str, str]] = {
    "pipeline": {
        "pip install '.[spark,spark-jre]'": "tests/pipeline/test_three_commands.py runs these",
        "spark-submit --master spark://HOST:7077": "needs a master and workers: "
        "tests/pipeline/test_cluster.py starts them, and submits the same",
        "docker compose --profile spark run": "needs Docker's daemon; "
        "tests/pipeline/test_cluster.py runs the commands of docker-compose.yml without it",
    },
}
"""By page: a text of the block, and the reason."""


def left_out(page: str, block: str) -> bool:
    """Whether this block of a page is one of them."""
    return any(text in block for text in NOT_RUN.get(page, {}))


def check_listed(page: str) -> None:
    """Fail if a text of the list is no longer on its page."""
    shown = guide(page)
    assert [text for text in NOT_RUN.get(page, {}) if text not in shown] == []
