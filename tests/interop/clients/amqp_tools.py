"""Debian's amqp-tools (librabbitmq, C): one process for each thing to do."""

import subprocess

from tests.interop.clients import harness

HOST, PORT = harness.address()


def run(tool, *arguments, body=b"", user="guest", vhost="/"):
    place = ["--server", HOST, "--port", str(PORT), "--vhost", vhost]
    place += ["--username", user, "--password", "guest"]
    return subprocess.run(
        ["amqp-" + tool, *place, *arguments], input=body, capture_output=True, timeout=45
    )


def checked(tool, *arguments, body=b""):
    done = run(tool, *arguments, body=body)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return done.stdout


def get():
    name = harness.unique("tools")
    declared = checked("declare-queue", "-q", name).decode().strip()
    checked("publish", "-r", name, "-C", "text/plain", "-p", "-b", "hello")
    body = checked("get", "-q", name).decode()
    empty = run("get", "-q", name).returncode
    checked("delete-queue", "-q", name)
    return {"declared": declared == name, "body": body, "empty_exit": empty}


def large():
    name = harness.unique("tools")
    checked("declare-queue", "-q", name)
    checked("publish", "-r", name, body=harness.large_body())
    body = checked("get", "-q", name)
    checked("delete-queue", "-q", name)
    return harness.same_large(body)


def consume():
    name = harness.unique("tools")
    checked("declare-queue", "-q", name)
    for number in range(10):
        checked("publish", "-r", name, "-b", str(number))
    out = checked("consume", "-q", name, "-c", "10", "-p", "2", "cat")
    checked("delete-queue", "-q", name)
    return harness.in_order(list(out.decode()))


def bound():
    """A consumer of its own queue, bound to an exchange it names."""
    place = ["--server", HOST, "--port", str(PORT)]
    command = ["amqp-consume", *place, "-e", "amq.topic", "-r", "a.#", "-c", "1", "cat"]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(150):
            checked("publish", "-e", "amq.topic", "-r", "a.b.c", "-b", "found")
            try:
                out, _ = waiting.communicate(timeout=0.2)
                return {"body": out.decode()}
            except subprocess.TimeoutExpired:
                continue
        return {"body": None}
    finally:
        waiting.kill()
        waiting.communicate()


def complaint(done, code):
    words = done.stderr.decode()
    return {"failed": done.returncode != 0, "code": code if str(code) in words else words}


def missing_queue():
    return complaint(run("get", "-q", harness.unique("none")), 404)


def bad_credentials():
    return complaint(run("get", "-q", "any", user="nobody"), 403)


def unknown_vhost():
    return complaint(run("get", "-q", "any", vhost="/no-such-host"), 530)


CHECKS = (get, large, consume, bound, missing_queue, bad_credentials, unknown_vhost)
harness.main(*CHECKS)
