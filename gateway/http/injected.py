"""What FastAPI hands to its endpoints: the parts of the gateway, the caller, the virtual host."""

from typing import Annotated

from fastapi import Depends, Request

from gateway.http import problems
from gateway.http.access.principal import MONITORS, Action, Principal
from gateway.http.context import Context
from gateway.http.dependencies import HttpDependencies
from gateway.http.problems import Problem
from gateway.http.rates import Rates
from gateway.http.request_parameters import authenticate, vhost_of


def get_context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


ContextIn = Annotated[Context, Depends(get_context)]


def get_dependencies(context: ContextIn) -> HttpDependencies:
    return context.dependencies


DependenciesIn = Annotated[HttpDependencies, Depends(get_dependencies)]


async def get_caller(request: Request, context: ContextIn) -> Principal:
    return await authenticate(context, request.scope)


Caller = Annotated[Principal, Depends(get_caller)]


def get_user(caller: Caller) -> str:
    return caller.user


User = Annotated[str, Depends(get_user)]


def get_vhost(vhost: str, dependencies: DependenciesIn, user: User) -> str:
    return vhost_of(dependencies.broker, vhost)


VHost = Annotated[str, Depends(get_vhost)]


def get_monitor(dependencies: DependenciesIn, caller: Caller) -> str:
    """A user with the tag ``administrator`` or ``monitoring``."""
    caller.need_admin(dependencies.broker, *sorted(MONITORS))
    return caller.user


Monitor = Annotated[str, Depends(get_monitor)]


def get_readable_vhost(vhost: VHost, dependencies: DependenciesIn, caller: Caller) -> str:
    """The virtual host, if the user has any permission there, and a narrowed credential lets it
    see all that is in it."""
    sees = any(caller.may(one, vhost, "queue", "*") for one in (Action.PRESENCE, Action.ADMIN))
    if not (sees and dependencies.broker.access.may_enter(caller.user, vhost)):
        raise Problem(problems.FORBIDDEN, f"no permission in virtual host {vhost!r}")
    return vhost


ReadableVHost = Annotated[str, Depends(get_readable_vhost)]


def get_rates(context: ContextIn) -> Rates:
    return context.rates


RatesIn = Annotated[Rates, Depends(get_rates)]
