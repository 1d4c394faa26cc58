"""A process that writes sealed segments for a gateway: sealing takes about as much processor time
as the gateway itself needs for the same messages, and would hold the interpreter lock meanwhile.

Both sides exchange lines of JSON over pipes: a ``Job`` and its ``Sealed``, or an error. The process
ends when its input does, at once, so it never outlives its gateway, even one that is killed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from select import select

from gateway.event_loop import freeze
from gateway.journal.entries import JournalError
from gateway.journal.sealing import Job, LocalSealer, Sealed

IDLE = 60.0
"""Seconds without a job after which the process ends: it takes 170 MB."""
NICE = 10
"""Added to the niceness: publishers come first where processors are scarce. On Linux the process
takes only what nobody else wants, unless it must hurry."""
IDLE_SECONDS = 5.0
"""Seconds for a job on processors that would be idle; then it is done anew, and hurries."""
PATIENCE = 10.0
"""Seconds for the process to end."""


class SealingProcess:
    """The gateway's side. The process starts with a job, and ends after a while without one.

    ``close`` may come from another thread while a job is under way: the job fails then."""

    def __init__(self, data_dir: Path, directory: Path) -> None:
        self.data_dir = data_dir
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._hurries = False
        """Whether the process does not wait for an idle processor."""
        self._changing = threading.Lock()
        self._closed = False

    def seal(self, job: Job) -> Sealed:
        if job.hurry and not self._hurries:
            with self._changing:
                self._end()  # it could not get back what it has given up
        waited = self._process is not None
        answer, status = self._ask(job)
        if not answer and waited:
            # It may have ended before it got the job, as it does when it had none for long.
            answer, status = self._ask(job)
        if not answer:
            raise JournalError(f"the process that seals the journal has ended with status {status}")
        given = json.loads(answer)
        if "error" in given:
            raise JournalError(given["error"])
        return Sealed(**given)

    def _ask(self, job: Job) -> tuple[bytes, int]:
        """The answer; if there is none, the status with which the process has ended."""
        process = self._start(job.hurry)
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            if not self._hurries and not select([process.stdout], [], [], IDLE_SECONDS)[0]:
                with self._changing:
                    self._end()
                return self._ask(job._replace(hurry=True))
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        if not answer:
            with self._changing:
                self._end()
        return answer, process.returncode or 0

    def _start(self, hurry: bool) -> subprocess.Popen[bytes]:
        with self._changing:
            if self._closed:
                raise JournalError("the gateway stops")
            if self._process is not None and self._process.poll() is not None:
                self._end()
            if self._process is None:
                # "-P": no module comes from the directory in which the gateway was started.
                command = [sys.executable, "-P", "-m", __name__]
                command += [str(self.data_dir), str(self.directory), *(["hurry"] * hurry)]
                self._hurries = hurry or sys.platform != "linux"
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            return self._process

    def _end(self) -> None:
        """With the lock."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()  # it ends at once
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def close(self) -> None:
        self._closed = True
        with self._changing:
            self._end()


def main(data_dir: Path, directory: Path, hurry: bool) -> None:
    """The process: until its input ends. Signals are for the gateway, which ends it."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.nice(NICE)
    if sys.platform == "linux" and not hurry:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    jobs: SimpleQueue[bytes] = SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    threading.Thread(target=read_jobs, args=[jobs], daemon=True).start()
    sealer = LocalSealer(data_dir, directory)
    freeze()
    while True:
        try:
            line = jobs.get(timeout=IDLE)
        except Empty:
            os._exit(0)
        job = Job(*json.loads(line))
        try:
            answer = sealer.seal(job)._asdict()
        except (OSError, JournalError) as error:
            answer = {"error": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"internal error: {error!r}"}
        try:
            answers.write(json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:  # the gateway was killed
            os._exit(0)


def read_jobs(jobs: SimpleQueue[bytes]) -> None:
    """Leaves the process when there will be no more, whatever it is doing."""
    while line := sys.stdin.buffer.readline():
        jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["hurry"])
