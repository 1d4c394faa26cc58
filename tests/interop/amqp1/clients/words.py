"""The command line that all senders and receivers share, and lines of JSON in and out.

PROGRAM send ADDRESS --url URL [--settled]        < messages      > one outcome per message
PROGRAM receive ADDRESS --url URL --count N       > messages
"""

import argparse
import json
import sys

OUTCOMES = ("accepted", "rejected", "released", "modified")


def arguments():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    send, receive = verbs.add_parser("send"), verbs.add_parser("receive")
    for one in (send, receive):
        one.add_argument("address")
        one.add_argument("--url", default="amqp://guest:guest@127.0.0.1:5672")
        one.add_argument("--mechanism", default="PLAIN")
        one.add_argument("--seconds", type=float, default=60.0)
    send.add_argument("--settled", action="store_true", help="send settled, hear of no outcome")
    receive.add_argument("--count", type=int, default=1)
    receive.add_argument("--credit", type=int, default=10)
    receive.add_argument("--outcome", choices=OUTCOMES, default="accepted")
    return parser.parse_args()


def messages():
    return [json.loads(line) for line in sys.stdin if line.strip()]


def say(line):
    print(json.dumps(line), flush=True)
