"""Bearer tokens: good ones, and every way in which one can be bad."""

import base64
import json
import threading
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gateway.config.web import BearerSettings
from gateway.http.access.keys import AGAIN_SECONDS, STALE_SECONDS, Keys, read_keys
from tests.http.settings_words import shared_bearer

QUEUE = "/v1/%2F/queues/orders/messages"
ISSUER = "https://issuer.example"
NOW = 1_800_000_000.0
RSA = RSAKey.generate_key(2048, {"kid": "r1", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "r1"})
EC = ECKey.generate_key("P-256", {"kid": "e1"})
ED = OKPKey.generate_key("Ed25519", {"kid": "d1"})
SECRET = b"a shared secret that is long enough!"
SHARED = OctKey.import_key(SECRET)


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    made = {
        "iss": ISSUER,
        "aud": "gateway",
        "sub": "svc",
        "exp": NOW + 100,
        "scope": "publish stream",
        "name": "alice",
    } | changed
    return {name: value for name, value in made.items() if value is not None}


def token(key: Any = RSA, alg: str = "RS256", header: Any = None, **changed: Any) -> str:
    head = {"alg": alg, "kid": key.kid} | (header or {})
    return jwt.encode(
        {name: value for name, value in head.items() if value is not None},
        claims(**changed),
        key,
        algorithms=[alg],
    )


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged(alg: str, signature: str = "", **header: Any) -> str:
    return f"{part({'alg': alg, 'typ': 'JWT'} | header)}.{part(claims())}.{signature}"


def signed(header: dict[str, Any]) -> str:
    """With a header that no library would write."""
    text = f"{part(header)}.{part(claims())}"
    signature = RSA.get_op_key("sign").sign(text.encode(), PKCS1v15(), SHA256())
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issued(make_rig: Any, tmp_path: Any) -> Any:
    """A gateway that takes tokens of the issuer, whose keys are in a file."""
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(RSA, EC, ED))
    return rig_with(
        make_rig,
        BearerSettings(
            issuer=ISSUER, audience="gateway", jwks=str(path), user_claim="name", resource=RESOURCE
        ),
    )


RESOURCE = "https://gateway.example/amqp"


def rig_with(make_rig: Any, settings: BearerSettings) -> Any:
    rig = make_rig(bearer=settings)
    rig.app.state.context.authenticator.clock = Clock()
    rig.queue("orders")
    return rig


@pytest.mark.parametrize(
    ("key", "alg"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "Ed25519")]
)
async def test_a_good_token_is_its_user(issued: Any, key: Any, alg: str) -> None:
    async with issued.http(None) as http:
        for _ in range(2):  # the second time from memory
            answer = await http.post(QUEUE, content=b"x", headers=bearer(token(key, alg)))
            assert answer.status_code == 201
        shown = (await http.get("/v1/session", headers=bearer(token()))).json()
        assert shown["user"] == "alice" and shown["scheme"] == "bearer"
        # A token with limits does not tell what its user may beyond them.
        assert (shown["tags"] is None) is (shown["rights"] is not None)
        assert (shown["permissions"] is None) is (shown["rights"] is not None)


