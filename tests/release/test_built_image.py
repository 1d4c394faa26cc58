"""The container image is built by its recipe from the source archive, run, and signed, without
Docker: by Debian's buildah, on a base that debootstrap makes, pushed to a registry on the loopback.

Nothing has to be allowed but what root may do: no network or user of the image's own is made."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from gateway import __version__
from tests.interop.servers import HOST, free_ports
from tests.net.preloaded import ROOT
from tests.net.running import PATIENCE, until
from tests.release.test_image import instruction
from tests.unpacking import unpack

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

BASE, IMAGE = "localhost/base", "localhost/amqp-gateway"
NUMBER = 999
"""The user of the image."""
RECIPE_OF_BASE = f"""FROM {BASE}:debian
RUN python3 -m venv /venv
ENV PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
MIRROR = "http://deb.debian.org/debian"
CERTIFICATES = Path("/etc/ssl/certs")


def needs(*programs: str) -> None:
    missing = [one for one in programs if shutil.which(one) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


class Buildah:
    """The program, with all it keeps in one folder."""

    def __init__(self, folder: Path) -> None:
        where = ["--root", str(folder / "root"), "--runroot", str(folder / "run")]
        self.command = ["buildah", *where, "--storage-driver", "vfs"]

    def __call__(self, *words: object, seconds: int = 600) -> str:
        command = [*self.command, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.strip()

    def build(self, tag: str, *words: object) -> None:
        # What pip needs here to trust its index is no part of the image.
        trust = ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"] if CERTIFICATES.exists() else []
        self(
            "build", "--format", "docker", "--isolation", "chroot", "--pull-never", *trust,
            "--tag", tag, *words,
        )  # fmt: skip


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    needs("buildah", "debootstrap")
    if os.geteuid() != 0:
        pytest.skip("debootstrap, and buildah with chroot, need root")
    folder = tmp_path_factory.mktemp("buildah")
    yield Buildah(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def base(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian with Python, as no registry of images is asked here."""
    folder = tmp_path_factory.mktemp("debian")
    packages = "python3,python3-venv,ca-certificates"
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm",
         str(folder / "system"), MIRROR],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"debootstrap: {done.stdout.splitlines()[-1:]}")
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, folder / "system", "/")
    buildah("commit", "--quiet", "--rm", container, f"{BASE}:debian")
    shutil.rmtree(folder / "system")
    recipe = folder / "Recipe"
    recipe.write_text(RECIPE_OF_BASE)
    buildah.build(f"{BASE}:python", "--file", recipe, folder)
    return f"{BASE}:python"


@pytest.fixture(scope="module")
def image(
    buildah: Buildah,
    base: str,
    built: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """Built in the unpacked source archive, which has all that the recipe copies."""
    folder = tmp_path_factory.mktemp("source")
    unpack(built[0], folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    argument = ("--build-arg", f"BASE={base}")
    buildah.build(
        f"{IMAGE}:{__version__}", *argument, "--target", "gateway", "--file", ROOT / "Dockerfile",
        unpacked,
    )  # fmt: skip
    return f"{IMAGE}:{__version__}"


class Container:
    """A container of the image, whose volume is a folder of this machine. Its network is that of
    this machine, so the image's command gets other ports, and the loopback."""

    def __init__(self, buildah: Buildah, image: str, data: Path) -> None:
        self.buildah = buildah
        self.name = buildah("from", "--pull-never", image)
        # buildah's own place for a volume of the image would hide the folder.
        buildah("config", "--volume", "/data-", self.name)
        self.volume = ["--volume", f"{data}:/data"]
        self.amqp_port, self.http_port = free_ports(2)
        command = json.loads(instruction("gateway", "CMD"))
        self.command = json.loads(instruction("gateway", "ENTRYPOINT")) + [
            HOST if one == "0.0.0.0" else one for one in command
        ]
        self.command += ["--amqp-port", str(self.amqp_port), "--http-port", str(self.http_port)]
        self.log = data.parent / f"{self.name}.log"
        with self.log.open("wb") as sink:
            words = ["run", "--isolation", "chroot", *self.volume, self.name, "--", *self.command]
            self.running = subprocess.Popen(
                [*buildah.command, *words], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )
        try:
            until(lambda: "data in" in self.said or self.running.poll() is not None, "start")
            self.process = self._main()
        except BaseException:
            self.end()
            raise

    @property
    def said(self) -> str:
        return self.log.read_text()

    def _main(self) -> psutil.Process:
        """The process that the image's command has become."""
        below = psutil.Process(self.running.pid).children(recursive=True)
        found = [one for one in below if one.name() != "buildah-chroot-exec" and one.cmdline()]
        (last,) = [one for one in found if not one.children() and "serve" in one.cmdline()]
        return last

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command beside the first one."""
        whole = ["run", "--isolation", "chroot", *self.volume, self.name, "--", *words]
        return subprocess.run(
            [*self.buildah.command, *whole], capture_output=True, text=True, timeout=PATIENCE
        )

    def healthy(self) -> bool:
        words = json.loads(instruction("gateway", "HEALTHCHECK").partition(" CMD ")[2])
        given = [one.replace("8080", str(self.http_port)) for one in words]
        return self.inside(*given).returncode == 0

    def http(self) -> httpx.Client:
        url = f"http://{HOST}:{self.http_port}"
        return httpx.Client(base_url=url, auth=("guest", "guest"), timeout=PATIENCE)

    def terminate(self) -> int:
        """Send STOPSIGNAL. The exit status."""
        self.process.send_signal(signal.Signals[instruction("gateway", "STOPSIGNAL")])
        return self.running.wait(PATIENCE)

    def end(self) -> None:
        if self.running.poll() is None:
            for one in psutil.Process(self.running.pid).children(recursive=True):
                one.kill()
            self.running.kill()
            self.running.wait()
        self.buildah("rm", self.name)


def test_its_process(buildah: Buildah, image: str, tmp_path: Path) -> None:
    """Its user, its health check, its end, and what a later container finds in its volume."""
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, NUMBER, NUMBER)
    for folder in tmp_path.parents[:3]:  # pytest makes folders that only root may enter
        folder.chmod(folder.stat().st_mode | 0o011)
    path = "/v1/%2F/queues/orders/messages"
    first = Container(buildah, image, data)
    try:
        assert set(first.process.uids()) == {NUMBER} == set(first.process.gids())
        assert first.inside("amqp-gateway", "--version").stdout.split()[-1] == __version__
        until(first.healthy, "healthy")
        with first.http() as client:
            client.put("/v1/admin/vhosts/%2F/queues/orders").raise_for_status()
            assert client.post(path, content=b"kept").status_code == 201
        assert first.terminate() == 0, first.said
        assert "stopping" in first.said and "Traceback" not in first.said
        assert not first.healthy()
    finally:
        first.end()
    assert {one.stat().st_uid for one in data.iterdir()} == {NUMBER}
    second = Container(buildah, image, data)
    try:
        with second.http() as client:
            got = client.get("/api/queues/%2F/orders").json()
            assert (got["messages"], got["durable"]) == (1, True)
        assert second.terminate() == 0, second.said
    finally:
        second.end()


def test_it_is_found_by_its_health_check(buildah: Buildah, image: str) -> None:
    """Health check, user, volume and ports are in the image, and not only in the recipe."""
    shown = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    wanted = instruction("gateway", "HEALTHCHECK").partition(" CMD ")[2]
    assert shown["Healthcheck"]["Test"] == ["CMD", *json.loads(wanted)]
    assert (shown["User"], shown["StopSignal"]) == (str(NUMBER), "SIGTERM")
    assert shown["Volumes"] == {"/data": {}}
    assert set(shown["ExposedPorts"]) == {"5672/tcp", "8080/tcp"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's registry of images, on the loopback; its address."""
    needs("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    (port,) = free_ports(1)
    settings = folder / "config.yml"
    settings.write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}\n"
        f"http:\n  addr: {HOST}:{port}\n"
    )
    with (folder / "log").open("wb") as sink:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(settings)],
            stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                httpx.get(f"http://{HOST}:{port}/v2/").raise_for_status()
                break
            except httpx.TransportError:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
        yield f"{HOST}:{port}"
    finally:
        process.kill()
        process.wait()


def test_it_is_signed(buildah: Buildah, image: str, registry: str, tmp_path: Path) -> None:
    """By its digest, with a key of ours; the image of another digest is not."""
    needs("cosign")
    given = {**os.environ, "COSIGN_PASSWORD": "secret", "HOME": str(tmp_path)}

    def cosign(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["cosign", *words], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=100
        )

    def pushed(name: str) -> str:
        there = f"{registry}/amqp-gateway"
        file = tmp_path / "digest"
        buildah("push", "--tls-verify=false", "--digestfile", file, name, f"docker://{there}:new")
        return f"{there}@{file.read_text()}"

    ours = pushed(image)
    assert cosign("generate-key-pair").returncode == 0
    signed = cosign("sign", "--key", "cosign.key", "--tlog-upload=false", "--yes", ours)
    assert signed.returncode == 0, signed.stderr
    verify = ("verify", "--key", "cosign.pub", "--insecure-ignore-tlog=true")
    found = cosign(*verify, ours)
    assert found.returncode == 0, found.stderr
    (claim,) = json.loads(found.stdout)
    assert claim["critical"]["image"]["docker-manifest-digest"] == ours.partition("@")[2]
    container = buildah("from", "--pull-never", image)
    buildah("config", "--label", "changed=yes", container)
    buildah("commit", "--quiet", "--rm", "--format", "docker", container, f"{IMAGE}:changed")
    other = pushed(f"{IMAGE}:changed")
    assert other != ours
    assert cosign(*verify, other).returncode != 0


def test_python_is_that_of_the_base(buildah: Buildah, image: str) -> None:
    container = buildah("from", "--pull-never", image)
    words = ("run", "--isolation", "chroot", container, "--", "python", "-c")
    told = buildah(*words, "import gateway, sys; print(sys.prefix, gateway.__file__)")
    assert told.split()[0] == "/venv" and told.split()[1].startswith("/venv/")
    assert not told.startswith(sys.prefix)
    buildah("rm", container)
