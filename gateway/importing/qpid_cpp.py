"""Listings of the C++ broker of Qpid: text of ``qpid-config`` and ``qpid-stat``, and objects of its
management in JSON.

``qpid-config queues`` and ``exchanges`` print a table whose last column has the options with which
the object could be made again; with ``-r`` they print an object per line and its bindings below it.
``qpid-stat -q`` and ``-e`` print columns. Several outputs may stand in one file. In JSON an object
of the management has the name of its class and a table of values, in which other objects are named
by text such as ``org.apache.qpid.broker:queue:orders``.
"""

import shlex
from collections.abc import Callable
from typing import Any

from gateway.adapters.core.qpid_queues import KNOWN, MAX_COUNT, MAX_SIZE, POLICY, queue_arguments
from gateway.importing.findings import ImportFailed, Result
from gateway.importing.topology import Topology, number_of, timer_of

Table = dict[str, Any]
TYPES = ("direct", "topic", "fanout", "headers")
OPTIONS = {
    "--max-queue-size": MAX_SIZE,
    "--max-queue-count": MAX_COUNT,
    "--limit-policy": POLICY,
    "--group-header": "qpid.group_header_key",
}
QUIET_OPTIONS = frozenset([
    "--file-size", "--file-count", "--cluster-durable", "--flow-stop-size", "--flow-resume-size",
    "--flow-stop-count", "--flow-resume-count", "--generate-queue-events", "--sequence", "--ive",
])  # fmt: skip
QUIET_ARGUMENTS = frozenset([
    "qpid.file_size", "qpid.file_count", "qpid.flow_stop_size", "qpid.flow_resume_size",
    "qpid.flow_stop_count", "qpid.flow_resume_count", "qpid.alert_count", "qpid.alert_size",
    "qpid.alert_count_up", "qpid.alert_count_down", "qpid.alert_size_up", "qpid.alert_size_down",
    "qpid.alert_repeat_gap", "qpid.msg_sequence", "qpid.ive", "qpid.insert_nodups",
])  # fmt: skip
NUMBERS: dict[str, Callable[[int], int]] = {
    "x-max-length": int,
    "x-max-length-bytes": int,
    "x-max-priority": lambda number: min(number, 255),
    "x-priority-levels": lambda number: min(max(number, 1), 10),
    "x-message-ttl": timer_of,
    "x-auto-delete-timeout": timer_of,
}
"""Arguments that are numbers, and the value that the broker takes."""
OWN = ("qmf.", "qpid.management", "qmfc-", "reply-", "topic-", "qpid.cluster")
"""Beginnings of names of the broker's own nodes and of tools."""


def is_own(name: str) -> bool:
    return not name or name.startswith(OWN)


