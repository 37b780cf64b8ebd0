"""The common parts of the tests of consumers: topics, settings, messages, and a listener that notes what it gets."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence

from compat_tests.environment import wait_until
from compat_tests.peers import Peer
from gateway.client import (
    AdminClient,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
)
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from wire.bodies.pop import POP, MessageRequestMode
from wire.codes import RequestCode

GATEWAY, APACHE = "gateway-host", "rocketmq-5.5.0"
_numbers = itertools.count()
_SESSION = uuid.uuid4().hex[:6]


def make_topic(server: Peer, queues: int, attributes: dict[str, str] | None = None) -> str:
    topic = f"python_consume_{_SESSION}_{next(_numbers)}"
    with AdminClient(namesrv=server.nameserver) as admin:
        admin.topics.create(topic, queues=queues, attributes=attributes)

        def is_known() -> bool:
            try:
                return len(admin.topics.route(topic).subscribe_queues) == queues
            except RocketMQError:
                return False

        wait_until(is_known, f"a route of {topic}")
    return topic


def push_settings(server: Peer, **changes: object) -> PushSettings:
    given = {
        "namesrv": server.nameserver,
        "consume_from_where": ConsumeFrom.FIRST_OFFSET,
        "consume_workers": 4,
        "rebalance_interval": 2.0,
        "poll_name_server_interval": 1.0,
        **changes,
    }
    return PushSettings(**given)  # type: ignore[arg-type]


def lite_settings(server: Peer, **changes: object) -> LitePullSettings:
    given = {"namesrv": server.nameserver, "consume_from_where": ConsumeFrom.FIRST_OFFSET, **changes}
    return LitePullSettings(**given)  # type: ignore[arg-type]


def send(producer: Producer, topic: str, count: int, first: int = 0, **parts: object) -> None:
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number, **parts))  # type: ignore[arg-type]


def send_in_order(producer: Producer, topic: str, queue: MessageQueue, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number), queue=queue)


class Seen:
    """The messages that listeners got; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bodies: Counter[bytes] = Counter()
        self.by_queue: dict[MessageQueue, list[int]] = defaultdict(list)

    def __call__(self, message: ReceivedMessage) -> None:
        with self._lock:
            self.bodies[message.body] += 1
            self.by_queue[message.queue].append(int(message.body))

    def batch(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            self(message)

    def wait(self, count: int, timeout_s: float = 30.0) -> None:
        wait_until(lambda: len(self.bodies) >= count, f"{count} messages", timeout_s=timeout_s)

    def check_once(self, count: int) -> None:
        assert set(self.bodies) == {b"%d" % number for number in range(count)}
        assert set(self.bodies.values()) == {1}


def poll_until(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    deadline = time.monotonic() + 30
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages came"
        got += consumer.poll(1.0)
    return got


def shares(consumers: Sequence[PushConsumer], topic: str) -> list[int]:
    return [sum(queue.topic == topic for queue in consumer.assignment) for consumer in consumers]


def let_pop(server: Peer, topic: str, group: str) -> None:
    """Let a group pop, as ``mqadmin setConsumeMode`` does."""
    with AdminClient(namesrv=server.nameserver) as admin:
        admin.groups.create(group)

    async def set_mode() -> None:
        instance = ClientInstance(ClientSettings(namesrv=server.nameserver))
        try:
            route = await instance.route(topic)
            body = MessageRequestMode(topic, group, POP).build()
            for name in route.brokers:
                await instance.ask(name, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)
        finally:
            await instance.close()

    asyncio.run(set_mode())


def lag(server: Peer, group: str) -> int:
    with AdminClient(namesrv=server.nameserver) as admin:
        return admin.offsets.lag(group)


def java_body(key: str, size: int) -> bytes:
    body = f"{key}|"
    return (body + "".join(chr(97 + at % 26) for at in range(len(body), size))).encode()
