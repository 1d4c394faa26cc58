"""Where our server answers a recorded client otherwise than the original server did, and why.

By recording and step (a step is what a client says before it is answered): the names of what was
recorded, of what we say, and the reason, with the section of AMQ RFC 006 0.8a2.
"""

PARTS = "§3.5.13: the parts are not what header and hash announced; a test of framing"
CANCEL = "§3.5.5: only topics have subscriptions to cancel; the client walks through all commands"
GONE = "the client commits on a channel without transactions and hangs up; the script said nothing"
OFFER = "§3.2.3: both mechanisms are offered in a list, so that clients of either kind come in"
TYPE = "§3.4.4: type and encoding that the message lacks are those the handle was opened with"
CREATED = "§3.5.2.2: the name of a temporary destination comes before the reply"
NUMBER = "§3.5.11: a message that is looked at has the number it was asked for, not 0"
CHANNEL_CODE = "RFC 011: 504 is the code for a channel that is not open"
CHANNEL_SCOPE = "§3.3.9: opening an open channel costs the channel"
END = "§3.2.9: we wait for the client's close, or for the end"
CHANNELS = "§2.2.5: channels are independent; closing one leaves the handles of others alone"
SCOPE = "§2.2.10: a mistake on a handle costs the handle"
PLAIN = "the channel is still open, and not transacted (503)"
LEAST = "§3.2.5.1: 1024 is allowed as FRAME_MAX"
MISSING = "§3.5.2.3: a missing destination costs the handle; the original is silent or crashes"
OURS = "§3.2.5.1: FRAME_MAX of the client is what it takes; we still take what we offered"
CRASH = "§3.5.13: the channel is not restartable; the original crashes"
STILL_OPEN = "the channel was not closed, so that the client's close is answered"
TOPICS = "§2.2.6: there are topics here"
ORDER = "§2.2.8.8: what a command brings about may come before its reply"
REDELIVERED = "§3.5.11: what was delivered before says so"
UNGET = "§3.5.7: what is given back is delivered again at once, marked, before or behind the reply"
COMMIT = "§3.3.4: a commit confirms what was sent to the client, and frees its place"
VERSION = "§3.2.2: who can handle more than version 1 is answered with 1"
SCRIPT = "the recorded server follows a script: it closes or pings at a moment of its own choosing"

Difference = tuple[list[str], list[str], str]

