"""A broker that is given as a URL on the command line."""

from urllib.parse import quote, unquote, urlsplit

from pydantic import SecretStr, ValidationError

from gateway.adapters import Limits
from gateway.bridge.upstream import Upstream
from gateway.config.bridge import UpstreamSettings
from gateway.errors import ConfigError


def shown(settings: UpstreamSettings) -> str:
    """The URL, without a password."""
    vhost = quote(settings.vhost, safe="")
    return f"{settings.addresses[0].replace('://', f'://{settings.user}@')}/{vhost}"


def read_url(
    url: str, name: str, version: str = "auto", password: str = "guest"
) -> UpstreamSettings:
    """``amqp://user@host:port/vhost``; an empty path is the virtual host ``/``, as is ``%2F``.
    Raises ``ConfigError``; a password in the URL is refused, as others may see it."""
    parts = urlsplit(url)
    if parts.password is not None:
        raise ConfigError("a password does not belong into a URL: use the environment or a file")
    try:
        port = f":{parts.port}" if parts.port is not None else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        return UpstreamSettings(
            name=name,
            addresses=[f"{parts.scheme}://{host}{port}"],
            version=version,
            vhost=unquote(parts.path[1:]) or "/",
            user=unquote(parts.username or "guest"),
            password=SecretStr(password),
        )
    except ValidationError as error:
        told = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
        raise ConfigError(f"{url}: {told}") from None
    except ValueError as error:
        raise ConfigError(f"{url}: {error}") from None


def upstream_of(settings: UpstreamSettings) -> Upstream:
    """Raises ``ConfigError``."""
    return Upstream(settings, Limits(), None)
