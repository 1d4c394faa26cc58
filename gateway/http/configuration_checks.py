"""Checks of the files, rules and schemas that settings name, before anything uses them."""

import ssl
from pathlib import Path

from gateway.bridge.preparation import check_rules
from gateway.config import Settings
from gateway.config.web import BearerSettings, DeclaredRoute, read_named
from gateway.errors import ConfigError
from gateway.http.access.catalogue import PARAMETER
from gateway.http.access.json_schema import schema_check
from gateway.http.events.stream_request import PARAMETERS
from gateway.net.tls import server_context


def check_settings(settings: Settings) -> ssl.SSLContext | None:
    """The context for connections with TLS; ``None`` without a certificate. Raises ``ConfigError``
    if a file that is named cannot be used, or a rule is wrong."""
    tls, context = settings.amqp.tls, None
    if tls.certificate is not None and tls.key is not None:
        context = server_context(tls.certificate, tls.key, tls.client_ca)
    for shovel in settings.shovels:
        check_rules(shovel)
    check_bearer(settings.http.bearer)
    for route in settings.routes:
        check_route(route)
    return context


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
