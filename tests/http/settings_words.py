"""Settings that name files: a shared secret, the JSON Schema of a declared route."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from gateway.config.web import BearerSettings, DeclaredRoute

FOLDER = tempfile.TemporaryDirectory(prefix="settings-")
"""Removed when the process ends."""


def file_with(octets: bytes) -> Path:
    path = Path(FOLDER.name) / hashlib.sha256(octets).hexdigest()
    path.write_bytes(octets)
    return path


def shared_bearer(secret: bytes, user: str, issuer: str = "https://issuer") -> BearerSettings:
    """Tokens for ``gateway`` that are signed with a shared secret."""
    return BearerSettings(
        issuer=issuer, audience="gateway", secret_file=file_with(secret), user=user
    )


def route_with_schema(schema: dict[str, Any], **settings: Any) -> DeclaredRoute:
    return DeclaredRoute(json_schema=file_with(json.dumps(schema).encode()), **settings)
