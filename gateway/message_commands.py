"""Commands about messages: ``publish``, ``consume`` and ``browse``, over HTTP.

Exit codes: 0 all done; 1 the gateway has answered, and not all was done (a message that no queue
takes, no message to consume); 2 wrong use, or the gateway could not be asked.
"""

import base64
import contextlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from urllib.parse import urlencode

import typer
from rich.table import Table
from rich.text import Text

from gateway.administration import WHERE, Password, err, fail, out, printable, reason_of
from gateway.gateway_client import (
    GatewayClient,
    ServerUrl,
    ServerUser,
    ServerVhost,
    open_client,
    segment,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object in a line.")]
QueueName = Annotated[str, typer.Argument(help="Name of the queue.")]
NOT_ALL = 1
"""Exit code."""
BATCH = 100
"""Messages that are received, or browsed, at once."""
PREVIEW = 60
"""Characters of a body in a table."""
LEASE_MS = 60_000
LONGEST_WAIT = 30
"""Seconds of one request."""
NOT_FOUND, CONFLICT = 404, 409


# --- publish --------------------------------------------------------------------------------------


def publish(
    target: Annotated[str, typer.Argument(help="Name of the queue, or of the --exchange.")],
    body: Annotated[
        str | None, typer.Argument(help="The body. Without it, standard input is the body.")
    ] = None,
    exchange: Annotated[
        bool, typer.Option("--exchange", "-x", help="The target is an exchange.")
    ] = False,
    key: Annotated[str, typer.Option("--key", "-k", help="Routing key, with --exchange.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The body is this file.")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Each line of the body is a message.")
    ] = False,
    content_type: Annotated[
        str | None,
        typer.Option("--content-type", "-t", help="Without it: JSON or text if the body is that."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="Application property, name=value; repeatable."),
    ] = None,
    message_id: Annotated[str | None, typer.Option("--id", help="Message id.")] = None,
    subject: Annotated[str | None, typer.Option(help="Subject.")] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=255, help="Priority.")] = None,
    ttl: Annotated[int | None, typer.Option(min=0, help="Time to live, in milliseconds.")] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Not on disk.")] = False,
    declare: Annotated[
        bool, typer.Option("--declare", help="Make the queue, durable, if there is none.")
    ] = False,
    vhost: ServerVhost = "/",
    url: ServerUrl = WHERE,
    user: ServerUser = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Publish a message, or one for each line, and wait until it is safe.

    Exits with 1 if a message is not taken; those before it are."""
    if body is not None and file is not None:
        fail("give the body or --file, not both")
    if key and not exchange:
        fail("--key needs --exchange: a queue has its name as routing key")
    if lines and message_id is not None:
        fail("--id is the id of one message, and --lines may publish several")
    if declare and exchange:
        fail("--declare makes a queue, not an exchange")
    path = f"/v1/{segment(vhost)}/queues/{segment(target)}/messages"
    if exchange:
        path = f"/v1/{segment(vhost)}/exchanges/{segment(target)}/messages"
        path += "?" + urlencode({"routing_key": key}) if key else ""
    fields = fields_of(property_ or [], message_id, subject, priority, ttl, transient)
    count = 0
    with open_client(url, user, password) as client, open_body(body, file) as source:
        if declare:
            declare_queue(client, vhost, target)
        for one in (line.rstrip(b"\r\n") for line in source) if lines else [source.read()]:
            media = {"content-type": content_type or guess(one)}
            answer = client.send("POST", path, content=one, headers=fields | media)
            if answer.is_error:
                done = f"; {count} messages were published before" if lines else ""
                if answer.status_code == NOT_FOUND and not exchange:
                    done += "; --declare makes the queue"
                err.print(
                    f"[red]error:[/red] {answer.status_code} ", Text(reason_of(answer) + done),
                    sep="", soft_wrap=True,
                )  # fmt: skip
                raise typer.Exit(NOT_ALL)
            count += 1
            if as_json:
                sys.stdout.write(json.dumps(answer.json()) + "\n")
    if not as_json:
        noun = "message" if count == 1 else "messages"
        sys.stdout.write(f"published {count} {noun} to {printable(target)}\n")


def fields_of(
    properties: list[str],
    message_id: str | None,
    subject: str | None,
    priority: int | None,
    ttl: int | None,
    transient: bool,
) -> dict[str, str]:
    """The fields of a publish that have the metadata (RFC 9651)."""
    fields = {}
    if properties:
        pairs = [one.partition("=") for one in properties]
        for name, equals, _ in pairs:
            if not equals or not name:
                fail(f"--property {name}: write name=value")
        fields["amqp-property"] = ", ".join(f"{quoted(n)};v={quoted(v)}" for n, _, v in pairs)
    for name, text in (("amqp-message-id", message_id), ("amqp-subject", subject)):
        if text is not None:
            fields[name] = quoted(text)
    for name, number in (("amqp-priority", priority), ("amqp-ttl", ttl)):
        if number is not None:
            fields[name] = str(number)
    if transient:
        fields["amqp-durable"] = "?0"
    return fields


def quoted(text: str) -> str:
    """A string of structured fields, or a display string (RFC 9651, 3.3.3 and 3.3.8)."""
    if text.isascii() and text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    octets = text.encode("utf-8", "surrogateescape")
    plain = (chr(o) if 0x20 <= o < 0x7F and o not in b'%"' else f"%{o:02x}" for o in octets)
    return f'%"{"".join(plain)}"'


def declare_queue(client: GatewayClient, vhost: str, queue: str) -> None:
    """Make sure that there is a queue of this name, whatever its properties."""
    path = f"/v1/admin/vhosts/{segment(vhost)}/queues/{segment(queue)}"
    answer = client.send("PUT", path, json={})
    if answer.is_error and answer.status_code != CONFLICT:
        fail(f"{answer.status_code} {reason_of(answer)}")


@contextlib.contextmanager
def open_body(body: str | None, file: Path | None) -> Iterator[BinaryIO]:
    """The octets to publish: those given, of a file, or of standard input."""
    if body is not None:
        yield io.BytesIO(body.encode("utf-8", "surrogateescape"))
    elif file is None:
        yield sys.stdin.buffer
    else:
        try:
            stream = file.open("rb")
        except OSError as error:
            fail(f"{file}: {error.strerror}")
        with stream:
            yield stream


def guess(body: bytes) -> str:
    """The content type of a body that its sender has not typed."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"


