"""The servers that the HTTP rows are compared with, each a child process of its own."""

import base64
import contextlib
import getpass
import hashlib
import hmac
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import HOST, Missing, Server, answers_http, free_port, running

ROOT = Path(__file__).parent.parent
NCHAN = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
MERCURE = ROOT / ".peers" / "mercure" / "mercure"
MERCURE_KEY = "a key for measuring, of 32 octets"
CHANNEL = "bench"
FORM = "application/x-www-form-urlencoded"

NGINX_CONF = """
load_module {module};
user {user};
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid {home}/pid;
error_log stderr warn;
events {{ worker_connections {files}; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        listen {host}:{port} backlog=4096;
        location = /ready {{ return 200; }}
        location = /subscribe {{
            nchan_subscriber eventsource;
            nchan_channel_id {channel};
            nchan_subscriber_first_message newest;
        }}
        location = /publish {{
            nchan_publisher;
            nchan_channel_id {channel};
            nchan_message_buffer_length 8192;
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Hub:
    """Where one server's event streams are read and fed. ``prefix`` goes before the payload."""

    name: str
    stream: str
    post: str
    kind: str = "application/octet-stream"
    prefix: str = ""
    headers: tuple[str, ...] = ()


OURS = Hub(
    "gateway",
    f"/v1/%2F/events?source=exchange:amq.topic%3Fbinding%3D{CHANNEL}&format=text",
    f"/v1/%2F/exchanges/amq.topic/messages?routing_key={CHANNEL}",
    headers=("Authorization: Basic " + base64.b64encode(b"guest:guest").decode(),),
)
NCHAN_HUB = Hub("nchan", "/subscribe", "/publish")
BARE_HUB = Hub("bare uvloop", "/subscribe", "/publish")


def mercure_hub() -> Hub:
    """The publisher's token is signed here: HS256 (RFC 7515), the claim as Mercure wants it."""

    def part(octets: bytes) -> bytes:
        return base64.urlsafe_b64encode(octets).rstrip(b"=")

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    signed = head + b"." + part(json.dumps({"mercure": {"publish": ["*"]}}).encode())
    token = signed + b"." + part(hmac.digest(MERCURE_KEY.encode(), signed, hashlib.sha256))
    path = "/.well-known/mercure"
    return Hub(
        "Mercure",
        f"{path}?topic={CHANNEL}",
        path,
        FORM,
        f"topic={CHANNEL}&data=",
        (f"Authorization: Bearer {token.decode()}",),
    )


@contextlib.contextmanager
def bare(module: str = "bare") -> Iterator[Server]:
    """The least that the HTTP server under the gateway can do, or with ``bare_events`` its loop."""
    for name in ("uvicorn", "starlette", "httptools", "uvloop"):
        if importlib.util.find_spec(name) is None:
            raise Missing(f"{name} is not installed")
    port = free_port()
    with running(
        "bare",
        [sys.executable, "-m", f"benchmarks.{module}", str(port)],
        lambda server: answers_http(server.url + "/readyz"),
        http_port=port,
    ) as server:
        yield server


@contextlib.contextmanager
def nchan(files: int) -> Iterator[Server]:
    """nginx with one worker, as the gateway is one process; never as a service."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or not NCHAN.exists():
        raise Missing("nchan is not installed (apt install nginx-light libnginx-mod-nchan)")
    home, port = Path(tempfile.mkdtemp(prefix="bench-nchan-")), free_port()
    text = NGINX_CONF.format(
        module=NCHAN,
        user=getpass.getuser(),
        files=files,
        home=home,
        host=HOST,
        port=port,
        channel=CHANNEL,
    )
    (home / "nginx.conf").write_text(text)
    with running(
        "nchan",
        [nginx, "-p", str(home), "-e", "stderr", "-c", str(home / "nginx.conf")],
        lambda server: answers_http(server.url + "/ready"),
        http_port=port,
        directory=home,
    ) as server:
        yield server


@contextlib.contextmanager
def mercure() -> Iterator[Server]:
    """The hub of Mercure's library behind Go's own HTTP server, on as many processors as it
    likes."""
    if not MERCURE.exists():
        raise Missing("Mercure is not installed (run benchmarks/install-peers)")
    port = free_port()
    with running(
        "mercure",
        [str(MERCURE), f"{HOST}:{port}"],
        lambda server: answers_http(server.url + "/ready"),
        http_port=port,
        environment={"MERCURE_KEY": MERCURE_KEY},
    ) as server:
        yield server
