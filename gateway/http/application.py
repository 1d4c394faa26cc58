"""The steps of every HTTP request, whichever way it takes.

1. ``Observation`` gives it an id and a trace, and notes the time.
2. The fast path answers it, if it is a plain publish (``fast_path.py``); otherwise
   ``Front.choose`` finds the application for it: an endpoint of publishing, or FastAPI's routes.
3. ``Front`` adds the fields that every response has (security, CORS, rate limits).
4. ``Observation.answered`` adds those of the request's id and trace.
5. ``Observation.end`` counts, measures and logs it.
"""

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.access.front import Front
from gateway.http.access.protocol import send_answer, write_whole
from gateway.http.fast_path import FastPath
from gateway.http.observe.observation import Observation, Observe
from gateway.http.problems import INTERNAL, INTERNAL_TEXT, Problem


class Application(FastAPI):
    """FastAPI within these steps."""

    observe: Observe
    front: Front
    fast_path: FastPath

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        observed = Observation(self.observe, scope)
        try:
            node = self.fast_path.find(scope)
            if node is None or not self.fast_path.is_plain(observed, scope):
                endpoint = None if node is None else self.fast_path.endpoint(node, scope)
                await self.pass_on(endpoint, observed, scope, receive, send)
                return
            answer = await self.fast_path.answer(node, scope, observed.fields, receive)
            if answer is not None:
                headers = self.front.complete_own(scope, answer.headers)
                observed.answered(answer.status, headers)
                body = bytes(answer.body)
                if not write_whole(scope, answer.status, headers, body):
                    await send_answer(send, answer.status, headers, body)
        except Exception:
            if observed.headers is None:
                problem = Problem(INTERNAL, INTERNAL_TEXT).response(scope["path"])
                await problem(scope, receive, self.completing(observed, scope, send))
            raise  # the server logs it
        finally:
            observed.end()

    async def pass_on(
        self,
        endpoint: ASGIApp | None,
        observed: Observation,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """To an endpoint that is known by now, or to the one that is chosen."""
        send = self.completing(observed, scope, send)
        with observed.inside():
            try:
                app = endpoint or self.front.choose(scope) or super().__call__
                await app(scope, self.front.counting(scope, receive), send)
            except Problem as problem:
                await problem.response(scope["path"])(scope, receive, send)

    def completing(self, observed: Observation, scope: Scope, send: Send) -> Send:
        """``send`` that adds the fields of every response."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = self.front.complete(scope, message.get("headers", []))
                observed.answered(message["status"], headers)
                message["headers"] = headers
            await send(message)

        return sending