# --- consume --------------------------------------------------------------------------------------


def consume(
    queue: QueueName,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", "-w", min=0, help="Seconds to wait for the next message.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for messages until interrupted.")
    ] = False,
    vhost: ServerVhost = "/",
    url: ServerUrl = WHERE,
    user: ServerUser = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Take messages out of a queue, and print their bodies, each with a line end.

    A message is accepted when it is printed: it is lost for nobody if the printing fails. Exits
    with 1 if there was no message, or fewer than --count."""
    taken = 0
    path = f"/v1/{segment(vhost)}"
    with open_client(url, user, password) as client, contextlib.suppress(KeyboardInterrupt):
        until = math.inf if follow else time.monotonic() + wait
        while count is None or taken < count:
            left = max(0.0, until - time.monotonic())
            asked: dict[str, Any] = {
                "max": BATCH if count is None else min(BATCH, count - taken),
                "wait_ms": int(min(left, LONGEST_WAIT) * 1000),
                "lease_ms": LEASE_MS,
                "payload": "auto" if as_json else "base64",
            }
            found = client.ask("POST", f"{path}/queues/{segment(queue)}/deliveries", json=asked)
            deliveries = (found or {}).get("deliveries", [])
            if deliveries:
                taken += hand_over(client, path, deliveries, as_json)
                until = max(until, time.monotonic() + wait)
            elif time.monotonic() >= until:
                break
    if taken < (count or 1) and not follow:
        raise typer.Exit(NOT_ALL)


def hand_over(
    client: GatewayClient, path: str, deliveries: list[dict[str, Any]], as_json: bool
) -> int:
    """Print messages and accept them; those that cannot be printed go back. Their number."""
    printed = 0
    try:
        for one in deliveries:
            write_message(one, as_json)
            printed += 1
    finally:
        outcomes = ["accepted"] * printed + ["released"] * (len(deliveries) - printed)
        settled = [
            {"token": one["token"], "outcome": outcome}
            for one, outcome in zip(deliveries, outcomes, strict=True)
        ]
        if settled:
            client.ask("POST", f"{path}/deliveries/settle", json=settled)
    return printed


def write_message(one: dict[str, Any], as_json: bool) -> None:
    """Print a message of a delivery or of a browsed queue, and make sure that it is out."""
    try:
        if as_json:
            shown = {key: value for key, value in one.items() if key != "token"}
            sys.stdout.write(json.dumps(shown, ensure_ascii=True) + "\n")
            sys.stdout.flush()
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(octets_of(one["message"]) + b"\n")
            sys.stdout.buffer.flush()
    except OSError as error:
        # What is in the buffers cannot be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        err.print(f"[red]error:[/red] standard output: {error.strerror}")
        raise typer.Exit(NOT_ALL) from None


def octets_of(message: dict[str, Any]) -> bytes:
    """The body, if it is one of data; else as JSON."""
    body = message.get("body", {})
    if "base64" in body:
        return base64.b64decode(body["base64"])
    if "omitted" in body:
        fail(f"message {message.get('id')}: {body.get('octets')} octets are too many to be printed")
    return json.dumps(body).encode()


# --- browse ---------------------------------------------------------------------------------------


def browse(
    queue: QueueName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most messages.")] = 20,
    vhost: ServerVhost = "/",
    url: ServerUrl = WHERE,
    user: ServerUser = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Show the messages of a queue, from its head, and leave them there."""
    with open_client(url, user, password) as client:
        path = f"/v1/{segment(vhost)}/queues/{segment(queue)}/messages"
        table = Table("position", "id", "key", "content type", "properties", "body")
        shown = 0
        for one in browsed(client, path, limit):
            shown += 1
            if as_json:
                write_message(one, as_json)
            else:
                table.add_row(*map(Text, row_of(one)))
    if not as_json:
        if shown:
            out.print(table)
        out.print(f"{shown} shown", highlight=False)


def browsed(client: GatewayClient, path: str, limit: int) -> Iterator[dict[str, Any]]:
    after: dict[str, str] = {}
    while limit > 0:
        portion = {"limit": min(limit, BATCH), **after}
        page = client.ask("GET", f"{path}?{urlencode(portion)}")
        yield from page["messages"]
        limit -= len(page["messages"])
        if not page["messages"] or not page.get("next"):
            return
        after = {"after": page["next"]}


def row_of(one: dict[str, Any]) -> list[str]:
    message = one["message"]
    properties = message.get("properties") or {}
    told = ", ".join(f"{name}={value}" for name, value in properties.items())
    body = message.get("body", {})
    text = body["text"] if "text" in body else json.dumps(body.get("json", body))
    if len(text) > PREVIEW:
        text = text[: PREVIEW - 1] + "…"
    cells = (
        one["position"],
        message.get("id", ""),
        message.get("routing_key", ""),
        message.get("content_type", ""),
        told,
        text,
    )
    return [printable(str(cell)) for cell in cells]
