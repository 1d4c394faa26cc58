"""Import of a topology from a file of another broker."""

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from gateway.definitions import Definitions
from gateway.http import problems
from gateway.http.admin.admin_endpoints import (
    Call,
    Endpoint,
    InvalidEntries,
    Rank,
    read_large,
    told,
)
from gateway.http.admin.definition_import import Import
from gateway.http.admin.views import Imported, ImportedTopology
from gateway.http.mistakes import summary
from gateway.http.portions import Portioned, array, encoded
from gateway.http.problems import Problem
from gateway.importing import Document, ImportFailed, Result, read_topology


class ImportQuery(BaseModel):
    """Parameters of an import."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["auto", "rabbitmq", "broker-j", "artemis", "qpid-cpp"] = Field(
        "auto", alias="from", description="what wrote the file"
    )
    vhost: str = Field(
        "", max_length=255, description="where the topology of a broker without virtual hosts goes"
    )
    dry_run: bool = Field(False, alias="dry-run", description="read only, and show the definitions")


async def import_topology(call: Call) -> Response:
    """The file is read on a thread, and its definitions are applied in portions."""
    query: ImportQuery = call.query
    file = Document("the body", call.body)
    try:
        result = await asyncio.to_thread(read_topology, [file], query.source, query.vhost or None)
    except ImportFailed as error:
        raise Problem(problems.INVALID, str(error)) from None
    if query.dry_run:
        return Portioned(parts(result, None), {"cache-control": "no-store"})
    try:
        given = await read_large(Definitions, result.definitions)
    except ValidationError as error:
        raise Problem(problems.INVALID, summary(told(error, Definitions))) from None
    except InvalidEntries as wrong:
        raise Problem(problems.INVALID, summary(wrong.errors), errors=wrong.errors) from None
    assert isinstance(given, Definitions)
    applied = await Import(call.context, call.user, given).run()
    return Portioned(parts(result, applied), {"cache-control": "no-store"})


def parts(result: Result, applied: Imported | None) -> Iterator[bytes]:
    """The answer, entry by entry."""
    yield b'{"format":' + encoded(result.format)
    findings = (encoded(one._asdict()) for one in result.findings)
    yield from array(findings, b',"findings":[', b"]")
    yield b',"applied":' + (b"null" if applied is None else applied.model_dump_json().encode())
    if applied is not None:
        yield b',"definitions":null}'
        return
    yield b',"definitions":'
    between = b"{"
    for name, value in result.definitions.items():
        yield between + encoded(name) + b":"
        between = b","
        entries: Any = value if isinstance(value, list) else None
        if entries is None:
            yield encoded(value)
        else:
            yield from array(map(encoded, entries))
    yield from chain([b"{}"] if between == b"{" else [b"}"], [b"}"])


EXAMPLE = """Queue Name   Attributes
=======================
invoices     --durable
"""

ENDPOINTS = [
    Endpoint("POST", "/v1/admin/import", import_topology,
             "Import the topology of another broker", Rank.ADMINISTRATOR, gives=ImportedTopology,
             query=ImportQuery, raw="application/octet-stream", example=EXAMPLE,
             limit=lambda context: context.settings.max_body_octets,
             text="The body is a file: definitions of RabbitMQ, configuration of Broker-J (of the "
             "broker or of a virtual host), broker.xml of Artemis, or a listing of the C++ broker "
             "(qpid-config, qpid-stat, or objects of its management as JSON). What has no equal is "
             "named with its place. Adds missing definitions and deletes nothing."),
]  # fmt: skip
