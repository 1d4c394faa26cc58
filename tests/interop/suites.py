"""Test suites that other projects ship in their sources, run against a server of ours.

`install-peers` fetches the source distributions; nothing here leaves the loopback. A suite runs
in a copy of its sources, as its own project runs it; its verdicts are read from its own report.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import servers, specs_xml
from tests.interop.servers import HOST, INSTALL, PEERS, Server
from tests.unpacking import unpack

SOURCES = PEERS / "suites"
LAUNCHER = Path(__file__).parent / "clients" / "txamqp_trial.py"


@dataclass
class Outcome:
    """What a suite said: the names that passed, failed and were skipped, and its last words."""

    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    text: str = ""

    def __str__(self) -> str:
        counts = (len(self.passed), len(self.failed), len(self.skipped))
        return "{} passed, {} failed, {} skipped".format(*counts)


@dataclass(frozen=True)
class Suite:
    """One suite. `passes` is what RabbitMQ 3.10.8 gave; `known` maps failures to their reasons."""

    name: str
    source: str
    passes: int
    arguments: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    spec: str | None = None
    seconds: float = 500.0
    """For one try."""

    def missing(self) -> str | None:
        if not (SOURCES / f"{self.source}.tar.gz").exists():
            return f"the sources of {self.source} are not here; {INSTALL}"
        return None

    def unpack(self, scratch: Path) -> Path:
        unpack(SOURCES / f"{self.source}.tar.gz", scratch)
        return scratch / self.source

    def run(self, server: Server, scratch: Path) -> Outcome:
        """Files with failures are run again, twice at most: in places these suites go by the clock,
        and a busy machine is no mistake of the server. A test that fails each time is one. Single
        tests are not run again by themselves: some need the worker that an earlier one started."""
        place = self.unpack(scratch)
        outcome = self._once(server, place, scratch, 0)
        for times in (1, 2):
            if not outcome.failed - set(self.known) and len(outcome.passed) >= self.passes:
                break
            again = self._once(server, place, scratch, times, outcome.failed)
            outcome.text += f"\n=== again, as {sorted(outcome.failed)} failed\n{again.text}"
            outcome.passed |= again.passed
            outcome.failed -= again.passed
        return outcome

    def _once(
        self,
        server: Server,
        place: Path,
        scratch: Path,
        times: int,
        failed: Collection[str] = (),
    ) -> Outcome:
        if self.spec:
            return self._trial(server, place / "src")
        return self._pytest(server, place, scratch / f"report-{times}.xml", failed)

    def _environment(self, server: Server) -> dict[str, str]:
        binaries = str(Path(sys.executable).parent)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        return {
            **kept,
            "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}",
            "RABBITMQ_HOST": HOST,
            "RABBITMQ_5672_TCP": str(server.port),
            "RABBITMQ_5671_TCP": str(server.amqps_port or 0),
            "TEST_BROKER": f"pyamqp://guest:guest@{HOST}:{server.port}//",
            "TEST_BACKEND": "rpc",
            "WORKER_LOGLEVEL": "INFO",
            "TXAMQP_BROKER": "OPENAMQ" if server.name == "gateway" else "RABBITMQ",
        }

    def _pytest(
        self, server: Server, place: Path, report: Path, failed: Collection[str]
    ) -> Outcome:
        certificates = place / "t" / "certs"
        if server.certificates and not certificates.exists():
            certificates.symlink_to(server.certificates.folder)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--timeout=120", f"--junitxml={report}"]
        command += [one for one in self.arguments if not failed or not passes_over(one, failed)]
        for name in self.left_out:
            command += ["--deselect", name]
        outcome = Outcome(text=self._run(command, place, self._environment(server)))
        if not report.exists():
            return outcome
        for case in ET.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"}:
                outcome.failed.add(name)
            elif "skipped" in kinds:
                outcome.skipped.add(name)
            else:
                outcome.passed.add(name)
        outcome.passed -= outcome.failed
        return outcome

    def _trial(self, server: Server, place: Path) -> Outcome:
        """txAMQP's suite finds its specifications by two paths; both get the version under test."""
        for path in ("standard/amqp0-9.stripped.xml", "rabbitmq/amqp0-8.stripped.rabbitmq.xml"):
            specs_xml.write(self.spec or "", place / "specs" / path)
        command = [sys.executable, str(LAUNCHER), str(server.port), "--reporter=verbose", "txamqp"]
        environment = {**self._environment(server), "PYTHONPATH": str(place)}
        outcome = Outcome(text=self._run(command, place, environment))
        module = group = ""
        for line in outcome.text.splitlines():
            if line.startswith("----"):
                break
            depth = len(line) - len(line.lstrip())
            verdict = re.search(r"^\s*(test_\w+) \.\.\.\s+\[(\w+)\]", line)
            if verdict:
                kinds = {"OK": outcome.passed, "SKIPPED": outcome.skipped}
                name = f"{module}.{group}.{verdict[1]}"
                kinds.get(verdict[2], outcome.failed).add(name)
            elif depth == 0 and line.startswith("txamqp"):
                module = line.strip()
            elif depth == 2:
                group = line.strip()
        return outcome

    def _run(self, command: Sequence[str], place: Path, environment: Mapping[str, str]) -> str:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=self.seconds)
            return out.decode(errors="replace")
        except subprocess.TimeoutExpired:
            servers.end_group(process)
            out, _ = process.communicate()
            return out.decode(errors="replace") + f"\nstopped after {self.seconds:.0f} s\n"


