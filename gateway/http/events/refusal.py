"""How a stream is refused: by the status of the answer, or in-band by events of a short stream."""

from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http.events.cursor import END
from gateway.http.events.opening import Crowded
from gateway.http.events.rendering import control, headers_of, jittered
from gateway.http.problems import Problem, of_refusal

CROWDED_RETRY_MS = 30_000


class Refused:
    """The refusal of one request. ``hidden``: the caller knows declared routes only."""

    def __init__(self, reconnect_ms: int, error: Problem | Refusal | Crowded, hidden: bool) -> None:
        self.reconnect_ms = reconnect_ms
        self.crowded = isinstance(error, Crowded)
        if isinstance(error, Refusal):
            error = of_refusal(error, hidden)
        self.problem = error.problem if isinstance(error, Crowded) else error

    async def answer(self, scope: Scope, receive: Receive, send: Send, inband: bool) -> None:
        """By the status of the answer, or in-band: a page is told nothing of an ``EventSource``
        that was refused with another status than 200. Where a retry is of no use the stream says
        so, and a reconnect gets 204."""
        problem = self.problem
        if not inband and not self.crowded:
            await problem.response(scope["path"])(scope, receive, send)
            return
        document = problem.document(scope["path"])
        again = self.crowded or bool(document["safe_to_retry"])
        wait = jittered(self.reconnect_ms)
        if self.crowded or problem.row.retry_after:
            wait = max(wait, CROWDED_RETRY_MS if self.crowded else problem.retry_after * 1000)
        reason = {"reason": problem.detail, "reconnect": again}
        body = control("bridge.error", {"problem": document}, retry_ms=wait)
        body += control("bridge.close", reason, None if again else END.encode())
        headers = [pair for pair in headers_of("", "") if pair[1]]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def refuse_for_good(send: Send) -> None:
    """204: the only answer that ends the reconnects of a browser's ``EventSource``."""
    headers = [(b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