BAD = {
    "nothing": "",
    "no dots": "abc",
    "encrypted": "a.b.c.d.e",
    "none": forged("none"),
    "none with a signature": forged("none", "AAAA"),
    "NONE": forged("NoNe"),
    "no algorithm": f"{part({'typ': 'JWT'})}.{part(claims())}.AAAA",
    "algorithm is no string": f"{part({'alg': ['RS256']})}.{part(claims())}.AAAA",
    "foreign key, our key id": token(OTHER),
    "unknown key id": token(header={"kid": "zz"}),
    "signature cut": token()[:-4],
    "signature of another token": token(sub="a").rsplit(".", 1)[0] + "." + token().split(".")[2],
    "wrong issuer": token(iss="https://evil.example"),
    "no issuer": token(iss=None),
    "wrong audience": token(aud="other"),
    "no audience": token(aud=None),
    "audiences of others": token(aud=["a", "b"]),
    "audience is an object": token(aud={"gateway": 1}),
    "expired": token(exp=NOW - 31),
    "no expiry": token(exp=None),
    "expiry is text": token(exp="9999999999"),
    "expiry is true": token(exp=True),
    "expiry is infinite": token(exp=float("inf")),
    "expiry is no number": token(exp=float("nan")),
    "not yet": token(nbf=NOW + 31),
    "nbf is text": token(nbf="0"),
    "id token": token(header={"typ": "id+jwt"}),
    "logout token": token(header={"typ": "logout+jwt"}),
    "bound to a key": token(cnf={"jkt": "x"}),
    "unknown user": token(name="mallory"),
    "user is a list": token(name=["alice"]),
    "no user": token(name=None),
    "scope is a number": token(scope=7),
    "rights that cannot be read": token(authorization_details=[{"type": "amqp-gateway"}]),
    "critical extension": signed({"alg": "RS256", "kid": "r1", "crit": ["x"], "x": 1}),
    "unencoded payload": signed({"alg": "RS256", "kid": "r1", "crit": ["b64"], "b64": False}),
    "too long": token(sub="x" * 20_000),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
async def test_a_bad_token_is_401_and_never_anonymous(issued: Any, text: str) -> None:
    async with issued.http(None) as http:
        for path in (QUEUE, "/v1/stream-tickets"):
            answer = await http.post(path, content=b"{}", headers=bearer(text))
            assert answer.status_code == 401
            assert answer.json()["outcome"] == "not-sent"
            assert "Bearer" in answer.headers["www-authenticate"]
    assert issued.depth("orders") == (0, 0)


async def test_a_public_key_is_no_shared_secret(issued: Any) -> None:
    """Key confusion: the token is signed with HMAC, and the key is what everybody can read."""
    for secret in (RSA.as_pem(private=False), json.dumps(RSA.as_dict(private=False)).encode()):
        key = OctKey.import_key(base64.b64encode(secret))
        text = jwt.encode({"alg": "HS256", "kid": "r1"}, claims(), key, algorithms=["HS256"])
        async with issued.http(None) as http:
            assert (await http.post(QUEUE, content=b"x", headers=bearer(text))).status_code == 401


async def test_keys_inside_a_token_count_for_nothing(issued: Any) -> None:
    for header in (
        {"jwk": OTHER.as_dict(private=False), "kid": None},
        {"jku": "https://evil.example/jwks.json", "kid": "evil"},
        {"x5u": "https://evil.example/x", "kid": "../../../../dev/null"},
    ):
        async with issued.http(None) as http:
            answer = await http.post(
                QUEUE, content=b"x", headers=bearer(token(OTHER, "RS256", header))
            )
            assert answer.status_code == 401


async def test_rights_narrow_the_user(issued: Any) -> None:
    async with issued.http(None) as http:
        for scope, status in (
            ("stream", 403),
            ("", 403),
            ("publish:%2F/queue/other", 403),
            ("publish:%2F/queue/ord*", 201),
            ("publish:*/exchange/*", 403),
        ):
            answer = await http.post(QUEUE, content=b"x", headers=bearer(token(scope=scope)))
            assert answer.status_code == status, scope


async def test_leeway_and_expiry_of_a_remembered_token(issued: Any) -> None:
    clock = issued.app.state.context.authenticator.clock
    text = token(exp=NOW - 29, nbf=NOW + 29)
    async with issued.http(None) as http:
        assert (await http.post(QUEUE, content=b"x", headers=bearer(text))).status_code == 201
        clock.now += 2
        assert (await http.post(QUEUE, content=b"x", headers=bearer(text))).status_code == 401


async def test_a_deleted_user_takes_the_token_along(issued: Any) -> None:
    access = issued.broker.access
    access.add_user("bob", "b")
    authenticator = issued.app.state.context.authenticator
    async with issued.http(None) as http:
        text = token(name="bob")
        assert (await http.get("/v1/session", headers=bearer(text))).status_code == 200
        principal = await authenticator.bearer.check(text.encode())
        assert authenticator.still_good(principal)
        access.remove_user("bob")
        assert (await http.get("/v1/session", headers=bearer(text))).status_code == 401
        assert not authenticator.still_good(principal)


async def test_two_credentials_are_none(issued: Any) -> None:
    async with issued.http(None) as http:
        given = [
            ("authorization", f"Bearer {token()}"),
            ("authorization", "Basic YWxpY2U6d29uZGVy"),
        ]
        assert (await http.get("/v1/session", headers=given)).status_code == 401


async def test_a_token_in_a_url_is_refused(issued: Any) -> None:
    async with issued.http(None) as http:
        answer = await http.get(f"/v1/session?access_token={token()}")
        assert answer.status_code == 400
        assert token()[:30] not in answer.text


async def test_a_shared_secret(make_rig: Any) -> None:
    rig = rig_with(
        make_rig,
        shared_bearer(SECRET, "alice", ISSUER),
    )
    async with rig.http(None) as http:
        good = jwt.encode({"alg": "HS256"}, claims(), SHARED, algorithms=["HS256"])
        assert (await http.post(QUEUE, content=b"x", headers=bearer(good))).status_code == 201
        for text in (token(), forged("none"), forged("HS256", "AAAA")):
            assert (await http.post(QUEUE, content=b"x", headers=bearer(text))).status_code == 401
    assert SECRET.decode() not in repr(rig.dependencies.settings)


async def test_metadata_names_the_issuer(issued: Any, rig: Any) -> None:
    where = "/.well-known/oauth-protected-resource"
    async with issued.http(None) as http:
        for path in (where, where + "/amqp"):
            found = (await http.get(path)).json()
            assert found["resource"] == RESOURCE and found["authorization_servers"] == [ISSUER]
        assert (await http.get(where + "/other")).status_code == 404
        challenge = (await http.get("/v1/session")).headers["www-authenticate"]
        assert f'resource_metadata="https://gateway.example{where}/amqp"' in challenge
    async with rig.http(None) as http:
        assert (await http.get(where)).status_code == 404


# --- keys ---------------------------------------------------------------------------------------


class Issuer:
    """A key server that can be made to fail, and counts."""

    def __init__(self) -> None:
        self.document = key_set(RSA)
        self.status = 200
        self.asked = 0
        self.location = ""

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        headers = {"location": self.location} if self.location else {}
        return httpx.Response(self.status, content=self.document, headers=headers)

    def keys(self) -> Keys:
        settings = BearerSettings(
            issuer=ISSUER, audience="gateway", jwks="https://issuer.example/jwks", user="alice"
        )
        keys = Keys(settings, lambda: httpx.AsyncClient(transport=httpx.MockTransport(self.answer)))
        self.moment = 0.0
        keys.monotonic = lambda: self.moment
        return keys


async def test_keys_are_had_once_and_anew_when_old() -> None:
    issuer = Issuer()
    keys = issuer.keys()
    for _ in range(3):
        await keys.fresh(NOW)
    assert (issuer.asked, keys.generation) == (1, 1)
    issuer.moment = 700
    await keys.fresh(NOW + 700)
    assert (issuer.asked, keys.generation) == (2, 1)


async def test_the_authorities_of_the_system_are_not_read_on_the_loop() -> None:
    keys = Issuer().keys()
    make, threads = keys.client, []

    def client() -> httpx.AsyncClient:
        threads.append(threading.current_thread())
        return make()

    keys.client = client
    await keys.fresh(NOW)
    assert threading.main_thread() not in threads
    assert len(threads) == 1


async def test_unknown_keys_do_not_make_the_gateway_ask_and_ask() -> None:
    issuer = Issuer()
    keys = issuer.keys()
    await keys.fresh(NOW)
    for _ in range(50):
        await keys.refresh(NOW)
    assert issuer.asked == 1
    issuer.moment = AGAIN_SECONDS
    issuer.document = key_set(EC)
    assert await keys.refresh(NOW)
    assert (issuer.asked, keys.generation) == (2, 2)


async def test_stale_keys_serve_for_a_while(make_rig: Any) -> None:
    issuer = Issuer()
    keys = issuer.keys()
    await keys.fresh(NOW)
    issuer.status, issuer.moment = 500, 1000
    await keys.fresh(NOW + 1000)
    issuer.moment = 5000
    with pytest.raises(Exception, match="keys of the issuer"):
        await keys.fresh(NOW + 601 + STALE_SECONDS)


@pytest.mark.parametrize(
    ("status", "document", "location"),
    [
        (200, b"", ""),
        (200, b"[]", ""),
        (200, b'{"keys": []}', ""),
        (200, json.dumps({"keys": [SHARED.as_dict(private=True)]}).encode(), ""),
        (200, b'{"keys": [' + b" " * 300_000, ""),
        (200, b"[" * 100_000, ""),
        (302, b"", "http://169.254.169.254/"),
    ],
)
async def test_bad_key_documents_are_503(
    make_rig: Any, status: int, document: bytes, location: str
) -> None:
    issuer = Issuer()
    issuer.status, issuer.document, issuer.location = status, document, location
    settings = BearerSettings(
        issuer=ISSUER, audience="gateway", jwks="https://issuer.example/jwks", user="alice"
    )
    rig = rig_with(make_rig, settings)
    rig.app.state.context.authenticator.bearer.keys = issuer.keys()
    async with rig.http(None) as http:
        answer = await http.post(QUEUE, content=b"x", headers=bearer(token()))
        assert answer.status_code == 503
        assert answer.json()["safe_to_retry"] is True
    assert issuer.asked == 1


def test_keys_that_cannot_be_used_are_passed_over() -> None:
    mixed = {"keys": [7, {"kty": "??"}, SHARED.as_dict(private=True), RSA.as_dict(private=False)]}
    (key,) = read_keys(json.dumps(mixed).encode(), ["RS256"])
    assert key.kid == "r1"
