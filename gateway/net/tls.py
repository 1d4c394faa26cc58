"""TLS contexts."""

import ssl
from pathlib import Path
from typing import Any

from gateway.errors import ConfigError


def server_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or later. With ``client_ca``, clients may log in by certificate (EXTERNAL).

    Raises ``ConfigError`` that names the invalid file.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS certificate {certificate} with key {key}: {error}") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"TLS client authority {client_ca}: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca: Path | None) -> ssl.SSLContext:
    """For connections to other brokers, whose certificates must be signed by an authority of the
    file, or of the system. Raises ``ConfigError``."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS authorities {ca}: {error}") from None


def https_context(url: str, ca: Path | None = None) -> ssl.SSLContext:
    """For requests to this URL, which follow no redirects. Reading the authorities of the system
    takes 50 ms; without TLS none are read. Raises ``ConfigError``."""
    if url.lower().startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return client_context(ca)


def common_name(certificate: dict[str, Any]) -> str | None:
    """The common name in a peer certificate's subject, for SASL EXTERNAL."""
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None
