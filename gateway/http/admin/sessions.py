"""Named sessions of 0-10: those that a connection has, and those that are kept for another."""

from starlette.responses import Response

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.views import NamedSessionList, NamedSessionView
from gateway.http.problems import Problem
from gateway.sessions.named import NamedSession

SESSIONS = "/v1/admin/sessions"


def view(one: NamedSession, now: int) -> NamedSessionView:
    holder = one.holder
    return NamedSessionView(
        id=one.id,
        name=one.key.name.decode("utf-8", "backslashreplace"),
        user=one.key.user,
        vhost=one.key.vhost,
        state="attached" if holder is not None else "kept",
        connection=None if holder is None else holder.connection,
        timeout_seconds=one.seconds,
        left_seconds=None if one.due is None else max(one.due - now, 0) / 1000,
        consumers=one.consumers,
        unacknowledged=one.unsettled,
    )


async def list_named_sessions(call: Call) -> Response:
    now = call.context.broker.state.now
    return listed("sessions", (view(one, now) for one in call.context.dependencies.sessions))


async def end_named_session(call: Call) -> None:
    sessions = call.context.dependencies.sessions
    found = [one for one in sessions if str(one.id) == call.names["session"]]
    if not found:
        raise Problem(problems.NOT_FOUND, "no session with this id")
    if found[0].kept is None:
        raise Problem(problems.CONFLICT, "a connection has the session: close the connection")
    await call.act(lambda: sessions.end(found[0]))


ENDPOINTS = [
    Endpoint("GET", SESSIONS, list_named_sessions, "Named sessions of AMQP 0-10", Rank.MONITOR,
             gives=NamedSessionList,
             text="Those that a connection has, and those that are kept until another attaches "
             "them or their timeout is over."),
    Endpoint("DELETE", SESSIONS + "/{session}", end_named_session, "End a session that is kept",
             Rank.ADMINISTRATOR, status=204, refusals=(problems.NOT_FOUND, problems.CONFLICT),
             text="Its messages go back to their queues, and its own queues are deleted."),
]  # fmt: skip
