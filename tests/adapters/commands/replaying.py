"""A recorded conversation replayed to our server, with its answers where the original answered."""

from typing import Any

from gateway.adapters.commands.wire import layouts as w
from tests.adapters.commands.harness import VHOST, Harness, Peer, parsed
from tests.adapters.commands.recorded import Line, read

Said = tuple[Any, ...]


def brief(record: Any, fragment: bytes) -> Said:
    """A command as name and fields. Texts of replies and tuned values are each server's own."""
    values = {name: getattr(record, name) for name in record.__slots__}
    values.pop("reply_text", None)
    if isinstance(record, w.ConnectionTune):
        values = {}
    said = (record.NAME, *values.values())
    return (*said, fragment) if fragment else said


def heard(octets: bytes) -> list[Said]:
    return [brief(record, fragment) for record, fragment in parsed(octets)]


def ready(lines: list[Line]) -> Harness:
    """A harness as the recording needs it: its queue, its user, and messages that were there."""
    harness = Harness()
    for queue in ("test", "alt.rec.pets"):
        harness.queue(queue)
    challenge = next((line for line in lines if line.kind == "connection.challenge"), None)
    plain = challenge is not None and "PLAIN" in challenge.fields[1]
    harness.mechanisms = ("PLAIN", "ANONYMOUS") if plain else ("ANONYMOUS",)
    for line in lines:
        if line.kind == "connection.response" and line.fields[1]:
            table = line.fields[1]
            user, password = table["LOGIN"][1], table["PASSWORD"][1]
            refused = [o for o in lines if o.kind == "connection.close" and o.fields[0] == 403]
            if not refused:
                harness.user(user.rstrip("\0"), password.rstrip("\0"))
            else:
                harness.user(user.rstrip("\0"), password + " is wrong")
            if plain:
                # Who has a name must give it.
                harness.authority.anonymous_user = None
                harness.mechanisms = ("PLAIN",)
            else:
                harness.mechanisms = ("PLAIN", "ANONYMOUS")
    if not any(line.kind == "handle.send" for line in lines):
        fill(harness, lines)
    return harness


def fill(harness: Harness, lines: list[Line]) -> None:
    """Messages that the recorded server had: those that it sends."""
    octets = b"".join(line.octets for line in lines if not line.from_client)
    bodies: dict[int, bytes] = {}
    for record, fragment in parsed(octets):
        if isinstance(record, w.HandleNotify) and record.message_nbr not in bodies:
            bodies[record.message_nbr] = fragment
    if not bodies:
        return
    for line in lines:
        if line.kind == "handle.index":
            last = int(line.fields[2].replace("-", " ").split()[-1])
            for number in range(last + 1):
                bodies.setdefault(number, bodies[max(bodies)])
    harness.authority.anonymous_user, before = "guest", harness.authority.anonymous_user
    peer = Peer(harness, mechanisms=("ANONYMOUS",))
    peer.says(b"\x80\x01", w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "filler"))
    peer.says(w.ChannelOpen(1), w.HandleOpen(1, 1, 1, producer=True, dest_name="test"))
    for number in sorted(bodies):
        peer.says(w.HandleSend(1, 0, len(bodies[number])), bodies[number])
    peer.disconnect()
    harness.authority.anonymous_user = before


def replay(name: str) -> list[tuple[int, list[Said], list[Said]]]:
    """Where the answers differ: number of the step, the recorded server's, ours."""
    lines = read(name)
    harness = ready(lines)
    guests: dict[str, Peer] = {}
    found: list[tuple[int, list[Said], list[Said]]] = []
    at = step = 0
    while at < len(lines):
        who = lines[at].connection
        peer = guests.setdefault(who, harness.peer(mechanisms=harness.mechanisms))
        while at < len(lines) and lines[at].from_client and lines[at].connection == who:
            if lines[at].kind == "end":
                peer.disconnect()
            else:
                peer.feed(lines[at].octets)
            at += 1
        wanted: dict[str, bytes] = dict.fromkeys(guests, b"")
        ended: set[str] = set()
        while at < len(lines) and not lines[at].from_client:
            line = lines[at]
            wanted[line.connection] = wanted.get(line.connection, b"") + line.octets
            if line.kind == "end":
                ended.add(line.connection)
            at += 1
        for name_, one in guests.items():
            theirs = heard(wanted.get(name_, b""))
            ours = [brief(*said) for said in one.gets()]
            if name_ in ended and not one.adapter.closing:
                theirs.append(("end",))
            if theirs != ours:
                found.append((step, theirs, ours))
        step += 1
    return found
