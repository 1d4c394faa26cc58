"""Follow an exchange as server-sent events and print what arrives; resumes by itself.

.venv/bin/python examples/watch_events.py [BASE-URL] [SOURCE] [COUNT]
"""

import sys
import time

import httpx

base = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
source = sys.argv[2] if len(sys.argv) > 2 else "exchange:amq.topic?binding=#"
wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 0

last_id = ""
seen = 0
while not wanted or seen < wanted:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    try:
        with httpx.stream(
            "GET",
            f"{base}/v1/%2F/events",
            params={"source": source},
            headers=headers,
            auth=("guest", "guest"),
            timeout=httpx.Timeout(5, read=60),
        ) as answer:
            if answer.status_code != 200:
                sys.exit(answer.read().decode())
            print("resume:", answer.headers["amqp-resume"], flush=True)
            event, data = "message", ""
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    last_id = line[3:].strip()
                elif line.startswith("event:"):
                    event = line[6:].strip()
                elif line.startswith("data:"):
                    data = line[5:].strip()
                elif not line:
                    if data and event == "message":
                        print(data, flush=True)
                        seen += 1
                        if wanted and seen >= wanted:
                            break
                    event, data = "message", ""
    except httpx.HTTPError as error:
        print("connection lost, trying again:", error, file=sys.stderr)
        time.sleep(1)
