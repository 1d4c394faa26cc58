"""The configuration as the settings of HTTP, with what stands in the files that it names."""

import json
from dataclasses import fields
from pathlib import Path

from gateway.config import Settings
from gateway.config.web import Bearer, Http, Quota, Route
from gateway.errors import ConfigError
from gateway.http.access.catalogue import PARAMETER
from gateway.http.access.checking import schema_check
from gateway.http.access.settings import AccessSettings, BearerSettings, DeclaredRoute
from gateway.http.dependencies import HttpSettings
from gateway.http.events.stream_request import PARAMETERS
from gateway.net.buckets import Rate


def http_settings(settings: Settings) -> HttpSettings:
    """Fields of the same name say the same. Raises ``ConfigError``."""
    http = settings.http
    names = {field.name for field in fields(HttpSettings)} & Http.model_fields.keys()
    same = {name: getattr(http, name) for name in names}
    return HttpSettings(**same, access=access_settings(settings))


def access_settings(settings: Settings) -> AccessSettings:
    """Raises ``ConfigError`` if a file that is named cannot be used."""
    http = settings.http
    requests, octets = rates(http.quota)
    vhost_requests, vhost_octets = rates(http.vhost_quota)
    return AccessSettings(
        failures=http.failures,
        failure_seconds=http.failure_seconds,
        bearer=bearer_settings(http.bearer) if http.bearer.issuer else None,
        session_seconds=http.session.seconds,
        plain_cookie=http.session.plain_http,
        max_sessions=http.session.max_sessions,
        ticket_seconds=http.tickets.seconds,
        ticket_idle_seconds=http.tickets.idle_seconds,
        origins=tuple(http.origins),
        origin_credentials=http.origin_credentials,
        request_rate=requests,
        octet_rate=octets,
        vhost_request_rate=vhost_requests,
        vhost_octet_rate=vhost_octets,
        max_streams_per_vhost=http.vhost_quota.streams,
        raw_nodes=http.raw_nodes,
        admin_apart=settings.admin.port is not None,
        routes=tuple(declared_route(route) for route in settings.routes),
    )


def rates(quota: Quota) -> tuple[Rate | None, Rate | None]:
    """Of requests and of octets."""
    octets = None if quota.octets is None else Rate(quota.octets, quota.octets_seconds)
    requests = None if quota.requests is None else Rate(quota.requests, quota.requests_seconds)
    return requests, octets


def bearer_settings(bearer: Bearer) -> BearerSettings:
    secret = b""
    if bearer.secret_file is not None:
        secret = read_named(bearer.secret_file, "http.bearer.secret_file").strip()
        if len(secret) < 32:
            raise ConfigError("http.bearer.secret_file: a shared secret has 32 octets or more")
    elif "://" not in bearer.jwks:
        read_named(Path(bearer.jwks), "http.bearer.jwks")
    same = bearer.model_dump(exclude={"secret_file", "algorithms"})
    algorithms = ("HS256",) if secret else tuple(bearer.algorithms)
    return BearerSettings(**same, secret=secret, algorithms=algorithms)


def declared_route(route: Route) -> DeclaredRoute:
    schema = None
    if route.json_schema is not None:
        try:
            schema = json.loads(read_named(route.json_schema, f"routes.{route.name}"))
            schema_check(schema)
        except ImportError:
            raise ConfigError(
                f"routes.{route.name}: schemas need the extra: pip install 'amqp-gateway[schema]'"
            ) from None
        except ValueError as error:
            raise ConfigError(f"routes.{route.name}: {route.json_schema}: {error}") from None
    taken = PARAMETERS.intersection(PARAMETER.findall(route.key))
    if route.stream and taken:
        raise ConfigError(f"routes.{route.name}: {min(taken)!r} is a parameter of streams already")
    same = route.model_dump(exclude={"json_schema", "content_types", "quota"})
    requests, octets = rates(route.quota)
    return DeclaredRoute(
        **same,
        schema=schema,
        content_types=tuple(kind.lower() for kind in route.content_types),
        request_rate=requests,
        octet_rate=octets,
        max_streams=route.quota.streams,
        max_leases=route.quota.leases,
    )


def read_named(path: Path, key: str) -> bytes:
    """Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from None