DIFFERENCES: dict[str, dict[int, Difference]] = {
    "client-java-framing-layer": {
        7: (["handle.reply"], ["handle.close 542"], PARTS),
    },
    "client-perl-generated-modules": {
        7: (["handle.reply"], ["handle.close 503"], CANCEL),
        8: (["handle.index"], [], CANCEL),
        9: (["handle.reply 310"], [], CANCEL),
        10: (["handle.reply"], [], CANCEL),
        11: (["handle.reply"], [], CANCEL),
        12: (["handle.reply"], [], CANCEL),
        16: (["handle.close 200"], [], CANCEL),
    },
    "client-stdc-level0-consumer": {
        7: ([], ["channel.close 503"], GONE),
    },
    "client-stdc-level1-consumer": {
        7: (["channel.reply"], ["handle.notify", "channel.reply"], COMMIT),
        8: (["channel.reply", "handle.notify"], ["channel.reply"], COMMIT),
    },
    "client-stdc-level1-server-closes-channel": {
        0: (["connection.challenge"], ["connection.challenge"], OFFER),
        4: (["handle.reply", "channel.close 404"], ["handle.reply"], SCRIPT),
        5: ([], ["handle.reply", "channel.close 200"], SCRIPT),
    },
    "client-stdc-level1-server-closes-handle": {
        0: (["connection.challenge"], ["connection.challenge"], OFFER),
        4: (["handle.reply", "handle.close 404"], ["handle.reply"], SCRIPT),
        5: ([], ["handle.reply", "handle.close 200"], SCRIPT),
    },
    "client-stdc-level1-server-pings": {
        0: (["connection.challenge"], ["connection.challenge"], OFFER),
        4: (["handle.reply", "connection.ping"], ["handle.reply"], SCRIPT),
        5: ([], ["handle.reply"], SCRIPT),
    },
    "pair-stdc-level0-driver": {
        0: (["connection.challenge"], ["connection.challenge"], OFFER),
        10: (["handle.notify"], ["handle.notify"], TYPE),
        14: (
            ["handle.notify", "handle.notify", "handle.notify"],
            ["handle.notify", "handle.notify", "handle.notify"],
            TYPE,
        ),
        15: (["handle.reply", "handle.notify"], ["handle.notify", "handle.reply"], UNGET),
        18: (["handle.reply", "handle.created"], ["handle.created", "handle.reply"], CREATED),
    },
    "pair-stdc-level1-producer-query": {
        19: (["handle.notify"], ["handle.notify"], NUMBER),
    },
    "server-bad-initiation-version": {
        0: (["end"], ["connection.challenge"], VERSION),
    },
    "server-browse-consumed-message": {
        8: (["handle.notify"], ["handle.notify"], NUMBER),
    },
    "server-channel-command-on-unopened-channel": {
        3: (["connection.close 503"], ["connection.close 504"], CHANNEL_CODE),
    },
    "server-channel-open-twice": {
        4: (["connection.close 503", "end"], ["channel.close 503"], CHANNEL_SCOPE),
    },
    "server-client-name-active-twice": {
        5: (["connection.close 320", "end"], ["connection.close 320"], END),
    },
    "server-close-one-of-two-channels": {
        8: (["connection.close 504", "end"], ["handle.reply"], CHANNELS),
    },
    "server-command-on-closing-channel": {
        5: (["channel.close 404"], ["handle.close 404"], SCOPE),
        6: (["channel.close 507"], ["channel.close 503"], PLAIN),
        7: (["channel.close 507"], ["channel.close 503"], PLAIN),
    },
    "server-consume-from-missing-destination": {
        5: (["channel.close 404"], ["handle.close 404"], SCOPE),
    },
    "server-frame-max-1024-ignored": {
        6: (
            ["handle.reply", "handle.notify"],
            ["handle.reply", "handle.notify", "handle.notify"],
            LEAST,
        ),
    },
    "server-handle-open-twice": {
        5: (["channel.close 503"], ["handle.close 503"], SCOPE),
    },
    "server-open-missing-queue-confirm": {
        4: (["end"], ["handle.close 404"], MISSING),
    },
    "server-open-missing-queue-no-confirm": {
        4: (["connection.close 505", "end"], ["handle.close 404"], MISSING),
    },
    "server-oversized-fragment": {
        5: (["channel.close 501"], [], OURS),
    },
    "server-prepare": {
        5: (["end"], ["handle.close 503"], CRASH),
    },
    "server-query-and-browse": {
        7: (["handle.notify"], ["handle.notify"], NUMBER),
    },
    "server-send-to-missing-destination": {
        5: (["channel.close 404"], ["handle.close 404"], SCOPE),
        6: (["channel.reply"], ["channel.close 200", "channel.reply"], STILL_OPEN),
    },
    "server-temporary-destination-named-by-client": {
        4: (["handle.reply", "handle.created"], ["handle.created", "handle.reply"], CREATED),
    },
    "server-temporary-destination-named-by-server": {
        4: (["handle.reply", "handle.created"], ["handle.created", "handle.reply"], CREATED),
    },
    "server-topic-service-refused": {
        4: (["channel.close 403"], ["handle.reply"], TOPICS),
    },
    "server-transaction-commit": {
        7: (["channel.reply", "handle.notify"], ["handle.notify", "channel.reply"], ORDER),
    },
    "server-unacknowledged-returned-on-handle-close": {
        14: (["handle.notify"], ["handle.notify"], REDELIVERED),
    },
    "server-unget-order": {
        6: (["handle.reply"], ["handle.reply", "handle.notify"], UNGET),
        7: (["channel.reply"], ["channel.reply", "handle.notify"], UNGET),
        8: (["channel.reply"], ["channel.reply", "handle.notify"], UNGET),
    },
    "server-unget-order-persistent": {
        6: (["handle.reply"], ["handle.reply", "handle.notify"], UNGET),
        7: (["channel.reply"], ["channel.reply", "handle.notify"], UNGET),
        8: (["channel.reply"], ["channel.reply", "handle.notify"], UNGET),
    },
    "server-unget-single-consumer": {
        7: (["handle.reply", "handle.notify"], ["handle.notify", "handle.reply"], UNGET),
    },
    "server-unget-single-consumer-window-full": {
        7: (["handle.reply"], ["handle.reply", "handle.notify"], UNGET),
        8: (["handle.reply", "handle.notify"], ["handle.reply"], UNGET),
    },
}