class Listing:
    """A topology, put together from one or several outputs."""

    def __init__(self, vhost: str) -> None:
        self.topology = Topology()
        self.topology.vhost("", vhost)
        self.vhost = vhost

    def queue(
        self,
        place: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        exclusive: bool,
        arguments: Table,
        alternate: str = "",
    ) -> None:
        if is_own(name):
            return
        topology = self.topology
        if exclusive:
            topology.warn(place, f"queue '{name}' is exclusive to a client: it is left out")
            return
        known = topology.queues.get((self.vhost, name))
        if known is not None and not known["arguments"]:
            del topology.queues[self.vhost, name]  # from an output without options
        made = topology.queue(place, self.vhost, name, durable=durable, auto_delete=auto_delete)
        if made is None:
            return
        ours = {key: value for key, value in queue_arguments(arguments).items() if key[:2] == "x-"}
        ours.pop("x-qpid-priorities", None)
        ours.pop("x-qpid-maximum-message-ttl", None)
        limits = arguments.keys() & {MAX_COUNT, MAX_SIZE}
        policy = str(arguments.get(POLICY, "reject"))
        if limits and "x-overflow" not in ours:
            topology.info(place, f"queue '{name}': {policy}: long queues are paged to the disk")
        ttl = ours.get("x-message-ttl")
        if isinstance(ttl, int):
            ours["x-message-ttl"] = timer_of(ttl)
        if alternate:
            ours["x-dead-letter-exchange"] = alternate
            ours["x-dead-letter-on-delete"] = True
        made["arguments"] = self.checked(place, name, ours)
        for left in arguments.keys() - KNOWN - QUIET_ARGUMENTS - ours.keys():
            topology.info(place, f"queue '{name}': {left[:100]} has no equal")

    def checked(self, place: str, name: str, given: Table) -> Table:
        """Without values that the broker would refuse."""
        found: Table = {}
        for key, value in given.items():
            if key not in NUMBERS:
                found[key] = value
                continue
            number = number_of(value)
            if number is None or number < 0:
                self.topology.error(place, f"queue '{name}': {key} is no number")
            else:
                found[key] = NUMBERS[key](number)
        return found

    def exchange(
        self,
        place: str,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        alternate: str = "",
    ) -> None:
        if is_own(name):
            return
        if kind not in TYPES:
            self.topology.error(place, f"exchange '{name}': no type '{kind[:40]}' here")
            return
        if (self.vhost, name) in self.topology.exchanges:
            del self.topology.exchanges[self.vhost, name]
        arguments = {"alternate-exchange": alternate} if alternate else {}
        self.topology.exchange(
            place, self.vhost, name, kind, durable=durable, auto_delete=auto_delete,
            arguments=arguments,
        )  # fmt: skip

    def bind(self, place: str, exchange: str, queue: str, key: str, arguments: Table) -> None:
        if is_own(exchange) or is_own(queue):
            return
        if any(str(name).startswith("qpid.") for name in arguments):
            self.topology.info(place, "arguments of Qpid's own of a binding are left out")
            arguments = {k: v for k, v in arguments.items() if not str(k).startswith("qpid.")}
        self.topology.bind(place, self.vhost, exchange, queue, key, arguments)

    def result(self) -> Result:
        topology = self.topology
        topology.check_bindings("")
        for queue in topology.queues.values():
            to = queue["arguments"].get("x-dead-letter-exchange")
            if to and (self.vhost, to) not in topology.exchanges and not to.startswith("amq."):
                topology.warn("", f"queue '{queue['name']}': exchange '{to}' is not in the file")
        return topology.result("qpid-cpp")


# --- text -----------------------------------------------------------------------------------------


def read_listing(text: str, vhost: str | None) -> Result:
    """Raises ``ImportFailed``."""
    listing = Listing(vhost or "/")
    parser = TextParser(listing)
    for number, line in enumerate(text.splitlines(), 1):
        parser.line(f"line {number}", line)
    if not parser.known:
        raise ImportFailed("no output of qpid-config or qpid-stat that lists queues or exchanges")
    return listing.result()