_ELSEWHERE = "connects to a site on the Internet"
_RACE = "resets its own flag after it sent the task; a quick broker has had it set by then"
_NESTING = "t/integration/test_tasks.py::test_task_replacement::test_replaced_task_nesting_level_0"

_ROLLBACK = (
    "wants deliveries that were acknowledged in the transaction to come again by themselves; the "
    "documents leave them with the channel until basic.recover, and so does RabbitMQ"
)
_OF_QPID = {
    "txamqp.test.test_tx.TxTests.test_auto_rollback": _ROLLBACK,
    "txamqp.test.test_tx.TxTests.test_rollback": _ROLLBACK,
    "txamqp.test.test_queue.QueueTests.test_purge": "declares for itself alone the queue that "
    "test_close_queue has left to everybody",
}
"""Written for Qpid and OpenAMQ. Where a gateway follows the documents of 0-8 and 0-9 and RabbitMQ
does not, the suite is asked for OpenAMQ's variants of its tests, else for RabbitMQ's."""

SUITES = (
    Suite(
        "py-amqp",
        "amqp-5.4.2",
        passes=48,
        arguments=("t/integration", "-k", "not tls"),
    ),
    Suite(
        "py-amqp-tls",
        "amqp-5.4.2",
        passes=13,
        arguments=("t/integration/test_rmq.py", "-k", "tls"),
        left_out={
            "t/integration/test_rmq.py::test_tls_default_certs": _ELSEWHERE,
            "t/integration/test_rmq.py::test_tls_no_default_certs_fails": _ELSEWHERE,
        },
        tls=True,
    ),
    Suite("kombu", "kombu-5.7.0", passes=51, arguments=("t/integration/test_py_amqp.py",)),
    Suite(
        "celery",
        "celery-5.7.0",
        passes=61,
        arguments=(
            *("-p", "celery.contrib.pytest"),
            "t/integration/test_tasks.py",
            "t/integration/test_inspect.py",
        ),
        left_out={_NESTING: _RACE},
    ),
    Suite("txamqp-0-8", "txAMQP-0.8.2", passes=67, known=_OF_QPID, spec="0-8"),
    Suite("txamqp-0-9", "txAMQP-0.8.2", passes=67, known=_OF_QPID, spec="0-9"),
)


def passes_over(argument: str, failed: Collection[str]) -> bool:
    """Whether an argument names a file in which none of these tests (by their classes) failed."""
    module = argument.removesuffix(".py").replace("/", ".")
    return argument.endswith(".py") and not any(name.startswith(module) for name in failed)


def main() -> None:
    """`python -m tests.interop.suites [--target rabbitmq|gateway] [suite ...]`: run and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--target", default="gateway", choices=("gateway", "rabbitmq"))
    parser.add_argument("--verbose", action="store_true", help="print each suite's own words")
    parser.add_argument("suites", nargs="*", help="names of suites; all by default")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="suites-") as folder:
        base = Path(folder)
        server = servers.start(wanted.target, base / "server", tls=True)
        try:
            for suite in SUITES:
                if wanted.suites and suite.name not in wanted.suites:
                    continue
                if reason := suite.missing():
                    print(f"{suite.name}: {reason}")
                    continue
                (scratch := base / suite.name).mkdir()
                outcome = suite.run(server, scratch)
                print(f"{suite.name}: {outcome}; RabbitMQ 3.10.8 passes {suite.passes}")
                for name in sorted(outcome.failed):
                    print(f"  {name}: {suite.known.get(name, 'FAILED')}")
                if wanted.verbose:
                    print(outcome.text)
                sys.stdout.flush()
        finally:
            server.stop()
            shutil.rmtree(base / "server", ignore_errors=True)


if __name__ == "__main__":
    main()
