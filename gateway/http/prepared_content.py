"""Answers whose octets are known before they are sent: descriptions, pages, scripts.

They have strong validators (``ETag``), one of each coding, and are compressed once, not for every
request as a middleware of Starlette would; where a reader has the octets already it gets 304.
"""

import asyncio
import gzip
import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

SHORTEST = 500
"""Octets below which compression saves nothing worth the work."""
LEVEL = 6
ZERO_WEIGHT = re.compile(r"\s*q=0(\.0{0,3})?\s*")


class PreparedContent:
    """Octets of one media type, in both codings."""

    def __init__(self, octets: bytes, media_type: str, headers: Mapping[str, str]) -> None:
        self.octets = octets
        self.media_type = media_type
        self.headers = {"cache-control": "no-cache", "vary": "Accept-Encoding", **headers}

    @cached_property
    def tag(self) -> str:
        return sha256(self.octets).hexdigest()[:32]

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.octets, LEVEL, mtime=0)

    async def answer(self, request: Request) -> Response:
        """200 with the octets in the coding that the request accepts, or 304."""
        zipped = len(self.octets) >= SHORTEST and accepts_gzip(request)
        tags = {"": f'"{self.tag}"', "gzip": f'"{self.tag}-gzip"'}
        headers = self.headers | {"etag": tags["gzip" if zipped else ""]}
        if has_one(request, *tags.values()):
            return Response(status_code=304, headers=headers)
        if not zipped:
            return Response(self.octets, media_type=self.media_type, headers=headers)
        if "compressed" not in self.__dict__:
            # zlib lets other threads run.
            await asyncio.to_thread(getattr, self, "compressed")
        headers["content-encoding"] = "gzip"
        return Response(self.compressed, media_type=self.media_type, headers=headers)


def accepts_gzip(request: Request) -> bool:
    """Whether ``Accept-Encoding`` has gzip, or ``*``, with a weight above 0."""
    wanted: dict[str, bool] = {}
    for one in ",".join(request.headers.getlist("accept-encoding")).lower().split(","):
        coding, _, weight = one.partition(";")
        wanted[coding.strip()] = not ZERO_WEIGHT.fullmatch(weight)
    return wanted.get("gzip", wanted.get("*", False))


def has_one(request: Request, *tags: str) -> bool:
    """Whether ``If-None-Match`` has one of these tags; compared weakly (RFC 9110, 13.1.2)."""
    given = ",".join(request.headers.getlist("if-none-match"))
    known = {one.strip().removeprefix("W/") for one in given.split(",")}
    return given.strip() == "*" or not known.isdisjoint(tags)
