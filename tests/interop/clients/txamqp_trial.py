"""Run txAMQP's own suite with the one address it knows, localhost:5672, meaning another port.

Usage: txamqp_trial.py PORT [trial arguments]. Only where TCP connections to 5672 go is changed.
"""

import sys

from twisted.internet import reactor
from twisted.scripts.trial import run

port = int(sys.argv.pop(1))
connect = reactor.connectTCP


def elsewhere(host, wanted, *arguments, **options):
    if wanted == 5672:
        host, wanted = "127.0.0.1", port
    return connect(host, wanted, *arguments, **options)


reactor.connectTCP = elsewhere
run()
