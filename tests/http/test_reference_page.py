"""``/docs`` and ``/docs/events``: static, strict, for everybody. ``interop/test_reference_page.py``
opens them in a browser."""

import re
from typing import Any

import pytest

from gateway.http import console, reference_page

PAGES = ("/docs", "/docs/events")


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_needs_no_credentials_and_no_other_host(make_rig: Any, path: str) -> None:
    rig = make_rig(raw_nodes=False)
    async with rig.http(None) as http:
        page = await http.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        for inline in ("<style", " style=", "onclick", "http://", "https://"):
            assert inline not in page.text
        assert not re.search(r"<script(?![^>]* src=)", page.text)
        found = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        files = [one for one in found if one.endswith((".js", ".css"))]
        assert len(files) >= 2
        for file in files:
            answer = await http.get(str(page.url.join(file)))
            assert answer.status_code == 200, file
            assert len(answer.content) > 100
        for link in set(found) - set(files) - {"data:,"}:
            assert (await http.get(str(page.url.join(link)))).status_code in (200, 401), link


def directives(policy: str) -> dict[str, str]:
    return {
        name: rest for name, _, rest in (one.strip().partition(" ") for one in policy.split(";"))
    }


@pytest.mark.parametrize(
    ("path", "more"), [("/docs", "default dompurify"), ("/docs/events", "'none'")]
)
async def test_the_policy_is_the_consoles(rig: Any, path: str, more: str) -> None:
    """Swagger UI makes HTML of Markdown, which needs a policy of trusted types; nothing else
    differs."""
    async with rig.http(None) as http:
        page = await http.get(path)
    wanted = directives(console.POLICY) | {"trusted-types": more}
    assert directives(page.headers["content-security-policy"]) == wanted
    assert page.headers["x-content-type-options"] == "nosniff"


async def test_swagger_ui_is_that_of_the_package(rig: Any) -> None:
    async with rig.http(None) as http:
        script = await http.get("/docs/swagger-ui-bundle.js")
        assert "SwaggerUIBundle" in script.text
        assert script.headers["content-type"].startswith("text/javascript")
        assert (await http.get("/docs/swagger-ui.css")).status_code == 200


async def test_without_the_package_it_says_so(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_page, "PACKAGE", "no_such_package")
    reference_page.assets.cache_clear()
    try:
        async with rig.http(None) as http:
            assert (await http.get("/docs")).status_code == 200
            answer = await http.get("/docs/swagger-ui.css")
            assert answer.status_code == 404
            assert "install no-such-package" in answer.json()["detail"]
    finally:
        reference_page.assets.cache_clear()


@pytest.mark.parametrize(
    ("path", "to"), [("/console/", "/"), ("/console", "/"), ("/docs/", "/docs")]
)
async def test_other_addresses_lead_there(rig: Any, path: str, to: str) -> None:
    async with rig.http(None) as http:
        answer = await http.get(path)
        assert (answer.status_code, answer.headers["location"]) == (308, to)


@pytest.mark.parametrize(
    "path", ["/docs/none.js", "/docs/swagger.html", "/docs/%2e%2e", "/docs/a/b"]
)
async def test_there_is_nothing_else(rig: Any, path: str) -> None:
    async with rig.http(None) as http:
        answer = await http.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_queues_of_no_virtual_host(rig: Any) -> None:
    """Administration has them below their virtual host, and RabbitMQ's paths have them all."""
    async with rig.http() as http:
        told = (await http.get("/v1/admin/queues")).json()
        assert told["status"] == 404
        assert "/v1/admin/vhosts/%2F/queues" in told["detail"] and "/api/queues" in told["detail"]
        for meant in ("exchanges", "bindings"):
            told = (await http.get(f"/v1/admin/{meant}")).json()
            assert told["detail"].endswith(f"/v1/admin/vhosts/%2F/{meant}"), told
        for path in ("/v1/admin/vhosts/%2F/queues", "/api/queues"):
            assert (await http.get(path)).status_code == 200
