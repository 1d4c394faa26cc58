"""A client of a running gateway's HTTP, for commands, and the options that say where it is."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from gateway.administration import TIMEOUT_SECONDS, fail, password_of, reason_of

if TYPE_CHECKING:
    import httpx

ServerUrl = Annotated[
    str, typer.Option(help="Where the gateway's HTTP is.", envvar="AMQP_GATEWAY_URL")
]
ServerUser = Annotated[str, typer.Option(help="User.", envvar="AMQP_GATEWAY_USER")]
ServerVhost = Annotated[
    str, typer.Option("--vhost", "-V", help="Virtual host.", envvar="AMQP_GATEWAY_VHOST")
]


class GatewayClient:
    """Requests to one gateway. Each fails with status 2 if the gateway cannot be asked."""

    def __init__(self, http: "httpx.Client") -> None:
        self.http = http

    def send(self, method: str, path: str, **options: Any) -> "httpx.Response":
        """The answer, whatever it is."""
        import httpx

        try:
            return self.http.request(method, path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fail(f"{self.http.base_url}: {error}; --url says where the gateway's HTTP is")

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of an answer, ``None`` if it is empty. Fails if it is an error."""
        answer = self.send(method, path, **options)
        if answer.is_error:
            fail(f"{answer.status_code} {reason_of(answer)}")
        return answer.json() if answer.content else None


@contextlib.contextmanager
def open_client(url: str, user: str, password: str | None) -> Iterator[GatewayClient]:
    import httpx

    from gateway.net.tls import https_context

    with httpx.Client(
        auth=(user, password_of(user, password)),
        timeout=TIMEOUT_SECONDS,
        trust_env=False,
        verify=https_context(url),
    ) as http:
        try:
            http.base_url = url.rstrip("/")
        except httpx.InvalidURL as error:
            fail(f"{url}: {error}")
        yield GatewayClient(http)


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")
