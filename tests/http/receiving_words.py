"""A gateway whose clock stands still until the test moves it, and words for receiving."""

from typing import Any

RECEIVE = "/v1/%2F/queues/{}/deliveries"
TOKEN = "/v1/%2F/deliveries/{}"


def clocked(rig_class: Any, **options: Any) -> Any:
    """A rig with a clock of its own: ``advance(ms)``."""

    class Clocked(rig_class):  # type: ignore[misc]
        time = 1_790_000_000_000

        def begin(self) -> None:
            self.broker.state.now = self.time

        def advance(self, ms: int) -> None:
            """Time passes, and what is due happens."""
            self.time += ms
            self.begin()
            self.broker.state.tick(self.time)
            self.end()

        def put(self, queue: str, *bodies: str, **headers: Any) -> None:
            from gateway.http.publish.templates import encode
            from gateway.message import DIALECTS, Message, Properties

            for body in bodies:
                self.begin()
                header, essentials = encode(Properties(**headers))
                self.channel.publish(
                    Message(DIALECTS["0-9-1"], header, body.encode(), "", queue, essentials)
                )
                self.end()

        def restart(self) -> Any:
            """The same store in another process."""
            store = self.store.survivors()
            again = type(self)(**options)
            again.take_over(store, self.time)
            return again

        def take_over(self, store: Any, time: int) -> None:
            from gateway.broker.broker import Broker
            from gateway.broker.limits import Limits
            from gateway.http.app import build

            self.store, self.time = store, time
            self.broker = self.dependencies.broker = Broker(store, Limits(), now=time)
            self.broker.access.iterations = 4096
            self.app = build(self.dependencies)
            self.client = self.broker.attach("/", "alice", "the test")
            self.channel = self.client.channel(1, self.recorder)

    return Clocked(**options)


async def take(http: Any, queue: str, **asked: Any) -> list[dict[str, Any]]:
    """Receive; what came."""
    answer = await http.post(RECEIVE.format(queue), json=asked)
    assert answer.status_code in (200, 204), answer.text
    return answer.json()["deliveries"] if answer.status_code == 200 else []


def text_of(delivery: dict[str, Any]) -> str:
    import base64

    return base64.b64decode(delivery["message"]["body"]["base64"]).decode()
