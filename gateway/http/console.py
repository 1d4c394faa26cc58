"""The console: a page at ``/`` and its files below ``/console/``. They use the same API as
everybody else.

No inline script or style, nothing from other hosts, and no text that becomes HTML, so the policy
can be strict.
"""

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from gateway.http import problems
from gateway.http.access.passwords import read_basic
from gateway.http.injected import User
from gateway.http.prepared_content import PreparedContent
from gateway.http.problems import Problem, challenge

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
MEDIA = {".css": "text/css", ".js": "text/javascript"}

NOBODY = "signed out"
"""The user that the console names instead of the one that signs out."""

router = APIRouter(include_in_schema=False)


def scripts_and_styles(folder: str) -> dict[str, PreparedContent]:
    """Every script and style in a folder of this package, by name."""
    found = {}
    for one in (files("gateway.http") / folder).iterdir():
        media = MEDIA.get(one.name[one.name.rfind(".") :])
        if media is not None:
            found[one.name] = PreparedContent(one.read_bytes(), media, HEADERS)
    return found


@cache
def pages() -> dict[str, PreparedContent]:
    return scripts_and_styles("console")


@cache
def index_page() -> PreparedContent:
    octets = (files("gateway.http") / "console" / "index.html").read_bytes()
    return PreparedContent(octets, "text/html", HEADERS)


@router.get("/")
async def index(request: Request, user: User) -> Response:
    return await index_page().answer(request)


@router.get("/console/sign-out")
async def sign_out(request: Request) -> Response:
    """A browser forgets a password only when it is refused, and sends the next one that the page
    has given for that case: this refuses everybody but ``NOBODY``, who is let in here alone."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic" or read_basic(given.encode("latin-1"))[0] != NOBODY:
        raise challenge("Signed out.")
    return Response(status_code=204, headers={"cache-control": "no-store"})


@router.get("/console")
@router.get("/console/")
async def lead_to_index() -> Response:
    """The page is at ``/``; its files are here."""
    return Response(status_code=308, headers={"location": "/"})


@router.get("/console/{name}")
async def show_file(request: Request, name: str, user: User) -> Response:
    found = pages().get(name)
    if found is None:
        raise Problem(problems.BY_STATUS[404], "the console has no such file")
    return await found.answer(request)
