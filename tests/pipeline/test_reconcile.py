"""``reconcile`` says what ``bridge verify`` says of the same queues."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.bridge.comparison.comparing import Compared, Rules
from gateway.bridge.migration.identity import AGAIN, COPIED
from gateway.message import Message
from pyspark_amqp.__main__ import app
from pyspark_amqp.jobs.inputs import Inputs
from pyspark_amqp.jobs.reconcile import COLUMNS, compared, entries, reconcile
from pyspark_amqp.options import OptionError
from tests.bridge.test_verify import ALL, MUTATIONS, headers, message
from tests.bridge.test_verify import compared as verified
from tests.pipeline.traffic import write_messages

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]

Messages = list[Message]


def unnamed(n: int, **changed: Any) -> Message:
    return message(n, message_id=None, **changed)


def other_dialect(one: Message, dialect: Any) -> Message:
    """As a broker of another version has it."""
    header, body = one.form_for(dialect)
    return Message(dialect, header, body, one.exchange, one.key, dialect.essentials(header))


def cases() -> dict[str, tuple[Messages, Messages]]:
    """Queues with their messages on both sides."""
    plain = [message(n, application={"n": n}) for n in range(9)]
    bare = [unnamed(n) for n in range(9)]
    twice = message(3, application=headers(3, **{AGAIN: True}))
    found: dict[str, tuple[Messages, Messages]] = {
        f"mutation-{n}": (ALL, other) for n, (other, _) in enumerate(MUTATIONS)
    }
    return found | {
        "modern": (plain, [other_dialect(one, SECTIONS) for one in plain]),
        "segments": (plain, [other_dialect(one, SEGMENTS) for one in plain]),
        "unnamed": (bare, bare[::-1]),
        "unnamed-body": (bare, [*bare[:4], unnamed(4, body="other"), *bare[5:]]),
        "unnamed-rest": (bare, [*bare[:4], unnamed(4, priority=9), *bare[5:]]),
        "unnamed-twice": (bare, [*bare, unnamed(3), unnamed(99)]),
        "same-ids": ([message(1)] * 3, [message(1), message(1, body="x"), message(1), message(1)]),
        "flagged-and-not": (plain, [*plain[:3], twice, message(3), *plain[4:], message(3)]),
        "copied": (plain, [message(n, application={"n": n, COPIED: "id"}) for n in range(9)]),
        "only-old": (plain, []),
        "only-new": ([], plain),
    }


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sides")
    old, new = ({f"/queues/{name}": sides[at] for name, sides in cases().items()} for at in (0, 1))
    return write_messages(folder / "old", old), write_messages(folder / "new", new)


@pytest.mark.parametrize(
    ("rules", "form"),
    [
        (Rules(), "0-9-1"),
        (Rules(order="group", key="header.n", ignore=("priority", "header.l*")), "1.0"),
    ],
)
def test_it_agrees_with_verify(
    spark: Any, journals: tuple[Path, Path], tmp_path: Path, rules: Rules, form: str
) -> None:
    """Counts, digests, classes, and their first examples. Those of ``reordered`` are the first by
    place here, and by group there."""
    left, right = (
        entries(Inputs(journal=str(one)).frame(spark, COLUMNS), rules, form).persist()
        for one in journals
    )
    told = compared(left, right, reconcile(left, right, rules))
    spark.catalog.clearCache()
    differing = 0
    for name, (old, new) in cases().items():
        folder = tmp_path / name
        folder.mkdir()
        wanted: Compared = verified(folder, old, new, form=form, **rules._asdict())
        found, unread = told[f"/queues/{name}"]
        assert unread == 0
        shown = {key: one for key, one in wanted.classes.items() if one.number}
        numbers = {key: one.number for key, one in found.classes.items()}
        assert numbers == {key: one.number for key, one in shown.items()}, name
        if rules.order == "all" or "reordered" not in shown:
            assert found.classes == shown, name
        for mine, yours in ((found.left, wanted.left), (found.right, wanted.right)):
            assert mine.messages == yours.messages
            assert mine.content == yours.content
            assert mine.messages == 0 or mine.digest == yours.digest
        assert found.equal == wanted.equal
        differing += not found.equal
    assert 0 < differing < len(cases())


def test_command(spark: Any, journals: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = map(str, journals)
    name = "/queues/mutation-0"
    arguments = ["reconcile", "--old-journal", old, "--old-addresses", name, "--new-journal"]
    result = CliRunner().invoke(app, [*arguments, new, "--new-addresses", name, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["equal"] is True
    rows = spark.read.format("amqp").options(journal=new, addresses="/queues/mutation-1").load()
    rows.write.parquet(str(tmp_path / "rows"))
    given = ["reconcile", "--old-journal", old, "--old-addresses", name, "--new-parquet"]
    written = tmp_path / "differences"
    result = CliRunner().invoke(
        app,
        [*given, str(tmp_path / "rows"), "--address", f"{name}=/queues/mutation-1", "--json",
         "--differences", str(written)],
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    (told,) = json.loads(result.stdout)["queues"]
    assert (told["source"], told["destination"]) == (name, "/queues/mutation-1")
    assert told["classes"] == {
        "missing": {"count": 1, "examples": [{"left": 8, "right": 0, "id": "m-7", "what": ""}]}
    }
    (row,) = spark.read.parquet(str(written)).collect()
    assert (row["class"], row.left, row.id) == ("missing", 8, "m-7")
    result = CliRunner().invoke(app, ["reconcile", "--old-journal", old, "--new-vhost", "x"])
    assert result.exit_code == 2
    assert "--new-journal, --new-gateway" in result.stderr
    for wrong in (["--address", "a"], ["--form", "0-8"], ["--unordered", "--by-group"]):
        result = CliRunner().invoke(app, [*arguments, new, *wrong])
        assert (result.exit_code, wrong[0] in result.stderr) == (2, True)


def test_large_bodies_are_said_to_be_unread(spark: Any, journals: tuple[Path, Path]) -> None:
    """They stand in files beside segments: only their sizes are compared, and that is told."""
    from pyspark.sql import functions as f

    rows = Inputs(journal=str(journals[0]), addresses="/queues/mutation-0").frame(spark, COLUMNS)
    apart = rows.withColumn("amqp10", f.when(f.col("offset") != 3, f.col("amqp10")))
    longer = apart.withColumn("body_len", f.col("body_len") + 1)
    left, right = (entries(one, Rules(), "0-9-1").persist() for one in (apart, longer))
    (found, unread) = compared(left, right, reconcile(left, right, Rules()))["/queues/mutation-0"]
    spark.catalog.clearCache()
    assert unread == 2
    assert {name: one.number for name, one in found.classes.items()} == {"body": 1, "property": 1}


def test_unpaired_names() -> None:
    from pyspark_amqp.jobs.reconcile import names_of

    assert names_of(["/queues/a=/queues/b"]) == {"/queues/a": "/queues/b"}
    with pytest.raises(OptionError, match="a second time"):
        names_of(["/queues/a=/queues/b", "/queues/c=/queues/b"])
