"""Checks of the files and schemas that settings name, before anything starts."""

from pathlib import Path

from gateway.config import Settings
from gateway.config.web import BearerSettings, DeclaredRoute, read_named
from gateway.errors import ConfigError
from gateway.http.access.catalogue import PARAMETER
from gateway.http.access.json_schema import schema_check
from gateway.http.events.stream_request import PARAMETERS


def check_named_files(settings: Settings) -> None:
    """Raises ``ConfigError`` if a file that is named cannot be used."""
    check_bearer(settings.http.bearer)
    for route in settings.routes:
        check_route(route)


def check_bearer(bearer: BearerSettings) -> None:
    if bearer.issuer and not bearer.secret and "://" not in bearer.jwks:
        read_named(Path(bearer.jwks), "http.bearer.jwks")


def check_route(route: DeclaredRoute) -> None:
    if route.schema_document is not None:
        try:
            schema_check(route.schema_document)
        except ImportError:
            raise ConfigError(
                f"routes.{route.name}: schemas need the extra: pip install 'amqp-gateway[schema]'"
            ) from None
        except ValueError as error:
            raise ConfigError(f"routes.{route.name}: {route.json_schema}: {error}") from None
    taken = PARAMETERS.intersection(PARAMETER.findall(route.key))
    if route.stream and taken:
        raise ConfigError(f"routes.{route.name}: {min(taken)!r} is a parameter of streams already")
