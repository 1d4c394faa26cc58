"""For each type of problem: what to do about it, and an example.

The commands of an example are run by a test, one after another against one gateway: the last of
``wrong`` is answered with the problem, and the last of ``mended`` is not refused. Where a problem
cannot be had with a few requests the example is in ``shown``, and only read.
"""

from typing import NamedTuple

GATEWAY = "http://127.0.0.1:8080"
CURL = "curl -u guest:guest"
JSON = "-H 'Content-Type: application/json'"
QUEUES = f"{GATEWAY}/v1/admin/vhosts/%2F/queues"
ORDERS = f"{GATEWAY}/v1/%2F/queues/orders/messages"
DIRECT = f"'{GATEWAY}/v1/%2F/exchanges/amq.direct/messages?routing_key=paid'"
PUBLISH = f"{CURL} {JSON} -d '{{\"order\": 42}}'"
CREATE = f"{CURL} -X PUT {JSON}"


class Advice(NamedTuple):
    """What to do, and the commands before and after it was done."""

    fix: str
    wrong: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    shown: str = ""


ADVICE: dict[str, Advice] = {
    "invalid-request": Advice(
        "Correct what `detail` names.",
        (f"{PUBLISH} '{ORDERS}?priority=3'",),
        (f"{PUBLISH} -H 'Amqp-Priority: 3' {ORDERS}",),
    ),
    "invalid-field": Advice(
        "Correct the field that `field` names: text is in double quotes, booleans are ?1 and ?0.",
        (f"{PUBLISH} -H 'Amqp-Subject: new order' {ORDERS}",),
        (f"{PUBLISH} -H 'Amqp-Subject: \"new order\"' {ORDERS}",),
    ),
    "invalid-cursor": Advice(
        "Connect without `Last-Event-ID`; `from=earliest` begins with the oldest event kept.",
        (f"{CURL} -H 'Last-Event-ID: b1.x' {GATEWAY}/v1/%2F/queues/orders/events",),
        shown=f"{CURL} -N '{GATEWAY}/v1/%2F/queues/orders/events?from=earliest'",
    ),
    "invalid-token": Advice(
        "Use the token of the delivery as it came, percent-encoded, at the gateway that gave it.",
        (f"{CURL} -X DELETE {GATEWAY}/v1/%2F/deliveries/some-token",),
    ),
    "unauthorized": Advice(
        "Send the name and password of a user: `amqp-gateway user list` shows the users, `user "
        "add` adds one or changes a password. guest may log in from this machine only.",
        (f"curl -u guest:gest {JSON} -d 1 {ORDERS}",),
        (f"{CURL} {JSON} -d 1 {ORDERS}",),
    ),
    "forbidden": Advice(
        "`detail` has the right that is missing and the user's present pattern; an administrator "
        "sets another one. A queue is published to through the exchange `amq.default`. Where a "
        "credential is named, ask for one with more rights.",
        (
            f'{CREATE} -d \'{{"password": "sesame"}}\' {GATEWAY}/v1/admin/users/shop',
            f'{CREATE} -d \'{{"configure": "", "write": "^shop", "read": ""}}\' '
            f"{GATEWAY}/v1/admin/users/shop/permissions/%2F",
            f"curl -u shop:sesame {JSON} -d 1 {ORDERS}",
        ),
        (
            f'{CREATE} -d \'{{"configure": "", "write": "^amq.default$", "read": ""}}\' '
            f"{GATEWAY}/v1/admin/users/shop/permissions/%2F",
            f"curl -u shop:sesame {JSON} -d 1 {ORDERS}",
        ),
    ),
    "address-not-found": Advice(
        "Correct the name, or declare the queue or exchange first. The virtual host `/` is written "
        "%2F in a path.",
        (f"{PUBLISH} {GATEWAY}/v1/%2F/queues/invoices/messages",),
        (
            f"{CURL} -X PUT {QUEUES}/invoices",
            f"{PUBLISH} {GATEWAY}/v1/%2F/queues/invoices/messages",
        ),
    ),
    "unroutable": Advice(
        "Bind a queue to the exchange `exchange` with a key that matches `routing_key`, or correct "
        "the key. An alternate exchange takes what no binding matches.",
        (f"{PUBLISH} {DIRECT}",),
        (
            f'{CURL} {JSON} -d \'{{"source": "amq.direct", "destination": "orders", '
            f'"routing_key": "paid"}}\' {GATEWAY}/v1/admin/vhosts/%2F/bindings',
            f"{PUBLISH} {DIRECT}",
        ),
    ),
    "resource-locked": Advice(
        "Wait until the other connection is closed, or use a queue that is not exclusive; "
        "GET /v1/admin/connections lists the connections.",
        shown=f"{CURL} {GATEWAY}/v1/admin/connections",
    ),
    "too-large": Advice(
        "Send less, or raise the setting that `setting` or `detail` names.",
        shown="AMQP_GATEWAY_HTTP__MAX_BODY_OCTETS=67108864 amqp-gateway serve",
    ),
    "message-refused": Advice(
        "Correct the property that `detail` names. A message may name its sender's user only; the "
        "tag `impersonator` allows others.",
        (f"{PUBLISH} -H 'Amqp-User-Id: \"alice\"' {ORDERS}",),
        (f"{PUBLISH} -H 'Amqp-User-Id: \"guest\"' {ORDERS}",),
    ),
    "schema": Advice(
        "Correct the member that `errors[].pointer` names; `/openapi.json` has the members.",
        (f"{CREATE} -d '{{\"durabel\": true}}' {QUEUES}/payments",),
        (f"{CREATE} -d '{{\"durable\": true}}' {QUEUES}/payments",),
    ),
    "invalid-argument": Advice(
        "Correct the value; numbers stand without quotes.",
        (f'{CREATE} -d \'{{"arguments": {{"x-max-length": "10"}}}}\' {QUEUES}/small',),
        (f'{CREATE} -d \'{{"arguments": {{"x-max-length": 10}}}}\' {QUEUES}/small',),
    ),
    "conflict": Advice(
        "Declare with the properties that there are, or delete the resource first; limits are "
        "better set by a policy, which can be changed.",
        (f"{CREATE} -d '{{\"durable\": false}}' {QUEUES}/orders",),
        (f"{CREATE} -d '{{\"durable\": true}}' {QUEUES}/orders",),
    ),
    "destination-full": Advice(
        "Consume or purge, and send the message again; or let the queue drop its oldest message "
        "(`x-overflow` `drop-head`).",
        (
            f'{CREATE} -d \'{{"arguments": {{"x-max-length": 1, '
            f'"x-overflow": "reject-publish"}}}}\' {QUEUES}/full',
            f"{PUBLISH} {GATEWAY}/v1/%2F/queues/full/messages",
            f"{PUBLISH} {GATEWAY}/v1/%2F/queues/full/messages",
        ),
        (
            f"{CURL} -X DELETE {QUEUES}/full/messages",
            f"{PUBLISH} {GATEWAY}/v1/%2F/queues/full/messages",
        ),
    ),
    "quota": Advice(
        "Wait for `Retry-After` seconds, send several messages in one request, or raise the limit: "
        "`http.quota`, `http.vhost_quota`, `routes.quota`, or the one that `detail` names. After "
        "wrong passwords, wait for `http.failure_seconds`.",
        shown="AMQP_GATEWAY_HTTP__QUOTA__REQUESTS=1000 amqp-gateway serve",
    ),
    "unsupported-media-type": Advice(
        "Send one of the content types that `detail` names; `curl -d` without one sends a form.",
        (f"{CURL} -X PUT -d '{{\"durable\": true}}' {QUEUES}/typed",),
        (f"{CREATE} -d '{{\"durable\": true}}' {QUEUES}/typed",),
    ),
    "idempotency-key": Advice(
        "Put the key in double quotes, which the shell must not remove, and send it once.",
        (f"{PUBLISH} -H 'Idempotency-Key: order-42' {ORDERS}",),
        (f"{PUBLISH} -H 'Idempotency-Key: \"order-42\"' {ORDERS}",),
    ),
    "idempotency-required": Advice(
        "Send a key that is the message's own, and the same one again with each retry.",
        shown=f"{PUBLISH} -H 'Idempotency-Key: \"order-42\"' "
        f"{GATEWAY}/v1/%2F/routes/orders/messages",
    ),
    "idempotency-in-progress": Advice(
        "Wait for `Retry-After` seconds and repeat the request with the same key.",
        shown=f"{PUBLISH} --retry 5 -H 'Idempotency-Key: \"order-42\"' {ORDERS}",
    ),
    "idempotency-mismatch": Advice(
        "Give every message a key of its own.",
        (
            f"{PUBLISH} -H 'Idempotency-Key: \"order-43\"' {ORDERS}",
            f"{CURL} {JSON} -d '{{\"order\": 44}}' -H 'Idempotency-Key: \"order-43\"' {ORDERS}",
        ),
        (f"{CURL} {JSON} -d '{{\"order\": 44}}' -H 'Idempotency-Key: \"order-44\"' {ORDERS}",),
    ),
    "digest-mismatch": Advice(
        "Compute the digest over the octets that are sent (after compression), and repeat it.",
        (
            f"{PUBLISH} -H 'Content-Digest: "
            f"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:' {ORDERS}",
        ),
        (
            f"{PUBLISH} -H 'Content-Digest: "
            f"sha-256=:dSLa8/hzhkZEuTQWuJpClPG3Pcvf+x1eOMnv8xG+buk=:' {ORDERS}",
        ),
    ),
    "lease-lost": Advice(
        "Receive the message again; renew leases in time (PATCH with `lease_ms`), or ask for "
        "longer ones.",
        shown=f"{CURL} {JSON} -d '{{\"lease_ms\": 600000}}' "
        f"{GATEWAY}/v1/%2F/queues/orders/deliveries",
    ),
    "journal-trimmed": Advice(
        "Go on at `start`, or keep more: `keep_octets`, `keep_seconds` of `journal.recording`.",
        shown=f"{CURL} -N '{GATEWAY}/v1/%2F/queues/orders/events?from=earliest'",
    ),
    "already-settled": Advice(
        "Nothing: the first outcome counts. Repeating the same settlement would be harmless.",
        shown=f"{CURL} -X DELETE {GATEWAY}/v1/%2F/deliveries/TOKEN",
    ),
    "outcome-unsupported": Advice(
        "Give the queue a dead letter exchange, or use another outcome: accept or release.",
        shown="amqp-gateway policy set dead '^orders$' "
        '\'{"dead-letter-exchange": "amq.fanout"}\' --apply-to queues',
    ),
    "reply-timeout": Advice(
        "See whether the replier runs and replies to `reply_to`; wait longer with `Prefer: wait=`.",
        shown=f"{CURL} {JSON} -H 'Prefer: wait=60' -d 1 '{GATEWAY}/v1/%2F/requests?to=calls'",
    ),
    "outcome-unknown": Advice(
        "Repeat the request if it had an `Idempotency-Key`; else look into the queue first.",
        shown=f"{PUBLISH} --retry 5 -H 'Idempotency-Key: \"order-42\"' {ORDERS}",
    ),
    "not-attempted": Advice(
        "Mend the item that failed, and send this one again.",
        shown='{"on_error": "continue", "messages": [...]}',
    ),
    "internal-error": Advice(
        "Report it with the lines of the log that have this `X-Request-Id`.",
        shown="grep REQUEST-ID gateway.log",
    ),
    "not-implemented": Advice(
        "Use another way: `amqp-gateway versions` shows what each version supports.",
        shown="amqp-gateway versions",
    ),
    "backpressure": Advice(
        "Wait for `Retry-After` seconds; consume, free disk space, or raise `limits.memory_high` "
        "or lower `limits.disk_free_octets`.",
        shown="curl http://127.0.0.1:8080/readyz",
    ),
    "no-consumer": Advice(
        "Start a consumer, or publish without the flag immediate.",
        shown=f"{CURL} {GATEWAY}/v1/admin/consumers",
    ),
    "draining": Advice(
        "Send the request to another gateway, or again when this one has started.",
        shown=f"{PUBLISH} --retry 5 {ORDERS}",
    ),
    "keys-unavailable": Advice(
        "See whether the gateway reaches the URL of `http.bearer.jwks`; the log has the error.",
        shown="AMQP_GATEWAY_HTTP__BEARER__JWKS=https://issuer.example/keys amqp-gateway serve",
    ),
    "head-too-large": Advice(
        "Send fewer or shorter fields; put application properties into a JSON document; or raise "
        "`http.max_head_octets`.",
        shown="AMQP_GATEWAY_HTTP__MAX_HEAD_OCTETS=131072 amqp-gateway serve",
    ),
    "too-slow": Advice(
        "Send the request again, or raise `http.idle_seconds` for slow networks.",
        shown="AMQP_GATEWAY_HTTP__IDLE_SECONDS=120 amqp-gateway serve",
    ),
    "too-many-connections": Advice(
        "Keep connections open and share them, or raise `http.max_connections`.",
        shown="AMQP_GATEWAY_HTTP__MAX_CONNECTIONS=50000 amqp-gateway serve",
    ),
    "not-found": Advice(
        "Compare the path with `/openapi.json`; `detail` has one that is like it, if there is any.",
        (f"{PUBLISH} {GATEWAY}/v1/queues/orders/messages",),
        (f"{PUBLISH} {ORDERS}",),
    ),
    "method-not-allowed": Advice(
        "Use one of the methods in the field `Allow`.",
        (f"{CURL} -X PUT {JSON} -d '{{\"order\": 42}}' {ORDERS}",),
        (f"{PUBLISH} {ORDERS}",),
    ),
    "http": Advice(
        "Look the status up.", shown="https://www.rfc-editor.org/rfc/rfc9110#section-15"
    ),
}
