"""A form or script of a foreign page does nothing, on any route: a browser sends the password or
the session that it remembers by itself."""

from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest

from tests.http.description_words import operations

EVIL, PAGE = "https://evil.example", "https://app.example"
FORMS = {
    "text/plain": b"{}",
    "application/x-www-form-urlencoded": b"a=b",
    "multipart/form-data; boundary=x": (
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
    ),
}
"""What a page may send to strangers without asking before (Fetch, CORS-safelisted)."""
STRANGE = [
    {"origin": EVIL},
    {"origin": "null"},
    {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
]
NAMES = {"vhost": "%2F", "queue": "orders", "exchange": "amq.topic", "source": "amq.topic"}
OPEN = {"/v1/session"}
"""Asks for a password or token of its own."""


def changes(rig: Any) -> Iterator[tuple[str, str]]:
    """Method and address of all that is not only looked at."""
    for operation in operations(rig.app.api.openapi()):
        if operation.method not in ("post", "put", "patch", "delete", "query"):
            continue
        filled = operation.path
        for one in operation.parameters("path"):
            filled = filled.replace(f"{{{one['name']}}}", NAMES.get(one["name"], "x"))
        yield operation.method.upper(), filled


def state(rig: Any) -> Any:
    broker = rig.broker
    return (
        [(one.name, one.ready, one.unsettled) for one in list(broker.each_queue("/"))],
        sorted(broker.vhosts),
        sorted(broker.vhosts["/"].exchanges),
        broker.access.list_users(),
    )


async def test_nothing_happens_on_any_route(make_rig: Any) -> None:
    rig = make_rig(origins=(PAGE,))
    rig.broker.access.add_user("root", "rootroot", ("administrator",))
    rig.broker.access.set_permissions("root", "/", ".*", ".*", ".*")
    rig.queue("orders")
    before = state(rig)
    seen = set()
    async with rig.http("root:rootroot") as http:
        answer = await http.post("/v1/session")
        (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
        session = f"{morsel.key}={morsel.value}"
        for method, path in changes(rig):
            for kind, body in FORMS.items():
                for strange in STRANGE:
                    for who in ({}, {"cookie": session, "authorization": ""}):
                        headers = {"content-type": kind, **strange, **who}
                        if who:
                            headers.pop("authorization")
                        request = http.build_request(method, path, content=body, headers=headers)
                        auth = None if who else http.auth
                        answer = await http.send(request, auth=auth)
                        assert answer.status_code in (401, 403), (
                            method,
                            path,
                            headers,
                            answer.text,
                        )
            seen.add(path.split("/")[1])
    assert seen >= {"api", "v1"} and state(rig) == before


@pytest.mark.parametrize("credentials", [False, True])
async def test_pages_of_a_listed_origin_have_no_session_unless_it_is_set(
    make_rig: Any, credentials: bool
) -> None:
    rig = make_rig(origins=(PAGE,), origin_credentials=credentials)
    rig.queue("orders")
    queue = "/v1/%2F/queues/orders/messages"
    async with rig.http() as http:
        (morsel,) = SimpleCookie((await http.post("/v1/session")).headers["set-cookie"]).values()
        form = {"origin": PAGE, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        script = {"origin": PAGE, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
        blind = {**script, "sec-fetch-mode": "no-cors"}
        for headers in (form, blind):
            answer = await http.post(queue, content=b"x", headers=headers)
            assert answer.status_code == (201 if credentials else 403), headers
        assert (await http.post(queue, content=b"x", headers=script)).status_code == 201
    async with rig.http(None) as http:
        for headers in (form, blind, script, {"origin": PAGE}):
            cookie = {"cookie": f"{morsel.key}={morsel.value}"}
            answer = await http.post(queue, content=b"x", headers=headers | cookie)
            assert answer.status_code == (201 if credentials else 403), headers
