#!/bin/sh
# Publish over HTTP with curl: the body is the message, typed metadata goes into headers.
#   sh examples/publish_http.sh [BASE-URL]
set -eu
base=${1:-http://127.0.0.1:8080}
# A queue that is there just so already is fine.
curl --silent --show-error --fail-with-body --user guest:guest --request PUT \
  "$base/v1/admin/vhosts/%2F/queues/orders"
echo
curl --silent --show-error --fail-with-body --user guest:guest \
  --header 'Content-Type: application/json' \
  --header 'Amqp-Property: "attempt";v=3;t=ubyte, "source";v="curl"' \
  --data '{"order": 42}' \
  "$base/v1/%2F/queues/orders/messages"
echo
