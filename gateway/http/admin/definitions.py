"""Export and import of definitions in RabbitMQ's JSON."""

from starlette.responses import Response

from gateway.definitions import Definitions
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.admin.definition_export import export_in_portions
from gateway.http.admin.definition_import import Import
from gateway.http.admin.views import Imported


async def export_definitions(call: Call) -> Response:
    return await export_in_portions(call.context.broker)


async def import_definitions(call: Call) -> Imported:
    return await Import(call.context, call.user, call.body).run()


PATH = "/v1/admin/definitions"
EXAMPLE = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    ],
}

ENDPOINTS = [
    Endpoint("GET", PATH, export_definitions, "Definitions, in RabbitMQ's format",
             Rank.ADMINISTRATOR, gives=Definitions,
             text="Topology without exclusive queues, users and permissions. RabbitMQ can import "
             "it; the users then need new passwords. `scram_sha_256` holds the password verifiers: "
             "treat the document as a secret."),
    Endpoint("POST", PATH, import_definitions, "Import definitions, also RabbitMQ's",
             Rank.ADMINISTRATOR, takes=Definitions, gives=Imported, example=EXAMPLE,
             limit=lambda context: context.settings.max_body_octets,
             text="Adds missing definitions and deletes nothing. The answer has the result for "
             "each user, and names everything that was not applied."),
]  # fmt: skip
