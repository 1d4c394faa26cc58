"""The endpoints of ``/v1/{vhost}/operations/{id}``."""

from starlette.requests import Request
from starlette.responses import Response

from gateway.http.context import Context
from gateway.http.portions import Whole
from gateway.http.publish.operations import MEDIA_TYPE, Operation
from gateway.http.request_parameters import authenticate, vhost_of


class OperationEndpoints:
    """Shows an operation to its owner, and deletes it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.operations = context.operations

    async def located(self, request: Request) -> Operation:
        caller = await authenticate(self.context, request.scope)
        vhost = vhost_of(self.context.broker, request.path_params["vhost"])
        return self.operations.find(caller, vhost, request.path_params["id"])

    async def show_operation(self, request: Request) -> Response:
        operation = await self.located(request)
        more = {} if operation.task.done() else {"retry-after": "1"}
        headers = {"cache-control": "no-store", **more}
        return Whole(
            operation.document(self.context.settings.operation_seconds), headers, MEDIA_TYPE
        )

    async def delete_operation(self, request: Request) -> Response:
        self.operations.forget(await self.located(request))
        return Response(status_code=204)
