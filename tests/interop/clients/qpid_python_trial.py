"""The Python client of Qpid for AMQP 0-10 after its conversion (`tests/interop/qpid_python.py`):
run its own tests, one JSON line each.

The client takes octets for text, as Python 2 has it. Here text is what it takes for octets: one
character for each octet, from the socket on. What was ``unicode`` is a class of its own, so that
the client writes it as text. Arguments: URL of the broker, seconds for each test, patterns of
names.
"""

import builtins
import contextlib
import functools
import importlib
import inspect
import json
import os
import signal
import socket
import struct
import sys
import traceback
import types
import unittest
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, ClassVar

MODULES = ("qpid.tests", "qpid_tests.broker_0_10")
OCTETS = "latin-1"


# --- what Python 2 has ----------------------------------------------------------------------------


class Unicode(str):
    """``unicode``: text; any other ``str`` is octets."""


def octets(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode(OCTETS)


def decode(text: str, encoding: str) -> Unicode:
    """``str.decode`` of Python 2."""
    return Unicode(text.encode(OCTETS).decode(encoding))


def encode(text: str, encoding: str) -> str:
    """``unicode.encode`` of Python 2."""
    return text.encode(encoding).decode(OCTETS)


class Buffer(str):
    """``buffer``, which the client makes of ``str`` only."""


def compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


class Socket(socket.socket):
    """Takes and gives text in place of octets."""

    opened: ClassVar[list["Socket"]] = []
    """Those of the present test."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.opened.append(self)

    def recv(self, *arguments: Any) -> str:  # type: ignore[override]
        return super().recv(*arguments).decode(OCTETS)

    def send(self, data: str, *arguments: Any) -> int:  # type: ignore[override]
        return super().send(octets(data), *arguments)


def pack(layout: str, *values: Any) -> str:
    """``struct.pack`` with text in place of octets, and numbers that are cut to integers."""
    plain = [octets(each) if isinstance(each, str) else each for each in values]
    if layout[-1] in "bBhHiIlLqQ":
        plain = [int(each) if isinstance(each, float) else each for each in plain]
    return struct.pack(layout, *plain).decode(OCTETS)


def unpack(layout: str, text: str) -> tuple[Any, ...]:
    found = struct.unpack(layout, octets(text))
    return tuple(each.decode(OCTETS) if isinstance(each, bytes) else each for each in found)


def write(descriptor: int, data: str) -> int:
    return os.write(descriptor, octets(data))


def arguments_of(function: Any) -> tuple[Any, ...]:
    """``inspect.getargspec``, which is gone."""
    return tuple(inspect.getfullargspec(function)[:4])


def stated(
    names: list[str],
    rest: str | None,
    keywords: str | None,
    defaults: tuple[Any, ...] | None,
    formatvalue: Any = lambda value: "=" + repr(value),
) -> str:
    """``inspect.formatargspec``, which is gone."""
    given = list(names)
    for index, value in enumerate(defaults or ()):
        given[len(names) - len(defaults or ()) + index] += formatvalue(value)
    return f"({', '.join(given + [f'*{rest}'] * bool(rest) + [f'**{keywords}'] * bool(keywords))})"


def absent(*arguments: Any, **keywords: Any) -> Any:
    """What needs the management of Qpid's broker, which is in other packages."""
    from qpid.harness import Skipped  # type: ignore[import-not-found]

    raise Skipped("needs the management of qpidd (QMF)")


def prepare() -> None:
    given = {"unicode": Unicode, "buffer": Buffer, "cmp": compare, "decoded": decode}
    given |= {"encoded_as": encode, "octets": octets, "os_write": write}
    for name, value in given.items():
        setattr(builtins, name, value)
    socket.socket = Socket  # type: ignore[misc]
    inspect.getargspec = arguments_of  # type: ignore[attr-defined]
    inspect.formatargspec = stated  # type: ignore[attr-defined]
    sys.modules["struct_of_text"] = text = types.ModuleType("struct_of_text")
    vars(text).update(pack=pack, unpack=unpack, calcsize=struct.calcsize, error=struct.error)
    sys.modules["new"] = new = types.ModuleType("new")
    new.classobj, new.module = type, types.ModuleType  # type: ignore[attr-defined]
    for name in ("qmf", "qmf.console", "qpidtoollibs", "qpidtoollibs.broker"):
        sys.modules[name] = module = types.ModuleType(name)
        for one in ("Session", "BrokerAgent", "Console", "EventHelper", "BrokerObject"):
            setattr(module, one, type(one, (), {"__init__": absent}))
    sys.modules["qmf"].console = sys.modules["qmf.console"]  # type: ignore[attr-defined]


# --- the tests ------------------------------------------------------------------------------------


class Configuration:
    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.defines: dict[str, str] = {}
        self.log_file = None


def tests() -> Iterator[tuple[str, type, str]]:
    """Name, class and method of each test."""
    seen = set()
    queue = [importlib.import_module(name) for name in MODULES]
    while queue:
        module = queue.pop(0)
        for _, found in sorted(vars(module).items()):
            if isinstance(found, types.ModuleType) and found.__name__.startswith(MODULES):
                if found not in queue and found.__name__ not in seen:
                    seen.add(found.__name__)
                    queue.append(found)
            elif isinstance(found, type) and found.__name__.endswith(("Test", "Tests", "TestCase")):
                for method in dir(found):
                    name = f"{found.__module__}.{found.__name__}.{method}"
                    if method.startswith("test") and name not in seen:
                        seen.add(name)
                        yield name, found, method


AFTER = 3
"""The step that ends a test, which is taken whenever the test itself began."""


class Late(Exception):
    """A test took too long."""


def late(*_: Any) -> None:
    raise Late


def run(case: Any, method: str, configuration: Configuration, seconds: int) -> tuple[str, str]:
    """The verdict on a test, and why."""
    from qpid.harness import Skipped

    configure = getattr(case, "configure", lambda given: None)
    before = getattr(case, "setUp", None) or getattr(case, "setup", lambda: None)
    after = getattr(case, "tearDown", None) or getattr(case, "teardown", lambda: None)
    verdict, why = "passed", ""
    steps = (functools.partial(configure, configuration), before, getattr(case, method), after)
    began = False
    for number, step in enumerate(steps):
        if verdict != "passed" and not (began and number == AFTER):
            continue
        began |= number == AFTER - 1
        signal.alarm(seconds)
        try:
            step()
        except (Skipped, unittest.SkipTest) as skip:
            verdict, why = "skipped", str(skip)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            if verdict == "passed":
                verdict, why = "failed", "".join(traceback.format_exception(error))[-3000:]
        finally:
            signal.alarm(0)
    tidy(verdict == "failed" or hasattr(case, "subscribe"))
    return verdict, why


def tidy(left: bool) -> None:
    """Tests of sessions, and those that failed, have ``left`` connections with exclusive queues
    that the next one needs. And maybe the thread of all connections of the messaging API has
    ended, which the client does not survive."""
    from qpid.selector import Selector  # type: ignore[import-not-found]

    for connection in Socket.opened if left else ():
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    Socket.opened.clear()
    if Selector.DEFAULT is not None and Selector.DEFAULT.exception:
        Selector.DEFAULT = None


def main() -> None:
    prepare()
    url, seconds, *patterns = sys.argv[1:]
    from qpid.util import URL  # type: ignore[import-not-found]

    signal.signal(signal.SIGALRM, late)
    configuration = Configuration(URL(url))
    for name, group, method in tests():
        if patterns and not any(fnmatchcase(name, each) for each in patterns):
            continue
        verdict, why = run(group(method), method, configuration, int(seconds))
        print(json.dumps({"test": name, "verdict": verdict, "why": why}), flush=True)
    os._exit(0)  # threads of connections that a failed test left open


if __name__ == "__main__":
    main()