class TextParser:
    """Line by line. ``mode`` is the table or the object that the line belongs to."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.known = False
        self.mode = ""
        self.columns: list[tuple[str, int]] = []
        self.owner = ""

    def line(self, place: str, line: str) -> None:
        plain = line.strip()
        if not plain or set(plain) == {"="}:
            return
        if self.title(place, line, plain):
            self.known = True
        elif plain.startswith("bind ["):
            self.binding(place, plain)
        elif self.mode == "queues":
            self.queue(place, plain)
        elif self.mode == "exchanges":
            self.exchange(place, plain)
        elif self.mode in ("queue columns", "exchange columns"):
            self.row(place, line)
        elif self.known:
            self.listing.topology.info(place, f"not understood: '{plain[:80]}'")

    def title(self, place: str, line: str, plain: str) -> bool:
        """Whether a line begins a table or an object."""
        words = plain.split()
        if words[:2] == ["Queue", "Name"] and "Attributes" in words:
            self.mode = "queues"
        elif words[:2] == ["Type", "Exchange"] and "Attributes" in words:
            self.mode = "exchanges"
        elif words[0] == "queue" and "dur" in words and "autoDel" in words:
            self.start_columns(line, "queue columns")
        elif words[0] == "exchange" and "type" in words and "dur" in words:
            self.start_columns(line, "exchange columns")
        elif plain.startswith("Queue '") and plain.endswith("'"):
            self.mode, self.owner = "queue", plain[7:-1]
            if (self.listing.vhost, self.owner) not in self.listing.topology.queues:
                self.listing.queue(place, self.owner, True, False, False, {})
                told = (
                    f"queue '{self.owner}': its options are not in this listing; it is durable here"
                )
                self.listing.topology.info(place, told)
        elif plain.startswith("Exchange '") and plain.endswith(")"):
            name, _, kind = plain[10:-1].rpartition("' (")
            self.mode, self.owner = "exchange", name
            if (self.listing.vhost, name) not in self.listing.topology.exchanges:
                self.listing.exchange(place, name, kind, True, False)
        elif plain in ("Queues", "Exchanges"):
            self.mode = ""
        else:
            return False
        return True

    def start_columns(self, line: str, mode: str) -> None:
        self.mode = mode
        self.columns = []
        at = 0
        for word in line.split():
            at = line.index(word, at)
            self.columns.append((word, at))
            at += len(word)

    def row(self, place: str, line: str) -> None:
        """Columns begin where their titles begin."""
        cells = {}
        for number, (title, start) in enumerate(self.columns):
            more = self.columns[number + 1 :]
            cells[title] = line[start : more[0][1] if more else None].strip()
        listing = self.listing
        durable, auto = cells.get("dur") == "Y", cells.get("autoDel") == "Y"
        if self.mode == "queue columns":
            name, exclusive = cells["queue"], cells.get("excl") == "Y"
            if (listing.vhost, name) not in listing.topology.queues:
                listing.queue(place, name, durable, auto, exclusive, {})
        elif (listing.vhost, cells["exchange"]) not in listing.topology.exchanges:
            listing.exchange(place, cells["exchange"], cells["type"], durable, auto)

    def queue(self, place: str, plain: str) -> None:
        name, _, rest = plain.partition(" ")
        words, alternate = options(rest), ""
        arguments: Table = {}
        for option, value in words:
            if option == "--alternate-exchange":
                alternate = value
            elif option == "--limit-policy":
                arguments[POLICY] = value.replace("-", "_")
            elif option in OPTIONS:
                arguments[OPTIONS[option]] = value
            elif option == "--shared-groups":
                arguments["qpid.shared_msg_group"] = 1
            elif option == "--order":
                arguments |= {"qpid.last_value_queue": 1} if value.startswith("lvq") else {}
            elif option == "--argument":
                key, _, text = value.partition("=")
                arguments[key] = text
            elif option not in {"--durable", "auto-del", "excl"} | QUIET_OPTIONS:
                self.listing.topology.info(place, f"queue '{name}': '{option[:80]}' has no equal")
        flags = {option for option, _ in words}
        self.listing.queue(
            place, name, "--durable" in flags, "auto-del" in flags, "excl" in flags, arguments,
            alternate,
        )  # fmt: skip

    def exchange(self, place: str, plain: str) -> None:
        kind, _, rest = plain.partition(" ")
        name, _, rest = rest.strip().partition(" ")
        if kind in TYPES and (not name or name.startswith("--")):
            return  # the default exchange
        words = dict(options(rest))
        alternate = words.get("--alternate-exchange", "")
        auto = "auto-del" in words
        self.listing.exchange(place, name, kind, "--durable" in words, auto, alternate)

    def binding(self, place: str, plain: str) -> None:
        """``bind [key] => other``, and perhaps arguments."""
        key, arrow, rest = plain.removeprefix("bind [").partition("] => ")
        other, _, extra = rest.strip().partition(" ")
        other = other.strip("'")
        if not arrow or self.mode not in ("queue", "exchange"):
            self.listing.topology.error(place, f"not a binding: '{plain[:80]}'")
            return
        if extra.strip() not in ("", "{}", "None"):
            arguments = binding_arguments(extra.strip())
            if arguments is None:
                told = f"arguments of a binding are left out: {extra.strip()[:80]}"
                self.listing.topology.error(place, told)
                return
        else:
            arguments = {}
        queue, exchange = (self.owner, other) if self.mode == "queue" else (other, self.owner)
        if exchange:
            self.listing.bind(place, exchange, queue, key, arguments)


def options(text: str) -> list[tuple[str, str]]:
    """Words with their values: ``--name=value``, ``--order lvq``, ``--argument a=b``."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    found = []
    at = 0
    while at < len(words):
        word, equals, value = words[at].partition("=")
        at += 1
        if not equals and word in ("--order", "--argument", "--limit-policy") and at < len(words):
            value = words[at]
            at += 1
        found.append((word, value))
    return found


