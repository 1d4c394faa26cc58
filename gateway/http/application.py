"""The steps of every HTTP request, whichever way it takes.

1. ``Observation`` gives it an id and a trace, and notes the time.
2. The fast path answers it, if it is a plain publish (``fast_path.py``); otherwise
   ``Front.choose`` finds the application for it: an endpoint of publishing, a probe, or FastAPI's
   routes.
3. ``Front`` adds the fields that every response has (security, CORS, rate limits).
4. ``Observation.answered`` adds those of the request's id and trace.
5. ``Observation.end`` counts, measures and logs it.

FastAPI and the modules of its routes take a third of the imports of a start, so they are loaded
after it: publishes and probes are answered without them, and other requests wait for them.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.access.front import Front
from gateway.http.access.protocol import send_answer, write_whole
from gateway.http.context import Context
from gateway.http.fast_path import FastPath
from gateway.http.observe.observation import Observation, Observe
from gateway.http.problems import INTERNAL, INTERNAL_TEXT, Problem
from gateway.http.publish.endpoints import Publishing

if TYPE_CHECKING:
    from fastapi import FastAPI


class Application:
    """These steps, and FastAPI behind them. ``import_routes`` imports the modules of all routes and
    gives the function that makes them."""

    def __init__(
        self,
        context: Context,
        publishing: Publishing,
        observe: Observe,
        front: Front,
        fast_path: FastPath,
        import_routes: "Callable[[], Callable[[Application], FastAPI]]",
    ) -> None:
        self.publishing = publishing
        self.observe = observe
        self.front = front
        self.fast_path = fast_path
        self.state = State({"context": context, "hub": context.hub})
        """Shared with FastAPI."""
        self._import_routes = import_routes
        self._api: FastAPI | None = None
        self._loading: asyncio.Task[FastAPI] | None = None

    # --- FastAPI --------------------------------------------------------------------------------

    @property
    def api(self) -> "FastAPI":
        """FastAPI with all routes, which are made now if they are not there."""
        if self._api is None:
            self._api = self._import_routes()(self)
        return self._api

    async def load(self) -> "FastAPI":
        """The same, with the imports done by a thread, while other requests are served."""
        if self._api is not None:
            return self._api
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> "FastAPI":
        try:
            await asyncio.to_thread(self._import_routes)
        except BaseException:
            self._loading = None  # the next request tries again
            raise
        return self.api

    @property
    def loading(self) -> bool:
        """Whether ``load`` was called, and is not done."""
        return self._loading is not None and not self._loading.done()

    # --- requests -------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (await self.load())(scope, receive, send)
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
                app = endpoint or self.front.choose(scope) or self._api or await self.load()
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
