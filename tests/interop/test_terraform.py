"""Terraform's provider for RabbitMQ keeps a virtual host of the gateway: `examples/terraform`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.examples.commands import environment
from tests.interop.restarts import built
from tests.interop.servers import HOST, ROOT
from tests.net.running import Running

pytestmark = pytest.mark.interop

PROVIDER = "terraform-provider-rabbitmq"
SAME, DIFFERENT = 0, 2
"""Exit status of a plan: there is nothing to do, or something."""
OBJECTS = (
    "topic-permissions/shop/app",
    "vhosts/shop", "users/app", "permissions/shop/app", "exchanges/shop/orders",
    "exchanges/shop/late", "queues/shop/new", "queues/shop/kept", "policies/shop/limits",
    "operator-policies/shop/most",
)  # fmt: skip

Terraform = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with Running(tmp_path_factory.mktemp("gateway")) as gateway:
        url = f"http://{HOST}:{gateway.http_port}/api/"
        with httpx.Client(base_url=url, auth=("guest", "guest"), timeout=60) as client:
            yield client


@pytest.fixture
def terraform(api: httpx.Client, tmp_path: Path) -> Terraform:
    """The program in a folder with the example, and with our build of the provider: it asks no
    registry."""
    program = shutil.which("terraform")
    if program is None:
        pytest.skip("terraform is not installed")
    folder = Path(built(PROVIDER, "go")).parent
    settings = tmp_path / "terraformrc"
    settings.write_text(
        f'provider_installation {{\n  dev_overrides {{ "cyrilgdn/rabbitmq" = "{folder}" }}\n}}\n'
    )
    shutil.copy(ROOT / "examples" / "terraform" / "main.tf", tmp_path)
    given = environment(
        TF_CLI_CONFIG_FILE=str(settings),
        TF_IN_AUTOMATION="1",
        TF_INPUT="0",
        CHECKPOINT_DISABLE="1",
        RABBITMQ_ENDPOINT=str(api.base_url).removesuffix("/api/"),
        RABBITMQ_USERNAME="guest",
        RABBITMQ_PASSWORD="guest",
    )

    def run(command: str, *options: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program, command, *options], cwd=tmp_path, env=given, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def there(api: httpx.Client) -> list[str]:
    return [name for name in OBJECTS if api.get(name).status_code == 200]


def test_a_session(terraform: Terraform, api: httpx.Client) -> None:
    terraform("apply", "-auto-approve", "-no-color")
    assert there(api) == list(OBJECTS)
    assert api.get("queues/shop/kept").json()["arguments"] == {"x-queue-type": "quorum"}
    new = api.get("queues/shop/new").json()
    assert new["arguments"] == {"x-dead-letter-exchange": "late", "x-message-ttl": 60000}
    assert (new["policy"], new["operator_policy"]) == ("limits", "most")
    assert new["effective_policy_definition"] == {
        "max-length": 1000, "max-length-bytes": 1000000, "overflow": "reject-publish",
    }  # fmt: skip
    bound = [
        (one["destination_type"], one["destination"], one["routing_key"], one["arguments"])
        for one in api.get("exchanges/shop/orders/bindings/source").json()
    ]
    assert sorted(bound) == [
        ("exchange", "late", "order.late", {"why": "late"}),
        ("queue", "new", "order.new.#", {}),
    ]
    assert api.get("whoami", auth=("app", "secret")).json()["tags"] == ["monitoring"]
    terraform("plan", "-detailed-exitcode", status=SAME)

    fewer = ("-var", "longest=500")
    terraform("plan", "-detailed-exitcode", *fewer, status=DIFFERENT)
    terraform("apply", "-auto-approve", *fewer)
    assert api.get("policies/shop/limits").json()["definition"]["max-length"] == 500

    # What somebody else has changed is seen, and put back.
    api.delete("queues/shop/new").raise_for_status()
    terraform("plan", "-detailed-exitcode", *fewer, status=DIFFERENT)
    terraform("apply", "-auto-approve", *fewer)
    assert there(api) == list(OBJECTS)

    for address, name in (
        ("rabbitmq_policy.limits", "limits@shop"),
        ("rabbitmq_queue.new", "new@shop"),
        ("rabbitmq_binding.new", "shop/orders/new/queue/order.new.%23"),
    ):
        terraform("state", "rm", address)
        terraform("import", *fewer, address, name)
    terraform("plan", "-detailed-exitcode", *fewer, status=SAME)

    terraform("destroy", "-auto-approve", *fewer)
    assert there(api) == []
    assert api.get("vhosts/%2F").status_code == 200


def test_a_refusal_is_shown(terraform: Terraform) -> None:
    done = terraform("apply", "-auto-approve", "-no-color", "-var", "longest=none", status=1)
    assert "max-length" in done.stderr, done.stderr
    terraform("destroy", "-auto-approve")