def binding_arguments(text: str) -> Table | None:
    """A table as Python prints it, of texts and numbers; ``None`` if it is not one."""
    import ast

    if len(text) > 4096:
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    good = all(v is None or isinstance(v, str | int | float | bool) for v in value.values())
    return value if good else None


# --- objects of the management --------------------------------------------------------------------


def is_objects(value: Any) -> bool:
    entries = value if isinstance(value, list) else list_of(value)
    return any(isinstance(one, dict) and class_of(one) for one in entries[:100])


def list_of(value: Any) -> list[Any]:
    """All objects of a document that has lists of them by class."""
    if not isinstance(value, dict):
        return []
    return [one for each in value.values() if isinstance(each, list) for one in each]


def class_of(one: Table) -> str:
    schema = one.get("_schema_id")
    name = schema.get("_class_name") if isinstance(schema, dict) else None
    return name if name in ("queue", "exchange", "binding") else ""


def read_objects(value: Any, vhost: str | None) -> Result:
    """Raises ``ImportFailed``."""
    entries = value if isinstance(value, list) else list_of(value)
    listing = Listing(vhost or "/")
    given = [
        (f"/{at}", class_of(one), one.get("_values"))
        for at, one in enumerate(entries)
        if isinstance(one, dict) and isinstance(one.get("_values"), dict)
    ]
    if not any(kind for _, kind, _ in given):
        raise ImportFailed("no queues, exchanges or bindings of the C++ broker's management")
    for wanted in ("exchange", "queue", "binding"):
        for place, kind, values in given:
            if kind == wanted:
                assert isinstance(values, dict)
                read_object(listing, place, kind, values)
    return listing.result()


def read_object(listing: Listing, place: str, kind: str, values: Table) -> None:
    arguments = values.get("arguments")
    table = arguments if isinstance(arguments, dict) else {}
    alternate = named_by(values.get("altExchange"))
    if kind == "binding":
        queue, exchange = named_by(values.get("queueRef")), named_by(values.get("exchangeRef"))
        key = values.get("bindingKey")
        listing.bind(place, exchange, queue, key if isinstance(key, str) else "", table)
        return
    name = values.get("name")
    if not isinstance(name, str):
        listing.topology.error(place, f"a {kind} without a name is left out")
        return
    durable, auto = values.get("durable") is True, values.get("autoDelete") is True
    if kind == "exchange":
        listing.exchange(place, name, str(values.get("type")), durable, auto, alternate)
    else:
        listing.queue(place, name, durable, auto, values.get("exclusive") is True, table, alternate)


def named_by(reference: object) -> str:
    """The name in a reference to an object."""
    if isinstance(reference, dict):
        reference = reference.get("_object_name")
    if not isinstance(reference, str):
        return ""
    return reference.split(":", 2)[-1] if reference.count(":") >= 2 else reference
